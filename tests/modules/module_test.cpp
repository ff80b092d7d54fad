#include <hearth/modules/module.hpp>

#include "test_runtime.hpp"

#include <hearth/modules/adam.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <array>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Leaf {
  Tensor weight;
  double rate = 0.5;
  HEARTH_MODULE(Leaf, weight, rate)
};

struct Tree {
  std::vector<Tree> children;
  Tensor value;
  HEARTH_MODULE(Tree, children, value)
};

struct Everything {
  Leaf leaf;
  std::optional<Tensor> absent;
  std::optional<Leaf> present;
  std::vector<Leaf> list;
  std::array<Tensor, 2> pair;
  std::tuple<Leaf, double, Tensor> mixed;
  std::vector<int> options;
  std::string name;
  HEARTH_MODULE(Everything, leaf, absent, present, list, pair, mixed, options, name)
};

struct Wide {
  Tensor a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r;
  HEARTH_MODULE(Wide, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
};

struct Empty {
  HEARTH_MODULE(Empty)
};

struct Headed {
  Linear head;
  HEARTH_MODULE(Headed, head)
};

template <class Model>
std::vector<std::string> paths_of(const Model& model, const std::string& prefix = "") {
  std::vector<std::string> paths;
  model.visit(prefix,
              [&](const std::string& path, const Tensor& /*tensor*/) { paths.push_back(path); });
  return paths;
}

TEST(Module, NamesTensorsInEveryKindOfMember) {
  Everything all;
  all.present.emplace();
  all.list.resize(2);
  EXPECT_THAT(paths_of(all),
              ElementsAre("leaf.weight",
                          "present.weight",
                          "list.0.weight",
                          "list.1.weight",
                          "pair.0",
                          "pair.1",
                          "mixed.0.weight",
                          "mixed.2"));
}

TEST(Module, NamesTensorsInEveryKindOfContainer) {
  struct Containers {
    std::deque<Leaf> queue;
    std::list<Tensor> chain;
    std::pair<Leaf, Tensor> both;
    std::map<std::string, Leaf> by_name;
    std::map<int, std::vector<Leaf>> by_number;
    Leaf fixed[2];
    std::map<std::string, double> rates;
    HEARTH_MODULE(Containers, queue, chain, both, by_name, by_number, fixed, rates)
  };
  Containers all;
  all.queue.resize(1);
  all.chain.resize(2);
  all.by_name["right"];
  all.by_name["left"];
  all.by_number[-3].resize(1);
  all.rates["left"] = 0.5;
  EXPECT_THAT(paths_of(all),
              ElementsAre("queue.0.weight",
                          "chain.0",
                          "chain.1",
                          "both.0.weight",
                          "both.1",
                          "by_name.left.weight",
                          "by_name.right.weight",
                          "by_number.-3.0.weight",
                          "fixed.0.weight",
                          "fixed.1.weight"));
  EXPECT_EQ(parameter_refs(all).size(), 10U);
}

TEST(Module, HasNoMapWithKeysThatAreNoPartsOfAPath) {
  struct Named {
    std::map<std::string, Leaf> parts;
    HEARTH_MODULE(Named, parts)
  };
  for (const char* key : {"", "a.b"}) {
    Named model;
    model.parts[key];
    try {
      static_cast<void>(paths_of(model));
      ADD_FAILURE() << "a key '" << key << "' was taken";
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string("the key '") + key + "' of the map 'parts'"));
    }
  }
}

TEST(Module, MayStandInsideAFunction) {
  struct Local {
    Leaf leaf;
    Buffer mean;
    HEARTH_MODULE(Local, leaf, mean)
  };
  static_assert(Local::module_name() == "Local");
  TestRuntime test;
  Local model;
  EXPECT_THAT(paths_of(model), ElementsAre("leaf.weight", "mean"));
  for (const TensorRef& ref : tensor_refs(model)) {
    *ref.tensor = ones(test.cpu, {2});
  }
  const Local copy = fork(model, test.cpu);
  EXPECT_EQ(copy.leaf.weight.to_vector<float>(), (std::vector<float>{1, 1}));
  EXPECT_EQ(parameter_refs(model).size(), 1U) << "a Buffer is seen as one";
}

