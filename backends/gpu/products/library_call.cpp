#include "library_call.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/gpu/space/axis_list.hpp"
#include "product.hpp"
#include "side_copy.hpp"

namespace hearth::gpu {
namespace {

/// The multiplications of a product with at most one batch axis.
double work_of(const MatrixProduct& p) noexcept {
  return static_cast<double>(p.batch_rank == 0 ? 1 : p.batch[0].size) *
         static_cast<double>(p.rows) * static_cast<double>(p.columns) *
         static_cast<double>(p.depth);
}

// True if each line of the side begins at a whole word of 16 bytes, as the library's fast kernels
// demand. Those of i8 also demand lines along the depth.
bool lies_in_words(const MatrixProduct& p, const SideWalk& walk) noexcept {
  constexpr std::int64_t kWordBytes = 16;
  const std::int64_t size = size_bytes(p.dtype);
  const bool along = walk.depth_stride == 1 || p.depth == 1;
  const bool across = walk.side_stride == 1 || walk.side_size == 1;
  const std::int64_t line = along ? walk.side_stride : walk.depth_stride;
  const std::int64_t lines = along ? walk.side_size : p.depth;
  const std::int64_t matrix = p.batch_rank == 0 ? 0 : p.batch[0].*walk.batch_stride;
  return (along || (across && p.dtype != DType::i8)) && address_of(walk.data) % kWordBytes == 0 &&
         (lines == 1 || line * size % kWordBytes == 0) && matrix * size % kWordBytes == 0;
}

// A product whose lines begin at whole words, and whose neighbours come in whole words: its sizes,
// the sides that are copied, and the rows of its result.
struct Padding {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  std::optional<SideCopy> a = {};
  std::optional<SideCopy> b = {};
  SideForm a_form = {};
  SideForm b_form = {};
  std::int64_t y_bytes = 0;  ///< Scratch of the result; 0: it is stored in place.

