#include "nvrtc_copies.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace hearth::cuda {
namespace {

struct AllCopies {
  hearth::detail::Mutex mutex;
  /// By the address of a function: a library that is open already is known by a shorter path.
  std::map<const void*, std::shared_ptr<NvrtcCopies>> of_libraries HEARTH_GUARDED_BY(mutex);
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
  const auto* const library =
      reinterpret_cast<const void*>(original->nvrtcCompileProgram);  // NOLINT: of its code
  std::shared_ptr<NvrtcCopies>& known = all.of_libraries[library];
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
NvrtcCopies::Use NvrtcCopies::take(hearth::detail::Log* log) {
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
    if (!std::exchange(has_failed_, true) && log != nullptr) {
      log->warn(fmt::format("kernels compile slower, since threads share one NVRTC: {}",
                            made.error().text));
    }
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
