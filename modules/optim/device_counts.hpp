// DeviceCounts: the number of updates of each parameter, for devices that count them themselves
// (hearth/runtime/update_counts.hpp). Parameters that were updated in the same steps share one
// count; usually there is only one. A last count, of all steps, follows those of the parameters.
// Owned by the optimizer's state. Threads: as its owner.
#pragma once

#include <hearth/runtime/update_group.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hearth::detail {

class DeviceCounts final {
 public:
  [[nodiscard]] bool empty() const noexcept { return counts_.empty(); }
  /// Restarts with the given number of updates per parameter, and of steps.
  void assign(const Device& device,
              std::span<const std::int64_t> updates,
              std::int64_t steps,
              SourceLoc loc);
  /// Drops all counts.
  void clear() noexcept;
  /// Excludes parameters from the next update. Their counts stay.
  void leave_out(std::span<const std::size_t> skipped);
  /// The number of updates of a parameter, without the one being built. Valid until the next call
  /// of another function.
  [[nodiscard]] const Tensor& of(std::size_t parameter) const {
    return counts_[count_of_[parameter]];
  }
  /// Reads all counts: one per parameter, then the number of steps. Waits.
  [[nodiscard]] std::vector<std::int64_t> read(SourceLoc loc) const;
  /// Adds the update of the counts to the group.
  void advance(UpdateGroup& group);

 private:
  std::vector<Tensor> counts_;
  std::vector<bool> moves_;            // [count]: whether the next update includes it
  std::vector<std::size_t> count_of_;  // [parameter], then the steps: index of the count
};

}  // namespace hearth::detail
