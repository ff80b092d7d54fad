// Splits moves. All moves copy bits: shaders depend on the size of an element and not on its type.
// (1) Contiguous source and target: units of 16 bytes (less at an odd address), four a thread, all
// loads before the stores.
// (2) Different fastest axes of source and target: squares of 32 x 32, of narrow elements 64 x 64,
// pass through shared memory. Both sides thus access whole lines.
// (3) All others: element by element in the order of the target, four a thread, a workgroup's width
// apart. Where rows are contiguous on both sides, the elements have up to 16 bytes.
#include "movement.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "backends/gpu/space/merged_space.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

enum class Mover : std::uint32_t { linear, strided, squares, scatter };

constexpr std::int64_t kLeastSide = 16;  // below, squares are mostly empty

// ---- contiguous ----

constexpr std::string_view kLinear = R"(
FN void main() {
  const INDEX first = INDEX(GROUP) * 1024 + INDEX(THREAD);
  if (first + 768 < p.count) {
    UNIT got[4];
    UNROLLED for (int k = 0; k < 4; ++k) {
      got[k] = LOAD_UNIT(p.from, first + k * 256);
    }
    UNROLLED for (int k = 0; k < 4; ++k) {
      STORE_UNIT(p.to, first + k * 256, got[k]);
    }
  } else {
    for (INDEX i = first; i < p.count && i < first + 1024; i += 256) {
      STORE_UNIT(p.to, i, LOAD_UNIT(p.from, i));
    }
  }
  if (GROUP == 0u && THREAD < p.tail) {
    Words8(p.to + p.tail_at).v[int(THREAD)] = Words8(p.from + p.tail_at).v[int(THREAD)];
  }
}
)";

Status move_linear(std::uint64_t from,
                   std::uint64_t to,
                   std::int64_t size_bytes,
                   KernelEncoder& encoder) {
  const std::uint64_t bits = from | to | 16U;
  const auto unit = static_cast<int>(bits & (~bits + 1));
  const std::int64_t count = size_bytes / unit;
  const bool wide = is_wide(count);
  ParameterBlock block;
  block.add(from).add(to).add(static_cast<std::uint64_t>(count * unit));
  add_index(block, count, wide);
  block.add(static_cast<std::uint32_t>(size_bytes - count * unit));
  KernelKey key(KernelFamily::movement);
  key.add(static_cast<std::uint32_t>(Mover::linear)).add(unit).add(wide);
  const auto text = [&] {
    return fmt::format(
        "{}{}{}{}",
        glsl_prelude({.threads = kGroupThreads, .wide_index = wide}),
        glsl_parameters("uint64_t from; uint64_t to; uint64_t tail_at; INDEX count; uint tail;",
                        block.size_bytes()),
        glsl_unit(unit),
        kLinear);
  };
  return encoder.dispatch(
      key, text, block, encoder.linear(std::max<std::int64_t>(groups_for(count), 1)));
}

// ---- any strides ----

constexpr std::string_view kStrided = R"(
FN void main() {
  const INDEX first = INDEX(GROUP) * 1024 + INDEX(THREAD);
  UNROLLED for (int k = 0; k < 4; ++k) {
    const INDEX i = first + k * 256;
    if (i < p.count) {
      INDEX x, y;
      walk(i, x, y);
      STORE_UNIT(p.to, y, LOAD_UNIT(p.from, x));
    }
  }
}
)";

struct Ends {
  std::uint64_t from;
  std::uint64_t to;
  bool wide;
};

Status move_strided(const MergedSpace& space, int unit, const Ends& ends, KernelEncoder& encoder) {
  ParameterBlock block;
  block.add(ends.from).add(ends.to);
  add_index(block, space.element_count, ends.wide);
  add_walk(block, space, 2, ends.wide);
  KernelKey key(KernelFamily::movement);
  key.add(static_cast<std::uint32_t>(Mover::strided)).add(unit).add(ends.wide).add(space.rank);
  const auto text = [&] {
    return fmt::format("{}{}{}{}{}{}",
                       glsl_prelude({.threads = kGroupThreads, .wide_index = ends.wide}),
                       glsl_uindex(ends.wide),
                       glsl_parameters("uint64_t from; uint64_t to; INDEX count; " +
                                           glsl_walk_members(space.rank, "xy"),
                                       block.size_bytes()),
                       glsl_unit(unit),
                       glsl_walk(space.rank, "xy"),
                       kStrided);
  };
  return encoder.dispatch(key, text, block, encoder.linear(groups_for(space.element_count)));
}

