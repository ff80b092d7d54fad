// Picks by index: a thread computes four units of the result, a workgroup's width apart, in order.
// A unit is an element, or up to 16 bytes where contiguous neighbours share their index, as in rows
// of a table. The bits are copied unchanged.
#include "indexing.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>

#include "backends/gpu/encoder/error_cells.hpp"
#include "backends/gpu/space/merged_space.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "movement.hpp"

namespace hearth::gpu {
namespace {

enum class Indexing : std::uint32_t { pick = 0, check = 1 };  // add_at.cpp continues the numbers

bool is_line(OpKind kind) {
  return kind == OpKind::index_select || kind == OpKind::index_add;
}

// Indices are compared unsigned: in lavapipe of Mesa 22.3 a negative i32 widened to i64 compares
// neither below 0 nor as large.
constexpr std::string_view kPick = R"(
FN void main() {
  const INDEX first = INDEX(GROUP) * 1024 + INDEX(THREAD);
  UNROLLED for (int k = 0; k < 4; ++k) {
    const INDEX i = first + k * 256;
    if (i < p.count) {
      INDEX x, q;
      walk(i, x, q);
      const int64_t at = int64_t(LOAD_INDEX(p.index, q));
      if (uint64_t(at) >= uint64_t(p.axis_size)) {
        fail(p.cell, 2u, at, int64_t(i) * p.scale / p.after % p.places, p.axis_size);
      } else {
        STORE_UNIT(p.y, i, LOAD_UNIT(p.x, x + p.axis_start + INDEX(at) * p.axis_step));
      }
    }
  }
}
)";

constexpr std::string_view kIndexCheck = R"(
FN void main() {
  const INDEX first = INDEX(GROUP) * 1024 + INDEX(THREAD);
  for (INDEX i = first; i < p.count && i < first + 1024; i += 256) {
    INDEX q;
    walk(i, q);
    const int64_t at = int64_t(LOAD_INDEX(p.index, q));
    if (uint64_t(at) >= uint64_t(p.axis_size)) {
      fail(p.cell, 2u, at, int64_t(i), p.axis_size);
    }
  }
}
)";

std::string index_load(DType dtype) {
  return fmt::format("#define LOAD_INDEX load_{}\n", glsl_suffix(dtype));
}

}  // namespace

Support supports_indexing(const KernelCall& call, const DeviceLimits& limits) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  constexpr std::int64_t kSharedBytes = 32768;
  const bool is_pick = call.op.kind() == OpKind::gather || call.op.kind() == OpKind::index_select;
  if (is_pick) {
    return {};
  }
  const bool is_scatter = call.op.kind() == OpKind::scatter;
  const auto scatter = is_scatter ? call.op.attributes<ScatterAttributes>() : ScatterAttributes{};
  const int axis = is_scatter ? scatter.axis : call.op.attributes<AxisAttributes>().axis;
  const bool only_moves = is_scatter && scatter.mode == ScatterMode::set;
  if (call.outputs[0].dtype == DType::f64 && !only_moves && !limits.has_f64) {
    return {.yes = false, .reason = "the device has no doubles in shaders"};
  }
  if (limits.shared_bytes < kSharedBytes) {
    return {.yes = false, .reason = "the device has less than 32 KiB of shared memory"};
  }
  const TensorView& source = call.inputs[is_scatter ? 2 : 0];
  if (call.outputs[0].shape()[axis] >= kMost || source.shape()[axis] >= kMost) {
    return {.yes = false, .reason = "the axis has 2^31 elements or more"};
  }
  return {};
}

Strides index_strides(const KernelCall& call) noexcept {
  const TensorView& index = call.inputs[1];
  if (!is_line(call.op.kind())) {
    return index.strides();
  }
  Strides strides{};
  const auto axis = static_cast<std::size_t>(call.op.attributes<AxisAttributes>().axis);
  strides[axis] = index.strides()[0];
  return strides;
}

