#include "tile_call.hpp"

#include <algorithm>
#include <cstring>

namespace hearth::cpu {

namespace {

// For shorter rows, a tile takes several. An instruction has a fixed cost of some nanoseconds, but
// gathering rows costs as much as instructions on this number of elements.
constexpr std::int64_t kShortCallRow = 256;
constexpr std::int64_t kShortRowOfOne = 32;
constexpr std::int64_t kBlockRows =
    16;  // a cache line of 4-byte elements, read along the other axis

// Finds the steps of an operand along each axis of the space. Fails if its map has quotients or
// remainders.
bool find_strides(const std::vector<AffineIndex>& map,
                  const Strides& of_operand,
                  Strides& strides,
                  std::int64_t& start) {
  strides = {};
  start = 0;
  for (std::size_t axis = 0; axis < map.size(); ++axis) {
    start += of_operand[axis] * map[axis].start;
    for (const IndexTerm& term : map[axis].terms) {
      if (term.divisor != 1 || term.modulus != 0) {
        return false;
      }
      strides[static_cast<std::size_t>(term.axis)] += of_operand[axis] * term.step;
    }
  }
  return true;
}

template <class T>
void scatter_row(std::byte* to, std::int64_t step, const std::byte* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * step * static_cast<std::int64_t>(sizeof(T)),
                from + i * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T));
  }
}

// Elements of a tile whose operands come from memory. All lines of the next tile are prefetched
// during this one, and a core keeps no more than some dozens of lines in flight.
constexpr std::int64_t kFarTile = 512;

}  // namespace

TileCall::TileCall(const TileProgram& program, const ExpressionCall& call, IsaLevel isa)
    : program_(program), call_(call), moves_(move_loops(isa)) {
  const Shape& out = call.outputs[0].shape();
  shape_ = out;
  if (!program.is_pointwise) {
    const std::vector<AffineIndex>& map = program.kernel.outputs[0].map;
    for (std::size_t axis = 0; axis < map.size(); ++axis) {
      shape_.set(map[axis].terms[0].axis, out[static_cast<int>(axis)]);
    }
  }
  count_ = shape_.element_count();
  if (count_ == 0) {
    return;
  }
  if (flat_count(program, call) != 0) {
    lay_flat();
  } else {
    find_space();
  }
  find_shares();
  constexpr std::int64_t kNearBytes = std::int64_t{256} << 10;
  const std::int64_t near = kNearBytes / static_cast<std::int64_t>(call.inputs.size() + 1);
  is_far_ = (fetches_itself_ || program.body.size() > 1) && count_ * program.element_bytes > near;
}

// Tests for the common case.
std::int64_t TileCall::flat_count(const TileProgram& program, const ExpressionCall& call) noexcept {
  const hearth::detail::Layout* const layout = call.outputs[0].layout;
  const std::int64_t count = layout->shape.element_count();
  const auto is_flat = [&](const TensorView& view) {
    // Usually all operands share one layout; others have the same size, or a single element.
    return view.layout == layout || view.element_count() == 1 ||
           (view.layout->contiguous && view.element_count() == count);
  };
  return program.is_pointwise && layout->contiguous && std::ranges::all_of(call.inputs, is_flat) &&
                 std::ranges::all_of(call.outputs, is_flat)
             ? count
             : 0;
}

void TileCall::lay_flat() noexcept {
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    const bool is_one = count_ != 1 && call_.inputs[i].element_count() == 1;
    access_kinds_[i] = is_one ? AccessKind::one : AccessKind::linear;
    base_[i] = call_.inputs[i].data;
  }
}

// Steps of an operand over the space. An input whose map has quotients or remainders is read place
// by place, in any space.
Strides TileCall::strides_of(std::size_t operand) {
  const std::size_t input_count = call_.inputs.size();
  const bool is_input = operand < input_count;
  const TensorView& view = is_input ? call_.inputs[operand] : call_.outputs[operand - input_count];
  Strides strides{};
  std::int64_t start = 0;
  bool is_linear = true;
  if (program_.is_pointwise) {
    strides = broadcast_strides(*view.layout, shape_);
  } else {
    const KernelIR& kernel = program_.kernel;
    is_linear = find_strides(
        is_input ? kernel.inputs[operand].map : kernel.outputs[operand - input_count].map,
        view.strides(),
        strides,
        start);
  }
  if (is_input) {
    base_[operand] = view.data + start * size_bytes(view.dtype);
    access_kinds_[operand] = is_linear ? AccessKind::strided : AccessKind::mapped;
  }
  return is_linear ? strides : Strides{};
}

