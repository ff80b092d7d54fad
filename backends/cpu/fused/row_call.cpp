#include "row_call.hpp"

#include <hearth/streams/kernel/pointwise.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kRowCacheLine = 64;
/// Rows of fewer elements are processed together, up to this number of elements at a time.
constexpr std::int64_t kFewElements = 256;
constexpr std::int64_t kElementsAtOnce = 1024;

std::int64_t whole_cache_lines(std::int64_t bytes) noexcept {
  return (bytes + kRowCacheLine - 1) / kRowCacheLine * kRowCacheLine;
}

/// Whether these axes are contiguous.
bool are_dense(const Shape& shape, const Strides& strides, int begin, int end) noexcept {
  std::int64_t step = 1;
  for (int axis = end - 1; axis >= begin; --axis) {
    if (shape[axis] != 1 && strides[static_cast<std::size_t>(axis)] != step) {
      return false;
    }
    step *= shape[axis];
  }
  return true;
}

}  // namespace

RowCall::RowCall(const TileProgram& program, const ExpressionCall& call, IsaLevel isa) noexcept
    : program_(program), call_(call), isa_(isa), moves_(move_loops(isa)) {}

Result<RowCall> RowCall::make(const TileProgram& program,
                              const ExpressionCall& call,
                              IsaLevel isa) {
  RowCall made(program, call, isa);
  HEARTH_TRY_STATUS(made.find_rows());
  for (std::size_t i = 0; made.rows_ > 0 && i < call.inputs.size(); ++i) {
    HEARTH_TRY_STATUS(made.look_at_input(i));
  }
  made.find_shares();
  return made;
}

// Phases: the space; rows per tile; the memory limit.
Status RowCall::find_rows() {
  std::vector<Shape> shapes;
  shapes.reserve(call_.inputs.size());
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    shapes.push_back(call_.inputs[i].shape());
    is_of_rows_[i] = hearth::is_of_rows(program_.kernel.inputs[i].map);
  }
  HEARTH_TRY(space_, row_space(program_.kernel, shapes, call_.row_axes));
  kept_axes_ = space_.rank() - call_.row_axes;
  rows_ = length_ = 1;
  for (int axis = 0; axis < space_.rank(); ++axis) {
    (axis < kept_axes_ ? rows_ : length_) *= space_[axis];
  }
  if (length_ == 0) {
    return Error{.code = ErrorCode::unsupported, .text = "kernel: rows without elements"};
  }
  if (length_ < kFewElements) {
    at_once_ = std::max<std::int64_t>(1, kElementsAtOnce / length_);
    at_once_ = std::min(at_once_, std::max<std::int64_t>(rows_, 1));
  }
  if (part_bytes() > kMostPartBytes) {
    return Error{.code = ErrorCode::unsupported,
                 .text = fmt::format("kernel: rows of {} elements need {} KiB for their values, "
                                     "more than {}",
                                     length_,
                                     part_bytes() >> 10,
                                     kMostPartBytes >> 10)};
  }
  return {};
}

Status RowCall::look_at_input(std::size_t input) {
  const TensorView& view = call_.inputs[input];
  if (!is_of_rows_[input]) {
    strides_[input] = broadcast_strides(*view.layout, space_);
  } else {
    const Shape& shape = view.shape();
    if (shape.rank() < kept_axes_ || view.element_count() != rows_) {
      return Error{.code = ErrorCode::invalid_argument,
                   .text = fmt::format("kernel: input {} is {}, one element for each row of {} was "
                                       "expected",
                                       input,
                                       shape.to_string(),
                                       space_.to_string())};
    }
    for (int axis = 0; axis < kept_axes_; ++axis) {
      strides_[input][static_cast<std::size_t>(axis)] =
          shape[axis] == 1 ? 0 : view.strides()[static_cast<std::size_t>(axis)];
    }
  }
  const Strides& strides = strides_[input];
  const int axes = is_of_rows_[input] ? kept_axes_ : space_.rank();
  if (are_dense(space_, strides, 0, axes)) {
    access_kinds_[input] = AccessKind::straight;
  } else if (!is_of_rows_[input] && are_dense(space_, strides, kept_axes_, axes) &&
             std::all_of(strides.begin(), strides.begin() + kept_axes_, [](std::int64_t step) {
               return step == 0;
             })) {
    access_kinds_[input] = AccessKind::repeated;
  } else {
    access_kinds_[input] = AccessKind::strided;
  }
  return {};
}

void RowCall::find_shares() noexcept {
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    const TensorView& output = call_.outputs[o];
    std::uint32_t shared = 0;
    for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
      shared |= call_.inputs[i].data == output.data ? 1U << i : 0U;
    }
    const std::int64_t bytes =
        rows_ * width(program_.outputs[o].is_of_rows) * size_bytes(output.dtype);
    is_streamed_[o] = shared == 0 && !call_.stays_cached && bytes >= MoveLoops::kStreamBytes;
    is_fresh_[o] = shared == 0;
    is_computed_in_place_[o] = !is_streamed_[o] && (shared & program_.outputs[o].read_after) == 0;
    has_streams_ = has_streams_ || is_streamed_[o];
  }
}

std::int64_t RowCall::grain() const noexcept {
  const std::int64_t rows = std::max<std::int64_t>(1, program_.grain / length_);
  return (rows + at_once_ - 1) / at_once_ * at_once_;
}

