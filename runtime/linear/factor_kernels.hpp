// The host ops of linear algebra that solve systems: factors, solutions, determinants. Each is made
// once and shared. Private to runtime. Threads: any.
#pragma once

#include "host_op.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace hearth::detail {

/// The function that the program called, as a number of the kernel: errors name it.
enum class SolveCaller : std::uint8_t { solve, inverse, determinant, slogdet };
[[nodiscard]] std::string_view name_of(SolveCaller caller) noexcept;

/// Factors of square matrices, for all ops that need them: L and U in one matrix, row-major, of
/// each transposed matrix; and pivots in i32. Both are constants.
struct LuFactors {
  Tensor both;
  Tensor pivots;
};
/// Factors a. Singular matrices fail, unless the caller has a result for them.
[[nodiscard]] LuFactors lu_factors(const Tensor& a, SolveCaller caller, const At& at);

/// a⁻¹·b, or a⁻ᵀ·b, by the factors of a. The gradients of a and b are the solution's; a itself is
/// not read. All have the same leading axes.
[[nodiscard]] Tensor lu_solve(const Tensor& a,
                              const LuFactors& factors,
                              const Tensor& b,
                              bool is_transposed,
                              SolveCaller caller,
                              const At& at);
/// The determinants [...] of a, by its factors.
[[nodiscard]] Tensor lu_determinant(const Tensor& a, const LuFactors& factors, const At& at);
/// Sign and logarithm [..., 2] of the determinants. The gradient of the sign is 0.
[[nodiscard]] Tensor lu_log_determinant(const Tensor& a, const LuFactors& factors, const At& at);

/// The lower Cholesky factor; reads the lower triangle.
[[nodiscard]] Tensor cholesky_factor(const Tensor& x, const At& at);

struct TriangularCall {
  bool is_upper = false;
  bool is_transposed = false;
  bool has_unit_diagonal = false;
};
/// op(a)⁻¹·b for a triangular a; both have the same leading axes.
[[nodiscard]] Tensor triangular_solution(const Tensor& a,
                                         const Tensor& b,
                                         TriangularCall call,
                                         const At& at);

}  // namespace hearth::detail
