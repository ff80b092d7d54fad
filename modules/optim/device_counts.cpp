#include <hearth/modules/device_counts.hpp>

#include <algorithm>
#include <map>

namespace hearth::detail {

void DeviceCounts::assign(const Device& device,
                          std::span<const std::int64_t> updates,
                          std::int64_t steps,
                          SourceLoc loc) {
  clear();
  std::map<std::int64_t, std::size_t> known;
  const auto add = [&](std::int64_t count) {
    const auto [place, is_new] = known.try_emplace(count, counts_.size());
    if (is_new) {
      counts_.push_back(make_update_count(device, count, loc));
    }
    count_of_.push_back(place->second);
  };
  std::ranges::for_each(updates, add);
  add(steps);
  moves_.assign(counts_.size(), true);
}

void DeviceCounts::clear() noexcept {
  counts_.clear();
  moves_.clear();
  count_of_.clear();
}

// Splits each count that skipped and updated parameters share. Both halves share one tensor until
// the update.
void DeviceCounts::leave_out(std::span<const std::size_t> skipped) {
  std::vector<bool> is_skipped(count_of_.size());
  for (const std::size_t parameter : skipped) {
    is_skipped[parameter] = true;
  }
  moves_.assign(counts_.size(), false);
  for (std::size_t i = 0; i < count_of_.size(); ++i) {
    if (!is_skipped[i]) {
      moves_[count_of_[i]] = true;
    }
  }
  // The new count, by the advancing count that it was split from.
  std::map<std::size_t, std::size_t> stays;
  for (const std::size_t parameter : skipped) {
    const std::size_t count = count_of_[parameter];
    if (!moves_[count]) {
      continue;
    }
    const auto [place, is_new] = stays.try_emplace(count, counts_.size());
    if (is_new) {
      counts_.emplace_back(counts_[count]);
      moves_.push_back(false);
    }
    count_of_[parameter] = place->second;
  }
}

std::vector<std::int64_t> DeviceCounts::read(SourceLoc loc) const {
  std::vector<std::int64_t> values;
  for (const Tensor& count : counts_) {
    values.push_back(static_cast<std::int64_t>(count.item(loc)));
  }
  std::vector<std::int64_t> all;
  for (const std::size_t index : count_of_) {
    all.push_back(values[index]);
  }
  return all;
}

void DeviceCounts::advance(UpdateGroup& group) {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (moves_[i]) {
      group.count(counts_[i]);
    }
  }
}

}  // namespace hearth::detail