Status encode_index_check(const KernelCall& call, std::int64_t axis_size, KernelEncoder& encoder) {
  const TensorView& index = call.inputs[1];
  if (index.element_count() == 0) {
    return {};
  }
  const MergedSpace space(index.shape(), {index.strides()});
  const bool wide = is_wide(std::max(space.element_count, space.reach(0)));
  ParameterBlock block;
  block.add(lowest_address(index, space.reach_down(0), static_cast<int>(size_bytes(index.dtype))))
      .add(encoder.error_cell())
      .add(axis_size);
  add_index(block, space.element_count, wide);
  add_walk(block, space, 1, wide);
  KernelKey key(KernelFamily::indexing);
  key.add(static_cast<std::uint32_t>(Indexing::check)).add(index.dtype).add(wide).add(space.rank);
  const auto text = [&] {
    return fmt::format("{}{}{}{}{}{}{}",
                       glsl_prelude({.threads = kGroupThreads, .wide_index = wide}),
                       glsl_uindex(wide),
                       glsl_parameters("uint64_t index; uint64_t cell; int64_t axis_size; INDEX "
                                       "count; " +
                                           glsl_walk_members(space.rank, "q"),
                                       block.size_bytes()),
                       glsl_fail(),
                       index_load(index.dtype),
                       glsl_walk(space.rank, "q"),
                       kIndexCheck);
  };
  return encoder.dispatch(key, text, block, encoder.linear(groups_for(space.element_count)));
}

Status encode_pick(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  const TensorView& x = call.inputs[0];
  const TensorView& index = call.inputs[1];
  const TensorView& y = call.outputs[0];
  const int axis = call.op.attributes<AxisAttributes>().axis;
  const auto at = static_cast<std::size_t>(axis);
  const std::int64_t axis_size = x.shape()[axis];
  if (y.element_count() == 0) {
    return encode_index_check(call, axis_size, encoder);
  }
  Strides others = x.strides();
  others[at] = 0;
  MergedSpace space(y.shape(), {others, index_strides(call)});
  const auto element_bytes = static_cast<int>(size_bytes(x.dtype));
  const auto from = reinterpret_cast<std::uintptr_t>(x.data);  // NOLINT: a device address
  const auto to = reinterpret_cast<std::uintptr_t>(y.data);    // NOLINT: a device address
  const int unit = space.widen(
      1, element_bytes, from | to | static_cast<std::uint64_t>(x.strides()[at] * element_bytes));
  const std::int64_t scale = unit / element_bytes;
  const std::int64_t step = x.strides()[at] / scale;
  const std::int64_t length = step * std::max<std::int64_t>(axis_size - 1, 0);
  const std::int64_t axis_start = std::max<std::int64_t>(-length, 0);
  const std::int64_t reach = space.reach(0) + (length < 0 ? -length : length);
  const bool wide = is_wide(std::max({space.element_count, reach, space.reach(1)}));
  // Distance in the row-major order of the index, to report a failing place.
  std::int64_t after = 1;
  for (int i = axis + 1; is_line(call.op.kind()) && i < y.shape().rank(); ++i) {
    after *= y.shape()[i];
  }
  ParameterBlock block;
  block.add(from - static_cast<std::uint64_t>((space.reach_down(0) + axis_start) * unit))
      .add(lowest_address(index, space.reach_down(1), static_cast<int>(size_bytes(index.dtype))))
      .add(to)
      .add(encoder.error_cell())
      .add(axis_size)
      .add(scale)
      .add(after)
      .add(index.element_count());
  add_index(block, space.element_count, wide);
  add_index(block, axis_start, wide);
  add_index(block, step, wide);
  add_walk(block, space, 2, wide);
  KernelKey key(KernelFamily::indexing);
  key.add(static_cast<std::uint32_t>(Indexing::pick))
      .add(index.dtype)
      .add(wide)
      .add(space.rank)
      .add(unit);
  const auto text = [&] {
    return fmt::format("{}{}{}{}{}{}{}{}",
                       glsl_prelude({.threads = kGroupThreads, .wide_index = wide}),
                       glsl_uindex(wide),
                       glsl_parameters("uint64_t x; uint64_t index; uint64_t y; uint64_t cell; "
                                       "int64_t axis_size; int64_t scale; int64_t after; int64_t "
                                       "places; INDEX count; INDEX axis_start; INDEX axis_step; " +
                                           glsl_walk_members(space.rank, "xq"),
                                       block.size_bytes()),
                       glsl_fail(),
                       index_load(index.dtype),
                       glsl_unit(unit),
                       glsl_walk(space.rank, "xq"),
                       kPick);
  };
  return encoder.dispatch(key, text, block, encoder.linear(groups_for(space.element_count)));
}

}  // namespace hearth::gpu
