// The explanation of kernel boundaries: the rule that closed each kernel, with the values that the
// rule compared.
#include <hearth/runtime/explanation.hpp>
#include <hearth/runtime/losses.hpp>
#include <hearth/runtime/update_group.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/runtime/stepped_runtime.hpp"

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

SteppedOptions on(const char* device, Fusion fusion = Fusion::on) {
  return {.devices = {{.name = device}}, .fusion = fusion};
}

using Tensors = std::vector<Tensor>;
/// The results stay alive until the explanation is taken.
using Program = std::function<Tensors(const Device&)>;

/// The explanation of a program that ran before.
Explanation explained(const SteppedOptions& options, const Program& program) {
  Explanation said;
  stepped(options, [&](const World& world) {
    Tensors kept = program(world.device);
    world.device.sync();
    kept.clear();
    said = explain(world.device, [&] { kept = program(world.device); });
  });
  return said;
}

/// The boundary of the kernel that begins with this op.
std::string boundary_of(const Explanation& said, const std::string& name) {
  for (const ExplainedKernel& kernel : said.kernels) {
    if (kernel.name.starts_with(name)) {
      return kernel.boundary;
    }
  }
  return "no kernel of " + name + " in\n" + said.to_string();
}

struct Case {
  const char* about;
  const char* device;
  Program program;
  const char* kernel;
  const char* boundary;
};

class Boundaries : public ::testing::TestWithParam<Case> {};

TEST_P(Boundaries, SayTheRule) {
  const Explanation said = explained(on(GetParam().device), GetParam().program);
  EXPECT_EQ(boundary_of(said, GetParam().kernel), GetParam().boundary) << said.to_string();
}

Tensor rows_of(const Device& device, std::int64_t length) {
  return full(device, {2, length}, 0.5);
}

const Case kCases[] = {
    {"ARowThatIsTooLongInTheFirstOp",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 9000);
       const Tensor most = max(x, {-1}, {.keep_dims = true});
       return Tensors{exp(x - most), most};
     },
     "max",
     "it works along rows of 9000 elements: 8192 are the most of a kernel that works along rows"},
    {"ARowThatIsTooLongInTheNextOp",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 9000);
       d.sync();
       return Tensors{softmax(x * 2, -1), x};
     },
     "mul",
     "the next op, softmax, works along rows of 9000 elements: 8192 are the most of a kernel "
     "that works along rows"},
    {"AxesThatAreNotTheLast",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 3);
       d.sync();
       return Tensors{softmax(exp(x), 0), x};
     },
     "exp",
     "the next op, softmax, works along axis 0 of [2, 3], and not the last ones"},
    {"AResultThatOthersNeedBeforeALoss",
     "cpu:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 9000);
       d.sync();
       const Tensor y = exp(x);
       return Tensors{sum(y), y, x};
     },
     "exp",
     "the next op, sum, could take its result while that is made, but it, or another value of "
     "this kernel, is needed elsewhere too"},
    {"RowsBehindAProduct",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 3);
       const Tensor w = full(d, {3, 4}, 1);
       d.sync();
       return Tensors{softmax(matmul(x, w) + 1, -1), x, w};
     },
     "matmul",
     "the next op, softmax, works along rows, which a kernel that begins with matmul does not"},
    {"AnInputThatOthersNeedToo",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 3);
       const Tensor w = full(d, {3, 4}, 1);
       d.sync();
       const Tensor y = square(x) * 2;
       return Tensors{matmul(y, w), y, x, w};
     },
     "square",
     "the next op, matmul, could take its result while that is made, but it, or another value of "
     "this kernel, is needed elsewhere too"},
    {"AThirdStage",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 3);
       const Tensor w = full(d, {3, 3}, 1);
       d.sync();
       return Tensors{matmul(relu(matmul(square(x), w)), w), x, w};
     },
     "square",
     "the next op, matmul, would be the third stage of one kernel, which has two at most"},
    {"AStranger",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 3);
       const Tensor w = full(d, {3, 3}, 1);
       d.sync();
       return Tensors{square(x), matmul(x, w), x, w};
     },
     "square",
     "the next op, matmul, reads no result of it"},
    {"TwoResults",
     "sim:0",
     [](const Device& d) {
       const Tensor x = full(d, {3, 3}, 2);
       d.sync();
       const Tensor y = square(x);
       const Tensor z = x * 2;
       return Tensors{matmul(y, z), x};
     },
     "square",
     "the next op, matmul, reads a result that is not the last one of it"},
    {"OneNumberEverywhere",
     "sim:0",
     [](const Device& d) { return Tensors{softmax(rows_of(d, 9000) * 2, -1)}; },
     "full",
     "it makes the same number at each place, which a kernel of several ops does not write"},
    {"AnInputThatIsNotMadeInThere",
     "sim:0",
     [](const Device& d) {
       const Tensor x = full(d, {3, 3}, 2);
       d.sync();
       return Tensors{matmul(x, square(x) * 2), x};
     },
     "square",
     "the next op, matmul, reads its input 2 from memory, and cannot take it while other ops make "
     "it"},
    {"AKindOfItsOwn",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 3);
       d.sync();
       return Tensors{cumsum(square(x) * 2, -1), x};
     },
     "square",
     "the next op, cumsum, is a kernel of its own, as each op of its kind"},
    {"AKindOfItsOwnThatBegins",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 3);
       d.sync();
       return Tensors{cumsum(x, -1) * 2, x};
     },
     "cumsum",
     "it is a kernel of its own, as each op of its kind"},
    {"ATypeThatIsNotGrouped",
     "sim:0",
     [](const Device& d) {
       const Tensor x = full(d, {2, 3}, 1, DType::i64);
       d.sync();
       return Tensors{x * 2 / x, x};
     },
     "mul",
     "the next op, div, is a kernel of its own, as its values are i64"},
    {"AnotherShape",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 3);
       const Tensor row = full(d, {3}, 1);
       d.sync();
       return Tensors{x * exp(row * 2), x, row};
     },
     "mul+exp",
     "the next op, mul, has a result of another shape, [2, 3], and this kernel works on [3]"},
    {"AView",
     "sim:0",
     [](const Device& d) {
       const Tensor x = rows_of(d, 3);
       d.sync();
       return Tensors{transpose(square(x) * 2) + 1, x};
     },
     "square",
     "the next op, transpose or permute, is a view, which shows what is in memory"},
    {"OneRowThatJoins",
     "cpu:0",
     [](const Device& d) {
       const Tensor x = full(d, {1, 32}, 1);
       const Tensor w = full(d, {32, 16}, 1);
       d.sync();
       return Tensors{softmax(matmul(x, w) + 1, -1), x, w};
     },
     "matmul",
     "it has so few rows that it may run as one call with the same op of other streams, up to 8 "
     "together"},
    {"AnInputThatIsTooSmall",
     "cpu:0",
     [](const Device& d) {
       const Tensor x = full(d, {1, 1, 4, 4}, 1);
       d.sync();
       const Tensor y = relu(x);
       return Tensors{max_pool2d(y * 2, {.kernel = {2, 2}}), x};
     },
     "relu",
     "the next op, max_pool2d, is not in one kernel with it: a pool's input that fits the caches "
     "has a kernel of its own"},
};