// Layout of an operand in the space with merged axes.
TileCall::AccessKind TileCall::access_kind_of(std::size_t operand) const {
  const bool is_mapped =
      operand < call_.inputs.size() && access_kinds_[operand] == AccessKind::mapped;
  if (is_mapped || space_->is_linear(operand)) {
    return is_mapped ? AccessKind::mapped : AccessKind::linear;
  }
  const Strides& stride = space_->stride[operand];
  const bool is_one = std::all_of(
      stride.begin(), stride.begin() + space_->rank, [](std::int64_t step) { return step == 0; });
  return is_one ? AccessKind::one : AccessKind::strided;
}

void TileCall::find_space() {
  static_assert(kMostTileOperands == TileProgram::kMostInputs + TileProgram::kMostOutputs);
  const std::size_t operand_count = call_.inputs.size() + call_.outputs.size();
  // Only the entries of the operands are set.
  std::array<Strides, kMostTileOperands> strides;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t i = 0; i < operand_count; ++i) {
    strides[i] = strides_of(i);
  }
  space_.emplace(shape_, std::span(strides).first(operand_count));
  bool is_flat = true;
  bool is_along_rows = false;
  for (std::size_t i = 0; i < operand_count; ++i) {
    const std::int64_t step = space_->inner_stride(i);
    const AccessKind lie = access_kind_of(i);
    is_along_rows = is_along_rows || (step != 0 && step != 1 && space_->rank > 1);
    if (i < call_.inputs.size()) {
      access_kinds_[i] = lie;
      is_flat = is_flat && (lie == AccessKind::linear || lie == AccessKind::one);
    } else {
      is_flat = is_flat && lie == AccessKind::linear;
    }
  }
  order_ = is_flat ? Order::flat : is_along_rows ? Order::blocks : Order::rows;
}

// An output is computed in its own memory, with two exceptions. A later instruction may read an
// input there, or the result is so large that it is stored past the caches.
void TileCall::find_shares() {
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    const TensorView& output = call_.outputs[o];
    std::uint32_t shared = 0;
    for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
      shared |= call_.inputs[i].data == output.data ? 1U << i : 0U;
    }
    is_streamed_[o] = shared == 0 && !call_.stays_cached &&
                      count_ * size_bytes(output.dtype) >= MoveLoops::kStreamBytes;
    is_fresh_[o] = shared == 0;
    is_computed_in_place_[o] = !is_streamed_[o] && (shared & program_.outputs[o].read_after) == 0;
    has_streams_ = has_streams_ || is_streamed_[o];
  }
  // An instruction whose operands are all in memory needs no tiles.
  is_one_pass_ = program_.body.size() == 1;
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    is_one_pass_ = is_one_pass_ && is_computed_in_place_[o];
  }
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    is_one_pass_ = is_one_pass_ && access_kinds_[i] == AccessKind::linear;
  }
  // A single wrapped loop prefetches its operands and stores past the caches on its own. It can
  // write only one result, even if two outputs have the same value.
  if (program_.body.size() == 1 && program_.body[0].step == TileStep::wrapped &&
      order_ == Order::flat && call_.outputs.size() == 1) {
    is_one_pass_ = fetches_itself_ = true;
    streams_itself_ = is_streamed_[0];
    is_computed_in_place_[0] = true;
    is_streamed_[0] = false;
  }
}

std::int64_t TileCall::unit_count() const noexcept {
  if (order_ != Order::blocks) {
    return count_;
  }
  const std::int64_t rows = space_->size[static_cast<std::size_t>(space_->rank) - 2];
  const std::int64_t planes = count_ / (rows * space_->inner_size());
  return planes * ((rows + kBlockRows - 1) / kBlockRows);
}

std::int64_t TileCall::grain() const noexcept {
  return order_ != Order::blocks
             ? program_.grain
             : std::max<std::int64_t>(1, program_.grain / (kBlockRows * space_->inner_size()));
}

