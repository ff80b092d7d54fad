// Type promotion: the common element type of an op's operands. Values. Threads: any.
#pragma once

#include <hearth/runtime/base/dtype.hpp>

namespace hearth {

/// The smallest type that holds both types, as torch.promote_types: bool below integers below
/// floats, the wider one of a kind. f16 and bf16 promote to f32, i8 and u8 to i32 (PyTorch has an
/// i16 for them).
///
/// |      | bool | i8   | u8   | i32  | i64  | f16  | bf16 | f32  | f64  |
/// |------|------|------|------|------|------|------|------|------|------|
/// | bool | bool | i8   | u8   | i32  | i64  | f16  | bf16 | f32  | f64  |
/// | i8   | i8   | i8   | i32  | i32  | i64  | f16  | bf16 | f32  | f64  |
/// | u8   | u8   | i32  | u8   | i32  | i64  | f16  | bf16 | f32  | f64  |
/// | i32  | i32  | i32  | i32  | i32  | i64  | f16  | bf16 | f32  | f64  |
/// | i64  | i64  | i64  | i64  | i64  | i64  | f16  | bf16 | f32  | f64  |
/// | f16  | f16  | f16  | f16  | f16  | f16  | f16  | f32  | f32  | f64  |
/// | bf16 | bf16 | bf16 | bf16 | bf16 | bf16 | f32  | bf16 | f32  | f64  |
/// | f32  | f32  | f32  | f32  | f32  | f32  | f32  | f32  | f32  | f64  |
/// | f64  | f64  | f64  | f64  | f64  | f64  | f64  | f64  | f64  | f64  |
///
/// Ops with two operands, comparisons, where, clamp, concat and stack cast their operands to the
/// common type. A number, or a tensor of rank 0 beside one with axes, does not widen the type
/// within its kind. Examples: f16[3] + 1.5 is f16, i32[3] + 1 is i32, u8[3] plus an i64 of rank 0
/// is u8. It only changes the kind: i32[3] + 1.5 is f32, a float number counting as f32, and
/// bool[3] + 1 is i64, an integer number counting as i64. A number that an integer result cannot
/// hold is an error: u8[3] + 300 (floats become infinite). The integers 0 and 1 beside only bools
/// stay bool if the op takes bools: a mask == 1.
[[nodiscard]] DType promote_types(DType a, DType b) noexcept;

/// The type for sums of many small changes: f32 for f16 and bf16, the type itself for all others.
/// f16 and bf16 lose a change below a 2,000th or a 250th of the value. Optimizer states, sums of
/// gradients and running statistics have it.
[[nodiscard]] constexpr DType accumulation_dtype(DType dtype) noexcept {
  return dtype == DType::f16 || dtype == DType::bf16 ? DType::f32 : dtype;
}

}  // namespace hearth