// ---- squares ----

/// The fastest axes of the source and the target, or -1.
struct Square {
  int from_axis = -1;
  int to_axis = -1;
};

Square square_of(const MergedSpace& space) {
  Square square;
  for (int axis = 0; axis < space.rank; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    if (space.size[at] < kLeastSide) {
      continue;
    }
    const std::int64_t from = space.stride[0][at];
    const std::int64_t to = space.stride[1][at];
    if ((from == 1 || from == -1) && to != 1 && to != -1) {
      square.from_axis = axis;
    } else if ((to == 1 || to == -1) && from != 1 && from != -1 && from != 0) {
      square.to_axis = axis;
    }
  }
  return square;
}

// Axis a is the source's fastest, b the target's.
constexpr std::string_view kSquares = R"(
SHARED(UNIT, square, SIDE * (SIDE + 1));
FN void main() {
  UINDEX rest = UINDEX(GROUP);
  const UINDEX b_tile = rest % UINDEX(p.b_tiles);
  rest /= UINDEX(p.b_tiles);
  const UINDEX a_tile = rest % UINDEX(p.a_tiles);
  rest /= UINDEX(p.a_tiles);
  if (rest >= UINDEX(p.batches)) {
    return;
  }
  INDEX x, y;
  walk(INDEX(rest), x, y);
  const INDEX a0 = INDEX(a_tile) * SIDE;
  const INDEX b0 = INDEX(b_tile) * SIDE;
  const int column = int(THREAD) % SIDE;
  const int row0 = int(THREAD) / SIDE;
  if (a0 + column < p.a_size) {
    UNROLLED for (int row = 0; row < SIDE; row += 256 / SIDE) {
      const int at = row + row0;
      if (b0 + at < p.b_size) {
        square[at * (SIDE + 1) + column] =
            LOAD_UNIT(p.from, x + (a0 + column) * p.a_from + (b0 + at) * p.b_from);
      }
    }
  }
  barrier();
  if (b0 + column < p.b_size) {
    UNROLLED for (int row = 0; row < SIDE; row += 256 / SIDE) {
      const int at = row + row0;
      if (a0 + at < p.a_size) {
        STORE_UNIT(p.to, y + (a0 + at) * p.a_to + (b0 + column) * p.b_to,
                   square[column * (SIDE + 1) + at]);
      }
    }
  }
}
)";

