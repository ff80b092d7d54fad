// Packed forms of frozen tensors that kernels keep: equal bits, never a form of changed bytes, and
// no memory that other work needs.
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/freeze_tensor.hpp>

#include "tests/runtime/stepped_runtime.hpp"

namespace hearth {
namespace {

using testing::stepped;
using testing::SteppedOptions;
using testing::World;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

SteppedOptions on_cpu(std::int64_t budget_bytes = 0) {
  return {.devices = {{.name = "cpu:0", .memory_budget_bytes = budget_bytes}}};
}

// The library's own kernels run its products at every instruction set.
constexpr DType kType = DType::bf16;

std::vector<double> values_of(const Tensor& tensor) {
  return cast(tensor, DType::f64).to_vector<double>();
}

std::int64_t exclusive_bytes(const Device& device) {
  device.sync();
  return device.memory_report().exclusive.live_bytes;
}

struct Formula {
  std::string name;
  Shape x;
  Shape w;
  std::function<Tensor(const Tensor& x, const Tensor& w)> run;
  bool keeps = true;
};

Tensor product(const Tensor& x, const Tensor& w) {
  return matmul(x, w);
}

std::vector<Formula> formulas() {
  return {
      {"a product of many rows", {300, 500}, {500, 130}, product},
      {"of a few", {20, 500}, {500, 130}, product},
      {"that fits no panel", {33, 7}, {7, 37}, product},
      {"deeper than a piece", {18, 2100}, {2100, 40}, product},
      {"wider than a piece", {40, 30}, {30, 2500}, product},
      {"by a transposed matrix",
       {64, 100},
       {90, 100},
       [](const Tensor& x, const Tensor& w) { return relu(matmul(x, transpose(w))); }},
      {"a constant on the left",
       {100, 40},
       {30, 100},
       [](const Tensor& x, const Tensor& w) { return matmul(w, x); },
       false},
      {"one matrix for each of a batch", {3, 40, 20}, {3, 20, 50}, product, false},
      {"a part of it",
       {40, 20},
       {60, 50},
       [](const Tensor& x, const Tensor& w) {
         return matmul(x, slice(w, 0, {.start = 0, .stop = 20})) +
                matmul(x, slice(w, 0, {.start = 20, .stop = 40}));
       }},
      {"parts of it that begin together",
       {40, 20},
       {20, 96},
       [](const Tensor& x, const Tensor& w) {
         const Tensor left = slice(w, 1, {.start = 0, .stop = 64});
         return concat({matmul(x, left), matmul(x, w)}, 1);
       }},
      {"filters that begin together",
       {1, 8, 14, 14},
       {64, 8, 3, 3},
       [](const Tensor& x, const Tensor& w) {
         const Tensor first = slice(w, 0, {.start = 0, .stop = 32});
         return concat({conv2d(x, first, {}), conv2d(x, w, {})}, 1);
       }},
      {"a convolution",
       {2, 8, 14, 14},
       {32, 8, 3, 3},
       [](const Tensor& x, const Tensor& w) {
         return relu(conv2d(x, w, {.padding = {1, 1}}));
       }},
      {"one with groups and gaps",
       {1, 8, 15, 13},
       {24, 4, 3, 2},
       [](const Tensor& x, const Tensor& w) {
         return conv2d(x, w, {.stride = {2, 1}, .dilation = {1, 2}, .groups = 2});
       }},
      {"two that differ in their groups",
       {1, 8, 9, 9},
       {16, 8, 1, 1},
       [](const Tensor& x, const Tensor& w) {
         const Tensor narrow = slice(w, 1, {.start = 0, .stop = 4});
         return conv2d(x, w, {}) + conv2d(x, narrow, {.groups = 2});
       }},
  };
}

TEST(Constants, OfFrozenWeightsGiveTheSameBits) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const Formula& formula : formulas()) {
      stepped(on_cpu(), [&](const World& world) {
        Generator generator(3);
        const Tensor w = random_normal(world.device, formula.w, generator, 0, 1, dtype);
        Tensor frozen = w + 0;
        freeze_tensor(frozen);
        EXPECT_EQ(exclusive_bytes(world.device), 0);
        for (int i = 0; i < 3; ++i) {
          const Tensor x = random_normal(world.device, formula.x, generator, 0, 1, dtype);
          EXPECT_EQ(values_of(formula.run(x, frozen)), values_of(formula.run(x, w)))
              << formula.name << " in " << name(dtype) << ", time " << i;
        }
        // Below AVX-512 OpenBLAS runs the larger products, except those of 16-bit types.
        if (dtype == DType::bf16) {
          EXPECT_EQ(exclusive_bytes(world.device) > 0, formula.keeps) << formula.name;
        }
        frozen = Tensor();
        EXPECT_EQ(exclusive_bytes(world.device), 0) << "what is kept goes with the weights";
      });
    }
  }
}

