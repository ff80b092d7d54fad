// A duel: an incumbent and a challenger are sampled in turns until the judge decides.
// A state machine. Owned by a Tuner or by hearth-bench, never shared: no locks, no clock.
// Invariants: (1) the order is incumbent, challenger, challenger, incumbent, repeated; (2) the
// first pair warms up and is dropped; (3) a duel ends after kMostPairs pairs at the latest.
#pragma once

#include <hearth/autotune/judge.hpp>

#include <vector>

namespace hearth::detail {

class Duel final {
 public:
  static constexpr int kMostPairs = 31;

  explicit Duel(JudgeOptions options) : options_(options) {}

  /// Returns whether the next sample is of the challenger.
  [[nodiscard]] bool is_challenger_next() const noexcept { return place_ == 1 || place_ == 2; }
  /// Adds the next sample. Call it only while the duel is not over.
  void add(const Sample& sample);
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  /// Returns the latest judgement: after the last pair that was judged.
  [[nodiscard]] const Judgement& judgement() const noexcept { return judgement_; }

 private:
  JudgeOptions options_;
  int place_ = 0;  // of the next sample in its pair, 0 to 3
  bool is_warm_ = false;
  bool is_over_ = false;
  AbbaPair open_;
  std::vector<AbbaPair> pairs_;
  Judgement judgement_;
};

}  // namespace hearth::detail
