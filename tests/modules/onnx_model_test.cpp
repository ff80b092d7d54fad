// OnnxModel as a module and as a graph, on files that the tests write.
#include <hearth/modules/onnx_model.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/onnx_bytes.hpp"

#include <hearth/modules/adam.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/freeze_weights.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/parallel/frozen.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/stream.hpp>

#include <fmt/format.h>

#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace hearth::testing;
namespace fs = std::filesystem;

// y = relu(x·w + b), with the nodes in the wrong order.
OnnxGraphParts small_network() {
  return {.nodes = {onnx_node("Relu", {"h"}, {"y"}, {}, "cut"),
                    onnx_node("Gemm", {"x", "w", "b"}, {"h"}, {}, "product")},
          .initialisers = {onnx_tensor("w", {2, 3}, {1, 2, 3, 4, 5, 6}),
                           onnx_tensor("b", {3}, {-10, 0, 1})},
          .inputs = {onnx_value("x", {-1, 2})},
          .outputs = {onnx_value("y", {-1, 3})}};
}

// y = x with its last two axes joined, whatever their sizes are.
OnnxGraphParts joined_axes() {
  return {.nodes = {onnx_node("Shape", {"x"}, {"s"}),
                    onnx_node("Gather", {"s", "zero"}, {"n"}),
                    onnx_node(
                        "Concat", {"n", "rest"}, {"t"}, {onnx_attribute("axis", std::int64_t{0})}),
                    onnx_node("Reshape", {"x", "t"}, {"y"})},
          .initialisers = {onnx_integers("zero", {1}, {0}), onnx_integers("rest", {1}, {-1})},
          .inputs = {onnx_value("x", {-1, -1, -1})},
          .outputs = {onnx_value("y", {-1, -1})}};
}

