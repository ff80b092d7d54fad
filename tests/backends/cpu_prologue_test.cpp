// Kernels that take an input from another call as that is made: every bit is that of the two calls.
#include "cpu_levels.hpp"
#include "made_input.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace hearth::testing {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

/// Serial devices of every level, then one of two cores.
std::vector<std::unique_ptr<cpu::CpuBackend>> devices_here() {
  std::vector<std::unique_ptr<cpu::CpuBackend>> devices;
  for (const cpu::IsaLevel level : cpu::levels_here()) {
    devices.push_back(std::make_unique<cpu::CpuBackend>(serial_device(level)));
  }
  const std::vector<int> cores = available_cores();
  devices.push_back(std::make_unique<cpu::CpuBackend>(
      cpu::CpuOptions{.cores = {cores.front(), cores.back()}}));
  return devices;
}

struct Product {
  std::string form;
  std::int64_t m;
  std::int64_t k;
  std::int64_t n;
};

std::vector<Product> products() {
  return {
      {"thin", 3, 500, 130},
      {"few rows, b read and packed by tasks", 70, 96, 300},
      {"few rows, a laid out", 40, 50, 96},
      {"few columns, turned round", 300, 64, 9},
      {"chunks of rows", 600, 100, 200},
      {"chunks of rows that are read", 611, 200, 60},
      {"blocks of depth", 270, 400, 450},
      {"some columns", 300, 100, 700},
      {"a long row of few columns", 270, 1100, 128},
      {"many columns", 260, 200, 1100},
      {"a deep one", 40, 2100, 50},
      {"a wide one", 40, 30, 2100},
      {"a high one", 2100, 30, 40},
  };
}

enum class MakerKind { silu, norm, softmax };

std::unique_ptr<OwnedCall> maker_of(MakerKind kind, DType dtype, const Shape& shape) {
  const int rank = shape.rank();
  Shape row(std::vector<std::int64_t>{shape[rank - 1]});
  std::vector<std::pair<DType, Shape>> inputs{{dtype, shape}};
  if (kind == MakerKind::norm) {
    inputs.emplace_back(dtype, row);
  } else if (kind == MakerKind::silu) {
    inputs.emplace_back(dtype, row);
    Shape column = shape;
    column.set(rank - 1, 1);
    inputs.emplace_back(dtype, column);
  }
  auto call = std::make_unique<OwnedCall>(OpKind::expression, inputs, dtype, shape);
  call->with(ExpressionAttributes{.row_axes = kind == MakerKind::silu ? 0U : 1U});
  call->with(kind == MakerKind::silu   ? silu_expression(dtype)
             : kind == MakerKind::norm ? norm_expression(dtype)
                                       : softmax_expression(dtype));
  return call;
}

TEST(CpuPrologue, ProductsOfAMadeLeftSideHaveTheBitsOfTwoCalls) {
  const auto devices = devices_here();
  for (const Product& each : products()) {
    for (const DType dtype : kFloats) {
      for (const MakerKind kind : {MakerKind::silu, MakerKind::norm, MakerKind::softmax}) {
        const auto maker = maker_of(kind, dtype, {each.m, each.k});
        for (const bool has_epilogue : {false, true}) {
          OwnedCall op(OpKind::matmul,
                       {{dtype, {each.m, each.k}}, {dtype, {each.k, each.n}}},
                       dtype,
                       {each.m, each.n});
          if (has_epilogue) {
            op.with_relu({each.n});
          }
          const MadeCall made(*maker, op);
          for (const auto& device : devices) {
            expect_taken(*device,
                         made,
                         fmt::format("{} of {}, maker {}, epilogue {}, {}",
                                     each.form,
                                     name(dtype),
                                     static_cast<int>(kind),
                                     has_epilogue,
                                     device->info().description));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace hearth::testing
