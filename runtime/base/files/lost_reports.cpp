#include <hearth/runtime/base/lost_reports.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include <hearth/runtime/base/failure_book.hpp>

namespace hearth {

ErrorRef LostReports::add(ErrorRef error) {
  auto reported = std::make_shared<const Error>(*error);
  const detail::MutexLock lock(mutex_);
  entries_.push_back({std::move(error), reported});
  return reported;
}

ErrorRef LostReports::take_dropped() {
  std::vector<Entry> read;  // destroyed after the lock: the end of an error may log a line
  const detail::MutexLock lock(mutex_);
  // clang 14 cannot parse the result of std::ranges::stable_partition.
  const auto known = std::stable_partition(entries_.begin(), entries_.end(), [](const Entry& it) {
    const detail::Failure* const failure = detail::find_failure(*it.error);
    return failure != nullptr && !failure->is_read();
  });
  std::move(known, entries_.end(), std::back_inserter(read));
  entries_.erase(known, entries_.end());
  const auto dropped =
      std::ranges::find_if(entries_, [](const Entry& entry) { return entry.reported.expired(); });
  if (dropped == entries_.end()) {
    return nullptr;
  }
  ErrorRef error = std::move(dropped->error);
  entries_.erase(dropped);
  return error;
}

}  // namespace hearth
