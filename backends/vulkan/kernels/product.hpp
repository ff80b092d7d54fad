// Products of matrices in general: what a matmul and the three kinds of convolution share. A family
// says in GLSL where the elements of its two sides lie and where a sum goes; this file cuts the
// work. Pure functions. Threads: any.
//
// Kernels: `tile` has a workgroup for a tile of the result, with the slices of both sides in
// shared memory and a small block of sums in each thread's registers; `thin` is for results of few
// rows, where reading one side is all the work: threads lie along the columns and along the depth.
// Either may cut a long depth into parts whose sums go to scratch, where there are too few tiles to
// keep a device awake; `fold` then adds the parts, in order.
//
// What a family's functions look like (C is float, double or, for i8, int; AVALUE and BVALUE are C,
// V4 or uvec4, for forms of width 1, 4 or unit_word(), the last with the bits of the elements):
//   void set_matrix(int matrix)            which of the products comes now
//   ASide a_side(int row), AVALUE a_at(ASide side, int k)       zeros outside of rows and depth
//   BSide b_side(int column), BVALUE b_at(BSide side, int k)    zeros outside of columns and depth
//   void put(int row, int column, C sum)   row and column lie inside
//   void put_many(int row, int column, C sums[PUT_WIDTH])   where put_width > 1: that many columns,
//                                                           from a multiple of their number on
//   INDEX place_of(int row, int column)    where puts_ragged: of the element in the result
// They end in store_result() and store_results() (product_result.hpp), whose text stands before.
//
// A family may have slices of the depth that share something (kLongestSlice and its divisors): then
//   void begin_slice(int k)                comes before a_at() of the slice's places, and
//   BSlice b_slice(BSide side), BVALUE b_in(BSlice slice, int k)    come in the place of b_at()
//
// An exact product has whole tiles in both directions and whole slices: its last tiles are moved
// back into the matrix, and store what is theirs alone. So nothing is read outside, nothing is
// asked before a load, and an address is a base, an offset of 32 bits and a constant. A side whose
// words lie across the depth ends in a whole word, which may hold zeros behind the last row or
// column. Its family gives, in place of the sides above:
//   uint64_t a_base, b_base                set by set_matrix()
//   A_SIDE_BYTES, A_DEPTH_BYTES, B_SIDE_BYTES, B_DEPTH_BYTES    strides
//   AVALUE a_from(uint64_t address), BVALUE b_from(uint64_t address)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/vulkan/kernel_encoder.hpp"