Status move_squares(const MergedSpace& space,
                    const Square& square,
                    int unit,
                    const Ends& ends,
                    KernelEncoder& encoder) {
  const int side = unit <= 2 ? 64 : 32;
  const auto a = static_cast<std::size_t>(square.from_axis);
  const auto b = static_cast<std::size_t>(square.to_axis);
  // The batch: all other axes, with the offsets of the whole space.
  MergedSpace batch = space;
  batch.element_count = space.element_count / space.size[a] / space.size[b];
  batch.rank = 0;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(space.rank); ++axis) {
    if (axis != a && axis != b) {
      const auto to = static_cast<std::size_t>(batch.rank++);
      batch.size[to] = space.size[axis];
      batch.stride[0][to] = space.stride[0][axis];
      batch.stride[1][to] = space.stride[1][axis];
    }
  }
  if (batch.rank == 0) {
    batch.rank = 1;
    batch.size[0] = 1;
    batch.stride[0][0] = batch.stride[1][0] = 0;
  }
  const auto tiles = [side](std::int64_t size) { return (size + side - 1) / side; };
  ParameterBlock block;
  block.add(ends.from).add(ends.to);
  for (const std::size_t axis : {a, b}) {
    add_index(block, space.size[axis], ends.wide);
    add_index(block, tiles(space.size[axis]), ends.wide);
    add_index(block, space.stride[0][axis], ends.wide);
    add_index(block, space.stride[1][axis], ends.wide);
  }
  add_index(block, batch.element_count, ends.wide);
  // walk() starts at the offset of the space, not of the batch alone.
  for (std::size_t axis = 1; axis < static_cast<std::size_t>(batch.rank); ++axis) {
    add_index(block, batch.size[axis], ends.wide);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    add_index(block, space.reach_down(i), ends.wide);
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(batch.rank); ++axis) {
      add_index(block, batch.stride[i][axis], ends.wide);
    }
  }
  KernelKey key(KernelFamily::movement);
  key.add(static_cast<std::uint32_t>(Mover::squares)).add(unit).add(ends.wide).add(batch.rank);
  const auto text = [&] {
    return fmt::format(
        "{}{}{}{}{}#define SIDE {}\n{}",
        glsl_prelude({.threads = kGroupThreads, .wide_index = ends.wide}),
        glsl_uindex(ends.wide),
        glsl_parameters("uint64_t from; uint64_t to; INDEX a_size; INDEX a_tiles; INDEX a_from; "
                        "INDEX a_to; INDEX b_size; INDEX b_tiles; INDEX b_from; INDEX b_to; "
                        "INDEX batches; " +
                            glsl_walk_members(batch.rank, "xy"),
                        block.size_bytes()),
        glsl_unit(unit),
        glsl_walk(batch.rank, "xy"),
        side,
        kSquares);
  };
  return encoder.dispatch(
      key,
      text,
      block,
      encoder.linear(batch.element_count * tiles(space.size[a]) * tiles(space.size[b])));
}

}  // namespace

Status check_no_guard(const KernelCall& call, const KernelEncoder& encoder) {
  if (encoder.guard() == 0) {
    return {};
  }
  const std::string_view op = name(call.op.kind());
  return Error{.code = ErrorCode::unsupported,
               .text = fmt::format("{}: no kernel of a vulkan device for update groups", op),
               .op = std::string(op)};
}

Status encode_move(const TensorView& from,
                   const Shape& shape,
                   std::uint64_t to,
                   const Strides& to_strides,
                   KernelEncoder& encoder) {
  if (shape.element_count() == 0) {
    return {};
  }
  const auto element_bytes = static_cast<int>(size_bytes(from.dtype));
  MergedSpace space(shape, {from.strides(), to_strides});
  const auto first = reinterpret_cast<std::uintptr_t>(from.data);  // NOLINT: a device address
  if (space.is_linear(0) && space.is_linear(1)) {
    return move_linear(first, to, space.element_count * element_bytes, encoder);
  }
  const int unit = space.widen(2, element_bytes, first | to);
  const Ends ends{.from = first - static_cast<std::uint64_t>(space.reach_down(0) * unit),
                  .to = to - static_cast<std::uint64_t>(space.reach_down(1) * unit),
                  .wide = is_wide(std::max({space.element_count, space.reach(0), space.reach(1)}))};
  const Square square = square_of(space);
  return square.from_axis >= 0 && square.to_axis >= 0
             ? move_squares(space, square, unit, ends, encoder)
             : move_strided(space, unit, ends, encoder);
}

Status encode_copy(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  const TensorView& to = call.outputs[0];
  return encode_move(call.inputs[0],
                     to.shape(),
                     reinterpret_cast<std::uintptr_t>(to.data),  // NOLINT: a device address
                     to.strides(),
                     encoder);
}

bool copy_may_alias(OpKind kind, int index) noexcept {
  return kind == OpKind::copy && index == 0;
}

Status encode_concat(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  const TensorView& result = call.outputs[0];
  const int axis = call.op.attributes<AxisAttributes>().axis;
  const Strides strides = contiguous_strides(result.shape());
  const std::int64_t step =
      strides[static_cast<std::size_t>(axis)] * static_cast<std::int64_t>(size_bytes(result.dtype));
  auto to = reinterpret_cast<std::uintptr_t>(result.data);  // NOLINT: a device address
  for (const TensorView& input : call.inputs) {
    HEARTH_TRY_STATUS(encode_move(input, input.shape(), to, strides, encoder));
    to += static_cast<std::uint64_t>(step * input.shape()[axis]);
  }
  return {};
}

