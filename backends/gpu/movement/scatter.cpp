// Writes updates by index. The operand is copied unless the result lies in its bytes. The places of
// each line of the index are sorted (entry_sort.hpp), which groups those of one element in order.
// Each update has a thread: the last of an element's updates sets it, or the first one joins all of
// them. So no result depends on thread timing, and elements without an update are not touched. An
// index outside its axis is reported by the sort and writes nothing.
#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>

#include "backends/gpu/space/merged_space.hpp"
#include "backends/gpu/text/glsl_folds.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "entry_sort.hpp"
#include "indexing.hpp"
#include "movement.hpp"

namespace hearth::gpu {
namespace {

constexpr std::uint32_t kScatterStep = 7;  // indexing.cpp and add_at.cpp have the numbers before it

// The sorted entries of a line lie side by side; q is the place of the thread's own entry.
constexpr std::string_view kScatterMain = R"(
FN void main() {
  const INDEX first = INDEX(GROUP) * 1024 + INDEX(THREAD);
  for (INDEX i = first; i < p.count && i < first + 1024; i += 256) {
    INDEX y, s, q;
    walk(i, y, s, q);
    const INDEX end = INDEX(UINDEX(q) / UINDEX(p.places)) * p.places + p.places;
    const ENTRY entry = load_entry(p.index, q);
    const uint key = key_of(entry);
    if (key == 0xffffffffu) {
      continue;
    }
    const INDEX to = y + INDEX(key) * p.y_step;
#ifdef ADD
    if (q > end - p.places && key_of(load_entry(p.index, q - 1)) == key) {
      continue;
    }
    ACC sum = LOAD(p.y, to);
    ACC lost = ACC(0);
    for (; q < end; ++q) {
      const ENTRY next = load_entry(p.index, q);
      if (key_of(next) != key) {
        break;
      }
      ADD(sum, lost, ACC(LOAD(p.source, s + p.s_begin + INDEX(place_of(next)) * p.s_step)));
    }
    STORE(p.y, to, TOTAL(sum, lost));
#else
    if (q + 1 < end && key_of(load_entry(p.index, q + 1)) == key) {
      continue;
    }
    STORE_UNIT(p.y, to,
               LOAD_UNIT(p.source, s + p.s_begin + INDEX(place_of(entry)) * p.s_step));
#endif
  }
}
)";

std::string joining_text(ScatterMode mode, DType dtype, int unit) {
  if (mode == ScatterMode::set) {
    return std::string(glsl_unit(unit));
  }
  const FoldOp fold = mode == ScatterMode::add   ? FoldOp::sum
                      : mode == ScatterMode::mul ? FoldOp::prod
                      : mode == ScatterMode::min ? FoldOp::min
                                                 : FoldOp::max;
  return fmt::format("#define ACC {}\n#define LOAD load_{}\n#define STORE store_{}\n{}",
                     glsl_compute_type(dtype),
                     glsl_suffix(dtype),
                     glsl_suffix(dtype),
                     glsl_joining(fold, dtype));
}

// Whether all elements of a slice have one index, as in rows of a table.
bool is_by_rows(const TensorView& index, int axis) noexcept {
  for (int i = 0; i < index.shape().rank(); ++i) {
    if (i != axis && index.shape()[i] != 1 && index.strides()[static_cast<std::size_t>(i)] != 0) {
      return false;
    }
  }
  return true;
}

// The index's lines: one if the call goes by rows.
AxisLines lines_of(const TensorView& index, int axis, bool by_rows) noexcept {
  Shape shape = index.shape();
  for (int i = 0; by_rows && i < shape.rank(); ++i) {
    shape.set(i, i == axis ? shape[i] : 1);
  }
  return {index, shape, index.strides(), axis};
}

// Strides over the updates of the sorted entries.
Strides entry_strides(const Shape& updates, int axis, bool by_rows) noexcept {
  Strides strides{};
  if (!by_rows) {
    Shape lines = updates;
    lines.set(axis, 1);
    strides = contiguous_strides(lines);
    for (std::int64_t& stride : strides) {
      stride *= updates[axis];
    }
  }
  strides[static_cast<std::size_t>(axis)] = 1;
  return strides;
}

}  // namespace

