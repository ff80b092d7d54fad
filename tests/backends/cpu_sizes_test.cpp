#include "tests/conformance/op_case.hpp"
#include "tests/conformance/runner.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/backends/cpu/cpu_backend.hpp>

#include <gtest/gtest.h>

#include <vector>

// Shapes larger than the kernels' tiles, strips, buffers and grains, and no multiples of them, in
// all layouts. They cover the paths that the small conformance cases miss.
namespace hearth::cpu {
namespace {

using conformance::CallSpec;
using conformance::OpCase;
using conformance::Values;
using testing::Precision;

constexpr DtypeMask kF32 = dtype_bit(DType::f32);
constexpr DtypeMask kHalf = dtype_bit(DType::bf16);

void expect_agreement(OpKind kind, Precision precision, std::vector<CallSpec> calls) {
  CpuBackend backend;
  const OpCase op_case{.kind = kind, .precision = precision, .calls = std::move(calls)};
  const auto report = conformance::run_case(conformance::target_of(backend), op_case);
  EXPECT_EQ(report.failed, 0) << report.to_string();
  EXPECT_GT(report.calls, 0);
}

template <class Attributes>
std::vector<std::byte> bytes_of(const Attributes& attributes) {
  std::vector<std::byte> bytes(sizeof(Attributes));
  std::memcpy(bytes.data(), &attributes, sizeof(Attributes));
  return bytes;
}

TEST(CpuSizes, BinaryOpsBroadcastRowsAndColumnsOfAnyLength) {
  expect_agreement(OpKind::add,
                   Precision::rounded,
                   {{.inputs = {{.shape = {531, 263}}, {.shape = {263}}},
                     .outputs = {{.shape = {531, 263}}},
                     .dtypes = kF32 | kHalf},
                    {.inputs = {{.shape = {531, 263}}, {.shape = {531, 1}}},
                     .outputs = {{.shape = {531, 263}}},
                     .dtypes = kF32 | kHalf},
                    {.inputs = {{.shape = {7001, 11}}, {.shape = {11}}},
                     .outputs = {{.shape = {7001, 11}}},
                     .dtypes = kF32 | kHalf},
                    {.inputs = {{.shape = {7001, 11}}, {.shape = {7001, 1}}},
                     .outputs = {{.shape = {7001, 11}}},
                     .dtypes = kF32},
                    {.inputs = {{.shape = {3, 67, 601}}, {.shape = {67, 1}}},
                     .outputs = {{.shape = {3, 67, 601}}},
                     .dtypes = kF32}});
}

TEST(CpuSizes, UnaryOpsReadAnyLayout) {
  expect_agreement(OpKind::neg,
                   Precision::rounded,
                   {{.inputs = {{.shape = {5, 97, 307}}},
                     .outputs = {{.shape = {5, 97, 307}}},
                     .dtypes = kF32 | kHalf | dtype_bit(DType::i64) | dtype_bit(DType::u8)}});
}

TEST(CpuSizes, CopyTransposesTilesOfAnyShape) {
  constexpr DtypeMask kOneOfEachSize =
      kF32 | dtype_bit(DType::f64) | dtype_bit(DType::f16) | dtype_bit(DType::u8);
  expect_agreement(OpKind::copy,
                   Precision::exact,
                   {{.inputs = {{.shape = {301, 139}}},
                     .outputs = {{.shape = {301, 139}}},
                     .dtypes = kOneOfEachSize},
                    {.inputs = {{.shape = {3, 73, 5, 67}}},
                     .outputs = {{.shape = {3, 73, 5, 67}}},
                     .dtypes = kOneOfEachSize}});
}

TEST(CpuSizes, CastsAndChoicesReadAnyLayout) {
  expect_agreement(OpKind::cast,
                   Precision::rounded,
                   {{.inputs = {{.shape = {150, 411}}},
                     .outputs = {{.shape = {150, 411}, .dtype = DType::f16}},
                     .dtypes = kF32}});
  expect_agreement(OpKind::where,
                   Precision::exact,
                   {{.inputs = {{.shape = {211, 307}, .dtype = DType::boolean},
                                {.shape = {307}},
                                {.shape = {211, 1}}},
                     .outputs = {{.shape = {211, 307}}},
                     .dtypes = kF32 | kHalf}});
}

TEST(CpuSizes, SumsRunAlongAnyAxes) {
  const auto sum = [](const Shape& in, const Shape& out, std::uint32_t axes) {
    return CallSpec{.inputs = {{.shape = in}},
                    .outputs = {{.shape = out}},
                    .attributes = bytes_of(ReduceAttributes{.axes = axes}),
                    .length = static_cast<double>(in.element_count()) /
                              static_cast<double>(out.element_count()),
                    .term = 2,
                    .dtypes = kF32 | kHalf | dtype_bit(DType::i32)};
  };
  const std::vector<CallSpec> calls = {sum({1301, 1103}, {1301}, 2),
                                       sum({1301, 1103}, {1103}, 1),
                                       sum({1301, 1103}, {}, 3),
                                       sum({211, 19, 307}, {19}, 5),
                                       sum({211, 19, 307}, {211, 307}, 2),
                                       sum({150001, 3}, {3}, 1),
                                       sum({150001, 3}, {150001}, 2)};
  expect_agreement(OpKind::reduce_sum, Precision::sum, calls);
}

TEST(CpuSizes, ProductsRunAlongAnyAxes) {
  const auto product = [](const Shape& in, const Shape& out, std::uint32_t axes) {
    return CallSpec{.inputs = {{.shape = in, .values = Values::near_one}},
                    .outputs = {{.shape = out}},
                    .attributes = bytes_of(ReduceAttributes{.axes = axes}),
                    .length = static_cast<double>(in.element_count()) /
                              static_cast<double>(out.element_count()),
                    .term = 2,
                    .dtypes = kF32 | kHalf | dtype_bit(DType::i64)};
  };
  expect_agreement(OpKind::reduce_prod,
                   Precision::sum,
                   {product({1301, 103}, {1301}, 2),
                    product({1301, 103}, {103}, 1),
                    product({64, 6, 307}, {6}, 5),
                    product({300007}, {}, 1)});
}

TEST(CpuSizes, RunningSumsGoAlongAnyAxis) {
  std::vector<CallSpec> calls;
  const auto add = [&](const Shape& shape, std::int32_t axis) {
    for (const std::int32_t reverse : {0, 1}) {
      calls.push_back({.inputs = {{.shape = shape}},
                       .outputs = {{.shape = shape}},
                       .attributes = bytes_of(ScanAttributes{.axis = axis, .reverse = reverse}),
                       .length = static_cast<double>(shape[axis]),
                       .term = 2,
                       .dtypes = kF32 | kHalf | dtype_bit(DType::i32)});
    }
  };
  add({300007}, 0);
  add({3, 150001}, 1);
  add({1301, 103}, 0);
  add({5, 307, 261}, 1);
  add({61, 67, 71}, 0);
  expect_agreement(OpKind::cumsum, Precision::sum, calls);
}

TEST(CpuSizes, ExtremesRunAlongAnyAxesAndKeepNan) {
  const auto extreme = [](const Shape& in, const Shape& out, std::uint32_t axes) {
    return CallSpec{.inputs = {{.shape = in, .values = Values::with_nan}},
                    .outputs = {{.shape = out}},
                    .attributes = bytes_of(ReduceAttributes{.axes = axes}),
                    .dtypes = kF32 | kHalf};
  };
  for (const OpKind kind : {OpKind::reduce_max, OpKind::reduce_min}) {
    expect_agreement(kind,
                     Precision::exact,
                     {extreme({1301, 103}, {1301}, 2),
                      extreme({1301, 103}, {103}, 1),
                      extreme({64, 6, 307}, {6}, 5)});
  }
  const auto places = [](const Shape& in, const Shape& out, std::int32_t axis) {
    return CallSpec{.inputs = {{.shape = in, .values = Values::grid}},
                    .outputs = {{.shape = out, .dtype = DType::i64}},
                    .attributes = bytes_of(AxisAttributes{.axis = axis}),
                    .dtypes = kF32 | kHalf};
  };
  for (const OpKind kind : {OpKind::argmax, OpKind::argmin}) {
    expect_agreement(kind,
                     Precision::exact,
                     {places({307, 1301}, {307}, 1),
                      places({307, 1301}, {1301}, 0),
                      places({5, 307, 261}, {5, 261}, 1)});
  }
}

TEST(CpuSizes, SoftmaxRunsAlongAnyAxis) {
  for (const std::int32_t axis : {0, 1, 2}) {
    const std::vector<CallSpec> forward = {
        {.inputs = {{.shape = {61, 67, 71}, .values = Values::wide}},
         .outputs = {{.shape = {61, 67, 71}}},
         .attributes = bytes_of(AxisAttributes{.axis = axis}),
         .length = 71,
         .dtypes = kF32 | kHalf}};
    expect_agreement(OpKind::softmax, Precision::sum, forward);
    const std::vector<CallSpec> backward = {
        {.inputs = {{.shape = {61, 67, 71}},
                    {.shape = {61, 67, 71}, .values = Values::probability}},
         .outputs = {{.shape = {61, 67, 71}}},
         .attributes = bytes_of(AxisAttributes{.axis = axis}),
         .length = 71,
         .term = 2,
         .dtypes = kF32 | kHalf}};
    expect_agreement(OpKind::softmax_backward, Precision::sum, backward);
  }
}

TEST(CpuSizes, AdamUpdatesParametersOfAnyLayout) {
  const AdamAttributes adam{.learning_rate = 1e-2,
                            .beta1 = 0.9,
                            .beta2 = 0.99,
                            .epsilon = 1e-8,
                            .weight_decay = 0.1,
                            .decoupled = 1,
                            .step = 3};
  const Shape shape{233, 311};
  expect_agreement(OpKind::adam_step,
                   Precision::function,
                   {{.inputs = {{.shape = shape},
                                {.shape = shape},
                                {.shape = shape},
                                {.shape = shape, .values = Values::positive}},
                     .outputs = {{.shape = shape}, {.shape = shape}, {.shape = shape}},
                     .attributes = bytes_of(adam),
                     .dtypes = kF32}});
}

}  // namespace
}  // namespace hearth::cpu
