// DeviceCounts: how often each parameter of an optimizer was updated, where its device counts that
// itself (hearth/runtime/update_counts.hpp). Parameters that were updated in the same steps share a
// count: usually there is one. Owned by the optimizer's state. Threads: as that.
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
  /// Begins anew: so many updates of each parameter have happened.
  void assign(const Device& device, std::span<const std::int64_t> updates, SourceLoc loc);
  /// Nothing is counted any more.
  void clear() noexcept;
  /// Before an update of all parameters but these: theirs stay as they are.
  void leave_out(std::span<const std::size_t> skipped);
  /// Of the updates before this one. Valid up to the next call of another function.
  [[nodiscard]] const Tensor& of(std::size_t parameter) const {
    return counts_[count_of_[parameter]];
  }
  /// Counts the update in its group.
  void advance(UpdateGroup& group);

 private:
  std::vector<Tensor> counts_;
  std::vector<bool> moves_;            // [count]: in the update that is made
  std::vector<std::size_t> count_of_;  // [parameter]
};

}  // namespace hearth::detail
