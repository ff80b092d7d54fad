// The families of cases, each in the .cpp of its name.
#pragma once

#include <initializer_list>
#include <vector>

#include "op_case.hpp"

namespace hearth::conformance {

inline constexpr DtypeMask kFloatTypes =
    dtype_bit(DType::f32) | dtype_bit(DType::f64) | dtype_bit(DType::f16) | dtype_bit(DType::bf16);
inline constexpr DtypeMask kIntegerTypes =
    dtype_bit(DType::i32) | dtype_bit(DType::i64) | dtype_bit(DType::u8) | dtype_bit(DType::i8);
inline constexpr DtypeMask kNumberTypes = kFloatTypes | kIntegerTypes;
/// The types whose sums may widen to i64.
inline constexpr DtypeMask kNarrowTypes =
    dtype_bit(DType::i32) | dtype_bit(DType::u8) | dtype_bit(DType::i8) | dtype_bit(DType::boolean);

[[nodiscard]] std::vector<OpCase> creation_cases();
[[nodiscard]] std::vector<OpCase> unary_cases();
[[nodiscard]] std::vector<OpCase> binary_cases();
[[nodiscard]] std::vector<OpCase> movement_cases();
[[nodiscard]] std::vector<OpCase> reduction_cases();
[[nodiscard]] std::vector<OpCase> matmul_cases();
[[nodiscard]] std::vector<OpCase> convolution_cases();
[[nodiscard]] std::vector<OpCase> pooling_cases();
[[nodiscard]] std::vector<OpCase> row_cases();
[[nodiscard]] std::vector<OpCase> attention_cases();
/// Attention of more rows and other widths than in attention_cases(), which holds those of
/// op_cases().
[[nodiscard]] std::vector<OpCase> attention_tile_cases();
[[nodiscard]] std::vector<OpCase> optimizer_cases();
[[nodiscard]] std::vector<OpCase> indexing_cases();

/// Scalar, empty, single, prime, tail, many axes, and one large enough to be split over cores.
[[nodiscard]] const std::vector<Shape>& odd_shapes();

}  // namespace hearth::conformance
