#include "nvrtc_copies.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace hearth::cuda {
namespace {

struct AllCopies {
  hearth::detail::Mutex mutex;
  std::map<std::string, std::shared_ptr<NvrtcCopies>> of_files HEARTH_GUARDED_BY(mutex);
};

// Never destroyed: abandoned threads may still compile when the process ends.
AllCopies& all_copies() noexcept {
  static auto* const objects = new AllCopies();  // NOLINT: for the whole process
  return *objects;
}

}  // namespace

NvrtcCopies::NvrtcCopies(std::shared_ptr<const NvrtcApi> original) {
  copies_.push_back({.api = std::move(original)});
}

std::shared_ptr<NvrtcCopies> NvrtcCopies::of(const std::shared_ptr<const NvrtcApi>& original) {
  AllCopies& all = all_copies();
  const hearth::detail::MutexLock lock(all.mutex);
  std::shared_ptr<NvrtcCopies>& known = all.of_files[original->file];
  if (known == nullptr) {
    known = std::make_shared<NvrtcCopies>(original);
  }
  return known;
}

std::size_t NvrtcCopies::least_used() const {
  const auto least = std::ranges::min_element(copies_, {}, &Copy::users);
  return static_cast<std::size_t>(least - copies_.begin());
}

// A copy is opened without the lock, while other threads compile.
NvrtcCopies::Use NvrtcCopies::take() {
  std::shared_ptr<const NvrtcApi> original;
  {
    const hearth::detail::MutexLock lock(mutex_);
    const std::size_t least = least_used();
    if (copies_[least].users == 0 || planned_ >= kMost) {
      ++copies_[least].users;
      return {*this, least, copies_[least].api};
    }
    ++planned_;
    original = copies_.front().api;
  }
  Result<std::shared_ptr<const NvrtcApi>> made = original->open_copy();
  const hearth::detail::MutexLock lock(mutex_);
  if (made.has_value()) {
    copies_.push_back({.api = std::move(made).value()});
  } else {
    planned_ = kMost;  // another attempt would fail as well
  }
  const std::size_t least = least_used();
  ++copies_[least].users;
  return {*this, least, copies_[least].api};
}

void NvrtcCopies::give_back(std::size_t number) {
  const hearth::detail::MutexLock lock(mutex_);
  --copies_[number].users;
}

}  // namespace hearth::cuda
