// Products of matrices in general, the common part of matmul and the three kinds of convolution. A
// family defines in GLSL the addresses of its two sides and the target of a sum; this file splits
// the work. Pure functions. Threads: any.
//
// Kernels: `tile` has a workgroup for a tile of the result. Slices of both sides lie in shared
// memory, and each thread's registers hold a small block of sums. `thin` serves results of few
// rows, where reading one side is all the work: threads lie along the columns and along the depth.
// With too few tiles to occupy the device, either kernel splits a long depth into parts, whose sums
// go to scratch. `fold` then adds the parts, in order.
//
// A family's functions. C is float, double or, for i8, int. AVALUE and BVALUE are C, V4 or uvec4,
// for forms of width 1, 4 or unit_word(); uvec4 holds the bits of the elements.
//   void set_matrix(int matrix)            selects the product of the batch
//   ASide a_side(int row), AVALUE a_at(ASide side, int k)       zeros outside of rows and depth
//   BSide b_side(int column), BVALUE b_at(BSide side, int k)    zeros outside of columns and depth
//   void put(int row, int column, C sum)   row and column lie inside
//   void put_many(int row, int column, C sums[PUT_WIDTH])   if put_width > 1: that many columns,
//                                                           from a multiple of their number on
//   INDEX place_of(int row, int column)    if puts_ragged: the element's place in the result
// These functions end in store_result() and store_results() (product_result.hpp), whose text stands
// before them.
//
// A family may have slices of the depth with common values (kLongestSlice and its divisors):
//   void begin_slice(int k)                runs before a_at() for the slice's places
//   BSlice b_slice(BSide side), BVALUE b_in(BSlice slice, int k)    replace b_at()
//
// An exact product has whole tiles in both directions and whole slices. Its last tiles are moved
// back into the matrix, and store only their own elements. So no read leaves the matrix, loads need
// no checks, and an address is a base, a 32-bit offset and a constant. A side whose words lie
// across the depth ends in a whole word, which may hold zeros behind the last row or column. The
// family of an exact product defines, in place of the sides above:
//   uint64_t a_base, b_base                set by set_matrix()
//   A_SIDE_BYTES, A_DEPTH_BYTES, B_SIDE_BYTES, B_DEPTH_BYTES    strides
//   AVALUE a_from(uint64_t address), BVALUE b_from(uint64_t address)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

/// Read order of a side. Neighbouring threads take neighbours along the depth, or along the side
/// (rows of a, columns of b). Each reads `width` contiguous elements (1, 4 or unit_word()) at once.
struct SideForm {
  bool along_depth = true;
  int width = 1;
};

struct ProductRequest {
  DType dtype = DType::f32;
  bool is_wide = false;   ///< Operands of 2^31 elements or more.
  bool is_baked = false;  ///< Sizes are part of the text, for long products.
  /// The strides allow an exact product: none below 0, offsets of at most 32 bits.
  bool has_offsets = false;
  bool has_epilogue = false;
  bool has_slices = false;  ///< Slices of kLongestSlice; not for thin products.
  /// The product stands behind a barrier, so no earlier launch shares its rounds of workgroups.
  bool is_alone = false;
  int put_width = 1;  ///< Columns that are put at once: 1, 4 or 8.
  /// On matrix units, for rows of any length: put_width columns are put at once where their place
  /// in the result is a multiple of put_width. Neighbouring columns are neighbours there.
  bool puts_ragged = false;
  SideForm a = {};
  SideForm b = {};
  std::int64_t matrices = 1;
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t depth = 1;
};

/// A tile of the result, and the block of a thread in it: multiples of 4.
struct ProductTile {
  int rows = 64;
  int columns = 64;
  int depth = 16;
  int thread_rows = 4;
  int thread_columns = 4;
  int buffers = 2;

  [[nodiscard]] int threads() const noexcept {
    return rows / thread_rows * (columns / thread_columns);
  }
  friend bool operator==(const ProductTile&, const ProductTile&) noexcept = default;
};

/// A tile on matrix units: blocks of 16 x 16 in warps of 32 threads. Depth is 32 or 64, of i8 twice
/// that.
struct CooperativeTile {
  int rows = 128;
  int columns = 128;
  int depth = 32;
  int warp_rows = 64;
  int warp_columns = 64;
  /// Loads of the slice after next begin behind both barriers; else between them.
  bool fetches_late = true;
  bool is_emulated = false;
  bool sums_f16 = false;  ///< For f16 alone.

  [[nodiscard]] int threads() const noexcept {
    return rows / warp_rows * (columns / warp_columns) * 32;
  }
};

/// The threads of a workgroup of a thin product, both powers of two; rows are 1, 2, 4 or 8.
struct ThinLanes {
  int rows = 1;
  int columns = 64;
  int depth = 1;
};