INSTANTIATE_TEST_SUITE_P(Explanations, Boundaries, ::testing::ValuesIn(kCases), [](const auto& i) {
  return std::string(i.param.about);
});

// A recalled group has the explanation of the gathered one.
TEST(Explanations, OfGroupsThatComeAgainAreTheSame) {
  stepped(on("cpu:0"), [&](const World& world) {
    const Tensor x = full(world.device, {1, 1, 4, 4}, 1);
    const Tensor w = full(world.device, {4, 4}, 1);
    world.device.sync();
    Tensors kept;
    std::vector<std::string> said;
    for (int i = 0; i < 4; ++i) {
      said.push_back(
          explain(world.device, [&] {
            kept = {max_pool2d(relu(x) * 2, {.kernel = {2, 2}}), exp(matmul(square(x) + 1, w))};
          }).to_string());
      kept.clear();
      world.device.sync();
    }
    EXPECT_EQ(said[1], said[2]);
    EXPECT_EQ(said[1], said[3]);
    EXPECT_EQ(said[0], said[1]);
  });
}

TEST(Explanations, SayOnceThatFusionIsOff) {
  for (const Fusion fusion : {Fusion::off, Fusion::single}) {
    const Explanation said = explained(
        on("sim:0", fusion), [](const Device& d) { return Tensors{exp(square(rows_of(d, 3)))}; });
    EXPECT_THAT(said.kernels, Each(Field(&ExplainedKernel::boundary, HasSubstr("fusion is off"))));
    EXPECT_EQ(said.launches_saved(), 0);
    EXPECT_THAT(said.to_string(), HasSubstr("      each ends: the device groups no ops"));
  }
}

TEST(Explanations, CountTheLaunchesThatAreSaved) {
  const Explanation said = explained(on("sim:0"), [](const Device& d) {
    const Tensor x = rows_of(d, 3);
    d.sync();
    const Tensor y = reshape(square(x) * 2, {3, 2});
    return Tensors{reshape(y + 1, {6}), x};
  });
  EXPECT_EQ(said.op_count(), 4) << "the fill too, but no view";
  EXPECT_EQ(said.launches, 3);
  EXPECT_EQ(said.launches_saved(), 1);
}

