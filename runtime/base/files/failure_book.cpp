#include <hearth/runtime/base/failure_book.hpp>

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include <hearth/runtime/base/log.hpp>

namespace hearth::detail {
namespace {

// Drops the watchdog's report: it is long, and an unfinished one keeps the objects alive that it
// would query.
Error without_report(Error error) {
  error.report = {};
  return error;
}

}  // namespace

// ---- Failure ----

Failure::Failure(Error error, Count unread)
    : error_(without_report(std::move(error))), unread_(std::move(unread)) {
  unread_->fetch_add(1, std::memory_order_acq_rel);
}

void Failure::mark_read() noexcept {
  if (!is_read_.exchange(true, std::memory_order_acq_rel)) {
    unread_->fetch_sub(1, std::memory_order_acq_rel);
  }
}

void Failure::mark_unread() noexcept {
  if (is_read_.exchange(false, std::memory_order_acq_rel)) {
    unread_->fetch_add(1, std::memory_order_acq_rel);
  }
}

ErrorRef Failure::error() {
  Error error = error_;
  error.failure = shared_from_this();
  return std::make_shared<const Error>(std::move(error));
}

std::string Failure::to_string() const {
  const std::uint64_t ops = op_count_.load(std::memory_order_relaxed);
  const std::string cost = ops > 1 ? fmt::format(" ({} ops failed with it)", ops) : "";
  return error_.to_string() + cost;
}

std::string Failure::key() const {
  return fmt::format("{} {} {}:{}{}",
                     name(error_.code),
                     error_.op,
                     error_.location.file,
                     error_.location.line,
                     error_.location.line == 0 ? error_.text : "");
}

Failure* find_failure(const Error& error) noexcept {
  for (const Error* each = &error; each != nullptr; each = each->cause.get()) {
    if (each->failure) {
      return each->failure.get();
    }
  }
  return nullptr;
}

void mark_read(const Error& error) noexcept {
  if (Failure* const failure = find_failure(error)) {
    failure->mark_read();
  }
}

void mark_unread(const Error& error) noexcept {
  if (Failure* const failure = find_failure(error)) {
    failure->mark_unread();
  }
}

// ---- FailureBook ----

void FailureBook::open(std::weak_ptr<Log> log) {
  log_ = std::move(log);
  is_open_.store(true, std::memory_order_release);  // partner: record_death
}

ErrorRef FailureBook::enter(ErrorRef error) noexcept {
  const bool is_wanted = error != nullptr && (error->code == ErrorCode::cancelled ||
                                              error->code == ErrorCode::device_closed);
  return is_wanted ? std::move(error) : enter_lost_update(std::move(error));
}

ErrorRef FailureBook::enter_lost_update(ErrorRef error) noexcept {
  if (error == nullptr || error->code == ErrorCode::device_closed ||
      find_failure(*error) != nullptr) {
    return error;
  }
  try {
    return add(*error);
  } catch (const std::bad_alloc&) {
    return error;  // the error itself still reaches its reader
  }
}

ErrorRef FailureBook::add(const Error& error) {
  const auto failure = std::make_shared<Failure>(error, unread_);
  // Every copy of the error holds `alive`. When the last copy dies, only the book can still read
  // the failure.
  Error carried = error;
  carried.failure = std::shared_ptr<Failure>(
      failure.get(), [failure, book = IntrusivePtr<FailureBook>(this)](Failure*) {
        book->record_death(*failure);
      });
  auto entered = std::make_shared<const Error>(std::move(carried));
  const MutexLock lock(mutex_);
  if (expecting_.contains({error.device, error.stream})) {
    failure->mark_read();
    return entered;
  }
  if (listed_.size() == kMostListed) {
    std::erase_if(listed_, [](const auto& each) { return each->is_read(); });
  }
  if (listed_.size() < kMostListed) {
    listed_.push_back(failure);
  }
  return entered;
}

void FailureBook::record_death(const Failure& failure) noexcept {
  if (failure.is_read() || !is_open_.load(std::memory_order_acquire)) {  // partners: open, close
    return;
  }
  const std::shared_ptr<Log> log = log_.lock();
  if (!log) {
    return;
  }
  try {
    log->write_counted(LogLevel::warn, failure.key(), [&failure] {
      return "unread failure: " + failure.to_string();
    });
  } catch (const std::bad_alloc&) {
    log->warn("unread failure: out of memory for its text");
  }
}

void FailureBook::expect_failures(const std::string& device, std::uint64_t lane) {
  const MutexLock lock(mutex_);
  expecting_.emplace(device, lane);
}

void FailureBook::expect_no_more(const std::string& device, std::uint64_t lane) {
  const MutexLock lock(mutex_);
  expecting_.erase({device, lane});
}

void FailureBook::report(Log& log) noexcept {
  const std::uint64_t count = unread_count();
  if (count == 0) {
    return;
  }
  constexpr std::size_t kMostNamed = 3;
  try {
    std::vector<std::shared_ptr<Failure>> unread;
    {
      const MutexLock lock(mutex_);
      unread = listed_;
    }
    std::erase_if(unread, [](const auto& each) { return each->is_read(); });
    std::string text = fmt::format(
        "the runtime ends: {} failure{} never read", count, count == 1 ? " was" : "s were");
    std::vector<std::string> named;
    for (const std::shared_ptr<Failure>& each : unread) {
      const std::string key = each->key();
      if (named.size() < kMostNamed && std::ranges::find(named, key) == named.end()) {
        named.push_back(key);
        text += "\n  " + each->to_string();
      }
    }
    log.warn(text);
  } catch (const std::bad_alloc&) {
    log.warn("the runtime ends with unread failures: out of memory for their texts");
  }
}

}  // namespace hearth::detail