void TileCall::run(TileRun& run, std::int64_t begin, std::int64_t end) const {
  run.forget_rows();
  switch (order_) {
    case Order::flat:
      run_flat(run, begin, end);
      break;
    case Order::blocks:
      run_blocks(run, begin, end);
      break;
    default:
      run_rows(run, begin, end);
      break;
  }
  if (has_streams_) {
    moves_.fence();
  }
}

void TileCall::run_piece(TileRun& run,
                         const std::byte* made,
                         std::int64_t begin,
                         std::int64_t end) {
  run.forget_rows();  // drops rows gathered for a partial row at the end of the last piece
  base_[0] = made;
  first_ = begin;
  run_in_order(run, begin, end);
}

void TileCall::run_piece(
    TileRun& run, const std::byte* made, std::byte* to, std::int64_t begin, std::int64_t end) {
  result_ = to;
  first_result_ = begin;
  run_piece(run, made, begin, end);
}

void TileCall::make_piece(TileRun& run, std::byte* to, std::int64_t begin, std::int64_t end) {
  run.forget_rows();
  result_ = to;
  first_result_ = begin;
  run_in_order(run, begin, end);
}

void TileCall::run_in_order(TileRun& run, std::int64_t begin, std::int64_t end) const {
  if (order_ == Order::flat) {
    run_flat(run, begin, end);
  } else {
    run_rows(run, begin, end);
  }
  if (has_streams_) {
    moves_.fence();
  }
}

bool TileCall::find_undefined(TileRun& run,
                              std::int64_t begin,
                              std::int64_t end,
                              UndefinedElement& undefined) const {
  run.forget_rows();
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    run.set_output_in_tile(o);
  }
  while (begin < end) {
    Block block{.column = begin, .columns = std::min(program_.tile_elements, end - begin)};
    TilePlaces places{.first = begin, .columns = block.columns};
    if (order_ == Order::flat) {
      set_flat_inputs(run, begin);
    } else {  // rows in every case: finds the first place
      block = next_rows(begin, end);
      places = places_of(block);
      set_inputs(run, block, TilePlace(*space_, block.row));
    }
    if (run.find_undefined(places, undefined)) {
      return true;
    }
    begin += block.rows * block.columns;
  }
  return false;
}

void TileCall::set_flat_inputs(TileRun& run, std::int64_t at) const {
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    const bool is_one = access_kinds_[i] == AccessKind::one;
    const std::int64_t place = is_one ? 0 : at - first_of(i);
    run.set_input(i, base_[i] + place * size_bytes(call_.inputs[i].dtype), is_one);
  }
}

void TileCall::fetch_ahead(TileRun& run, std::int64_t at, std::int64_t count) const {
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    const std::int64_t size = size_bytes(call_.inputs[i].dtype);
    if (access_kinds_[i] == AccessKind::linear) {
      run.add_next(base_[i] + (at - first_of(i)) * size, count * size, false);
    }
  }
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    const std::int64_t size = size_bytes(call_.outputs[o].dtype);
    if (is_computed_in_place_[o] && is_fresh_[o]) {
      run.add_next(result(o, at), count * size, true);
    }
  }
}

void TileCall::run_flat(TileRun& run, std::int64_t begin, std::int64_t end) const {
  if (fetches_itself_ && is_far_) {
    run.set_far(streams_itself_);
  }
  const std::int64_t tile =
      is_far_ ? std::min(program_.tile_elements, kFarTile) : program_.tile_elements;
  const std::int64_t most = is_one_pass_ ? end - begin : tile;
  while (begin < end) {
    const std::int64_t count = std::min(most, end - begin);
    set_flat_inputs(run, begin);
    if (is_far_ && !is_one_pass_) {
      fetch_ahead(run, begin + count, std::min(count, end - begin - count));
    }
    for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
      if (is_computed_in_place_[o]) {
        run.set_output(o, result(o, begin));
      } else {
        run.set_output_in_tile(o);
      }
    }
    run.run({.first = begin, .columns = count});
    for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
      store(run, o, result(o, begin), count);
    }
    begin += count;
  }
}

