// ShardBalance: how a training divides its batches among devices of different speed, by the times
// that they took in earlier steps. Gradients are weighted by sample counts, so any division gives
// the same step up to rounding. Owned by a Trainer. Threads: one at a time. Header-internal.
// Invariants: (1) devices of one kind get the same share, so that a run on those alone does not
// depend on time; (2) every rank has a share above 0.
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
  /// Steps that are looked at before a division; the first one compiles, and does not count.
  static constexpr int kSteps = 4;
  /// Steps between two looks.
  static constexpr int kPause = 64;
  static constexpr std::int64_t kWhole = 1000;  ///< What the shares of all ranks add up to, nearly.

  /// A device's kind: all of the CPU's are one, however many cores each has; others go by their
  /// description.
  [[nodiscard]] static std::string kind_of(std::string_view name, std::string_view description);
  /// By rank, the kind of its device.
  void set_ranks(std::vector<std::string> kinds);
  /// A step has happened: by rank the samples that it had, and how long it took to bring their
  /// gradients. New shares by rank, where they would save a tenth of the slowest rank's time.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> note(
      std::span<const std::int64_t> samples, std::span<const std::chrono::nanoseconds> times);

 private:
  [[nodiscard]] std::optional<std::vector<std::int64_t>> divide();

  std::vector<std::string> kinds_;
  std::vector<std::vector<double>> rates_;  ///< By rank, samples a second in the steps looked at.
  std::vector<double> samples_;             ///< By rank, in those steps.
  int pause_ = 1;                           ///< Steps that are not looked at, from here on.
};

}  // namespace hearth