// Phases: the copy of the operand; the sorted places; the updates.
Status encode_scatter(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  const TensorView& x = call.inputs[0];
  const TensorView& index = call.inputs[1];
  const TensorView& updates = call.inputs[2];
  const TensorView& y = call.outputs[0];
  const int axis = call.op.attributes<ScatterAttributes>().axis;
  const ScatterMode mode = call.op.attributes<ScatterAttributes>().mode;
  const auto at = static_cast<std::size_t>(axis);
  const auto from = reinterpret_cast<std::uintptr_t>(updates.data);  // NOLINT: a device address
  const auto to = reinterpret_cast<std::uintptr_t>(y.data);          // NOLINT: a device address
  const Strides result_strides = contiguous_strides(y.shape());
  if (x.data != y.data && y.element_count() != 0) {
    HEARTH_TRY_STATUS(encode_move(x, y.shape(), to, result_strides, encoder));
  }
  if (updates.element_count() == 0) {
    return {};
  }
  const std::int64_t places = updates.shape()[axis];
  const bool by_rows = is_by_rows(index, axis);
  SortOf sort{.lines = lines_of(index, axis, by_rows),
              .dtype = index.dtype,
              .order = KeyOrder::index,
              .axis_size = y.shape()[axis],
              .cell = encoder.error_cell()};
  sort.place_inner = AxisLines(index, axis).inner;
  HEARTH_TRY(const std::uint64_t scratch, encoder.scratch(sort_scratch_bytes(sort, places)));
  HEARTH_TRY(const std::uint64_t entries, encode_sorted(sort, scratch, encoder));
  encoder.barrier();

  Strides others = result_strides;
  Strides source_others = updates.strides();
  others[at] = 0;
  source_others[at] = 0;
  MergedSpace space(updates.shape(),
                    {others, source_others, entry_strides(updates.shape(), axis, by_rows)});
  const auto element_bytes = static_cast<int>(size_bytes(y.dtype));
  const auto steps =
      static_cast<std::uint64_t>((result_strides[at] | updates.strides()[at]) * element_bytes);
  const int unit =
      mode == ScatterMode::set ? space.widen(2, element_bytes, from | to | steps) : element_bytes;
  const std::int64_t scale = unit / element_bytes;
  const std::int64_t source_step = updates.strides()[at] / scale;
  const std::int64_t along = source_step * (places - 1);
  const std::int64_t begin = std::max<std::int64_t>(-along, 0);
  const std::int64_t reach = space.reach(1) + (along < 0 ? -along : along);
  const bool wide = is_wide(std::max({y.element_count(), reach, 2 * updates.element_count()}));
  ParameterBlock block;
  block.add(to)
      .add(from - static_cast<std::uint64_t>((space.reach_down(1) + begin) * unit))
      .add(entries);
  for (const std::int64_t value :
       {space.element_count, places, result_strides[at] / scale, begin, source_step}) {
    add_index(block, value, wide);
  }
  add_walk(block, space, 3, wide);
  KernelKey key(KernelFamily::indexing);
  key.add(kScatterStep)
      .add(static_cast<std::uint32_t>(mode))
      .add(mode == ScatterMode::set ? DType::u8 : y.dtype)
      .add(unit)
      .add(wide)
      .add(space.rank);
  const auto text = [&] {
    return fmt::format("{}{}{}{}{}{}{}",
                       glsl_prelude({.threads = kGroupThreads, .wide_index = wide}),
                       glsl_uindex(wide),
                       glsl_parameters("uint64_t y; uint64_t source; uint64_t index; INDEX count; "
                                       "INDEX places; INDEX y_step; INDEX s_begin; INDEX s_step; " +
                                           glsl_walk_members(space.rank, "ysq"),
                                       block.size_bytes()),
                       glsl_entry(false),
                       joining_text(mode, y.dtype, unit),
                       glsl_walk(space.rank, "ysq"),
                       kScatterMain);
  };
  return encoder.dispatch(key, text, block, encoder.linear(groups_for(space.element_count)));
}

bool scatter_may_alias(OpKind kind, int index) noexcept {
  return kind == OpKind::scatter && index == 0;
}

}  // namespace hearth::gpu