// ---- slice_scatter ----

namespace {

/// An axis of the result: the slice covers its elements first, first + step, ...
struct Slot {
  std::int64_t size;
  std::int64_t first;
  std::int64_t step;
  std::int64_t count;
  std::int64_t stride;  ///< Stride of the input.

  [[nodiscard]] bool is_whole() const { return first == 0 && step == 1 && count == size; }
};

struct Slots {
  int rank = 0;
  std::array<Slot, kMaxRank> axis{};

  [[nodiscard]] Slot& last() { return axis[static_cast<std::size_t>(rank) - 1]; }
  /// Adds an axis. Merges it with the one before if the slice covers all of it and steps are 1.
  void add(const Slot& slot) {
    if (slot.size == 1 && slot.count == 1) {
      return;
    }
    if (rank > 0 && slot.is_whole() && last().step == 1 &&
        (last().stride == slot.stride * slot.size || last().count == 1)) {
      last() = {.size = last().size * slot.size,
                .first = last().first * slot.size,
                .step = 1,
                .count = last().count * slot.size,
                .stride = slot.stride};
      return;
    }
    axis[static_cast<std::size_t>(rank++)] = slot;
  }
};

Result<Slots> slots_of(const KernelCall& call) {
  const Shape& grad = call.inputs[0].shape();
  const Shape& result = call.outputs[0].shape();
  const auto slice = call.op.attributes<SliceAttributes>();
  Slots slots;
  for (int axis = 0; axis < result.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const std::int64_t last = slice.start[i] + (grad[axis] - 1) * slice.step[i];
    for (const std::int64_t index : {slice.start[i], last}) {
      if (grad.element_count() != 0 && (index < 0 || index >= result[axis])) {
        return Error{.code = ErrorCode::out_of_range,
                     .text = fmt::format("slice_scatter: index {} of axis {} is outside {}",
                                         index,
                                         axis,
                                         result.to_string()),
                     .op = "slice_scatter"};
      }
    }
    const bool is_down = slice.step[i] < 0;  // the same elements from the other end
    const std::int64_t stride = call.inputs[0].strides()[i];
    const bool is_single = grad[axis] == 1;
    slots.add({.size = result[axis],
               .first = is_down ? last : slice.start[i],
               .step = is_single ? 1 : (is_down ? -slice.step[i] : slice.step[i]),
               .count = grad[axis],
               .stride = is_single ? 0 : (is_down ? -stride : stride)});
  }
  if (slots.rank == 0) {
    slots.rank = 1;
    slots.axis[0] = {.size = 1, .first = 0, .step = 1, .count = 1, .stride = 1};
  }
  return slots;
}

// Sets `x` to the place of the input's element, or below 0 if the slice has none.
std::string glsl_slots(int rank) {
  std::string text = "FN INDEX find(INDEX i) {\n  INDEX x = p.start;\n  bool is_in = true;\n";
  for (int axis = rank - 1; axis >= 0; --axis) {
    text += fmt::format(
        "  {{\n    const INDEX rest = INDEX(UINDEX(i) / UINDEX(p.size{0}));\n"
        "    const UINDEX at = UINDEX(i - rest * p.size{0} - p.first{0});\n"
        "    const UINDEX k = p.step{0} == 1 ? at : at / UINDEX(p.step{0});\n"
        "    is_in = is_in && k < UINDEX(p.count{0}) && k * UINDEX(p.step{0}) == at;\n"
        "    x += INDEX(k) * p.stride{0};\n    i = rest;\n  }}\n",
        axis);
  }
  return text + "  return is_in ? x : INDEX(-1);\n}\n";
}

constexpr std::string_view kScatter = R"(
FN void main() {
  const INDEX first = INDEX(GROUP) * 1024 + INDEX(THREAD);
  UNROLLED for (int k = 0; k < 4; ++k) {
    const INDEX i = first + k * 256;
    if (i < p.count) {
      const INDEX x = find(i);
      UNIT got = UNIT(0);
      if (x >= 0) {
        got = LOAD_UNIT(p.from, x);
      }
      STORE_UNIT(p.to, i, got);
    }
  }
}
)";

