// A fixed part of the conformance cases for the host's driver of CUDA: some kinds of each family of
// kernels. Each runs its first calls in one type. .ci/nightly runs the whole suite.
#include "case_families.hpp"
#include "conformance_suite.hpp"

#include "runner.hpp"

#include <hearth/streams/op_table.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace hearth::conformance {
namespace {

struct Part {
  OpKind kind;
  DtypeMask dtypes;
};

constexpr DtypeMask kF32 = dtype_bit(DType::f32);
constexpr DtypeMask kF16 = dtype_bit(DType::f16);
constexpr DtypeMask kBf16 = dtype_bit(DType::bf16);
constexpr DtypeMask kF64 = dtype_bit(DType::f64);
constexpr DtypeMask kI64 = dtype_bit(DType::i64);
constexpr DtypeMask kI8 = dtype_bit(DType::i8);

constexpr Part kParts[] = {
    {OpKind::random_normal, kF32},
    {OpKind::cast, kBf16},
    {OpKind::exp, kF64},
    {OpKind::erf, kF16},
    {OpKind::add, kF32},
    {OpKind::div, kI64},
    {OpKind::where, kI8},
    {OpKind::concat, kF16},
    {OpKind::reduce_sum, kBf16},
    {OpKind::argmax, kF32},
    {OpKind::matmul, kF32},
    {OpKind::conv2d, kF32},
    {OpKind::conv2d_backward_weight, kF32},
    {OpKind::max_pool2d, kF32},
    {OpKind::avg_pool2d_backward, kF32},
    {OpKind::softmax, kF16},
    {OpKind::cross_entropy, kF32},
    {OpKind::adam_step, kF32},
    {OpKind::gather, kF32},
    {OpKind::index_add, kF32},
    {OpKind::cumsum, kF32},
    {OpKind::attention, kF32},
    {OpKind::topk, kF32},
    {OpKind::atan, kF64},
    {OpKind::atan2, kF32},
    {OpKind::scatter, kF32},
    {OpKind::cumprod, kF32},
    {OpKind::shift_right, kI64},
};

class CudaPart : public ::testing::TestWithParam<Part> {};

TEST_P(CudaPart, AgreesWithTheOracle) {
  constexpr std::size_t kMostCalls = 2;
  OpCase part = op_case(GetParam().kind);
  for (CallSpec& call : part.calls) {
    call.dtypes = static_cast<DtypeMask>(call.dtypes & GetParam().dtypes);
  }
  std::erase_if(part.calls, [](const CallSpec& call) { return call.dtypes == 0; });
  part.calls.resize(std::min(part.calls.size(), kMostCalls));
  const auto backend = make_backend();
  const Report report = run_case(make_target(*backend), part);
  EXPECT_EQ(report.failed, 0) << report.to_string();
  EXPECT_GT(report.calls, 0) << report.to_string();
}

class CudaAttention : public ::testing::TestWithParam<DType> {};

TEST_P(CudaAttention, TilesAgreeWithTheOracle) {
  for (OpCase& part : attention_tile_cases()) {
    for (CallSpec& call : part.calls) {
      call.dtypes = static_cast<DtypeMask>(call.dtypes & dtype_bit(GetParam()));
    }
    const auto backend = make_backend();
    const Report report = run_dense(make_target(*backend), part);
    EXPECT_EQ(report.failed, 0) << report.to_string();
    EXPECT_GT(report.calls, 0) << report.to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(Dtype,
                         CudaAttention,
                         ::testing::Values(DType::f16, DType::bf16, DType::f32),
                         [](const auto& tested) { return std::string(name(tested.param)); });

INSTANTIATE_TEST_SUITE_P(Op, CudaPart, ::testing::ValuesIn(kParts), [](const auto& tested) {
  return std::string(name(tested.param.kind));
});

}  // namespace
}  // namespace hearth::conformance