namespace hearth::vulkan {

/// How a side is read: neighbouring threads take neighbours along the depth, or along the side
/// (rows of a, columns of b); each takes `width` (1, 4 or unit_word()) at once, which then lie side
/// by side.
struct SideForm {
  bool along_depth = true;
  int width = 1;
};

struct ProductRequest {
  DType dtype = DType::f32;
  bool is_wide = false;   ///< Operands of 2^31 elements or more.
  bool is_baked = false;  ///< Sizes are part of the text: for products that take long.
  /// Whether it may be exact, for its strides: none below 0, offsets of at most 32 bits.
  bool has_offsets = false;
  bool has_epilogue = false;
  bool has_slices = false;  ///< Of kLongestSlice, and not thin.
  /// It stands behind a barrier, so that no launch before it shares its rounds of workgroups.
  bool is_alone = false;
  int put_width = 1;  ///< Columns that can be put at once: 1, 4 or 8.
  /// On matrix units: put_width columns go at once from where their place in the result is a
  /// multiple of put_width, for rows of any length. Neighbouring columns are neighbours there.
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

/// A tile on matrix units: blocks of 16 x 16 in warps of 32 threads; depth is 32 or 64, of i8 twice
/// that.
struct CooperativeTile {
  int rows = 128;
  int columns = 128;
  int depth = 32;
  int warp_rows = 64;
  int warp_columns = 64;
  bool fetches_late = true;  ///< When registers are free, not as soon as those of the loads are.
  bool is_emulated = false;
  bool sums_f16 = false;  ///< Of f16 alone.

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
  bool is_rolled = false;  ///< Loops stay loops: compiling is what costs a software driver time.
  bool is_cooperative = false;
  bool is_exact = false;
  ProductTile tile = {};
  CooperativeTile cooperative = {};
  ThinLanes lanes = {};
  int tiles_down = 1;
  int tiles_across = 1;
  int splits = 1;
  int split_depth = 0;
  int first_row = 0;  ///< Of an exact product, what it makes of it: rows up to end_row.
  int end_row = 0;
  std::int64_t groups = 0;
  std::int64_t scratch_bytes = 0;  ///< Of the parts' sums.
};

/// What a family adds to the text of a kernel.
struct ProductFunctions {
  std::string members;  ///< Of the parameters, behind kProductMembers.
  std::string text;
};

/// The parameters that all products begin with; add_product() adds them.
inline constexpr std::string_view kProductMembers =
    "uint64_t partial; int rows; int columns; int depth; int tiles_down; int tiles_across; "
    "int splits; int split_depth; int groups; ";

/// The largest size of an axis, so that a kernel's tile of it can end in an int.
inline constexpr std::int64_t kMostProductAxis = (std::int64_t{1} << 31U) - 4096;

/// Slices of tiles without matrix units divide it.
inline constexpr int kLongestSlice = 16;

/// Elements of 16 bytes of factors: what products on matrix units read at once.
[[nodiscard]] constexpr int unit_word(DType dtype) noexcept {
  return dtype == DType::i8 ? 16 : 8;
}

/// Whether a product of these sizes may take `cooperative`, if its sides have forms of unit_word().
[[nodiscard]] bool can_cooperate(DType dtype,
                                 std::int64_t rows,
                                 std::int64_t columns,
                                 const DeviceLimits& limits) noexcept;

/// How many tiles DeviceLimits::only_tile may choose from.
[[nodiscard]] int tile_count(DType dtype, bool cooperates, const DeviceLimits& limits) noexcept;

/// Takes a request with results and axes of up to kMostProductAxis, and narrows its forms and what
/// it puts to what the kernel has. Errors: unsupported, more tiles than a launch can have.
[[nodiscard]] Result<ProductPlan> plan_product(ProductRequest& request, const DeviceLimits& limits);

/// Where the last row of an exact product's tiles would make much again, or its last round has few
/// groups and nothing else runs beside it: leaves the last rows to the plan that it returns, which
/// has tiles that fit. Dispatches of both may run at once.
[[nodiscard]] std::optional<ProductPlan> leave_rows(const ProductRequest& request,
                                                    ProductPlan& plan,
                                                    const DeviceLimits& limits) noexcept;

void add_product(ParameterBlock& parameters,
                 const ProductRequest& request,
                 const ProductPlan& plan,
                 std::uint64_t partial) noexcept;

namespace detail {
void add_words(ShaderKey& key, const ProductRequest& request, const ProductPlan& plan) noexcept;
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
}  // namespace detail

/// The dispatches of a product. `key` has the words of the family: all that the text of its
/// functions depends on beside the request's forms. `functions()` makes them, on a miss.
template <class MakeFunctions>
[[nodiscard]] Status dispatch_product(KernelEncoder& encoder,
                                      const ProductRequest& request,
                                      const ProductPlan& plan,
                                      ShaderKey key,
                                      const ParameterBlock& parameters,
                                      const MakeFunctions& functions) {
  detail::add_words(key, request, plan);
  const std::size_t bytes = parameters.size_bytes();
  ShaderKey fold_key = key;
  key.add(false);
  const auto text = [&] { return detail::product_text(request, plan, functions(), bytes); };
  HEARTH_TRY_STATUS(encoder.dispatch(key, text, parameters, encoder.linear(plan.groups)));
  if (plan.splits == 1) {
    return {};
  }
  encoder.barrier();
  fold_key.add(true);
  const auto fold = [&] { return detail::fold_text(request, functions(), bytes); };
  const std::int64_t sums = request.matrices * request.rows * request.columns;
  const std::int64_t taken = std::int64_t{detail::kFoldThreads} * detail::fold_width(request);
  return encoder.dispatch(fold_key, fold, parameters, encoder.linear((sums + taken - 1) / taken));
}

}  // namespace hearth::vulkan
