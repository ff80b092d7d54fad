#include "tape_traffic.hpp"

#include "run_again.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/tensor_impl.hpp"

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/streams/op_facts.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace hearth {
namespace {

// Values of this many last nodes are considered. A window holds 64 ops, and what has left it is
// already written.
constexpr std::uint32_t kReach = 12;
constexpr std::size_t kPlacesBack = 64;
constexpr int kMostOps = 8;

const TensorImpl& impl_of(const Tensor& tensor) {
  return *detail::TensorAccess::impl(tensor);
}

std::int64_t size_bytes_of(const TensorImpl& impl) noexcept {
  return impl.layout->shape.element_count() * size_bytes(impl.dtype);
}

// Recomputing behind a slice would make the whole value; behind a permutation, in another order.
bool keeps_order(OpKind view) noexcept {
  const IndexRule rule = op_facts(view).index_rule;
  return rule == IndexRule::row_major || rule == IndexRule::elementwise;
}

}  // namespace

bool TapeTraffic::is_worth(std::size_t place) const noexcept {
  const Tensor& value = tape_->saved_[place];
  if (!value.is_valid() || tape_->saved_nodes_[place] == detail::Tape::kNoNode) {
    return false;
  }
  const TensorImpl& impl = impl_of(value);
  const bool is_host = impl.endpoint->runs_inline();
  return size_bytes_of(impl) >= (is_host ? limits_.least_host_bytes : limits_.least_device_bytes) &&
         impl.endpoint->tables().fuses;
}

// Arguments of 16 bits, and numbers for each row or column.
void TapeTraffic::will_record(const detail::Submission& submission) {
  const auto user = static_cast<std::uint32_t>(tape_->nodes_.size() - 1);
  while (!narrow_.empty() && narrow_.front().user + kReach <= user) {
    narrow_.pop_front();
  }
  if (submission.inputs.empty() || !can_run_again(tape_->nodes_[user]) ||
      is_view(submission.kind)) {
    return;
  }
  std::int64_t result_bytes = 0;  // at least, for a cast to f32
  for (const Arg& input : submission.inputs) {
    const TensorImpl& impl = impl_of(input.tensor());
    const std::int64_t element_bytes = submission.kind == OpKind::cast ? 4 : size_bytes(impl.dtype);
    result_bytes = std::max(result_bytes, impl.layout->shape.element_count() * element_bytes);
  }
  const bool is_host = impl_of(submission.inputs[0].tensor()).endpoint->runs_inline();
  if (result_bytes < (is_host ? limits_.least_host_bytes : limits_.least_device_bytes)) {
    return;
  }
  for (std::uint32_t i = 0; i < submission.inputs.size(); ++i) {
    const Tensor& input = submission.inputs[i].tensor();
    const std::uint32_t producer = tape_->edges_[tape_->nodes_[user].first_edge + i].node;
    if (producer != detail::Tape::kNoNode && size_bytes_of(impl_of(input)) * 2 <= result_bytes) {
      narrow_.push_back({user, producer, untracked(input)});
    }
  }
}

void TapeTraffic::did_record() {
  const auto last = static_cast<std::uint32_t>(tape_->nodes_.size() - 1);
  bool is_worth_a_look = false;
  for (std::size_t place = tape_->nodes_[last].first_saved; place < tape_->saved_.size(); ++place) {
    is_worth_a_look = is_worth_a_look || is_worth(place);
  }
  if (!is_worth_a_look) {
    return;
  }
  const std::uint32_t first = last < kReach ? 0 : last - kReach + 1;
  for (std::size_t place = tape_->nodes_[first].first_saved; place < tape_->saved_.size();
       ++place) {
    if (is_worth(place)) {
      const std::uint32_t producer = tape_->saved_nodes_[place];
      const TapeNode& made = tape_->nodes_[producer];
      // Then all its users are in reach.
      if (producer >= first && can_run_again(made) && !is_view(made.kind)) {
        consider(producer, place);
      }
    }
  }
}

// Dropping saves a write and a read of the value. One read of as many bytes replaces the value's:
// the gradient mostly reads them anyway.
void TapeTraffic::consider(std::uint32_t node, std::size_t place) {
  const TensorImpl& impl = impl_of(tape_->saved_[place]);
  Chain chain{.element_count = impl.layout->shape.element_count(),
              .is_host = impl.endpoint->runs_inline()};
  if (!is_for_elementwise_ops(node) || !follow_inputs(node, chain)) {
    return;
  }
  const auto bytes = static_cast<float>(size_bytes_of(impl));
  const float more_bytes = std::max(static_cast<float>(chain.read_bytes) - bytes, 0.0F);
  const float additions_per_byte = limits_.additions_per_byte > 0
                                       ? limits_.additions_per_byte
                                       : impl.endpoint->additions_per_byte();
  const float arithmetic =
      chain.additions * static_cast<float>(chain.element_count) / additions_per_byte;
  if (more_bytes / 2 + arithmetic <= bytes) {
    drop(node, chain);
  }
}

// The operand of a product is written for the product, and would be written again for the gradient.
// A value seen through a view stays for the view.
bool TapeTraffic::is_for_elementwise_ops(std::uint32_t node) const noexcept {
  std::uint32_t user = node;
  for (std::size_t place = tape_->nodes_[node].first_saved; place < tape_->saved_.size(); ++place) {
    while (end_of_saved(tape_->nodes_[user]) <= place) {
      ++user;
    }
    std::uint32_t producer = tape_->saved_nodes_[place];
    if (!tape_->saved_[place].is_valid() || producer == detail::Tape::kNoNode) {
      continue;
    }
    if (producer == node && op_facts(tape_->nodes_[user].kind).fusion != FusionClass::elementwise) {
      return false;
    }
    const bool is_itself = producer == node;
    while (producer != detail::Tape::kNoNode && producer > node &&
           is_view(tape_->nodes_[producer].kind)) {
      producer = tape_->edges_[tape_->nodes_[producer].first_edge].node;
    }
    if (producer == node && !is_itself) {
      return false;
    }
  }
  return true;
}

// A value's users come after its producer, so no earlier entry belongs to one of them.
const TapeTraffic::Held* TapeTraffic::find_held(std::uint32_t producer) const noexcept {
  for (auto held = held_.rbegin(); held != held_.rend() && held->user > producer; ++held) {
    if (held->producer == producer) {
      return &*held;
    }
  }
  return nullptr;
}

const Tensor* TapeTraffic::find(std::uint32_t producer) const noexcept {
  const auto again =
      std::ranges::find(again_, producer, [](const auto& each) { return each.first; });
  if (again != again_.end()) {
    return &again->second;
  }
  const Held* const held = find_held(producer);
  return held != nullptr ? &held->value : nullptr;
}

const Tensor* TapeTraffic::find_kept(std::uint32_t producer) const noexcept {
  for (std::size_t place = tape_->saved_.size(), back = 0; place-- > 0 && back < kPlacesBack;
       ++back) {
    if (tape_->saved_nodes_[place] == producer && tape_->saved_[place].is_valid()) {
      return &tape_->saved_[place];
    }
  }
  const auto narrow = std::ranges::find(narrow_, producer, &Narrow::producer);
  return narrow != narrow_.end() ? &narrow->value : find(producer);
}

// A value expanded from fewer elements counts whole; a slice counts the elements read.
void TapeTraffic::Chain::read_from(const Tensor& value) {
  const TensorImpl& impl = impl_of(value);
  if (std::ranges::find(read, &impl) == read.end()) {
    read.push_back(&impl);
    read_bytes +=
        std::min(impl.layout->shape.element_count(), element_count) * size_bytes(impl.dtype);
  }
}

bool TapeTraffic::is_at_hand(std::uint32_t node) const noexcept {
  return tape_->nodes_[node].leaf != detail::Tape::kNoNode || find_kept(node) != nullptr;
}

bool TapeTraffic::follow(std::uint32_t node, Chain& chain) const {
  const TapeNode& made = tape_->nodes_[node];
  if (made.leaf != detail::Tape::kNoNode) {
    chain.read_from(tape_->leaves_[made.leaf]);
    return true;
  }
  if (const Tensor* const kept = find_kept(node)) {
    if (std::ranges::find(chain.bases, node) == chain.bases.end()) {
      chain.bases.push_back(node);
    }
    chain.read_from(*kept);
    return true;
  }
  return can_run_again(made) && follow_inputs(node, chain);
}

bool TapeTraffic::follow_inputs(std::uint32_t node, Chain& chain) const {
  const TapeNode& made = tape_->nodes_[node];
  const ArithmeticWeight weight = op_facts(made.kind).weight;
  chain.additions += chain.is_host ? weight.host : weight.gpu;
  if (++chain.ops > kMostOps) {
    return false;
  }
  const bool may_go_on = !is_view(made.kind) || keeps_order(made.kind);
  for (std::uint32_t input = 0; input < made.edge_count; ++input) {
    const std::uint32_t producer = tape_->edges_[made.first_edge + input].node;
    if (producer != detail::Tape::kNoNode) {
      if (!(may_go_on || is_at_hand(producer)) || !follow(producer, chain)) {
        return false;
      }
      continue;
    }
    if (!saves_input(made, input) || !tape_->saved_[place_of_input(made, input)].is_valid()) {
      return false;
    }
    chain.read_from(tape_->saved_[place_of_input(made, input)]);
  }
  return true;
}

// Phases: at every index that keeps the value, hold its inputs instead; drop the value.
void TapeTraffic::drop(std::uint32_t node, const Chain& chain) {
  std::uint32_t user = node;
  for (std::size_t place = tape_->nodes_[node].first_saved; place < tape_->saved_.size(); ++place) {
    while (end_of_saved(tape_->nodes_[user]) <= place) {
      ++user;
    }
    Tensor& value = tape_->saved_[place];
    if (tape_->saved_nodes_[place] == node && value.is_valid()) {
      keep_for(user, chain);
      const TensorImpl& impl = impl_of(value);
      const auto behind = std::ranges::upper_bound(dropped_, place, {}, &Dropped::place);
      dropped_.insert(behind, {place, impl.layout, impl.dtype});
      value = Tensor();
    }
  }
  std::vector<std::uint32_t> users;
  while (const Held* const held = find_held(node)) {
    users.push_back(held->user);
    held_.erase(held_.begin() + (held - held_.data()));
  }
  for (const std::uint32_t each : users) {
    keep_for(each, chain);
  }
}

void TapeTraffic::keep_for(std::uint32_t user, const Chain& chain) {
  for (const std::uint32_t base : chain.bases) {
    const auto is_there = [&](const Held& each) {
      return each.producer == base && each.user <= user;
    };
    auto held = held_.rbegin();
    while (held != held_.rend() && held->user > base && !is_there(*held)) {
      ++held;
    }
    if (held == held_.rend() || !is_there(*held)) {
      Tensor value = untracked(*find_kept(base));
      const auto behind = std::ranges::upper_bound(held_, user, {}, &Held::user);
      held_.insert(behind, {user, base, std::move(value)});
    }
  }
}

// ---- the sweep ----

bool TapeTraffic::is_wanted_later(std::uint32_t node) const noexcept {
  const std::size_t first = tape_->nodes_[node].first_saved;
  for (auto each = dropped_.rbegin(); each != dropped_.rend() && each->place >= first; ++each) {
    if (tape_->saved_nodes_[each->place] == node) {
      return true;
    }
  }
  return false;
}

Tensor TapeTraffic::value_of(std::uint32_t node, DType dtype, const Shape& shape) {
  const TapeNode made = tape_->nodes_[node];
  if (made.leaf != detail::Tape::kNoNode) {
    return tape_->leaves_[made.leaf];
  }
  if (const Tensor* const known = find(node)) {
    return untracked(*known);
  }
  std::vector<Tensor> inputs;
  for (std::uint32_t input = 0; can_run_again(made) && input < made.edge_count; ++input) {
    const TapeEdge edge = tape_->edges_[made.first_edge + input];
    if (edge.node != detail::Tape::kNoNode) {
      inputs.push_back(value_of(edge.node, edge.dtype, edge.layout->shape));
    } else if (saves_input(made, input)) {
      inputs.push_back(tape_->saved_[place_of_input(made, input)]);
    }
  }
  if (!can_run_again(made) || inputs.size() != made.edge_count) {
    // A bug of the library: throw rather than return a wrong gradient.
    throw_error(Error{.code = ErrorCode::internal,
                      .text = "grad: a value that was dropped cannot be made again",
                      .op = std::string(op_info(made.kind).name),
                      .location = made.location});
  }
  Tensor value = run_again(made, tape_->attribute_bytes_, inputs, dtype, shape);
  if (is_wanted_later(node)) {
    again_.emplace_back(node, value);
  }
  return value;
}

void TapeTraffic::prepare(const TapeNode& node) {
  narrow_.clear();
  if (dropped_.empty() || dropped_.back().place < node.first_saved) {
    return;
  }
  while (!dropped_.empty() && dropped_.back().place >= node.first_saved) {
    const Dropped what = dropped_.back();
    dropped_.pop_back();
    restored_.emplace_back(
        what.place, value_of(tape_->saved_nodes_[what.place], what.dtype, what.layout->shape));
  }
  std::erase_if(again_, [&](const auto& each) { return !is_wanted_later(each.first); });
}

Tensor& TapeTraffic::restored(std::size_t place) {
  const auto found =
      std::ranges::find(restored_, place, [](const auto& each) { return each.first; });
  HEARTH_ASSERT(found != restored_.end(), "what is not there was dropped, and made again");
  return found->second;
}

void TapeTraffic::passed(std::uint32_t node) noexcept {
  restored_.clear();
  while (!dropped_.empty() && dropped_.back().place >= tape_->saved_.size()) {
    dropped_.pop_back();
  }
  while (!held_.empty() && held_.back().user >= node) {
    held_.pop_back();
  }
  std::erase_if(again_, [&](const auto& each) { return each.first >= node; });
}

void TapeTraffic::forget_behind(std::uint32_t node) noexcept {
  passed(node + 1);
  while (!narrow_.empty() && narrow_.back().user > node) {
    narrow_.pop_back();
  }
}

}  // namespace hearth