/// Widens elements to up to 16 bytes if the last axis allows it; returns their bytes.
int widen_unit(Slots& slots, int element_bytes, std::uint64_t bits) {
  const Slot& inner = slots.last();
  if (inner.step != 1 || (inner.stride != 1 && inner.count != 1)) {
    return element_bytes;
  }
  bits |=
      16U | static_cast<std::uint64_t>((inner.size | inner.first | inner.count) * element_bytes);
  for (int axis = 0; axis + 1 < slots.rank; ++axis) {
    bits |= static_cast<std::uint64_t>(slots.axis[static_cast<std::size_t>(axis)].stride *
                                       element_bytes);
  }
  const auto unit = static_cast<int>(bits & (~bits + 1));
  const std::int64_t factor = unit / element_bytes;
  if (factor <= 1) {
    return element_bytes;
  }
  for (int axis = 0; axis + 1 < slots.rank; ++axis) {
    slots.axis[static_cast<std::size_t>(axis)].stride /= factor;
  }
  slots.last().size /= factor;
  slots.last().first /= factor;
  slots.last().count /= factor;
  return unit;
}

}  // namespace

// Each element of the result tests whether the slice covers it, so the result is written once.
Status encode_slice_scatter(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  HEARTH_TRY(Slots slots, slots_of(call));
  const TensorView& from = call.inputs[0];
  const TensorView& to = call.outputs[0];
  if (to.element_count() == 0) {
    return {};
  }
  const auto element_bytes = static_cast<int>(size_bytes(from.dtype));
  const auto first = reinterpret_cast<std::uintptr_t>(from.data);  // NOLINT: a device address
  const auto target = reinterpret_cast<std::uintptr_t>(to.data);   // NOLINT: a device address
  const int unit = widen_unit(slots, element_bytes, first | target);
  const std::int64_t count = to.element_count() * element_bytes / unit;
  // `first` above counts from element [0, ...] of the input, where downward steps end.
  std::int64_t turned = 0;
  const auto slice = call.op.attributes<SliceAttributes>();
  for (int axis = 0; axis < from.shape().rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    turned += slice.step[i] < 0 ? (from.shape()[axis] - 1) * from.strides()[i] : 0;
  }
  turned = turned * element_bytes / unit;
  std::int64_t down = 0;
  std::int64_t up = 0;
  for (int axis = 0; axis < slots.rank; ++axis) {
    const Slot& slot = slots.axis[static_cast<std::size_t>(axis)];
    const std::int64_t all = std::max<std::int64_t>(slot.count - 1, 0) * slot.stride;
    (all < 0 ? down : up) += all < 0 ? -all : all;
  }
  const bool wide = is_wide(std::max({count, down + up}));
  ParameterBlock block;
  block.add(first + static_cast<std::uint64_t>((turned - down) * unit)).add(target);
  add_index(block, count, wide);
  add_index(block, down, wide);
  for (int axis = 0; axis < slots.rank; ++axis) {
    const Slot& slot = slots.axis[static_cast<std::size_t>(axis)];
    for (const std::int64_t value : {slot.size, slot.first, slot.step, slot.count, slot.stride}) {
      add_index(block, value, wide);
    }
  }
  KernelKey key(KernelFamily::movement);
  key.add(static_cast<std::uint32_t>(Mover::scatter)).add(unit).add(wide).add(slots.rank);
  const auto text = [&] {
    std::string members = "uint64_t from; uint64_t to; INDEX count; INDEX start; ";
    for (int axis = 0; axis < slots.rank; ++axis) {
      members += fmt::format(
          "INDEX size{0}; INDEX first{0}; INDEX step{0}; INDEX count{0}; INDEX stride{0}; ", axis);
    }
    return fmt::format("{}{}{}{}{}{}",
                       glsl_prelude({.threads = kGroupThreads, .wide_index = wide}),
                       glsl_uindex(wide),
                       glsl_parameters(members, block.size_bytes()),
                       glsl_unit(unit),
                       glsl_slots(slots.rank),
                       kScatter);
  };
  return encoder.dispatch(key, text, block, encoder.linear(groups_for(count)));
}

}  // namespace hearth::gpu
