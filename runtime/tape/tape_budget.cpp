#include "tape_budget.hpp"

#include "run_again.hpp"
#include "runtime/client/tensor_impl.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <algorithm>
#include <utility>

namespace hearth {
namespace {

// The longest chain of ops that a drop may require. A chain that grows longer by later drops still
// ends at a kept value.
constexpr int kLongestChain = 16;

}  // namespace

std::int64_t TapeBudget::size_bytes_of(std::uint32_t node) const noexcept {
  const Value& value = values_[node];
  return value.layout->shape.element_count() * size_bytes(value.dtype);
}

std::uint32_t TapeBudget::base_of(std::uint32_t node) const noexcept {
  const auto is_view_of_tracked = [&](const TapeNode& each) {
    return each.leaf == detail::Tape::kNoNode && each.checkpoint == 0 && is_view(each.kind) &&
           tape_->edges_[each.first_edge].node != detail::Tape::kNoNode;
  };
  while (is_view_of_tracked(tape_->nodes_[node])) {
    node = tape_->edges_[tape_->nodes_[node].first_edge].node;
  }
  return node;
}

// Returns whether an op up to `user` has saved the node's value, so that it is available until
// `user` is swept.
bool TapeBudget::has_value_by(std::uint32_t node, std::uint32_t user) const noexcept {
  const std::size_t end = end_of_saved(tape_->nodes_[user]);
  return std::ranges::any_of(values_[node].places, [&](std::uint32_t place) {
    return place < end && tape_->saved_[place].is_valid();
  });
}

bool TapeBudget::can_recompute(std::uint32_t node, int depth) const noexcept {
  const TapeNode& made = tape_->nodes_[node];
  if (depth == 0 || !can_run_again(made)) {
    return false;
  }
  for (std::uint32_t input = 0; input < made.edge_count; ++input) {
    const std::uint32_t producer = tape_->edges_[made.first_edge + input].node;
    if (producer == detail::Tape::kNoNode) {
      if (!saves_input(made, input)) {
        return false;
      }
    } else if (tape_->nodes_[producer].leaf == detail::Tape::kNoNode &&
               !has_value_by(producer, node) && !can_recompute(producer, depth - 1)) {
      return false;
    }
  }
  return true;
}

// The bytes of a leaf belong to the program and do not count. The result of a checkpoint has no
// producer op, so its form is taken from the saved tensor.
void TapeBudget::keep(std::uint32_t node, std::uint32_t place) {
  values_[node].places.push_back(place);
  const std::uint32_t base = base_of(node);
  if (values_[base].layout == nullptr) {
    const TensorImpl& saved = *detail::TensorAccess::impl(tape_->saved_[place]);
    values_[base].layout = saved.layout;
    values_[base].dtype = saved.dtype;
  }
  if (base != node && std::ranges::find(values_[base].views, node) == values_[base].views.end()) {
    values_[base].views.push_back(node);
  }
  if (!values_[base].is_kept && tape_->nodes_[base].leaf == detail::Tape::kNoNode) {
    values_[base].is_kept = true;
    kept_bytes_ += size_bytes_of(base);
    next_candidate_ = std::min(next_candidate_, base);
  }
}

void TapeBudget::did_record(const Tensor& result) {
  values_.resize(tape_->nodes_.size());
  values_.back().layout = detail::TensorAccess::impl(result)->layout;
  values_.back().dtype = detail::TensorAccess::impl(result)->dtype;
  for (; registered_places_ < tape_->saved_.size(); ++registered_places_) {
    const std::uint32_t producer = tape_->saved_nodes_[registered_places_];
    if (producer != detail::Tape::kNoNode) {
      keep(producer, registered_places_);
    }
  }
  enforce();
  state_->report.peak_kept_bytes = std::max(state_->report.peak_kept_bytes, kept_bytes_);
}

void TapeBudget::enforce() {
  for (; kept_bytes_ > state_->kept_bytes && next_candidate_ < values_.size(); ++next_candidate_) {
    if (values_[next_candidate_].is_kept && can_recompute(next_candidate_, kLongestChain)) {
      drop(next_candidate_);
    }
  }
}

void TapeBudget::drop(std::uint32_t node) {
  Value& value = values_[node];
  const auto empty_places = [&](const Value& of) {
    for (const std::uint32_t place : of.places) {
      tape_->saved_[place] = Tensor();
    }
  };
  empty_places(value);
  for (const std::uint32_t view : value.views) {
    empty_places(values_[view]);
  }
  value.is_kept = false;
  kept_bytes_ -= size_bytes_of(node);
  state_->report.dropped_bytes += value.was_dropped ? 0 : size_bytes_of(node);
  value.was_dropped = true;
}

std::vector<Tensor> TapeBudget::inputs_of(std::uint32_t node) {
  const TapeNode made = tape_->nodes_[node];
  std::vector<Tensor> inputs;
  for (std::uint32_t input = 0; input < made.edge_count; ++input) {
    const std::uint32_t producer = tape_->edges_[made.first_edge + input].node;
    if (producer != detail::Tape::kNoNode) {
      inputs.push_back(value_of(producer));
      continue;
    }
    inputs.push_back(tape_->saved_[place_of_input(made, input)]);
  }
  return inputs;
}

// Phases: return a saved copy if there is one; else recompute the value from its inputs; store it
// at all indices that the sweep has yet to pass.
Tensor TapeBudget::value_of(std::uint32_t node) {
  const TapeNode made = tape_->nodes_[node];
  if (made.leaf != detail::Tape::kNoNode) {
    return tape_->leaves_[made.leaf];
  }
  for (const std::uint32_t place : values_[node].places) {
    if (place < tape_->saved_.size() && tape_->saved_[place].is_valid()) {
      return untracked(tape_->saved_[place]);
    }
  }
  HEARTH_ASSERT(can_run_again(made), "a dropped value can be made again");
  const Tensor value = run_again(made,
                                 tape_->attribute_bytes_,
                                 inputs_of(node),
                                 values_[node].dtype,
                                 values_[node].layout->shape);
  ++state_->report.recomputed_op_count;
  for (const std::uint32_t place : values_[node].places) {
    if (place < tape_->saved_.size()) {
      tape_->saved_[place] = value;
    }
  }
  return value;
}

void TapeBudget::restore(std::size_t place) {
  const std::uint32_t producer = tape_->saved_nodes_[place];
  HEARTH_ASSERT(producer != detail::Tape::kNoNode, "what is dropped was made by a node");
  tape_->saved_[place] = value_of(producer);
}

void TapeBudget::forget_behind(std::uint32_t node) {
  values_.resize(std::min(values_.size(), std::size_t{node} + 1));
  const std::size_t end = tape_->saved_.size();
  kept_bytes_ = 0;
  for (Value& value : values_) {
    std::erase_if(value.places, [&](std::uint32_t place) { return place >= end; });
    std::erase_if(value.views, [&](std::uint32_t view) { return view > node; });
    value.is_kept = false;
  }
  registered_places_ = static_cast<std::uint32_t>(end);
  for (std::uint32_t place = 0; place < registered_places_; ++place) {
    const std::uint32_t producer = tape_->saved_nodes_[place];
    Value* const base = producer != detail::Tape::kNoNode ? &values_[base_of(producer)] : nullptr;
    if (base != nullptr && !base->is_kept && tape_->saved_[place].is_valid() &&
        tape_->nodes_[base_of(producer)].leaf == detail::Tape::kNoNode) {
      base->is_kept = true;
      kept_bytes_ += size_bytes_of(base_of(producer));
    }
  }
  next_candidate_ = 0;
}

}  // namespace hearth