void add_name(const std::string& path, const Tensor& /*tensor*/) {
  EXPECT_EQ(path, "weight");
}

TEST(Module, IsVisitedByAPlainFunctionToo) {
  const Leaf leaf;
  leaf.visit("", add_name);
  Leaf other;
  other.visit("", add_name);
}

/// Records which of its two walks ran, because an optimizer may have to wait in one.
struct TwoWalks {
  Tensor weight;
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) {
    fn(prefix + ".changing", weight);
  }
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) const {
    fn(prefix + ".reading", weight);
  }
};

TEST(Module, AConstModuleWalksItsMembersAsConst) {
  struct Holder {
    std::vector<TwoWalks> parts;
    HEARTH_MODULE(Holder, parts)
  };
  Holder holder;
  holder.parts.resize(1);
  std::vector<std::string> paths;
  holder.visit("", [&](const std::string& path, Tensor&) { paths.push_back(path); });
  std::as_const(holder).visit("", [&]<class Part>(const std::string& path, Part&) {
    static_assert(std::is_const_v<Part>);
    paths.push_back(path);
  });
  EXPECT_THAT(paths, ElementsAre("parts.0.changing", "parts.0.reading"));
}

TEST(Module, PutsThePrefixInFront) {
  EXPECT_THAT(paths_of(Leaf{}, "encoder.3"), ElementsAre("encoder.3.weight"));
}

TEST(Module, MayContainItself) {
  Tree tree;
  tree.children.resize(1);
  tree.children[0].children.resize(1);
  EXPECT_THAT(paths_of(tree),
              ElementsAre("children.0.children.0.value", "children.0.value", "value"));
}

TEST(Module, TakesEighteenMembersAndNone) {
  const std::vector<std::string> paths = paths_of(Wide{});
  ASSERT_EQ(paths.size(), 18U);
  EXPECT_EQ(paths.front(), "a");
  EXPECT_EQ(paths.back(), "r");
  EXPECT_TRUE(paths_of(Empty{}).empty());
}

TEST(Module, VisitChangesTheModulesOwnTensors) {
  TestRuntime test;
  Leaf leaf;
  leaf.visit("", [&](const std::string&, Tensor& tensor) { tensor = ones(test.cpu, {2}); });
  EXPECT_EQ(leaf.weight.to_vector<float>(), (std::vector<float>{1, 1}));
}

TEST(Module, SequentialNumbersItsLayers) {
  TestRuntime test;
  Generator generator(1);
  const Linear::Config config{.in = 2, .out = 3};
  const Sequential model(Linear(config, test.cpu, generator), Empty{}, Leaf{});
  EXPECT_THAT(paths_of(model), ElementsAre("0.weight", "0.bias", "2.weight"));
}

TEST(Module, CountsTheNumbersInIt) {
  TestRuntime test;
  Generator generator(1);
  EXPECT_EQ(parameter_count(Linear({.in = 4, .out = 3}, test.cpu, generator)), 15);
  EXPECT_EQ(parameter_count(Linear({.in = 4, .out = 3, .bias = false}, test.cpu, generator)), 12);
}

