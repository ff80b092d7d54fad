// Ops that read, make and multiply matrices by their places: diagonals, grids, outer products.
// Errors and threads: as in ops.hpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

struct DiagonalOptions {
  std::int64_t offset = 0;  ///< 0 is the main diagonal, 1 the one above it, -1 the one below.
  int rows = -2;            ///< Axis of the rows.
  int columns = -1;         ///< Axis of the columns.
};
/// The elements on a diagonal of each matrix, as the last axis. A view if the matrices lie in
/// row-major order on the last axes.
///
/// Shapes: x [..., r, c] -> [..., length]; no elements beyond the corners.
/// Dtypes: all. The gradient flows to x.
/// Errors: ShapeError for ranks below 2; ArgumentError for an axis outside x, or named twice.
/// Cost: one copy of x at most.
[[nodiscard]] Tensor diagonal(Arg x, DiagonalOptions options = {});
/// Matrices with the last axis of x on a diagonal, and 0 elsewhere. The axes in the options are
/// those of the result.
///
/// Shapes: x [..., n] -> [..., n + |offset|, n + |offset|].
/// Dtypes: all. The gradient flows to x.
/// Errors: ShapeError for rank 0; ArgumentError for an axis outside the result, or named twice.
/// Cost: one elementwise op of the size of the result.
[[nodiscard]] Tensor diag_embed(Arg x, DiagonalOptions options = {});
/// The sum of the main diagonal of each matrix in the last two axes.
///
/// Shapes: x [..., r, c] -> [...]. Dtypes: as sum. Errors: ShapeError for ranks below 2.
[[nodiscard]] Tensor trace(Arg x);

enum class MeshgridOrder : std::uint8_t {
  ij,  ///< The first tensor varies along axis 0: matrices.
  xy,  ///< The first tensor varies along axis 1, the second along axis 0: pictures.
};
struct MeshgridOptions {
  MeshgridOrder order = MeshgridOrder::ij;  ///< Axes of the first two tensors.
};
/// The coordinates of a grid: one view for each tensor, in which only its own axis varies.
///
/// Shapes: tensors [n1], [n2], ...; results all [n1, n2, ...], for xy [n2, n1, ...].
/// Dtypes: all; each result has the type of its tensor. The gradient flows to the tensors.
/// Errors: ArgumentError for no tensor; ShapeError for a rank above 1.
[[nodiscard]] std::vector<Tensor> meshgrid(std::span<const Tensor> tensors,
                                           MeshgridOptions options = {},
                                           SourceLoc loc = SourceLoc::current());
[[nodiscard]] std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors,
                                           MeshgridOptions options = {},
                                           SourceLoc loc = SourceLoc::current());

/// The products of all pairs of elements. Shapes: a [n], b [m] -> [n, m].
/// Dtypes: numbers, promoted to one type. Errors: ShapeError for other ranks.
[[nodiscard]] Tensor outer(Arg a, Arg b);
/// The Kronecker product: each element of a times the whole of b.
///
/// Shapes: a [a1, ...], b [b1, ...] -> [a1·b1, ...]; the lower rank gets axes of size 1 in front.
/// Dtypes: numbers, promoted to one type. Errors: ShapeError for ranks above 4.
/// Cost: one product, and one copy of it.
[[nodiscard]] Tensor kron(Arg a, Arg b);

}  // namespace hearth