// Returns the block from place `at` on: whole rows if they are short, else a piece of one.
TileCall::Block TileCall::next_rows(std::int64_t at, std::int64_t end) const {
  const std::int64_t inner = space_->inner_size();
  Block block{.row = at / inner, .column = at % inner};
  const std::int64_t most = program_.tile_elements;
  const std::int64_t short_row =
      std::min(kShortCallRow, kShortRowOfOne * static_cast<std::int64_t>(program_.body.size()));
  if (block.column == 0 && inner < short_row && 2 * inner <= most && end - at >= inner) {
    block.rows = std::min(most, end - at) / inner;
    block.columns = inner;
  } else {
    block.columns = std::min({inner - block.column, end - at, most});
  }
  return block;
}

void TileCall::run_rows(TileRun& run, std::int64_t begin, std::int64_t end) const {
  TilePlace place(*space_, begin / space_->inner_size());
  while (begin < end) {
    const Block block = next_rows(begin, end);
    run_block(run, block, place);
    begin += block.rows * block.columns;
    if (block.column + block.columns == space_->inner_size()) {
      for (std::int64_t row = 0; row < block.rows; ++row) {
        place.advance();
      }
    }
  }
}

void TileCall::run_blocks(TileRun& run, std::int64_t begin, std::int64_t end) const {
  const std::int64_t columns = space_->inner_size();
  const std::int64_t rows = space_->size[static_cast<std::size_t>(space_->rank) - 2];
  const std::int64_t groups = (rows + kBlockRows - 1) / kBlockRows;
  const std::int64_t height = std::min(kBlockRows, program_.tile_elements);
  const std::int64_t width = std::max<std::int64_t>(1, program_.tile_elements / height);
  for (std::int64_t group = begin; group < end; ++group) {
    const std::int64_t first = group / groups * rows;
    const std::int64_t last = std::min(rows, (group % groups + 1) * kBlockRows);
    for (std::int64_t row = group % groups * kBlockRows; row < last; row += height) {
      const TilePlace place(*space_, first + row);
      for (std::int64_t column = 0; column < columns; column += width) {
        run_block(run,
                  {.row = first + row,
                   .column = column,
                   .rows = std::min(height, last - row),
                   .columns = std::min(width, columns - column)},
                  place);
      }
    }
  }
}

TilePlaces TileCall::places_of(const Block& block) const {
  const std::int64_t inner = space_->inner_size();
  const std::int64_t first = block.row * inner + block.column;
  if (block.columns == inner) {  // contiguous
    return {.first = first, .columns = block.rows * block.columns};
  }
  return {.first = first, .rows = block.rows, .columns = block.columns, .row_step = inner};
}

bool TileCall::is_straight(std::size_t operand, const Block& block) const {
  return space_->inner_stride(operand) == 1 &&
         (block.rows == 1 || (block.columns == space_->inner_size() && space_->is_linear(operand)));
}

void TileCall::set_inputs(TileRun& run, const Block& block, const TilePlace& place) const {
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    const std::int64_t size = size_bytes(call_.inputs[i].dtype);
    const std::int64_t step = space_->inner_stride(i);
    const bool is_one = access_kinds_[i] == AccessKind::one || (step == 0 && block.rows == 1);
    if (access_kinds_[i] != AccessKind::mapped && (is_one || is_straight(i, block))) {
      const std::int64_t offset = place.offset[i] + block.column * step - first_of(i);
      run.set_input(i, base_[i] + offset * size, is_one);
      continue;
    }
    std::byte* const room = run.room_of(i);
    if (access_kinds_[i] == AccessKind::mapped) {
      gather_mapped(i, block, room);
    } else if (!space_->repeats(i, 0, space_->rank - 1) || block.columns != space_->inner_size()) {
      gather(i, block, room);
    } else if (std::int64_t& rows = run.repeated_rows(i); rows < block.rows) {
      gather(i, block, room);
      rows = block.rows;
    }
    run.set_input(i, room, false);
  }
}

