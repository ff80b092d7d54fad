// Products of i8 on the CPU: each instruction set, both ways to multiply words, kept panels.
#include "cpu_contraction.hpp"
#include "cpu_levels.hpp"

#include "backends/cpu/products/int_tiles.hpp"

#include <hearth/backends/constant.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hearth::testing {
namespace {

using ::testing::ElementsAreArray;

/// Random values over the whole range of i8.
SmallTensor random_bytes(const Shape& shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    values.push_back(static_cast<double>(static_cast<int>(engine() % 256U) - 128));
  }
  return SmallTensor(DType::i8, shape, values);
}

detail::Layout turned(const Shape& shape) {
  Strides strides{};
  strides[0] = 1;
  strides[1] = shape[0];
  return detail::Layout(shape, strides);
}

// Few rows and few columns, whole and partial tiles, one and several blocks of depth and of tasks.
TEST(CpuIntMatmul, IsExactAtEveryLevelForEveryOrderOfRowsAndColumns) {
  DevicePerIsa devices;
  const std::vector<std::array<std::int64_t, 3>> sizes{{1, 1, 1},
                                                       {1, 70, 333},
                                                       {4, 19, 64},
                                                       {70, 2, 129},
                                                       {5, 33, 3},
                                                       {13, 64, 512},
                                                       {29, 67, 1411},
                                                       {250, 31, 40},
                                                       {15, 300, 2},
                                                       {3, 4, 0}};
  for (const auto& [m, n, k] : sizes) {
    const SmallTensor a = random_bytes({m, k}, 1);
    const SmallTensor b = random_bytes({k, n}, 2);
    const SmallTensor c(DType::i32, {m, n});
    for (const detail::Layout& a_layout : {detail::Layout(a.shape()), turned(a.shape())}) {
      for (const detail::Layout& b_layout : {detail::Layout(b.shape()), turned(b.shape())}) {
        const SmallCall call(
            OpKind::matmul, {a.view(a_layout, 0), b.view(b_layout, 0)}, {c.view()});
        std::vector<std::vector<double>> results;
        for (cpu::CpuBackend* device : devices.all()) {
          results.push_back(computed(*device, call, c));
        }
        reference::evaluate(call.call()).value();
        for (const std::vector<double>& result : results) {
          ASSERT_EQ(result, c.values()) << m << " " << n << " " << k;
        }
      }
    }
  }
}

/// A tile and a thin product of a[rows, depth] and b[depth, columns] by one set of loops.
void expect_exact(const cpu::IntTileKernels& kernels, int rows, int columns, std::int64_t depth) {
  std::mt19937 engine(7);
  std::vector<std::int8_t> a(static_cast<std::size_t>(rows * depth));
  std::vector<std::int8_t> b(static_cast<std::size_t>(columns * depth));  // column by column
  for (std::vector<std::int8_t>* const side : {&a, &b}) {
    for (std::int8_t& value : *side) {
      value = static_cast<std::int8_t>(engine());
    }
  }
  std::vector<std::int32_t> wanted;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        sum += int{a[static_cast<std::size_t>(i * depth + k)]} *
               int{b[static_cast<std::size_t>(j * depth + k)]};
      }
      wanted.push_back(sum);
    }
  }
  const std::int64_t groups = (depth + kernels.word_elements - 1) / kernels.word_elements;
  std::vector<std::uint32_t> packed_a(static_cast<std::size_t>(groups * rows));
  std::vector<std::uint32_t> packed_b(static_cast<std::size_t>(groups * kernels.panel_columns));
  std::vector<std::int32_t> starts(static_cast<std::size_t>(rows));
  const cpu::IntPack of_a{.from = a.data(),
                          .item_step = depth,
                          .depth_step = 1,
                          .depth = depth,
                          .items = rows,
                          .width = rows,
                          .to = packed_a.data()};
  kernels.pack_a(of_a);
  kernels.row_starts(of_a, starts.data());
  kernels.pack_b({.from = b.data(),
                  .item_step = depth,
                  .depth_step = 1,
                  .depth = depth,
                  .items = columns,
                  .width = kernels.panel_columns,
                  .to = packed_b.data()});
  std::vector<std::int32_t> c(wanted.size());
  kernels.multiply({.a = packed_a.data(),
                    .a_step = rows,
                    .b = packed_b.data(),
                    .group_count = groups,
                    .c = c.data(),
                    .c_step = columns,
                    .row_start = starts.data(),
                    .rows = rows,
                    .columns = columns});
  EXPECT_EQ(c, wanted) << rows << " " << columns << " " << depth;
  if (rows <= cpu::kMaxIntThinRows) {
    std::vector<std::int32_t> thin(wanted.size());
    kernels.thin({.x = a.data(),
                  .x_step = depth,
                  .w = b.data(),
                  .w_step = depth,
                  .y = thin.data(),
                  .y_row = columns,
                  .y_column = 1,
                  .depth = depth,
                  .columns = columns,
                  .rows = rows});
    EXPECT_EQ(thin, wanted) << rows << " " << columns << " " << depth;
  }
}

// A processor with byte products would otherwise never run the other loops of its level.
TEST(CpuIntMatmul, BothWaysToMultiplyWordsAreExact) {
  for (const cpu::IsaLevel level : cpu::levels_here()) {
    for (const cpu::IntTileKernels* const kernels :
         {&cpu::int_tiles(level), &cpu::int_tile_kernels(level)}) {
      for (int rows = 1; rows <= kernels->max_rows; ++rows) {
        for (const int columns : {1, kernels->panel_columns / 2, kernels->panel_columns}) {
          for (const std::int64_t depth : {1, 6, 63, 200}) {
            expect_exact(*kernels, rows, columns, depth);
          }
        }
      }
    }
  }
}

class Kept final : public Constant {
 public:
  [[nodiscard]] const std::byte* find(const ConstantForm& form) const noexcept override {
    const auto found = std::ranges::find(forms_, form);
    return found == forms_.end() ? nullptr : bytes_.data();
  }
  [[nodiscard]] std::byte* keep(const ConstantForm& form,
                                std::int64_t size_bytes) noexcept override {
    forms_.push_back(form);
    bytes_.resize(static_cast<std::size_t>(size_bytes));
    return bytes_.data();
  }

  [[nodiscard]] std::size_t count() const noexcept { return forms_.size(); }

 private:
  std::vector<ConstantForm> forms_;
  std::vector<std::byte> bytes_;
};

// The second product returns the first one's result although b has changed: it read the kept
// panels.
TEST(CpuIntMatmul, KeepsThePanelsOfAConstant) {
  cpu::CpuBackend device(serial_device());
  const SmallTensor a = random_bytes({20, 90}, 3);
  const SmallTensor b = random_bytes({90, 50}, 4);
  const SmallTensor c(DType::i32, {20, 50});
  Kept kept;
  TensorView view = b.view();
  view.constant = &kept;
  const SmallCall call(OpKind::matmul, {a.view(), view}, {c.view()});
  const std::vector<double> first = computed(device, call, c);
  EXPECT_EQ(kept.count(), 1U);
  std::fill_n(view.data, 90 * 50, std::byte{1});
  EXPECT_THAT(computed(device, call, c), ElementsAreArray(first));
  EXPECT_EQ(kept.count(), 1U);
}

}  // namespace
}  // namespace hearth::testing
