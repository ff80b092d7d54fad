// A duel: an incumbent and a challenger are sampled in turns until the judge decides.
// A state machine. Owned by a Tuner or by hearth-bench, never shared: no locks, no clock.
// Invariants: (1) the order within a pair is ABBA or BAAB, by a fixed sequence without a period:
// a disturbance with a period meets both sides equally; (2) the first pair warms up and is dropped;
// (3) a duel ends after kMostPairs pairs at the latest.
#pragma once

#include <hearth/autotune/judge.hpp>

#include <cstdint>
#include <vector>

namespace hearth::detail {

class Duel final {
 public:
  static constexpr int kMostPairs = 31;

  explicit Duel(JudgeOptions options) : options_(options) {}

  /// Returns whether the next sample is of the challenger.
  [[nodiscard]] bool is_challenger_next() const noexcept {
    const bool is_inside = place_ == 1 || place_ == 2;
    return is_inside != is_mirrored();
  }
  /// Adds the next sample. Call it only while the duel is not over.
  void add(const Sample& sample);
  /// Drops the samples of the open pair, which something interrupted.
  void drop_pair() noexcept { place_ = 0; }
  /// Returns whether the open pair lacks samples.
  [[nodiscard]] bool is_in_pair() const noexcept { return place_ != 0; }
  [[nodiscard]] bool is_over() const noexcept { return is_over_; }
  /// Returns the latest judgement: after the last pair that was judged.
  [[nodiscard]] const Judgement& judgement() const noexcept { return judgement_; }

 private:
  /// Whether the open pair is BAAB.
  [[nodiscard]] bool is_mirrored() const noexcept {
    // One period of the shift register x^5 + x^2 + 1: 31 bits, 16 ones, no structure.
    constexpr std::uint32_t kMirrored = 0b0101110110001111100110100100001;
    return ((kMirrored >> pairs_.size()) & 1U) != 0;
  }

  JudgeOptions options_;
  int place_ = 0;  // of the next sample in its pair, 0 to 3
  bool is_warm_ = false;
  bool is_over_ = false;
  AbbaPair open_;
  std::vector<AbbaPair> pairs_;
  Judgement judgement_;
};

}  // namespace hearth::detail