// Gathers rows of one plane together, so that a transposed operand is read by whole lines.
void TileCall::gather(std::size_t input, const Block& block, std::byte* to) const {
  const auto inner = static_cast<std::size_t>(space_->rank) - 1;
  const std::int64_t height = inner > 0 ? space_->size[inner - 1] : 1;
  const std::int64_t row_step = inner > 0 ? space_->stride[input][inner - 1] : 0;
  const std::int64_t step = space_->inner_stride(input);
  const std::int64_t size = size_bytes(call_.inputs[input].dtype);
  const GatherLoop loop = moves_.gathers[MoveLoops::size_index(size)];
  const std::int64_t end = block.row + block.rows;
  for (std::int64_t row = block.row; row < end;) {
    const std::int64_t rows = std::min(end - row, height - row % height);
    const TilePlace place(*space_, row);
    loop(to,
         block.columns,
         base_[input] + (place.offset[input] + block.column * step) * size,
         row_step,
         step,
         rows,
         block.columns);
    to += rows * block.columns * size;
    row += rows;
  }
}

// Gathers place by place, for maps with quotients and remainders.
void TileCall::gather_mapped(std::size_t input, const Block& block, std::byte* to) const {
  const std::vector<AffineIndex>& map = program_.kernel.inputs[input].map;
  const TensorView& view = call_.inputs[input];
  const auto size = static_cast<std::size_t>(size_bytes(view.dtype));
  const TilePlaces places = places_of(block);
  std::array<std::int64_t, kMaxRank> index{};
  for (std::int64_t i = 0; i < places.count(); ++i) {
    std::int64_t place = places.first + i / places.columns * places.row_step + i % places.columns;
    for (int axis = shape_.rank() - 1; axis >= 0; --axis) {
      index[static_cast<std::size_t>(axis)] = place % shape_[axis];
      place /= shape_[axis];
    }
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < map.size(); ++axis) {
      offset += view.strides()[axis] * map[axis].at(index);
    }
    std::memcpy(to, view.data + offset * size_bytes(view.dtype), size);
    to += size;
  }
}

void TileCall::run_block(TileRun& run, const Block& block, const TilePlace& place) const {
  set_inputs(run, block, place);
  std::array<std::byte*, TileProgram::kMostOutputs> straight{};
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    const std::size_t operand = call_.inputs.size() + o;
    if (is_straight(operand, block)) {
      straight[o] = result(o, place.offset[operand] + block.column);
    }
    if (straight[o] != nullptr && is_computed_in_place_[o]) {
      run.set_output(o, straight[o]);
    } else {
      run.set_output_in_tile(o);
    }
  }
  run.run(places_of(block));
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    if (straight[o] != nullptr) {
      store(run, o, straight[o], block.rows * block.columns);
    } else {
      scatter(run, o, block);
    }
  }
}

void TileCall::store(TileRun& run, std::size_t output, std::byte* to, std::int64_t count) const {
  const std::int64_t size = size_bytes(call_.outputs[output].dtype);
  const std::byte* const from = run.output(output);
  if (run.is_one(output)) {
    moves_.fills[MoveLoops::size_index(size)](to, from, count);
  } else if (is_streamed_[output]) {
    moves_.stream(to, from, count * size);
  } else if (from != to) {
    std::memcpy(to, from, static_cast<std::size_t>(count * size));
  }
}

void TileCall::scatter(const TileRun& run, std::size_t output, const Block& block) const {
  const TensorView& view = call_.outputs[output];
  const std::size_t operand = call_.inputs.size() + output;
  const std::int64_t size = size_bytes(view.dtype);
  const std::int64_t step = space_->inner_stride(operand);
  TilePlace place(*space_, block.row);
  for (std::int64_t row = 0; row < block.rows; ++row) {
    std::byte* const to = view.data + (place.offset[operand] + block.column * step) * size;
    const std::byte* const from = run.output(output) + row * block.columns * size;
    for (std::int64_t i = 0; run.is_one(output) && i < block.columns; ++i) {
      std::memcpy(to + i * step * size, run.output(output), static_cast<std::size_t>(size));
    }
    if (step == 1 && !run.is_one(output)) {
      std::memcpy(to, from, static_cast<std::size_t>(block.columns * size));
    } else if (!run.is_one(output)) {
      switch (size) {
        case 1:
          scatter_row<std::uint8_t>(to, step, from, block.columns);
          break;
        case 2:
          scatter_row<std::uint16_t>(to, step, from, block.columns);
          break;
        case 4:
          scatter_row<std::uint32_t>(to, step, from, block.columns);
          break;
        default:
          scatter_row<std::uint64_t>(to, step, from, block.columns);
          break;
      }
    }
    place.advance();
  }
}

}  // namespace hearth::cpu
