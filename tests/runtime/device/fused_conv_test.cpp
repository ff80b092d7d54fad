// Convolutions with their epilogues in one kernel: which ops join, and that no bit of a result
// depends on it, on the oracle and on the cpu backend.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/explanation.hpp>

#include "tests/runtime/device/fused_runs.hpp"

namespace hearth {
namespace {

using testing::have_same_bits;
using testing::Ran;
using testing::run_twice;
using testing::stepped;
using testing::World;
using Tensors = std::vector<Tensor>;

struct Planes {
  Shape x;
  Shape weight;
  Conv2dOptions options = {};
  bool is_transposed = false;  ///< x lies in another order in memory.
};

/// All forms, several units of rows and groups, rows of one pixel, no elements.
const std::vector<Planes>& all_planes() {
  static const std::vector<Planes> kAll = {
      {{1, 1, 28, 28}, {16, 1, 3, 3}, {.padding = {1, 1}}},
      {{2, 16, 14, 14}, {32, 16, 3, 3}, {.padding = {1, 1}}},
      {{1, 3, 40, 33}, {5, 3, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
      {{2, 6, 9, 11}, {8, 3, 3, 2}, {.stride = {1, 2}, .dilation = {2, 1}, .groups = 2}},
      {{3, 4, 7, 5}, {4, 1, 2, 3}, {.stride = {3, 3}, .padding = {2, 1}, .groups = 4}},
      {{2, 40, 7, 7}, {40, 1, 3, 3}, {.padding = {1, 1}, .groups = 40}},
      {{1, 2, 90, 70}, {2, 1, 5, 5}, {.stride = {2, 2}, .padding = {2, 2}, .groups = 2}},
      {{2, 20, 14, 12}, {33, 20, 1, 1}, {}},
      {{1, 40, 6, 1}, {33, 40, 1, 1}, {.stride = {2, 1}}},
      {{2, 3, 16, 20}, {7, 3, 5, 5}, {.padding = {2, 2}}, true},
      {{0, 3, 8, 8}, {4, 3, 3, 3}},
  };
  return kAll;
}

Tensors inputs_of(const Device& device, const Planes& planes, DType dtype) {
  Generator generator(11);
  Tensor x = random_normal(device, planes.x, generator, 0, 0.5, dtype);
  x = planes.is_transposed ? transpose(contiguous(transpose(x, 1, 3)), 1, 3) : x;
  Tensors made{x, random_normal(device, planes.weight, generator, 0, 0.3, dtype)};
  const std::int64_t channels = planes.weight[0];
  for (const Shape& shape : {Shape{channels}, Shape{channels, 1, 1}, Shape{1, channels, 1, 1}}) {
    made.push_back(random_normal(device, shape, generator, 1, 0.3, dtype));
  }
  const Tensor y = conv2d(made[0], made[1], planes.options);
  made.push_back(ones_like(y) * 0.25);
  made.push_back(slice(made.back(), 3, {0, 1}) * 3);  // one number a row
  made.push_back(
      transpose(contiguous(transpose(made[5] * -0.75, 1, 3)), 1, 3));  // another order in memory
  device.sync();
  return made;
}

struct Behind {
  const char* name;
  std::function<Tensors(const Tensors&, const Conv2dOptions&)> run;
};

// Operands: x, weight, bias [c], scale [c, 1, 1], shift [1, c, 1, 1], one like the result, [.., 1],
// and one in another order.
const std::vector<Behind>& all_behind() {
  static const std::vector<Behind> kAll = {
      {"relu",
       [](const Tensors& t, const Conv2dOptions& o) -> Tensors {
         return {relu(conv2d(t[0], t[1], t[2], o))};
       }},
      {"scale and shift",
       [](const Tensors& t, const Conv2dOptions& o) -> Tensors {
         return {relu(conv2d(t[0], t[1], o) * t[3] + t[4]) * 0.5};
       }},
      {"residuals",
       [](const Tensors& t, const Conv2dOptions& o) -> Tensors {
         return {tanh(conv2d(t[0], t[1], t[2], o) + t[5]) * t[6] - t[7]};
       }},
      {"several results",
       [](const Tensors& t, const Conv2dOptions& o) -> Tensors {
         const Tensor before = conv2d(t[0], t[1], t[2], o);
         const Tensor after = relu(before);
         return {before, after + t[5], after * after, after > 0.25};
       }},
  };
  return kAll;
}

TEST(FusedConv, OpsBehindAConvolutionAreInItsKernel) {
  for (const char* const device : {"cpu:0", "sim:0"}) {
    stepped({.devices = {{.name = device}}, .fusion = Fusion::on}, [](const World& world) {
      for (const Planes& planes : all_planes()) {
        const Tensors t = inputs_of(world.device, planes, DType::f32);
        for (const Behind& behind : all_behind()) {
          Tensors results;
          const Explanation said =
              explain(world.device, [&] { results = behind.run(t, planes.options); });
          EXPECT_EQ(said.kernels.size(), 1U)
              << behind.name << " of " << planes.x.to_string() << "\n"
              << said.to_string();
        }
      }
    });
  }
}

TEST(FusedConv, HasTheBitsOfSingleOps) {
  std::uint64_t fused = 0;
  for (const Planes& planes : all_planes()) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const Behind& behind : all_behind()) {
        const auto program = [&](const Device& device) {
          return behind.run(inputs_of(device, planes, dtype), planes.options);
        };
        const Ran off = run_twice("cpu:0", Fusion::off, program);
        const Ran on = run_twice("cpu:0", Fusion::on, program);
        EXPECT_TRUE(have_same_bits(off, on))
            << behind.name << " of " << planes.x.to_string() << " in " << name(dtype);
        EXPECT_EQ(off.fused, 0U);
        fused += on.fused;
      }
    }
  }
  EXPECT_GE(fused, 2 * 4 * all_planes().size() * all_behind().size());
}

// The gradient of an input continues into the ops before the convolution; with strides it is
// computed phase by phase.
TEST(FusedConv, GradientsHaveTheBitsOfSingleOps) {
  std::uint64_t fused = 0;
  for (const Planes& planes : all_planes()) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const auto program = [&](const Device& device) {
        const Tensors t = inputs_of(device, planes, dtype);
        return grad(
            [&](const Tensors& x) {
              const Tensor y = relu(conv2d(relu(x[0] * 2), x[1], x[2], planes.options));
              return sum(square(y * x[3]));
            },
            {t[0], t[1], t[2], t[3]});
      };
      const Ran off = run_twice("cpu:0", Fusion::off, program);
      const Ran on = run_twice("cpu:0", Fusion::on, program);
      EXPECT_TRUE(have_same_bits(off, on)) << planes.x.to_string() << " in " << name(dtype);
      fused += on.fused;
    }
  }
  EXPECT_GE(fused, 2 * 2 * all_planes().size());
}

