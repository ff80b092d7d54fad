// The picks of a device: which candidate of its backend runs a call. Reads stored entries, and
// collects the calls that have none. Private to runtime. Touched by the token holder only.
// Invariants: (1) a pick is one that KernelMaker::candidates() lists for this call, in the bits
// class of the rule; (2) no call of pick() runs a kernel or touches the disk.
#pragma once

#include <hearth/autotune/pick_table.hpp>
#include <hearth/autotune/tune_cache.hpp>
#include <hearth/backends/kernel_maker.hpp>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "call_key.hpp"
#include "wanted_call.hpp"

namespace hearth {

class BackgroundTuner;

class Picks final {
 public:
  static constexpr std::size_t kMostWanted = 256;

  /// `collects`: whether wanted() lists calls without an entry. `tuner` receives each of them; may
  /// be null.
  Picks(int core_count, bool collects, std::shared_ptr<BackgroundTuner> tuner = nullptr)
      : core_count_(core_count), collects_(collects), tuner_(std::move(tuner)) {}

  /// Returns the pick of a call whose kind may_be_picked(). Constants keep packed forms, beside
  /// which the choices have other times: calls with one follow the rule.
  ///
  /// Cost: see `BM_Picks_Pick`; some microseconds for the first call of its traits.
  [[nodiscard]] detail::CandidateId pick(const KernelCall& call, const KernelMaker& kernels) {
    if (has_constant(call)) {
      return detail::kRulePick;
    }
    const detail::CandidateId known = table_.find(traits_of(call));
    return known != detail::PickTable::kUnknown ? known : look_up(call, kernels);
  }
  /// Drops a pick that the backend refused: the call follows its rule from now on.
  void refuse(const KernelCall& call, detail::CandidateId pick);
  /// Adds entries from the store, or of new trials.
  void add(const std::vector<detail::TuneEntry>& entries);
  /// Returns the calls without a settled entry, the earliest first.
  [[nodiscard]] WantedCalls wanted() const;
  [[nodiscard]] const detail::TuneEntry* find(const detail::TuneKey& key) {
    return cache_.find(key);
  }

 private:
  [[nodiscard]] detail::CandidateId look_up(const KernelCall& call, const KernelMaker& kernels);
  void want(const detail::TuneKey& key, const KernelCall& call);

  int core_count_;
  bool collects_;
  std::shared_ptr<BackgroundTuner> tuner_;
  detail::PickTable table_;
  detail::TuneCache cache_;
  std::vector<WantedCall> wanted_;
};

}  // namespace hearth