  [[nodiscard]] std::int64_t bytes() const noexcept {
    return (a ? a->bytes() : 0) + (b ? b->bytes() : 0) + y_bytes;
  }
};

bool is_by_tf32(const MatrixProduct& p, const DeviceLimits& limits) noexcept {
  return p.dtype == DType::f32 && limits.allows_tf32;
}

Padding no_padding(const MatrixProduct& p) noexcept {
  return {.rows = p.rows, .columns = p.columns, .depth = p.depth};
}

// Copies pay where each of their bytes is multiplied often. On an H200 the library takes 5 to 8
// times as long for 50,257 columns of 16 bits as for 50,264.
Padding padding_of(const MatrixProduct& p, double work, const DeviceLimits& limits) noexcept {
  constexpr double kLeastWork = 16;  // multiplications of a byte
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 32U;
  const bool is_i8 = p.dtype == DType::i8;
  const bool is_short = is_i8 || p.dtype == DType::f16 || p.dtype == DType::bf16;
  if ((!is_short && !is_by_tf32(p, limits)) || work < limits.copied_from) {
    return no_padding(p);
  }
  Padding padding = no_padding(p);
  const std::int64_t unit = 16 / size_bytes(p.dtype);
  const std::int64_t matrices = p.batch_rank == 0 ? 1 : p.batch[0].size;
  const auto form_of = [is_i8](const SideWalk& walk) {
    return SideForm{.along_depth = is_i8 || form_of_copy(walk, 1).along_depth, .width = 1};
  };
  const SideWalk a = a_walk_of(p);
  const SideWalk b = b_walk_of(p);
  padding.a_form = form_of(a);
  padding.b_form = form_of(b);
  if (padding.a_form.along_depth || padding.b_form.along_depth) {
    padding.depth = rounded_up(p.depth, unit);
  }
  if (p.bias == nullptr && p.rows > 1) {
    padding.columns = rounded_up(p.columns, unit);
  }
  if (!padding.a_form.along_depth && matrices == 1 && p.rows > 1) {
    padding.rows = rounded_up(p.rows, unit);
  }
  const auto copy = [&](const SideWalk& walk, SideForm form, std::int64_t side) {
    std::optional<SideCopy> to;
    if (padding.depth != p.depth || side != walk.side_size ||
        (walk.side_size > 1 && !lies_in_words(p, walk))) {
      to = copy_of(p, walk, padding.depth, form);
      to->copied_lines = form.along_depth ? side : to->copied_lines;
    }
    return to;
  };
  padding.a = copy(a, padding.a_form, padding.rows);
  padding.b = copy(b, padding.b_form, padding.columns);
  if (padding.columns != p.columns || padding.rows != p.rows) {
    padding.y_bytes = matrices * padding.rows * padding.columns * (is_i8 ? 4 : size_bytes(p.dtype));
  }
  const bool is_worth = work >= kLeastWork * static_cast<double>(padding.bytes());
  return is_worth && padding.bytes() <= kMostBytes &&
                 matrices * padding.rows * padding.columns < kMostProductAxis
             ? padding
             : no_padding(p);
}

LibraryProduct product_of(const MatrixProduct& p,
                          std::uint64_t y,
                          const DeviceLimits& limits) noexcept {
  return {.dtype = p.dtype,
          .by_tf32 = is_by_tf32(p, limits),
          .a = address_of(p.a),
          .b = address_of(p.b),
          .y = y,
          .bias = address_of(p.bias),
          .matrices = p.batch_rank == 0 ? 1 : p.batch[0].size,
          .a_matrix = p.batch[0].a,
          .b_matrix = p.batch[0].b,
          .rows = p.rows,
          .columns = p.columns,
          .depth = p.depth,
          .a_row = p.a_row,
          .a_depth = p.a_depth,
          .b_depth = p.b_depth,
          .b_column = p.b_column};
}

DType sums_of(const MatrixProduct& p) noexcept {
  return p.dtype == DType::i8 ? DType::i32 : p.dtype;
}

/// Rows of a product that are computed at once.
struct RowPiece {
  MatrixProduct product;
  Padding padding;
  std::uint64_t y = 0;
};

RowPiece piece_of(const MatrixProduct& p,
                  const Padding& padding,
                  std::uint64_t y,
                  std::int64_t first,
                  std::int64_t rows) noexcept {
  RowPiece piece{.product = p,
                 .padding = padding,
                 .y = y + static_cast<std::uint64_t>(first * p.columns * size_bytes(sums_of(p)))};
  if (rows == p.rows) {
    return piece;
  }
  piece.product.a += first * p.a_row * size_bytes(p.dtype);
  piece.product.rows = rows;
  Padding& own = piece.padding;
  const bool pads_rows = padding.rows != p.rows && first + rows == p.rows;
  own.rows = rows + (pads_rows ? padding.rows - p.rows : 0);
  if (own.a) {
    own.a = copy_of(piece.product, a_walk_of(piece.product), own.depth, own.a_form);
    own.a->copied_lines = own.a_form.along_depth ? own.rows : own.a->copied_lines;
  }
  if (own.y_bytes > 0) {
    own.y_bytes = own.rows * own.columns * size_bytes(sums_of(p));
  }
  return piece;
}

constexpr std::int64_t kMostPaddedBytes = std::int64_t{64} << 20U;

// A product whose padded rows would take much memory is computed in pieces of these rows, which use
// one memory after the other. Whole pieces have rows that need no padding.
std::vector<RowPiece> pieces_of(const MatrixProduct& p,
                                const Padding& padding,
                                std::uint64_t y,
                                std::int64_t most_bytes) {
  constexpr std::int64_t kRows = 128;
  const std::int64_t bytes = (padding.a ? padding.a->bytes() : 0) + padding.y_bytes;
  std::int64_t rows = p.rows;
  if (p.batch_rank == 0 && bytes > most_bytes) {
    const std::int64_t most_rows = p.rows / quotient_up(bytes, most_bytes);
    rows = std::max(kRows, most_rows / kRows * kRows);
  }
  std::vector<RowPiece> pieces;
  pieces.reserve(static_cast<std::size_t>(quotient_up(p.rows, rows)));
  for (std::int64_t first = 0; first < p.rows; first += rows) {
    pieces.push_back(piece_of(p, padding, y, first, std::min(rows, p.rows - first)));
  }
  return pieces;
}

// The scratch of a product: b's copy, then what the pieces use one after the other.
class Places {
 public:
  explicit Places(std::uint64_t begin) noexcept : next_(begin) {}
  std::uint64_t take(std::int64_t bytes) noexcept {
    return std::exchange(
        next_, next_ + static_cast<std::uint64_t>(rounded_up(bytes, kWorkspaceAlignment)));
  }
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }

  static constexpr std::int64_t kWorkspaceAlignment =
      256;  // cuBLASLt refuses a workspace at other addresses

