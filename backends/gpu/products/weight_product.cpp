// The gradient for the weight of a convolution: few results, with a long depth of all windows of
// all images. Both sides are read along the depth, where windows are neighbours in memory.
// product.cpp splits the depth if the results alone would not occupy a device.
#include <cstdlib>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/text/glsl_prelude.hpp"
#include "product.hpp"
#include "product_result.hpp"
#include "window_product.hpp"

namespace hearth::gpu {
namespace {

bool has_wide_operands(const WeightProduct& p) noexcept {
  std::int64_t source = (p.images - 1) * std::abs(p.source_image) +
                        (p.groups * p.channels - 1) * std::abs(p.source_channel);
  std::int64_t grad =
      (p.images - 1) * std::abs(p.grad_image) + (p.groups * p.rows - 1) * std::abs(p.grad_channel);
  std::int64_t out = p.groups * p.rows * p.channels;
  for (const WindowAxis& axis : p.axes) {
    source += (axis.source_size - 1) * std::abs(axis.source_stride);
    grad += (axis.count - 1) * std::abs(axis.weight_stride);
    out *= axis.taps;
  }
  return source > kMostProductAxis || grad > kMostProductAxis || out > kMostProductAxis;
}

std::string weight_members(bool wide) {
  return fmt::format(
      "uint64_t source; uint64_t grad; {0} source_image; {0} source_channel; "
      "{0} source_y; {0} source_x; {0} grad_image; {0} grad_channel; {0} grad_y; {0} grad_x; "
      "int channels; int windows_y; int windows_x; int taps_y; int taps_x; int stride_y; "
      "int stride_x; int begin_y; int begin_x; int tap_y; int tap_x; int size_y; int size_x; ",
      wide ? "int64_t" : "int");
}

ParameterBlock weight_parameters(const WeightProduct& p,
                                 const ProductResult& result,
                                 const ProductRequest& request,
                                 const ProductPlan& plan,
                                 std::uint64_t partial) noexcept {
  ParameterBlock out;
  add_product(out, request, plan, partial);
  for (const std::byte* const data : {p.source, p.grad}) {
    out.add(std::uint64_t{reinterpret_cast<std::uintptr_t>(data)});  // NOLINT: a device address
  }
  const auto& [y, x] = p.axes;
  for (const std::int64_t stride : {p.source_image,
                                    p.source_channel,
                                    y.source_stride,
                                    x.source_stride,
                                    p.grad_image,
                                    p.grad_channel,
                                    y.weight_stride,
                                    x.weight_stride}) {
    if (request.is_wide) {
      out.add(stride);
    } else {
      out.add(static_cast<std::int32_t>(stride));
    }
  }
  for (const std::int64_t size : {p.channels,
                                  y.count,
                                  x.count,
                                  y.taps,
                                  x.taps,
                                  y.stride,
                                  x.stride,
                                  y.begin,
                                  x.begin,
                                  y.tap_step,
                                  x.tap_step,
                                  y.source_size,
                                  x.source_size}) {
    out.add(static_cast<std::int32_t>(size));
  }
  result.add_parameters(out, request.is_wide);
  return out;
}

constexpr std::string_view kWeightFunctions = R"(
INDEX source_first, grad_first;
int channel_first;
FN void set_matrix(int group) {{
  source_first = INDEX(group) * INDEX(p.channels) * p.source_channel;
  grad_first = INDEX(group) * INDEX(p.rows) * p.grad_channel;
  channel_first = group * p.rows;
}}
// Window k: its image, and its place in the plane.
FN ivec3 window_of(int k) {{
  const uint plane = uint(p.windows_y) * uint(p.windows_x);
  const uint place = uint(k) % plane;
  return ivec3(uint(k) / plane, place / uint(p.windows_x), place % uint(p.windows_x));
}}
struct ASide {{ INDEX first; bool is_inside; }};
FN ASide a_side(int row) {{ return NEW2(ASide, grad_first + INDEX(row) * p.grad_channel, row < p.rows); }}
FN AVALUE a_at(ASide side, int k) {{
  if (!side.is_inside || k >= p.depth) {{
    return C(0);
  }}
  const ivec3 window = window_of(k);
  return load_{0}(p.grad,
                  side.first + INDEX(window.x) * p.grad_image + INDEX(window.y) * p.grad_y +
                      INDEX(window.z) * p.grad_x);
}}
struct BSide {{ INDEX first; int y; int x; bool is_inside; }};
FN BSide b_side(int column) {{
  const uint taps = uint(p.taps_y) * uint(p.taps_x);
  const uint tap = uint(column) % taps;
  return NEW4(BSide, source_first + INDEX(uint(column) / taps) * p.source_channel,
               int(tap / uint(p.taps_x)) * p.tap_y + p.begin_y,
               int(tap % uint(p.taps_x)) * p.tap_x + p.begin_x,
               column < p.columns);
}}
FN BVALUE b_at(BSide side, int k) {{
  const ivec3 window = window_of(k);
  const int y = side.y + window.y * p.stride_y;
  const int x = side.x + window.z * p.stride_x;
  if (!side.is_inside || k >= p.depth || uint(y) >= uint(p.size_y) || uint(x) >= uint(p.size_x)) {{
    return C(0);
  }}
  return load_{0}(p.source,
                  side.first + INDEX(window.x) * p.source_image + INDEX(y) * p.source_y +
                      INDEX(x) * p.source_x);
}}
FN void put(int row, int column, C sum) {{
  store_result(INDEX(channel_first + row) * INDEX(p.columns) + INDEX(column), sum);
}}
)";

}  // namespace

Status encode_weight_product(const WeightProduct& p,
                             const KernelCall& call,
                             KernelEncoder& encoder) {
  const auto& [y, x] = p.axes;
  const std::int64_t columns = p.channels * y.taps * x.taps;
  const std::int64_t depth = p.images * y.count * x.count;
  if (p.groups * p.rows * columns == 0) {
    return {};
  }
  for (const std::int64_t size :
       {columns, depth, p.groups * p.rows, y.source_size, x.source_size}) {
    if (size > kMostProductAxis) {
      return Error{.code = ErrorCode::unsupported,
                   .text = fmt::format("a convolution's gradient for {} weights a channel, from {} "
                                       "windows: more than {} on this device",
                                       columns,
                                       depth,
                                       kMostProductAxis)};
    }
  }
  const ProductResult result(call, p.dtype, encoder.limits());
  ProductRequest request{.dtype = p.dtype,
                         .is_wide = has_wide_operands(p) || result.reach() > kMostProductAxis,
                         .has_epilogue = result.has_epilogue(),
                         .a = {.along_depth = true, .width = 1},
                         .b = {.along_depth = true, .width = 1},
                         .matrices = p.groups,
                         .rows = p.rows,
                         .columns = columns,
                         .depth = depth};
  HEARTH_TRY(const ProductPlan plan, plan_product(request, encoder.limits()));
  std::uint64_t partial = 0;
  if (plan.scratch_bytes > 0) {
    HEARTH_TRY(partial, encoder.scratch(plan.scratch_bytes));
  }
  KernelKey key(KernelFamily::convolution);
  key.add(1U);
  result.add_words(key);
  return dispatch_product(
      encoder, request, plan, key, weight_parameters(p, result, request, plan, partial), [&] {
        return ProductFunctions{
            .members = weight_members(request.is_wide) + result.members(request.is_wide),
            .text = result.text(request.is_wide) +
                    fmt::format(fmt::runtime(kWeightFunctions), glsl_suffix(p.dtype))};
      });
}

}  // namespace hearth::gpu
