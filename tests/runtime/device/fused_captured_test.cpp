// Captured expressions (CustomOp) among other ops of a group: which ops become one kernel, which
// must not, and that no bit of a result depends on it.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/custom_op.hpp>
#include <hearth/runtime/explanation.hpp>

#include "tests/runtime/device/fused_runs.hpp"

namespace hearth {
namespace {

using testing::have_same_bits;
using testing::normal;
using testing::Ran;
using testing::run_twice;
using testing::stepped;
using testing::World;
using Tensors = std::vector<Tensor>;

const CustomOp& swish() {
  static const CustomOp kSwish =
      custom_op("swish", [](const Tensor& x, const Tensor& beta) { return x * sigmoid(x * beta); });
  return kSwish;
}
const CustomOp& mix() {
  static const CustomOp kMix =
      custom_op("mix", [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& t) {
        return where(a > b, a * t, c - b) + tanh(c);
      });
  return kMix;
}

struct Program {
  std::string name;
  std::size_t kernels = 0;
  std::function<Tensor(const Tensors&)>
      run;  ///< Takes x and y [30, 40], a scale [40], weights [40, 24].
};

const std::vector<Program>& all_programs() {
  static const std::vector<Program> kAll = {
      {"between", 1, [](const Tensors& t) { return swish()(t[0] * 2, 1.5) + t[1]; }},
      {"first, and broadcast", 1, [](const Tensors& t) { return relu(swish()(t[0], t[2])) - 1; }},
      {"two with numbers of their own",
       1,
       [](const Tensors& t) { return swish()(t[0], 0.5) * swish()(t[1], 2.5); }},
      {"of four operands",
       1,
       [](const Tensors& t) { return mix()(t[0] + 1, t[1], t[2] * t[0], 0.75) * t[1]; }},
      {"before a product", 1, [](const Tensors& t) { return matmul(swish()(t[0], 1), t[3]); }},
      {"behind a product", 1, [](const Tensors& t) { return swish()(matmul(t[0], t[3]), 1) * 3; }},
      {"in rows",
       1,
       [](const Tensors& t) { return softmax(swish()(t[0], t[2]), -1) * swish()(t[1], 1); }},
      {"of a number for each row",
       1,
       [](const Tensors& t) {
         return t[0] * swish()(mean(t[0], -1, {.keep_dims = true}), 2) + t[1];
       }},
      {"before a loss", 1, [](const Tensors& t) { return sum(swish()(t[0] * t[1], 1)); }},
  };
  return kAll;
}

Tensors operands(const Device& device, DType dtype) {
  Tensors all{normal(device, {30, 40}, 1, dtype),
              normal(device, {30, 40}, 2, dtype),
              normal(device, {40}, 3, dtype),
              normal(device, {40, 24}, 4, dtype)};
  device.sync();
  return all;
}

TEST(FusedCaptured, AreOneKernelWithTheirNeighbours) {
  for (const char* const device : {"cpu:0", "sim:0"}) {
    stepped({.devices = {{.name = device}}, .fusion = Fusion::on}, [](const World& world) {
      const Tensors t = operands(world.device, DType::f32);
      for (const Program& program : all_programs()) {
        Tensor y;
        const Explanation said = explain(world.device, [&] { y = program.run(t); });
        EXPECT_EQ(said.kernels.size(), program.kernels) << program.name << "\n" << said.to_string();
        EXPECT_NE(said.to_string().find(program.name == "of four operands" ? "mix" : "swish"),
                  std::string::npos)
            << said.to_string();
      }
    });
  }
}

TEST(FusedCaptured, HaveTheBitsOfSingleOps) {
  for (const Program& program : all_programs()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      const auto run = [&](const Device& on) -> Tensors {
        return {program.run(operands(on, dtype))};
      };
      const Ran on = run_twice("cpu:0", Fusion::on, run);
      EXPECT_TRUE(have_same_bits(run_twice("cpu:0", Fusion::off, run), on))
          << program.name << " in " << name(dtype);
      EXPECT_GE(on.fused, 2U) << program.name;
    }
  }
}

TEST(FusedCaptured, GradientsHaveTheBitsOfSingleOps) {
  for (const Program& program : all_programs()) {
    const auto run = [&](const Device& on) {
      return grad([&](const Tensors& t) { return sum(program.run(t) * 0.5); },
                  operands(on, DType::f32));
    };
    EXPECT_TRUE(
        have_same_bits(run_twice("cpu:0", Fusion::off, run), run_twice("cpu:0", Fusion::on, run)))
        << program.name;
  }
}

// Equal lines with another function or other numbers are another program.
TEST(FusedCaptured, OfOneLineKeepTheirFunctionsApart) {
  const std::vector<CustomOp> functions{
      custom_op("twice", [](const Tensor& x, const Tensor& n) { return x * 2 + n; }),
      custom_op("less", [](const Tensor& x, const Tensor& n) { return x - n; })};
  stepped({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::on}, [&](const World& world) {
    for (int round = 0; round < 6; ++round) {
      const Tensor x = full(world.device, {8}, 3.0);
      const double n = round;
      const Tensor y = functions[static_cast<std::size_t>(round % 2)](x + 1, n) * 10;
      EXPECT_EQ(y.to_vector<float>()[7], round % 2 == 0 ? 10 * (8 + n) : 10 * (4 - n)) << round;
    }
  });
}

// The text of a kernel is bounded, whatever its functions are.
TEST(FusedCaptured, FunctionsWithLongTextsCountForSeveralOps) {
  stepped({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::on}, [&](const World& world) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor x = normal(world.device, {30, 40}, 1, dtype);
      world.device.sync();
      Tensor y;
      const auto program = [&] {
        y = sin(x);
        for (int i = 1; i < 40; ++i) {
          y = sin(y);
        }
        world.device.sync();
      };
      const Explanation said = explain(world.device, program);
      EXPECT_EQ(said.kernels.size(), dtype == DType::f32 ? 2U : 3U) << said.to_string();
      EXPECT_NE(said.to_string().find("and 64 ops are the most of a kernel"), std::string::npos)
          << said.to_string();
    }
  });
}

// A long function counts as the number of its ops, so that its neighbours keep their group.
TEST(FusedCaptured, AreLeftAloneWhereTheyAreLong) {
  const CustomOp longer = custom_op("longer", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 80; ++i) {
      y = y * x + 1.0 / (i + 1);
    }
    return y;
  });
  stepped({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::on}, [&](const World& world) {
    const Tensor x = normal(world.device, {30, 40}, 1, DType::f32);
    world.device.sync();
    Tensor y;
    const auto program = [&] { y = relu(longer(x * 0.5 + 0.1) * 2 - 1); };
    const Explanation said = explain(world.device, program);
    EXPECT_EQ(said.kernels.size(), 3U) << said.to_string();
  });
}

}  // namespace
}  // namespace hearth