struct ProductPlan {
  bool is_thin = false;
  bool is_rolled = false;  ///< Loops are not unrolled: software drivers compile short texts faster.
  bool is_cooperative = false;
  bool is_exact = false;
  ProductTile tile = {};
  CooperativeTile cooperative = {};
  ThinLanes lanes = {};
  int tiles_down = 1;
  int tiles_across = 1;
  int splits = 1;
  int split_depth = 0;
  int first_row = 0;  ///< First row of this plan's part of an exact product; end_row ends it.
  int end_row = 0;
  std::int64_t groups = 0;
  std::int64_t scratch_bytes = 0;  ///< Scratch for the sums of parts.
};

/// A family's part of a kernel's text.
struct ProductFunctions {
  std::string members;  ///< Parameters, behind kProductMembers.
  std::string text;
};

/// The parameters that all products begin with; add_product() adds them.
inline constexpr std::string_view kProductMembers =
    "uint64_t partial; int rows; int columns; int depth; int tiles_down; int tiles_across; "
    "int splits; int split_depth; int groups; ";

/// The largest size of an axis, so that the end of a kernel's last tile fits in an int.
inline constexpr std::int64_t kMostProductAxis = (std::int64_t{1} << 31U) - 4096;

/// Slices of tiles without matrix units divide it.
inline constexpr int kLongestSlice = 16;

/// Elements in 16 bytes of factors, the load of products on matrix units.
[[nodiscard]] constexpr int unit_word(DType dtype) noexcept {
  return dtype == DType::i8 ? 16 : 8;
}

/// True if a product of these sizes may use `cooperative` tiles, provided its sides have forms of
/// unit_word().
[[nodiscard]] bool can_cooperate(DType dtype,
                                 std::int64_t rows,
                                 std::int64_t columns,
                                 const DeviceLimits& limits) noexcept;

/// Number of tiles that DeviceLimits::only_tile may choose from.
[[nodiscard]] int tile_count(DType dtype, bool cooperates, const DeviceLimits& limits) noexcept;

/// Plans a request with results and axes of up to kMostProductAxis. Narrows the request's forms and
/// put_width to those of the kernel. Errors: unsupported, more tiles than a launch can have.
[[nodiscard]] Result<ProductPlan> plan_product(ProductRequest& request, const DeviceLimits& limits);

/// Splits the last rows of an exact product into a second plan, with tiles that fit. Done where the
/// last row of tiles would recompute much, or where the last round has few groups and no other work
/// runs beside it. Dispatches of both plans may run at once.
[[nodiscard]] std::optional<ProductPlan> leave_rows(const ProductRequest& request,
                                                    ProductPlan& plan,
                                                    const DeviceLimits& limits) noexcept;

void add_product(ParameterBlock& parameters,
                 const ProductRequest& request,
                 const ProductPlan& plan,
                 std::uint64_t partial) noexcept;

namespace products {
void add_words(KernelKey& key, const ProductRequest& request, const ProductPlan& plan) noexcept;
[[nodiscard]] std::string product_text(const ProductRequest& request,
                                       const ProductPlan& plan,
                                       const ProductFunctions& functions,
                                       std::size_t parameter_bytes);
[[nodiscard]] std::string_view cooperative_extensions(DType dtype, bool is_emulated) noexcept;
[[nodiscard]] std::string cooperative_sizes(const ProductRequest& request,
                                            const CooperativeTile& tile);
[[nodiscard]] std::string cooperative_main(DType dtype, bool is_emulated);
[[nodiscard]] std::string_view thin_main() noexcept;
[[nodiscard]] std::string fold_text(const ProductRequest& request,
                                    const ProductFunctions& functions,
                                    std::size_t parameter_bytes);
inline constexpr int kFoldThreads = 128;
/// Sums that a thread of the fold puts: neighbours of one row.
[[nodiscard]] constexpr int fold_width(const ProductRequest& request) noexcept {
  return request.puts_ragged ? 1 : request.put_width;
}
}  // namespace products

/// Dispatches a product. `key` holds the family's words: all that its functions' text depends on
/// beside the request's forms. `functions()` makes that text for an unknown key.
template <class MakeFunctions>
[[nodiscard]] Status dispatch_product(KernelEncoder& encoder,
                                      const ProductRequest& request,
                                      const ProductPlan& plan,
                                      KernelKey key,
                                      const ParameterBlock& parameters,
                                      const MakeFunctions& functions) {
  products::add_words(key, request, plan);
  const std::size_t bytes = parameters.size_bytes();
  KernelKey fold_key = key;
  key.add(false);
  const auto text = [&] { return products::product_text(request, plan, functions(), bytes); };
  HEARTH_TRY_STATUS(encoder.dispatch(key, text, parameters, encoder.linear(plan.groups)));
  if (plan.splits == 1) {
    return {};
  }
  encoder.barrier();
  fold_key.add(true);
  const auto fold = [&] { return products::fold_text(request, functions(), bytes); };
  const std::int64_t sums = request.matrices * request.rows * request.columns;
  const std::int64_t taken = std::int64_t{products::kFoldThreads} * products::fold_width(request);
  return encoder.dispatch(fold_key, fold, parameters, encoder.linear((sums + taken - 1) / taken));
}

}  // namespace hearth::gpu