 private:
  std::uint64_t next_;
};

// The library's product for a piece. Takes memory for b's copy, which all pieces share, then for
// the piece's own copies.
LibraryProduct place(RowPiece piece, Places& places, const DeviceLimits& limits) {
  MatrixProduct& p = piece.product;
  const Padding& padding = piece.padding;
  const auto use = [&](const std::optional<SideCopy>& copy, SideForm form, bool is_a) {
    if (copy) {
      const std::uint64_t at = places.take(copy->bytes());
      use_copy(p, *copy, form, reinterpret_cast<const std::byte*>(at), is_a);  // NOLINT
    }
  };
  use(padding.b, padding.b_form, false);
  use(padding.a, padding.a_form, true);
  p.rows = padding.rows;
  p.columns = padding.columns;
  p.depth = padding.depth;
  return product_of(p, padding.y_bytes > 0 ? places.take(padding.y_bytes) : piece.y, limits);
}

// Copies a piece's rows, multiplies, and trims the result. `first`: b's copy is still to be made.
Status encode_piece(const RowPiece& piece,
                    const LibraryProduct& product,
                    std::uint64_t workspace,
                    bool is_first,
                    KernelEncoder& encoder) {
  const Padding& padding = piece.padding;
  if (padding.a) {
    HEARTH_TRY_STATUS(encode_side_copy(*padding.a, product.a, encoder));
  }
  if (padding.b && is_first) {
    HEARTH_TRY_STATUS(encode_side_copy(*padding.b, product.b, encoder));
  }
  if (padding.a || padding.b) {
    encoder.barrier();
  }
  HEARTH_TRY_STATUS(encoder.product_by_library(product, workspace));
  if (padding.y_bytes == 0) {
    return {};
  }
  encoder.barrier();
  const DType sums = sums_of(piece.product);
  return encode_trimmed_copy(sums,
                             product.y,
                             product.columns * size_bytes(sums),
                             piece.product.columns,
                             product.matrices * piece.product.rows,
                             piece.y,
                             encoder);
}

// Phases: the pieces; whether the library takes them; scratch; copies, products and trimmed
// results.
Result<bool> encode_padded(const MatrixProduct& p,
                           const Padding& padding,
                           std::uint64_t y,
                           KernelEncoder& encoder) {
  constexpr std::int64_t kAlignment = Places::kWorkspaceAlignment;
  const std::vector<RowPiece> pieces = pieces_of(p, padding, y, kMostPaddedBytes);
  std::int64_t bytes = 0;
  for (const RowPiece& piece : pieces) {
    Places places(0);
    const std::optional<std::int64_t> workspace =
        encoder.product_workspace(place(piece, places, encoder.limits()));
    if (!workspace) {
      return false;
    }
    bytes = std::max(bytes, static_cast<std::int64_t>(places.next()) + *workspace);
  }
  std::uint64_t begin = 0;
  if (bytes > 0) {
    HEARTH_TRY(begin, encoder.scratch(bytes + kAlignment - 1));
    begin = static_cast<std::uint64_t>(rounded_up(static_cast<std::int64_t>(begin), kAlignment));
  }
  for (const RowPiece& piece : pieces) {
    const bool is_first = &piece == &pieces.front();
    if (!is_first) {
      encoder.barrier();  // the piece before it still uses the memory
    }
    Places places(begin);
    const LibraryProduct product = place(piece, places, encoder.limits());
    HEARTH_TRY_STATUS(encode_piece(piece, product, places.next(), is_first, encoder));
  }
  return true;
}

}  // namespace

bool is_for_library(const MatrixProduct& p, const DeviceLimits& limits) noexcept {
  constexpr double kLeastWork = 0x1p27;
  constexpr double kLeastWorkOnUnits = 0x1p21;
  if (!limits.has_product_library || p.batch_rank > 1 || p.bias_row != 0 ||
      (p.bias != nullptr && (p.bias_column != 1 || p.batch[0].bias != 0))) {
    return false;
  }
  // The library has matrix units for 16 bits, and takes some microseconds to begin.
  const double work = work_of(p);
  const bool is_short = p.dtype == DType::f16 || p.dtype == DType::bf16 || p.dtype == DType::i8;
  return is_short ? work >= kLeastWorkOnUnits
                  : work >= kLeastWork && p.rows > kFewColumns && p.columns > kFewColumns;
}

Result<bool> encode_by_library(const MatrixProduct& p,
                               const ProductResult& result,
                               const KernelCall& call,
                               KernelEncoder& encoder) {
  if (result.has_epilogue() || !is_for_library(p, encoder.limits())) {
    return false;
  }
  const std::uint64_t y = address_of(call.outputs[0].data);
  if (y % 16 == 0) {
    const Padding padding = padding_of(p, work_of(p), encoder.limits());
    Result<bool> is_done = encode_padded(p, padding, y, encoder);
    const bool is_too_large = !is_done.has_value() && padding.bytes() > 0 &&
                              is_done.error().code == ErrorCode::out_of_memory;
    if (!is_too_large) {
      return is_done;
    }
  }
  return encode_padded(p, no_padding(p), y, encoder);
}

}  // namespace hearth::gpu