// The frozen tensor is dropped; only a view of its bytes stays.
TEST(Constants, AreForgottenWhenTheBytesChange) {
  stepped(on_cpu(), [](const World& world) {
    Generator generator(3);
    const Tensor x = random_normal(world.device, {40, 100}, generator, 0, 1, kType);
    Tensor w = random_normal(world.device, {100, 64}, generator, 0, 1, kType);
    freeze_tensor(w);
    const std::vector<double> first = values_of(matmul(x, w));
    EXPECT_GT(exclusive_bytes(world.device), 0);
    Tensor view = reshape(w, {50, 128});
    w = Tensor();
    world.device.sync();
    const std::uint64_t in_place = world.device.memory_report().in_place_count;
    view = std::move(view) * 2;
    world.device.sync();
    EXPECT_GT(world.device.memory_report().in_place_count, in_place) << "in the same bytes";
    EXPECT_EQ(exclusive_bytes(world.device), 0);
    const Tensor again = reshape(view, {100, 64});
    const std::vector<double> second = values_of(matmul(x, again));
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_EQ(second[i], 2 * first[i]);
    }
  });
}

TEST(Constants, TakeNoMoreThanAQuarterOfTheBudget) {
  stepped(on_cpu(16 * kMiB), [](const World& world) {
    Generator generator(3);
    const Tensor x = random_normal(world.device, {20, 1024}, generator, 0, 1, kType);
    std::vector<Tensor> weights;
    for (int i = 0; i < 3; ++i) {  // packed as f32, 2 MiB each
      weights.push_back(random_normal(world.device, {1024, 512}, generator, 0, 1, kType));
      freeze_tensor(weights.back());
      static_cast<void>(values_of(matmul(x, weights.back())));
    }
    EXPECT_EQ(exclusive_bytes(world.device), 4 * kMiB) << "of two, the third is packed each time";
  });
}

// Both for a result, and for a kernel's scratch memory.
TEST(Constants, GoWhereMemoryIsShort) {
  for (const bool for_scratch : {false, true}) {
    stepped(on_cpu(16 * kMiB), [&](const World& world) {
      Generator generator(3);
      const Tensor x = random_normal(world.device, {20, 1024}, generator, 0, 1, kType);
      const Tensor w = random_normal(world.device, {1024, 1024}, generator, 0, 1, kType);
      const Tensor a = ones(world.device, {256, 2048}, kType);
      freeze_tensor(w);
      const std::vector<double> first = values_of(matmul(x, w));
      EXPECT_EQ(exclusive_bytes(world.device), 4 * kMiB);
      std::vector<Tensor> ballast;
      const std::int64_t room = for_scratch ? 2 * kMiB : kMiB;
      while (world.device.memory_report().total.live_bytes + room < 16 * kMiB) {
        ballast.push_back(zeros(world.device, {kMiB / 8}));
        world.device.sync();
      }
      if (for_scratch) {
        EXPECT_EQ(values_of(matmul(a, transpose(a))).size(), 256U * 256U);
      } else {
        const Tensor more = ones(world.device, {kMiB / 2});
        EXPECT_EQ(sum(more).item(), static_cast<double>(kMiB) / 2);
      }
      EXPECT_EQ(exclusive_bytes(world.device), 0) << for_scratch;
      ballast.clear();
      EXPECT_EQ(values_of(matmul(x, w)), first);
      EXPECT_EQ(exclusive_bytes(world.device), 0) << "and nothing is kept any more";
    });
  }
}

}  // namespace
}  // namespace hearth
