// ShardBalance: divides a training's batches among devices of different speed, by their times in
// earlier steps. Gradients are weighted by sample counts, so any division gives the same step up to
// rounding. Header-internal.
// Owned by a Trainer. Threads: one at a time.
// Invariants: (1) devices of one kind get the same share, so a run on one kind does not depend on
// time; (2) every rank has a share above 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

class ShardBalance final {
 public:
  /// Steps measured before a division. The first step compiles kernels and is skipped.
  static constexpr int kSteps = 4;
  /// Steps between two measurements.
  static constexpr int kPause = 64;
  static constexpr std::int64_t kWhole = 1000;  ///< Approximate sum of the shares of all ranks.

  /// Kind of a device: "cpu" for every CPU device, however many cores it has, otherwise its
  /// description.
  [[nodiscard]] static std::string kind_of(std::string_view name, std::string_view description);
  /// Sets the kind of each rank's device. Returns whether there were other kinds before: shares for
  /// those are void then.
  bool set_ranks(std::vector<std::string> kinds);
  /// Adds a step that has happened: by rank, its samples and the time until its gradients arrived.
  /// Returns new shares by rank if they would save a tenth of the slowest rank's time.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> note(
      std::span<const std::int64_t> samples, std::span<const std::chrono::nanoseconds> times);

 private:
  [[nodiscard]] std::optional<std::vector<std::int64_t>> divide();

  std::vector<std::string> kinds_;
  std::vector<std::vector<double>> rates_;  ///< By rank, samples per second in the measured steps.
  std::vector<double> samples_;             ///< By rank, samples in the measured steps.
  int pause_ = 1;                           ///< Steps to skip before the next measurement.
};

}  // namespace hearth