std::int64_t RowCall::part_bytes() const noexcept {
  const auto tiles = static_cast<std::int64_t>(program_.tile_count + call_.inputs.size());
  return tiles * whole_cache_lines(at_once_ * length_ * program_.element_bytes);
}

void RowCall::run_to(std::byte* to, std::byte* memory, std::int64_t begin, std::int64_t end) const {
  const Goal goal{to, begin};
  TileRun run(
      program_, isa_, memory, whole_cache_lines(at_once_ * length_ * program_.element_bytes));
  UndefinedElement none;  // stays unset: row kernels have no integer ops that can fail
  static_cast<void>(run.start(call_.parameters, {}, none));
  for (std::int64_t row = begin; row < end; row += at_once_) {
    const std::int64_t count = std::min(at_once_, end - row);
    set_inputs(run, row, count, row == begin);
    set_outputs(run, goal, row);
    fetch_ahead(run, goal, row + count, std::min(at_once_, end - row - count));
    run.run({.first = row * length_, .columns = count * length_, .lines = count});
    store_outputs(run, goal, row, count);
  }
  if (has_streams_) {
    moves_.fence();
  }
}

void RowCall::fetch_ahead(TileRun& run,
                          const Goal& goal,
                          std::int64_t row,
                          std::int64_t count) const {
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    const std::int64_t size = width(is_of_rows_[i]) * size_bytes(call_.inputs[i].dtype);
    if (access_kinds_[i] == AccessKind::straight) {
      run.add_next(call_.inputs[i].data + row * size, count * size, false);
    }
  }
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    const std::int64_t size =
        width(program_.outputs[o].is_of_rows) * size_bytes(call_.outputs[o].dtype);
    if (is_computed_in_place_[o] && is_fresh_[o]) {
      run.add_next(place_of(o, goal, row), count * size, true);
    }
  }
}

// Sets the inputs of a tile. A repeated row is gathered for the first rows only; later tiles reuse
// it.
void RowCall::set_inputs(TileRun& run, std::int64_t row, std::int64_t count, bool is_first) const {
  for (std::size_t i = 0; i < call_.inputs.size(); ++i) {
    const TensorView& view = call_.inputs[i];
    const bool is_one = is_of_rows_[i] && count == 1;
    if (access_kinds_[i] == AccessKind::straight) {
      run.set_input(i, view.data + row * width(is_of_rows_[i]) * size_bytes(view.dtype), is_one);
    } else if (access_kinds_[i] == AccessKind::repeated && count == 1) {
      run.set_input(i, view.data, false);
    } else {
      std::byte* const room = run.room_of(i);
      if (is_first || access_kinds_[i] == AccessKind::strided) {
        gather(i, row, count, room);
      }
      run.set_input(i, room, is_one);
    }
  }
}

void RowCall::gather(std::size_t input, std::int64_t row, std::int64_t count, std::byte* to) const {
  const TensorView& view = call_.inputs[input];
  const Strides& strides = strides_[input];
  const std::int64_t size = size_bytes(view.dtype);
  const int axes = is_of_rows_[input] ? kept_axes_ : space_.rank();
  const std::int64_t elements = width(is_of_rows_[input]);
  for (std::int64_t place = row * elements; place < (row + count) * elements;) {
    std::int64_t rest = place;
    std::int64_t offset = 0;
    for (int axis = axes - 1; axis >= 0; --axis) {
      offset += rest % space_[axis] * strides[static_cast<std::size_t>(axis)];
      rest /= space_[axis];
    }
    // Up to the end of the last axis.
    const std::int64_t inner = axes == 0 ? 1 : space_[axes - 1];
    const std::int64_t step = axes == 0 ? 0 : strides[static_cast<std::size_t>(axes - 1)];
    const std::int64_t piece = std::min(inner - place % inner, (row + count) * elements - place);
    moves_.gathers[MoveLoops::size_index(size)](
        to, piece, view.data + offset * size, 0, step, 1, piece);
    to += piece * size;
    place += piece;
  }
}

std::byte* RowCall::place_of(std::size_t output,
                             const Goal& goal,
                             std::int64_t row) const noexcept {
  const TensorView& view = call_.outputs[output];
  const std::int64_t step = width(program_.outputs[output].is_of_rows) * size_bytes(view.dtype);
  return goal.to != nullptr ? goal.to + (row - goal.first) * step : view.data + row * step;
}

void RowCall::set_outputs(TileRun& run, const Goal& goal, std::int64_t row) const {
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    if (is_computed_in_place_[o]) {
      run.set_output(o, place_of(o, goal, row));
    } else {
      run.set_output_in_tile(o);
    }
  }
}

void RowCall::store_outputs(TileRun& run,
                            const Goal& goal,
                            std::int64_t row,
                            std::int64_t count) const {
  for (std::size_t o = 0; o < call_.outputs.size(); ++o) {
    const std::int64_t size = size_bytes(call_.outputs[o].dtype);
    const std::int64_t elements = count * width(program_.outputs[o].is_of_rows);
    std::byte* const to = place_of(o, goal, row);
    const std::byte* const from = run.output(o);
    if (run.is_one(o)) {
      moves_.fills[MoveLoops::size_index(size)](to, from, elements);
    } else if (is_streamed_[o]) {
      moves_.stream(to, from, elements * size);
    } else if (from != to) {
      std::memcpy(to, from, static_cast<std::size_t>(elements * size));
    }
  }
}

}  // namespace hearth::cpu
