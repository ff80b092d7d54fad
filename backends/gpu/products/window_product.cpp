// The weights of a group are the rows' side, read along the depth (channels, then taps). The
// columns are the windows of all images, so neighbouring threads access neighbours within a row of
// a plane. Numbers of taps are part of the text, which makes dividing by them cheap. One-tap
// windows that cover a plane are an ordinary product for each image.
// Few rows (depthwise convolutions, few channels out) are thin products: no shared memory, a thread
// for each window.
#include "window_product.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/space/quads.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "matrix_product.hpp"
#include "product.hpp"
#include "product_result.hpp"

namespace hearth::gpu {
namespace {

constexpr std::int64_t kManyWindows = 256;  // windows of an image that fill whole tiles

std::int64_t taps_of(const WindowProduct& p) noexcept {
  return p.axes[0].taps * p.axes[1].taps;
}

bool is_plain(const WindowAxis& axis) noexcept {
  return axis.taps == 1 && axis.stride == 1 && axis.begin == 0 && axis.first == 0 &&
         axis.step == 1 && axis.source_size == axis.count && axis.out_size == axis.count;
}

bool is_matrix_product(const WindowProduct& p) noexcept {
  const auto& [y, x] = p.axes;
  return is_plain(y) && is_plain(x) && y.count * x.count >= kManyWindows &&
         (y.count == 1 || x.count == 1 || y.source_stride == x.count * x.source_stride);
}

Status encode_matrix_product(const WindowProduct& p,
                             const KernelCall& call,
                             KernelEncoder& encoder) {
  const auto& [y, x] = p.axes;
  MatrixProduct product{
      .dtype = p.dtype,
      .a = p.weight,
      .b = p.source,
      .bias = p.bias,
      .rows = p.rows,
      .columns = y.count * x.count,
      .depth = p.channels,
      .a_row = p.weight_row,
      .a_depth = p.weight_channel,
      .b_depth = p.source_channel,
      .b_column = x.count == 1 ? y.source_stride : x.source_stride,
      .bias_row = p.bias_stride,
  };
  product.add_batch({.size = p.images, .b = p.source_image});
  product.add_batch({.size = p.groups,
                     .a = p.weight_group,
                     .b = p.channels * p.source_channel,
                     .bias = p.rows * p.bias_stride});
  return encode_product(product, call, encoder);
}

// True if channels and taps of a row are contiguous.
bool has_linear_weight(const WindowProduct& p) noexcept {
  const auto& [y, x] = p.axes;
  return (x.taps == 1 || x.weight_stride == 1) && (y.taps == 1 || y.weight_stride == x.taps) &&
         (p.channels == 1 || p.weight_channel == taps_of(p));
}

bool has_wide_windows(const WindowProduct& p) noexcept {
  std::int64_t source = (p.images - 1) * std::abs(p.source_image) +
                        (p.groups * p.channels - 1) * std::abs(p.source_channel);
  std::int64_t weight = (p.groups - 1) * std::abs(p.weight_group) +
                        (p.rows - 1) * std::abs(p.weight_row) +
                        (p.channels - 1) * std::abs(p.weight_channel);
  std::int64_t out = p.images * p.groups * p.rows;
  for (const WindowAxis& axis : p.axes) {
    source += (axis.source_size - 1) * std::abs(axis.source_stride);
    weight += std::max<std::int64_t>(0, axis.taps - 1) * std::abs(axis.weight_stride);
    out *= axis.out_size;
  }
  return source > kMostProductAxis || weight > kMostProductAxis || out > kMostProductAxis;
}

constexpr std::string_view kWindowMembers =
    "uint64_t source; uint64_t weight; uint64_t bias; "
    "INDEX source_image; INDEX source_channel; INDEX source_y; INDEX source_x; "
    "INDEX weight_group; INDEX weight_row; INDEX weight_channel; INDEX weight_y; INDEX weight_x; "
    "INDEX bias_stride; int channels; int out_channels; "
    "int windows_y; int windows_x; int first_y; int first_x; int step_y; int step_x; "
    "int stride_y; int stride_x; int begin_y; int begin_x; int tap_y; int tap_x; "
    "int size_y; int size_x; int out_y; int out_x; ";

ParameterBlock window_parameters(const WindowProduct& p,
                                 const ProductResult& result,
                                 const ProductRequest& request,
                                 const ProductPlan& plan,
                                 std::uint64_t partial) noexcept {
  ParameterBlock out;
  add_product(out, request, plan, partial);
  for (const std::byte* const data : {p.source, p.weight, p.bias}) {
    out.add(std::uint64_t{reinterpret_cast<std::uintptr_t>(data)});  // NOLINT: a device address
  }
  const auto& [y, x] = p.axes;
  for (const std::int64_t stride : {p.source_image,
                                    p.source_channel,
                                    y.source_stride,
                                    x.source_stride,
                                    p.weight_group,
                                    p.weight_row,
                                    p.weight_channel,
                                    y.weight_stride,
                                    x.weight_stride,
                                    p.bias_stride}) {
    if (request.is_wide) {
      out.add(stride);
    } else {
      out.add(static_cast<std::int32_t>(stride));
    }
  }
  for (const std::int64_t size : {p.channels,
                                  p.groups * p.rows,
                                  y.count,
                                  x.count,
                                  y.first,
                                  x.first,
                                  y.step,
                                  x.step,
                                  y.stride,
                                  x.stride,
                                  y.begin,
                                  x.begin,
                                  y.tap_step,
                                  x.tap_step,
                                  y.source_size,
                                  x.source_size,
                                  y.out_size,
                                  x.out_size}) {
    out.add(static_cast<std::int32_t>(size));
  }
  result.add_parameters(out, request.is_wide);
  return out;
}

// Depths are channels, then taps; or taps, then channels (TAPS_FIRST), if a slice of the depth has
// one tap. Values that depend on the tap are then computed once a slice. {0} element type, {1}
// suffix of the load of weights.
constexpr std::string_view kWindowFunctions = R"(
INDEX weight_first, source_first;
int channel_first;
FN void set_matrix(int group) {{
  weight_first = INDEX(group) * p.weight_group;
  source_first = INDEX(group) * INDEX(p.channels) * p.source_channel;
  channel_first = group * p.rows;
}}
#if TAPS_FIRST
INDEX weight_of_tap;
int slice_tap;
FN void begin_slice(int k) {{
  slice_tap = k / CHANNELS;
  weight_of_tap = INDEX(slice_tap / TAPS_X) * p.weight_y + INDEX(slice_tap % TAPS_X) * p.weight_x -
                  INDEX(slice_tap * CHANNELS) * p.weight_channel;
}}
#endif
struct ASide {{ INDEX first; bool is_inside; }};
FN ASide a_side(int row) {{ return NEW2(ASide, weight_first + INDEX(row) * p.weight_row, row < p.rows); }}
FN AVALUE a_at(ASide side, int k) {{
#if TAPS_FIRST
  RETURN_EITHER(AVALUE, !side.is_inside || k >= p.depth, AVALUE(0),
                load_{0}(p.weight, side.first + weight_of_tap + INDEX(k) * p.weight_channel))
#elif LINEAR
  RETURN_EITHER(AVALUE, !side.is_inside || k >= p.depth, AVALUE(0),
                ({1}_{0}(p.weight, side.first + INDEX(k))))
#else
  if (!side.is_inside || k >= p.depth) {{
    return AVALUE(0);
  }}
  const int tap = k % (TAPS_Y * TAPS_X);
  return load_{0}(p.weight,
                  side.first + INDEX(k / (TAPS_Y * TAPS_X)) * p.weight_channel +
                      INDEX(tap / TAPS_X) * p.weight_y + INDEX(tap % TAPS_X) * p.weight_x);
#endif
}}
struct BSide {{ INDEX first; int y; int x; bool is_inside; }};
FN BSide b_side(int column) {{
  const uint plane = uint(p.windows_y) * uint(p.windows_x);
  const uint place = uint(column) % plane;
  const int y = int(place / uint(p.windows_x));
  const int x = int(place % uint(p.windows_x));
  return NEW4(BSide, source_first + INDEX(uint(column) / plane) * p.source_image,
               y * p.stride_y + p.begin_y,
               x * p.stride_x + p.begin_x,
               column < p.columns);
}}
#if TAPS_FIRST
struct BSlice {{ INDEX first; bool is_inside; }};
FN BSlice b_slice(BSide side) {{
  const int y = side.y + slice_tap / TAPS_X * p.tap_y;
  const int x = side.x + slice_tap % TAPS_X * p.tap_x;
  return NEW2(BSlice, side.first + INDEX(y) * p.source_y + INDEX(x) * p.source_x -
                    INDEX(slice_tap * CHANNELS) * p.source_channel,
                side.is_inside && uint(y) < uint(p.size_y) && uint(x) < uint(p.size_x));
}}
FN BVALUE b_in(BSlice slice, int k) {{
  if (!slice.is_inside || k >= p.depth) {{
    return C(0);
  }}
  return load_{0}(p.source, slice.first + INDEX(k) * p.source_channel);
}}
#else
FN BVALUE b_at(BSide side, int k) {{
  const int tap = k % (TAPS_Y * TAPS_X);
  const int y = side.y + tap / TAPS_X * p.tap_y;
  const int x = side.x + tap % TAPS_X * p.tap_x;
  if (!side.is_inside || k >= p.depth || uint(y) >= uint(p.size_y) || uint(x) >= uint(p.size_x)) {{
    return C(0);
  }}
  return load_{0}(p.source,
                  side.first + INDEX(k / (TAPS_Y * TAPS_X)) * p.source_channel +
                      INDEX(y) * p.source_y + INDEX(x) * p.source_x);
}}
#endif
FN void put(int row, int column, C sum) {{
  const uint plane = uint(p.windows_y) * uint(p.windows_x);
  const uint place = uint(column) % plane;
  const int y = int(place / uint(p.windows_x)) * p.step_y + p.first_y;
  const int x = int(place % uint(p.windows_x)) * p.step_x + p.first_x;
  const int channel = channel_first + row;
  if (p.bias != 0ul) {{
    sum += load_{0}(p.bias, INDEX(channel) * p.bias_stride);
  }}
  const INDEX row_of_planes = INDEX(uint(column) / plane) * INDEX(p.out_channels) + INDEX(channel);
  store_result((row_of_planes * INDEX(p.out_y) + INDEX(y)) * INDEX(p.out_x) + INDEX(x), sum);
}}
)";

std::string window_members(std::string_view members, bool wide) {
  std::string out(members);
  const std::string_view index = wide ? "int64_t" : "int";
  for (std::size_t at = out.find("INDEX"); at != std::string::npos; at = out.find("INDEX", at)) {
    out.replace(at, 5, index);
  }
  return out;
}

ProductFunctions window_functions(const WindowProduct& p,
                                  const ProductResult& result,
                                  const ProductRequest& request,
                                  bool linear,
                                  bool taps_first) {
  std::string text = fmt::format(
      "#define LINEAR {}\n#define TAPS_FIRST {}\n#define CHANNELS {}\n"
      "#define TAPS_Y {}\n#define TAPS_X {}\n{}",
      linear ? 1 : 0,
      taps_first ? 1 : 0,
      p.channels,
      std::max<std::int64_t>(1, p.axes[0].taps),
      std::max<std::int64_t>(1, p.axes[1].taps),
      glsl_quads(p.dtype));
  text += result.text(request.is_wide);
  text += fmt::format(fmt::runtime(kWindowFunctions),
                      glsl_suffix(p.dtype),
                      request.a.width == 4 ? "load4" : "load");
  return {
      .members = window_members(kWindowMembers, request.is_wide) + result.members(request.is_wide),
      .text = std::move(text)};
}

}  // namespace

