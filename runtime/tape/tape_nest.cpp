// Nested tapes. An op on tensors of an inner call is recorded on the inner tape and on the outer
// ones. Those get the operands as they track them.
#include "tape.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <utility>
#include <vector>

namespace hearth::detail {

TapePlace open_place(const Tensor& tensor) noexcept {
  TapePlace place{TensorAccess::tape(tensor), TensorAccess::node(tensor)};
  while (place.tape != nullptr && !place.tape->is_open()) {
    place = place.tape->outer_place(place.node);
  }
  return place;
}

bool has_nested_tape(const Tensor& tensor) noexcept {
  const Tape* const tape = open_place(tensor).tape;
  return tape != nullptr && tape->is_nested();
}

std::uint32_t Tape::node_behind_closed(const Tensor& tensor) const noexcept {
  const TapePlace place = open_place(tensor);
  return place.tape == this ? place.node : kNoNode;
}

Tensor Tape::outside(const Tensor& tensor) const {
  TapePlace place = open_place(tensor);
  if (place.tape == this) {
    place = outer_place(place.node);
  }
  Tensor copy(tensor);
  TensorAccess::set_node(copy, place.tape, place.node);
  return copy;
}

void Tape::will_record_outside(const Submission& submission, PathId layer) {
  std::vector<Tensor> tensors;
  tensors.reserve(submission.inputs.size());
  std::vector<Arg> inputs;
  inputs.reserve(submission.inputs.size());
  for (const Arg& input : submission.inputs) {
    tensors.push_back(outside(input.tensor()));
    inputs.emplace_back(std::as_const(tensors.back()), input.location());
  }
  Submission below = submission;
  below.inputs = inputs;
  outer_recorder_ = tape_of(below);
  if (outer_recorder_ != nullptr) {
    outer_recorder_->will_record(below, layer);
  }
}

TapePlace Tape::did_record_outside(std::span<Tensor> results) {
  Tape* const outer = std::exchange(outer_recorder_, nullptr);
  if (outer == nullptr) {
    return {};
  }
  outer->did_record(results);
  return {TensorAccess::tape(results[0]), TensorAccess::node(results[0])};
}

}  // namespace hearth::detail