class OnnxFiles : public ::testing::Test {
 protected:
  [[nodiscard]] fs::path write(const std::string& bytes, const char* name = "model.onnx") const {
    const fs::path file = folder.path() / name;
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  [[nodiscard]] OnnxModel load(const OnnxGraphParts& parts, std::int64_t opset = 17) const {
    return load_onnx(write(onnx_file(parts, opset)), devices.cpu);
  }
  [[nodiscard]] Tensor numbers(const Shape& shape) const {
    return reshape(arange(devices.cpu, 0, static_cast<double>(shape.element_count())), shape);
  }

  TemporaryFolder folder;
  TestRuntime devices;
};

TEST_F(OnnxFiles, RunUnsortedNodesByName) {
  const OnnxModel model = load(small_network());
  const Tensor x = Tensor::from(devices.cpu, {1.0, 1.0, -1.0, 2.0}, {2, 2});
  EXPECT_THAT(model.forward(x).to_vector<float>(), ElementsAre(0, 7, 10, 0, 8, 10));
  OnnxValues results = model.run({{"x", x}});
  EXPECT_EQ(results.at("y").tensor().shape(), (Shape{2, 3}));
}

TEST_F(OnnxFiles, GiveWeightsTheirNames) {
  OnnxModel model = load(small_network());
  std::vector<std::string> names;
  for (const NamedTensor& each : named_parameters(model)) {
    names.push_back(each.name);
  }
  EXPECT_THAT(names, ElementsAre("w", "b"));
  EXPECT_EQ(parameter_count(model), 9);
  freeze_weights(model);
  EXPECT_EQ(parameter_count(model), 0);
}

TEST_F(OnnxFiles, TrainAndSaveLikeAnyModule) {
  OnnxModel model = load(small_network());
  const Tensor x = Tensor::from(devices.cpu, {1.0, 1.0, 2.0, 1.0}, {2, 2});
  const Tensor target = ones(devices.cpu, {2, 3});
  Adam optimizer({.learning_rate = 0.1});
  std::vector<float> losses;
  for (int step = 0; step < 40; ++step) {
    auto [loss, gradients] = value_and_grad(model, [&](const OnnxModel& tracked) {
      return mean(square(sub(tracked.forward(x, Mode::train), target)));
    });
    losses.push_back(loss.item<float>());
    optimizer.step(model, std::move(gradients)).get();
  }
  EXPECT_LT(losses.back(), losses.front() / 10);

  const fs::path weights = folder.path() / "w.safetensors";
  save_weights(model, weights);
  OnnxModel again = load(small_network());
  EXPECT_FALSE(all_equal(again.forward(x), model.forward(x)));
  load_weights(again, weights);
  EXPECT_TRUE(all_equal(again.forward(x), model.forward(x)));
  const OnnxModel copy = fork(model, devices.reference);
  EXPECT_EQ(copy.forward(x.to(devices.reference)).device(), devices.reference);
}

TEST_F(OnnxFiles, ComputeShapesWithoutAWait) {
  const OnnxModel model = load(joined_axes());
  EXPECT_TRUE(model.report().sync_points.empty());
  EXPECT_TRUE(named_tensors(model).empty()) << "constants of shapes are no weights";
  for (int run = 0; run < 2; ++run) {  // the second one from the cache
    EXPECT_EQ(model.forward(numbers({2, 3, 4})).shape(), (Shape{2, 12}));
    EXPECT_EQ(model.forward(numbers({5, 1, 7})).shape(), (Shape{5, 7}));
  }
}

TEST_F(OnnxFiles, ReportWhereARunWaits) {
  const OnnxGraphParts parts{.nodes = {onnx_node("Reshape", {"x", "t"}, {"y"}, {}, "turn")},
                             .initialisers = {},
                             .inputs = {onnx_value("x", {2, 3}), onnx_value("t", {2}, 7)},
                             .outputs = {onnx_value("y", {-1, -1})}};
  const OnnxModel model = load(parts);
  ASSERT_EQ(model.report().sync_points.size(), 1U);
  EXPECT_EQ(model.report().sync_points[0].node, "turn");
  EXPECT_TRUE(model.report().sync_points[0].is_input);
  const Tensor target = Tensor::from(devices.cpu, std::vector<std::int64_t>{3, 2});
  OnnxValues results = model.run({{"x", numbers({2, 3})}, {"t", target}});
  EXPECT_EQ(results.at("y").shape(), (Shape{3, 2}));
}

TEST_F(OnnxFiles, ChooseABranchByAValueOnTheHost) {
  const auto branch = [](const char* op) {
    return onnx_graph({.nodes = {onnx_node(op, {"x"}, {"r"})},
                       .initialisers = {},
                       .inputs = {},
                       .outputs = {onnx_value("r", {2})}});
  };
  const OnnxModel model =
      load({.nodes = {onnx_node("If",
                                {"c"},
                                {"y"},
                                {onnx_graph_attribute("then_branch", branch("Neg")),
                                 onnx_graph_attribute("else_branch", branch("Exp"))})},
            .initialisers = {},
            .inputs = {onnx_value("x", {2}), onnx_value("c", {}, 9)},
            .outputs = {onnx_value("y", {2})}});
  const Tensor x = Tensor::from(devices.cpu, {0.0, 2.0});
  OnnxValues yes = model.run({{"x", x}, {"c", true}});
  EXPECT_THAT(yes.at("y").tensor().to_vector<float>(), ElementsAre(0, -2));
  OnnxValues no = model.run({{"x", x}, {"c", false}});
  EXPECT_EQ(no.at("y").tensor().to_vector<float>()[0], 1);
}

TEST_F(OnnxFiles, CallFunctionsOfTheFile) {
  ProtoBytes function;
  function.text(1, "Twice").text(4, "a").text(5, "b").text(10, "own");
  function.message(7, onnx_node("Add", {"a", "a"}, {"b"}));
  function.message(9, ProtoBytes().text(1, "").integer(2, 17));
  const OnnxGraphParts parts{.nodes = {onnx_node("Twice", {"x"}, {"y"}, {}, "call", "own")},
                             .initialisers = {},
                             .inputs = {onnx_value("x", {2})},
                             .outputs = {onnx_value("y", {2})}};
  const OnnxModel model = load_onnx(write(onnx_file(parts, 17, {function})), devices.cpu);
  const Tensor x = Tensor::from(devices.cpu, {1.0, 2.0});
  EXPECT_THAT(model.forward(x).to_vector<float>(), ElementsAre(2, 4));
}

TEST_F(OnnxFiles, HoldSmallIntegersAndWrapThem) {
  constexpr std::int64_t kU16 = 4;
  const OnnxModel model = load({.nodes = {onnx_node("Add", {"a", "b"}, {"y"})},
                                .initialisers = {},
                                .inputs = {onnx_value("a", {2}, kU16), onnx_value("b", {2}, kU16)},
                                .outputs = {onnx_value("y", {2}, kU16)}});
  const Tensor a = Tensor::from(devices.cpu, std::vector<std::int32_t>{65'535, 1});
  OnnxValues results = model.run({{"a", a}, {"b", a}});
  EXPECT_EQ(results.at("y").type(), OnnxType::u16);
  EXPECT_THAT(results.at("y").tensor().to_vector<std::int32_t>(), ElementsAre(65'534, 2));
}

// u64 is held as i64, whose sign a shift right would move in; all bits of u16 lie in an i32.
TEST_F(OnnxFiles, WorkOnTheBitsOfUnsignedIntegers) {
  constexpr std::int64_t kU64 = 13;
  constexpr std::int64_t kU16 = 4;
  const OnnxModel model = load(
      {.nodes = {onnx_node("BitShift", {"a", "b"}, {"y"}, {onnx_attribute("direction", "RIGHT")}),
                 onnx_node("BitShift", {"a", "b"}, {"l"}, {onnx_attribute("direction", "LEFT")}),
                 onnx_node("BitwiseNot", {"c"}, {"n"}),
                 onnx_node("BitwiseXor", {"n", "c"}, {"z"})},
       .initialisers = {},
       .inputs = {onnx_value("a", {4}, kU64),
                  onnx_value("b", {4}, kU64),
                  onnx_value("c", {2}, kU16)},
       .outputs = {onnx_value("y", {4}, kU64),
                   onnx_value("l", {4}, kU64),
                   onnx_value("n", {2}, kU16),
                   onnx_value("z", {2}, kU16)}},
      18);
  const Tensor a = Tensor::from(devices.cpu, std::vector<std::int64_t>{-1, -2, 40, -1});
  const Tensor b = Tensor::from(devices.cpu, std::vector<std::int64_t>{60, 0, 3, 64});
  const Tensor c = Tensor::from(devices.cpu, std::vector<std::int32_t>{0, 65'534});
  OnnxValues results = model.run({{"a", a}, {"b", b}, {"c", c}});
  EXPECT_THAT(results.at("y").tensor().to_vector<std::int64_t>(), ElementsAre(15, -2, 5, 0));
  EXPECT_THAT(results.at("l").tensor().to_vector<std::int64_t>(),
              ElementsAre(std::int64_t{-1} * (std::int64_t{1} << 60), -2, 320, 0));
  EXPECT_THAT(results.at("n").tensor().to_vector<std::int32_t>(), ElementsAre(65'535, 1));
  EXPECT_THAT(results.at("z").tensor().to_vector<std::int32_t>(), ElementsAre(65'535, 65'535));
}

// A row's index outside its axis must not name an element of another row.
TEST_F(OnnxFiles, ScatterNdByEveryReductionAndInsideTheAxesOnly) {
  constexpr std::int64_t kI64 = 7;
  const auto run = [&](const std::string& reduction, std::vector<std::int64_t> index) {
    const OnnxModel model = load(
        {.nodes = {onnx_node(
             "ScatterND", {"x", "i", "u"}, {"y"}, {onnx_attribute("reduction", reduction)})},
         .initialisers = {},
         .inputs = {onnx_value("x", {2, 2}), onnx_value("i", {2, 2}, kI64), onnx_value("u", {2})},
         .outputs = {onnx_value("y", {2, 2})}},
        18);
    const Tensor x = Tensor::from(devices.cpu, std::vector<float>{1, 2, 3, 4}, {2, 2});
    const Tensor u = Tensor::from(devices.cpu, std::vector<float>{5, -6});
    const Tensor i = Tensor::from(devices.cpu, std::move(index), {2, 2});
    OnnxValues results = model.run({{"x", x}, {"i", i}, {"u", u}});
    return results.at("y").tensor().to_vector<float>();
  };
  const std::vector<std::int64_t> index{0, 1, 0, -1};  // one element, twice
  EXPECT_THAT(run("none", index), ElementsAre(1, -6, 3, 4));
  EXPECT_THAT(run("add", index), ElementsAre(1, 1, 3, 4));
  EXPECT_THAT(run("mul", index), ElementsAre(1, -60, 3, 4));
  EXPECT_THAT(run("max", index), ElementsAre(1, 5, 3, 4));
  EXPECT_THAT(run("min", index), ElementsAre(1, -6, 3, 4));
  EXPECT_THROW(static_cast<void>(run("none", {0, 2, 1, 1})), DeviceError);
}

TEST_F(OnnxFiles, NameNodeOpAndRuleInErrors) {
  const OnnxModel model = load(small_network());
  try {
    static_cast<void>(model.forward(numbers({2, 5})));
    FAIL() << "2x5 does not fit a weight of 2x3";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.error().text, HasSubstr("node 'product' (Gemm, opset 17)"));
    EXPECT_THAT(error.error().text, HasSubstr("[2, 5]"));
  }
  EXPECT_THAT(
      [&] {
        static_cast<void>(model.run({{"z", numbers({2, 2})}}));
      },
      ::testing::ThrowsMessage<ArgumentError>(HasSubstr("input 'x' is missing")));
  EXPECT_THAT([&] { static_cast<void>(model.forward(numbers({2}))); },
              ::testing::ThrowsMessage<ArgumentError>(HasSubstr("declares f32 with 2 axes")));
}

TEST_F(OnnxFiles, ConvertNoTypeByThemselves) {
  constexpr std::int64_t kBool = 9;
  const OnnxModel model =
      load({.nodes = {onnx_node("Add", {"scores", "mask"}, {"y"}, {}, "masked")},
            .initialisers = {},
            .inputs = {onnx_value("scores", {2}), onnx_value("mask", {2}, kBool)},
            .outputs = {onnx_value("y", {2})}});
  const Tensor scores = numbers({2});
  EXPECT_THAT(
      [&] {
        static_cast<void>(model.run({{"scores", scores}, {"mask", scores > 0}}));
      },
      ::testing::ThrowsMessage<ArgumentError>(
          HasSubstr("node 'masked' (Add, opset 17): input 0 is f32, input 1 is bool")));
}

TEST_F(OnnxFiles, RunFrozenOnManyThreads) {
  const OnnxModel model = load(joined_axes());
  const OnnxModel product = load(small_network());
  const Frozen<OnnxModel> frozen = freeze(product);
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> results(16);
  for (std::size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      Stream stream(devices.cpu);
      const StreamScope scope(stream);
      for (int run = 0; run < 20; ++run) {
        const auto rows = static_cast<std::int64_t>(i % 4 + 1);
        const Tensor joined = model.forward(numbers({rows, 1, 2}));
        results[i] = frozen->forward(joined).to_vector<float>();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].size(), 3 * (i % 4 + 1));
    EXPECT_EQ(results[i][2], 7);
  }
}

TEST_F(OnnxFiles, ReadWeightsFromTheirFolderOnly) {
  const auto with_external = [](const std::string& location) {
    ProtoBytes weight;
    weight.integer(1, 2).integer(2, 1).text(8, "w").integer(14, 1);
    weight.message(13, ProtoBytes().text(1, "location").text(2, location));
    weight.message(13, ProtoBytes().text(1, "offset").text(2, "4"));
    weight.message(13, ProtoBytes().text(1, "length").text(2, "8"));
    return OnnxGraphParts{.nodes = {onnx_node("Mul", {"x", "w"}, {"y"})},
                          .initialisers = {weight},
                          .inputs = {onnx_value("x", {2})},
                          .outputs = {onnx_value("y", {2})}};
  };
  const std::vector<float> values{9, 2, 3};
  std::ofstream(folder.path() / "weights.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()), 12);
  const OnnxModel model = load(with_external("weights.bin"));
  const Tensor x = Tensor::from(devices.cpu, {1.0, 1.0});
  EXPECT_THAT(model.forward(x).to_vector<float>(), ElementsAre(2, 3));
  EXPECT_THAT(model.report().external_files, ElementsAre("weights.bin"));

  const auto problem = [&](const std::string& location) {
    return check_onnx(write(onnx_file(with_external(location)))).problems.at(0).reason;
  };
  EXPECT_THAT(problem("../weights.bin"), HasSubstr("not inside the model's folder"));
  EXPECT_THAT(problem("/etc/passwd"), HasSubstr("not inside the model's folder"));
  EXPECT_THAT(problem("none.bin"), HasSubstr("does not exist"));
  fs::create_symlink("/etc/passwd", folder.path() / "link.bin");
  EXPECT_THAT(problem("link.bin"), HasSubstr("a link out of the model's folder"));
  fs::resize_file(folder.path() / "weights.bin", 8);
  EXPECT_THAT(problem("weights.bin"), HasSubstr("has 8 bytes"));
}

TEST(OnnxReport, GivesTheReasonWhyRequestsDoNotShareABatch) {
  const auto port = [](const std::string& name, std::vector<std::string> dims) {
    return OnnxPort{.name = name, .type = OnnxType::f32, .dims = std::move(dims), .has_rank = true};
  };
  OnnxReport report;
  EXPECT_EQ(report.why_no_rows(), "the graph has no inputs");
  report.inputs = {port("x", {"batch", "3"})};
  report.outputs = {port("y", {"batch"})};
  EXPECT_EQ(report.why_no_rows(), "");
  EXPECT_EQ(report.why_not_served(), "");
  EXPECT_THAT(report.to_string(), HasSubstr("served in batches\n"));
  report.outputs = {port("y", {"n"})};
  EXPECT_EQ(report.why_no_rows(), "axis 0 is 'batch' in input 'x' and 'n' in result 'y'");
  report.outputs = {port("y", {"?"})};
  EXPECT_EQ(report.why_no_rows(), "axis 0 of result 'y' is ? in the file");
  report.inputs.push_back(port("rate", {}));
  EXPECT_EQ(report.why_no_rows(), "input 'rate' has no axes");
  report.inputs = {port("x", {"1", "3"})};
  EXPECT_THAT(report.to_string(),
              HasSubstr("served one request at a time: axis 0 of input 'x' is 1 in the file\n"));
  report.inputs[0].has_rank = false;
  EXPECT_EQ(report.why_no_rows(), "input 'x' has no stated axes");
  report.inputs[0].type = OnnxType::string;
  EXPECT_EQ(report.why_not_served(),
            "input 'x' is a tensor of string: only tensors of numbers and bools are served");
  EXPECT_THAT(report.to_json(), HasSubstr("only tensors of numbers"));
}

TEST_F(OnnxFiles, ListEveryProblemAtOnce) {
  const ProtoBytes endless = onnx_graph({.nodes = {onnx_node("Neg", {"nowhere"}, {"r"})},
                                         .initialisers = {},
                                         .inputs = {},
                                         .outputs = {onnx_value("r", {2})}});
  ProtoBytes complex;
  complex.integer(1, 1).integer(2, 14).text(8, "complex").text(9, "12345678");
  const OnnxGraphParts parts{
      .nodes = {onnx_node("Nothing", {"x"}, {"a"}, {}, "one"),
                onnx_node("Nothing", {"x"}, {"a2"}, {}, "two"),
                onnx_node("Nothing", {"x"}, {"b"}, {}, "three", "some.domain"),
                onnx_node("MaxRoiPool", {"x", "w"}, {"c"}),
                onnx_node("Cast", {"x"}, {"d"}, {onnx_attribute("to", std::int64_t{14})}),
                onnx_node("Pad", {"x", "p"}, {"e"}, {onnx_attribute("mode", "spiral")}),
                onnx_node("Conv", {"x", "w"}, {"f"}, {onnx_attribute("auto_pad", "MAYBE")}),
                onnx_node("Add", {"x", "missing"}, {"g"}),
                onnx_node("Gelu", {"x"}, {"h"}),
                onnx_node("If",
                          {"x"},
                          {"i"},
                          {onnx_graph_attribute("then_branch", endless),
                           onnx_graph_attribute("else_branch", endless)}),
                onnx_node("Add", {"x", "j2"}, {"j1"}),
                onnx_node("Add", {"x", "j1"}, {"j2"}),
                onnx_node(
                    "ScatterND", {"x", "p", "x"}, {"k"}, {onnx_attribute("reduction", "spiral")}),
                onnx_node("Sum",
                          {"a", "a2", "b", "c", "d", "e", "f", "g", "h", "i", "j2", "k", "complex"},
                          {"y"})},
      .initialisers = {onnx_integers("p", {3}, {1, 2}), complex},
      .inputs = {onnx_value("x", {2}), onnx_value("w", {2}, 15)},
      .outputs = {onnx_value("y", {2})}};
  const fs::path file = write(onnx_file(parts));
  const OnnxReport report = check_onnx(file);
  EXPECT_GE(report.problems.size(), 12U) << report.problem_table();
  EXPECT_EQ(report.problems.front().count + 0, report.problems.front().count);
  const auto find = [&](const std::string& op, const std::string& domain) {
    for (const OnnxProblem& problem : report.problems) {
      if (problem.op == op && problem.domain == domain) {
        return problem;
      }
    }
    return OnnxProblem{};
  };
  EXPECT_EQ(find("Nothing", "").count, 2);
  EXPECT_THAT(find("Nothing", "").names, ElementsAre("one", "two"));
  EXPECT_EQ(find("Nothing", "some.domain").count, 1);
  EXPECT_THAT(find("Gelu", "").reason, HasSubstr("from opset 20"));
  EXPECT_THAT(find("MaxRoiPool", "").help, HasSubstr("RoiAlign"));
  try {
    static_cast<void>(load_onnx(file, devices.cpu));
    FAIL() << "a file with problems was loaded";
  } catch (const OnnxError& error) {
    EXPECT_EQ(error.report().problems.size(), report.problems.size());
    EXPECT_THAT(error.what(), HasSubstr("what would help"));
    EXPECT_THAT(error.what(), HasSubstr("ScatterND"));
  }
}

TEST_F(OnnxFiles, RefuseWhatIsNoModel) {
  const auto refusal = [&](const std::string& bytes) -> std::string {
    try {
      return check_onnx(write(bytes)).to_string();
    } catch (const FileError& error) {
      return error.error().text;
    }
  };
  EXPECT_THAT(refusal(""), HasSubstr("no graph"));
  EXPECT_THAT(refusal("\x08\x08"), HasSubstr("no graph"));
  EXPECT_THAT(refusal(std::string("\x3a\x7f", 2)), HasSubstr("reaches beyond its message"));
  const std::string whole = onnx_file(small_network());
  for (std::size_t size = 0; size < whole.size(); ++size) {  // no cut crashes
    static_cast<void>(refusal(whole.substr(0, size)));
  }
  EXPECT_THROW(static_cast<void>(check_onnx(folder.path() / "absent.onnx")), FileError);
}

}  // namespace
}  // namespace hearth
