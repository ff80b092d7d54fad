// Kernels too short to wake a core, while requests follow closely enough that one is awake: every
// bit of a result is that of one core, whichever thread runs a part.
#include "cpu_contraction.hpp"

#include "backends/cpu/machine/arena.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

namespace hearth::testing {
namespace {

struct ShortCall {
  std::string name;
  OpKind kind = OpKind::matmul;
  std::vector<Shape> inputs;
  Shape output;
  ConvAttributes conv = {};
  PoolAttributes pool = {};
};

std::vector<ShortCall> short_calls() {
  return {
      {"one row times a matrix", OpKind::matmul, {{1, 784}, {784, 512}}, {1, 512}},
      {"three rows", OpKind::matmul, {{3, 500}, {500, 130}}, {3, 130}},
      {"a padded convolution",
       OpKind::conv2d,
       {{1, 32, 14, 14}, {64, 32, 3, 3}, {64}},
       {1, 64, 14, 14},
       {.padding = {1, 1}}},
      {"one of few channels",
       OpKind::conv2d,
       {{1, 1, 28, 28}, {32, 1, 3, 3}, {32}},
       {1, 32, 28, 28},
       {.padding = {1, 1}}},
      {"one of groups, strides and a small batch",
       OpKind::conv2d,
       {{3, 16, 17, 15}, {32, 8, 3, 3}, {32}},
       {3, 32, 9, 8},
       {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}},
      {"maxima of pairs", OpKind::max_pool2d, {{1, 32, 28, 28}}, {1, 32, 14, 14}},
      {"means",
       OpKind::avg_pool2d,
       {{2, 9, 31, 29}},
       {2, 9, 15, 14},
       {},
       {.kernel = {3, 3}, .stride = {2, 2}}},
  };
}

TEST(ShortKernels, HaveTheSameBitsWhoeverRunsThem) {
  const std::vector<int> all = available_cores();
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    cpu::CpuBackend alone(serial_device());
    cpu::CpuBackend shared({.cores = {all.front(), all.back()}});
    for (const ShortCall& each : short_calls()) {
      std::vector<SmallTensor> inputs;
      std::vector<TensorView> views;
      for (const Shape& shape : each.inputs) {
        inputs.push_back(random_tensor(dtype, shape, static_cast<unsigned>(inputs.size() + 1)));
        views.push_back(inputs.back().view());
      }
      const SmallTensor output(dtype, each.output);
      SmallCall call(each.kind, views, {output.view()});
      const bool is_pool = each.kind == OpKind::max_pool2d || each.kind == OpKind::avg_pool2d;
      SmallCall& with = each.kind == OpKind::conv2d ? call.with(each.conv)
                        : is_pool                   ? call.with(each.pool)
                                                    : call;
      const std::vector<double> expected = computed(alone, with, output);
      for (int i = 0; i < 300; ++i) {
        run_call(shared, with.call()).value();
        if (i % 20 == 19) {
          ASSERT_EQ(output.values(), expected) << each.name << " in " << name(dtype);
        }
      }
    }
  }
}

// Each range runs once, and in a burst both threads take part.
TEST(ShortKernels, AreSharedInABurst) {
  if (available_cores().size() < 2) {
    GTEST_SKIP() << "one core";
  }
  cpu::Arena arena({available_cores().front(), available_cores().back()});
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  std::atomic<int> by_second{0};
  while (by_second.load() == 0 && !deadline.has_passed()) {
    const int threads = arena.awake_threads();
    std::vector<std::atomic<int>> runs(103);
    std::atomic<std::int64_t> busy{0};
    arena.share(threads, 103, 7, [&](std::int64_t begin, std::int64_t end, int thread) {
      EXPECT_LT(thread, threads);
      by_second.fetch_add(thread == 1 ? 1 : 0);
      for (int i = 0; i < 300; ++i) {
        busy.fetch_add(1);
      }
      for (std::int64_t i = begin; i < end; ++i) {
        runs[static_cast<std::size_t>(i)].fetch_add(1);
      }
    });
    for (const std::atomic<int>& run : runs) {
      ASSERT_EQ(run.load(), 1);
    }
  }
  EXPECT_GT(by_second.load(), 0);
}

}  // namespace
}  // namespace hearth::testing