TEST(Module, ForkHasTheValuesInMemoryOfItsOwn) {
  TestRuntime test;
  Leaf leaf{.weight = Tensor::from(test.cpu, {1.0F, 2.0F}, {2})};
  test.cpu.sync();
  const std::int64_t live = test.cpu.memory().live_tensor_count;
  const Leaf here = fork(leaf, test.cpu);
  const Leaf there = fork(leaf, test.reference);
  test.cpu.sync();
  EXPECT_EQ(test.cpu.memory().live_tensor_count, live + 1);
  EXPECT_EQ(there.weight.device().name(), "reference:0");
  leaf.weight = zeros(test.cpu, {2});
  EXPECT_EQ(here.weight.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(there.weight.to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(Module, ErrorsOnTheDeviceNameTheParameter) {
  TestRuntime test;
  Generator generator(1);
  Headed model{Linear({.in = 2, .out = 2}, test.cpu, generator)};
  set_paths(model);
  const Tensor wide = expand(zeros(test.cpu, {2, 1}), {2, std::int64_t{1} << 45});
  try {
    static_cast<void>(sum(matmul(model.head.weight, wide)).item());
    FAIL() << "256 TiB fit into memory";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_EQ(error.error().module_path, "head.weight");
  }
}

TEST(Module, ToDtypeCastsFloatsAndLeavesTheRest) {
  TestRuntime test;
  Everything all;
  all.leaf.weight = ones(test.cpu, {2});
  all.pair = {ones(test.cpu, {1}, DType::i64), ones(test.cpu, {1}, DType::f64)};
  std::get<0>(all.mixed).weight = ones(test.cpu, {1});
  std::get<2>(all.mixed) = ones(test.cpu, {1});
  const Everything wide = to_dtype(all, DType::f64);
  EXPECT_EQ(wide.leaf.weight.dtype(), DType::f64);
  EXPECT_EQ(wide.pair[0].dtype(), DType::i64);
  EXPECT_EQ(all.leaf.weight.dtype(), DType::f32);
}

TEST(Module, CopyValuesKeepsDeviceAndType) {
  TestRuntime test;
  const Leaf from{.weight = Tensor::from(test.cpu, {1.5F, -2.0F}, {2})};
  Leaf to{.weight = zeros(test.reference, {2}, DType::f64)};
  copy_values(from, to);
  EXPECT_EQ(to.weight.device().name(), "reference:0");
  EXPECT_EQ(to.weight.to_vector<double>(), (std::vector<double>{1.5, -2}));
}

TEST(Module, CopyValuesRefusesAnotherShapeAndChangesNothing) {
  TestRuntime test;
  const Leaf from{.weight = ones(test.cpu, {3})};
  Leaf to{.weight = zeros(test.cpu, {2})};
  try {
    copy_values(from, to);
    FAIL() << "shapes [3] and [2] were taken";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'weight' is [3] in one module and [2] in the other"));
  }
  EXPECT_EQ(to.weight.to_vector<float>(), (std::vector<float>{0, 0}));
  Tree tree{.children = {}, .value = ones(test.cpu, {3})};
  EXPECT_THROW(copy_values(from, tree), ArgumentError);
  EXPECT_THROW(copy_values(Empty{}, tree), ArgumentError);
}

TEST(Weights, LieApartFromTemporariesFromTheStart) {
  TestRuntime test;
  Generator generator(1);
  std::int64_t known = 0;
  const auto added = [&] {
    test.cpu.sync();
    const std::int64_t bytes = test.cpu.memory_report().exclusive.live_bytes;
    return bytes - std::exchange(known, bytes);
  };
  static_cast<void>(added());
  constexpr std::int64_t kBytes = (64 * 64 + 64) * 4;
  Linear layer({.in = 64, .out = 64}, test.cpu, generator);
  EXPECT_EQ(added(), kBytes);
  Adam adam({});
  adam.prepare(layer);
  EXPECT_EQ(added(), 2 * kBytes) << "optimizer state";
  const Linear copy = fork(layer, test.cpu);
  EXPECT_EQ(added(), kBytes) << "a fork";
  const Linear wide = to_dtype(layer, DType::f64);
  EXPECT_EQ(added(), 2 * kBytes) << "another type";
  const Tensor result = layer.forward(ones(test.cpu, {64, 64})) * 2;
  EXPECT_EQ(added(), 0) << "temporaries";
  const Tensor own = [&] {
    const WeightScope weights(test.cpu);
    return Tensor::from(test.cpu, std::vector<float>(64), {64});
  }();
  EXPECT_EQ(added(), 256) << "a module of one's own";
}

}  // namespace
}  // namespace hearth