TEST(Explanations, CountOpsWhoseResultsNobodyNeeds) {
  const Explanation said = explained(on("sim:0"), [](const Device& d) {
    const Tensor x = rows_of(d, 3);
    d.sync();
    const Tensor y = exp(x);
    static_cast<void>(square(y) * 2);  // stays unread
    return Tensors{y, x};
  });
  EXPECT_EQ(said.op_count(), 2);
  EXPECT_EQ(said.unneeded_ops, 2);
  EXPECT_EQ(said.launches_saved(), 2);
  EXPECT_THAT(said.to_string(),
              HasSubstr("2 ops more eliminated, as nothing uses what they make\n"));
  EXPECT_THAT(said.to_json(),
              AllOf(HasSubstr("\"unneeded_ops\": 2"), HasSubstr("\"launches_saved\": 2")));
}

TEST(Explanations, CallOpsWhatTheProgramCalledThem) {
  const Explanation said = explained(on("sim:0"), [](const Device& d) {
    const Tensor words = zeros(d, {2}, DType::i64);
    const Tensor table = rows_of(d, 3);
    d.sync();
    return Tensors{embedding(table, words) * 2, index_select(table, 0, words) * 2, words, table};
  });
  EXPECT_THAT(boundary_of(said, "embedding+mul"), Not(HasSubstr("no kernel of")));
  EXPECT_THAT(boundary_of(said, "index_select+mul"), Not(HasSubstr("no kernel of")));
}

TEST(Explanations, SayForWhomACopyIs) {
  const Explanation said = explained(on("sim:0"), [](const Device& d) {
    const Tensor x = rows_of(d, 3);
    d.sync();
    return Tensors{reshape(transpose(x), {6}) + 1, x};
  });
  bool has_copy = false;
  for (const ExplainedKernel& kernel : said.kernels) {
    if (kernel.name == "copy") {
      has_copy = true;
      EXPECT_EQ(kernel.boundary, "it copies what reshape needs in row-major order");
      EXPECT_THAT(kernel.location.file, EndsWith("explanation_boundaries_test.cpp"));
    }
  }
  EXPECT_TRUE(has_copy) << said.to_string();
}

// A time limit cut the program, so the device has not seen all of it.
TEST(Explanations, SayThatThereIsNoPlan) {
  stepped(on("sim:0"), [](const World& world) {
    const Tensor x = rows_of(world.device, 3);
    world.device.sync();
    Tensor y;
    const Explanation said = explain(world.device, [&] {
      y = exp(square(x));
      testing::pass(std::chrono::seconds(1));
    });
    ASSERT_EQ(said.kernels.size(), 2U) << said.to_string();
    EXPECT_THAT(
        said.kernels,
        Each(Field(&ExplainedKernel::boundary, StartsWith("there is no plan for its group"))));
  });
}

// A window of 64 ops is full. One of 40 ends before the next product, so that it cuts no chain.
TEST(Explanations, NoFullWindowCutsTheChainOfAProduct) {
  const auto kernels_behind = [](int ops_before) {
    std::size_t kernels = 0;
    stepped(on("cpu:0"), [&](const World& world) {
      const Tensor x = rows_of(world.device, 8);
      const Tensor square_of = rows_of(world.device, 8);
      world.device.sync();
      Tensor y;
      const Explanation said = explain(world.device, [&] {
        Tensor before = x;
        for (int i = 0; i < ops_before; ++i) {
          before = -before;
        }
        y = matmul(transpose(x, 0, 1), square_of);
        for (int i = 0; i < 30; ++i) {
          y = -y;
        }
        world.device.sync();
        EXPECT_EQ(before.shape()[0], 2);
      });
      kernels = said.kernels.size();
    });
    return kernels;
  };
  EXPECT_EQ(kernels_behind(20), 2U) << "all lie in one window";
  EXPECT_EQ(kernels_behind(45), 2U) << "the product begins a window";
  EXPECT_EQ(kernels_behind(36), 3U) << "the first window is full behind 27 ops of the product's";
}

TEST(Explanations, PutKernelsThatAreAlikeIntoOneLine) {
  stepped(on("sim:0"), [](const World& world) {
    std::vector<Tensor> parameters(3, Tensor());
    for (Tensor& each : parameters) {
      each = world.f32({1, 2, 3});
    }
    const Explanation said = explain(world.device, [&] {
      Tensor none;
      UpdateGroup group(world.device);
      for (Tensor& parameter : parameters) {
        group.sgd(parameter, world.f32({1, 1, 1}), none, {.learning_rate = 1});
      }
      group.commit().get();
    });
    EXPECT_EQ(said.launches_saved(), 2);
    EXPECT_THAT(
        said.to_string(),
        AllOf(HasSubstr(
                  "   1  sgd_step, reads 24 B, writes 12 B  at explanation_boundaries_test.cpp:"),
              HasSubstr("  3 times\n")));
  });
}

}  // namespace
}  // namespace hearth
