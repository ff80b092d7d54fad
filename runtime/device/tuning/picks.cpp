#include "picks.hpp"

#include <algorithm>
#include <utility>

#include <hearth/runtime/base/machine_load.hpp>

#include "background_tuner.hpp"

namespace hearth {
namespace {

std::vector<WantedOperand> operands_of(std::span<const TensorView> views) {
  std::vector<WantedOperand> operands;
  for (const TensorView& view : views) {
    operands.push_back({.layout = *view.layout, .dtype = view.dtype});
  }
  return operands;
}

std::vector<std::byte> blob_of(const OpView& op) {
  const std::span<const std::byte> bytes = op.last_blob_bytes(op.record().blob_size_bytes);
  return {bytes.begin(), bytes.end()};
}

bool is_settled(const detail::TuneEntry* entry) noexcept {
  return entry != nullptr && !detail::is_stale(*entry, detail::time_of_day());
}

}  // namespace

[[gnu::noinline]] detail::CandidateId Picks::look_up(const KernelCall& call,
                                                     const KernelMaker& kernels) {
  detail::CandidateId pick = detail::kRulePick;
  const std::vector<detail::Candidate> candidates = kernels.candidates(call);
  if (!candidates.empty()) {
    const detail::TuneKey key = key_of(call, core_count_);
    const detail::TuneEntry* const entry = cache_.find(key);
    if (entry != nullptr) {
      pick = detail::pick_from(*entry, candidates, Numerics::same_bits);
    }
    if (entry == nullptr || detail::is_stale(*entry, candidates, detail::time_of_day())) {
      want(key, call);
    }
  }
  table_.put(traits_of(call), pick);
  return pick;
}

void Picks::want(const detail::TuneKey& key, const KernelCall& call) {
  if (!collects_ || wanted_.size() == kMostWanted ||
      std::ranges::find(wanted_, key, &WantedCall::key) != wanted_.end()) {
    return;
  }
  wanted_.push_back({.key = key,
                     .record = call.op.record(),
                     .blob = blob_of(call.op),
                     .inputs = operands_of(call.inputs),
                     .outputs = operands_of(call.outputs)});
  if (tuner_) {
    tuner_->want(wanted_.back());
  }
}

void Picks::refuse(const KernelCall& call, detail::CandidateId pick) {
  const detail::TuneKey key = key_of(call, core_count_);
  if (const detail::TuneEntry* const entry = cache_.find(key)) {
    detail::TuneEntry without = *entry;
    detail::drop_rung(without, pick);
    cache_.load(std::move(without));
  }
  table_.put(traits_of(call), detail::kRulePick);
}

void Picks::add(const std::vector<detail::TuneEntry>& entries) {
  for (const detail::TuneEntry& each : entries) {
    cache_.load(each);
    if (is_settled(&each)) {
      std::erase_if(wanted_, [&](const WantedCall& call) { return call.key == each.key; });
    }
  }
  table_.invalidate();
}

WantedCalls Picks::wanted() const {
  return {.calls = wanted_};
}

}  // namespace hearth