// A burst of small convolutions, in real time: a thread that is awake takes a share of each.
TEST(FusedConv, InABurstHasTheBitsOfOneCore) {
  const auto results = [](std::vector<int> cores) {
    const Runtime runtime(
        {.devices = {{.name = "cpu:0", .cores = std::move(cores)}}, .fusion = Fusion::on});
    const Device device = runtime.device("cpu:0");
    Generator generator(5);
    const auto normal = [&](const Shape& shape) { return random_normal(device, shape, generator); };
    const Tensor x = normal({1, 32, 14, 14});
    const Tensor w = normal({64, 32, 3, 3});
    const Tensor b = normal({64, 1, 1});
    std::vector<std::vector<float>> all;
    for (int i = 0; i < 200; ++i) {
      const Tensor y = conv2d(x, w, {.padding = {1, 1}});
      const Tensor z = i % 2 == 0 ? relu(y) * 0.5 : relu(y + b);
      all.push_back(z.to_vector<float>());
    }
    return all;
  };
  const std::vector<int> cores = available_cores();
  const std::vector<std::vector<float>> alone = results({cores.front()});
  const std::vector<std::vector<float>> shared =
      cores.size() > 1 ? results({cores.front(), cores.back()}) : alone;
  for (std::size_t i = 2; i < alone.size(); ++i) {
    ASSERT_EQ(alone[i], alone[i % 2]) << i;
    ASSERT_EQ(shared[i], alone[i]) << i;
  }
}

}  // namespace
}  // namespace hearth
