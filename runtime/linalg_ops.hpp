// Factorisations of matrices, systems of equations and determinants, over the last two axes; the
// axes in front are a batch. OpenBLAS's LAPACK computes them on the host.
//
// Dtypes of all: f32 and f64, equal for all operands; 16-bit types are refused: cast first. Sizes
// of 0 are allowed. Gradients of any order follow the rules named below.
// Errors of all: ShapeError, DtypeError, ArgumentError now; unsupported if OpenBLAS is not its
// pthread build. A matrix without a result (singular, not positive definite) poisons it with
// kernel_failed, which names the op, the matrix and the pivot.
// Threads: any. Devices cpu, reference and sim queue the op. For vulkan and cuda devices the call,
// and its gradient, copy the operands to the host and wait. The wait ends at the limits of the
// calling thread's stream, and the call throws what poisons elsewhere. Recordings refuse these ops.
#pragma once

#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// The lower triangular L of x = L·Lᵀ for symmetric positive definite matrices. Reads the lower
/// triangle of x.
///
/// Shapes: x [..., n, n]; result like x.
/// Paper: Murray, Differentiation of the Cholesky decomposition, arXiv:1602.07527.
[[nodiscard]] Tensor cholesky(Arg x);

/// Solves a·x = b. Like PyTorch, takes b as a batch of vectors if it has rank 1, or a's shape
/// without the last axis.
///
/// Shapes: a [..., n, n], b [..., n, k] or [..., n]; leading axes broadcast; result like b.
/// Cost: one LU factorisation, which the gradient uses again.
/// Paper: Giles, Collected matrix derivative results (2008), on quotients.
[[nodiscard]] Tensor solve(Arg a, Arg b);

struct TriangularOptions {
  bool upper = false;          ///< Reads the upper triangle of a, else the lower one.
  bool left = true;            ///< Solves a·x = b; else x·a = b.
  bool unit_diagonal = false;  ///< Takes the diagonal of a as ones, without reading it.
};
/// Solves a·x = b for a triangular a.
///
/// Shapes: a [..., n, n], b [..., n, k], or [..., k, n] for x·a = b; leading axes broadcast.
/// Paper: Giles, as above; the gradient of a is 0 outside of its triangle.
[[nodiscard]] Tensor solve_triangular(Arg a, Arg b, TriangularOptions options = {});

/// The inverse of each matrix. `solve` is faster and more accurate for inverse(a)·b.
///
/// Shapes: x [..., n, n]; result like x. Paper: Giles, as above.
[[nodiscard]] Tensor inverse(Arg x);

/// The determinant of each matrix; 0 for a singular one, whose gradient fails.
///
/// Shapes: x [..., n, n] -> [...]. Paper: Giles, as above.
[[nodiscard]] Tensor determinant(Arg x);

struct SignAndLog {
  Tensor sign;           ///< 1, -1, or 0 for a singular matrix; no gradient.
  Tensor log_magnitude;  ///< log |determinant|; minus infinity for a singular matrix.
};
/// The sign and the logarithm of the determinant, where the determinant itself would overflow.
///
/// Shapes: x [..., n, n] -> two of [...]. Errors: the gradient of a singular matrix fails.
[[nodiscard]] SignAndLog slogdet(Arg x);

struct QrOptions {
  bool complete = false;  ///< Q [..., m, m], R [..., m, n]; no gradient if m > n.
};
struct Qr {
  Tensor q;  ///< Orthonormal columns.
  Tensor r;  ///< Upper triangular; the signs of its diagonal are LAPACK's.
};
/// The factors of x = Q·R.
///
/// Shapes: x [..., m, n] -> q [..., m, k], r [..., k, n], with k the smaller of m and n.
/// Errors: ArgumentError for a gradient of `complete` with m > n. The gradient needs independent
/// first k columns.
/// Paper: Liao et al., Differentiable programming tensor networks, arXiv:1903.09650, appendix.
[[nodiscard]] Qr qr(Arg x, QrOptions options = {});

struct Eigh {
  Tensor values;   ///< In ascending order.
  Tensor vectors;  ///< As columns; each is determined up to its sign.
};
/// The eigenvalues and eigenvectors of symmetric matrices, by divide and conquer. Reads the lower
/// triangle of x.
///
/// Shapes: x [..., n, n] -> values [..., n], vectors [..., n, n].
/// Errors: NaN or infinity in x poisons the results. Note: where two values are equal, the gradient
/// of the vectors is infinite or NaN, as in PyTorch. The gradient of the values is finite.
/// Paper: Giles, as above.
[[nodiscard]] Eigh eigh(Arg x);

struct SvdOptions {
  bool full = false;  ///< u [..., m, m], vt [..., n, n]; no gradient unless m = n.
};
struct Svd {
  Tensor u;       ///< Left singular vectors, as columns.
  Tensor values;  ///< In descending order.
  Tensor vt;      ///< Right singular vectors, as rows, as torch.linalg.svd's Vh.
};
/// The singular value decomposition x = u·diag(values)·vt, by divide and conquer.
///
/// Shapes: x [..., m, n] -> u [..., m, k], values [..., k], vt [..., k, n], with k the smaller of m
/// and n.
/// Errors: NaN or infinity in x poisons the results; ArgumentError for a gradient of `full` with
/// m != n. Note: where two values are equal, the gradient of the vectors is infinite or NaN, as in
/// PyTorch. So it is where a value is 0 and m != n. The gradient of the values is finite.
/// Paper: Townsend, Differentiating the singular value decomposition (2016).
[[nodiscard]] Svd svd(Arg x, SvdOptions options = {});

/// The x of least norm among those with the least |a·x - b|², by QR. The rank of a must be full.
///
/// Shapes: a [..., m, n], b [..., m, k]; leading axes broadcast; result [..., n, k].
/// Errors: a column that depends exactly on others poisons the result.
[[nodiscard]] Tensor lstsq(Arg a, Arg b);

}  // namespace hearth