Status encode_windows(const WindowProduct& p, const KernelCall& call, KernelEncoder& encoder) {
  const std::int64_t columns = p.images * p.axes[0].count * p.axes[1].count;
  if (p.groups * p.rows * columns == 0) {
    return {};
  }
  if (is_matrix_product(p)) {
    return encode_matrix_product(p, call, encoder);
  }
  const std::int64_t depth = p.channels * taps_of(p);
  for (const std::int64_t size :
       {columns, depth, p.groups * p.rows, p.axes[0].source_size, p.axes[1].source_size}) {
    if (size > kMostProductAxis) {
      return Error{.code = ErrorCode::unsupported,
                   .text = fmt::format("a convolution of {} windows and {} products for each: more "
                                       "than {} on this device",
                                       columns,
                                       depth,
                                       kMostProductAxis)};
    }
  }
  const bool linear = has_linear_weight(p);
  // Thin products have no slices, and few channels have no slice of one tap.
  const bool taps_first = p.rows > 8 && p.channels % kLongestSlice == 0 && taps_of(p) > 1;
  const bool by_fours =
      !taps_first && linear && depth % 4 == 0 && (p.rows == 1 || p.weight_row % 4 == 0) &&
      (p.groups == 1 || p.weight_group % 4 == 0) && is_aligned_to_quad(p.weight, p.dtype);
  const ProductResult result(call, p.dtype, encoder.limits());
  ProductRequest request{.dtype = p.dtype,
                         .is_wide = has_wide_windows(p) || result.reach() > kMostProductAxis,
                         .has_epilogue = result.has_epilogue(),
                         .has_slices = taps_first,
                         .a = {.along_depth = true, .width = by_fours ? 4 : 1},
                         .b = {.along_depth = false, .width = 1},
                         .matrices = p.groups,
                         .rows = p.rows,
                         .columns = columns,
                         .depth = depth};
  HEARTH_TRY(const ProductPlan plan, plan_product(request, encoder.limits()));
  std::uint64_t partial = 0;
  if (plan.scratch_bytes > 0) {
    HEARTH_TRY(partial, encoder.scratch(plan.scratch_bytes));
    encoder.barrier();  // another part of this launch may have its sums there
  }
  KernelKey key(KernelFamily::convolution);
  key.add(0U)
      .add(linear)
      .add(static_cast<std::uint32_t>(p.axes[0].taps))
      .add(static_cast<std::uint32_t>(p.axes[1].taps))
      .add(taps_first ? static_cast<std::uint32_t>(p.channels) : 0U);
  result.add_words(key);
  return dispatch_product(
      encoder, request, plan, key, window_parameters(p, result, request, plan, partial), [&] {
        return window_functions(p, result, request, linear, taps_first);
      });
}

}  // namespace hearth::gpu
