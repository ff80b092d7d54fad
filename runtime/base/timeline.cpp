#include <hearth/runtime/base/timeline.hpp>

#include <string>

namespace hearth {

class Timeline::Waiter final : public WaitNode {
 public:
  explicit Waiter(std::uint64_t value) : value_(value) {}
  [[nodiscard]] std::uint64_t value() const noexcept { return value_; }

 private:
  std::uint64_t value_;
};

// Partner: the store in advance(); a thread that sees the value sees the work behind it.
std::uint64_t Timeline::value() const noexcept {
  return value_.load(std::memory_order_acquire);
}

bool Timeline::has_reached(std::uint64_t value) const noexcept {
  return this->value() >= value;
}

Status Timeline::status() const {
  const MutexLock lock(mutex_);
  return error_;
}

void Timeline::advance(std::uint64_t value) noexcept {
  HEARTH_ASSERT(value >= this->value(), "a timeline went back");
  value_.store(value, std::memory_order_release);
  // Partner: the exchange in wait(). Both exchange this word: if the waiter comes second it reads
  // this exchange and so sees the value; if it comes first it is seen here.
  if (has_waiters_.exchange(0, std::memory_order_acq_rel) != 0) {
    wake_reached();
  }
}

void Timeline::fail(ErrorRef error) noexcept {
  HEARTH_ASSERT(error != nullptr, "a timeline failed without an error");
  {
    const MutexLock lock(mutex_);
    if (!error_) {
      error_ = std::move(error);
    }
  }
  wake_reached();
}

void Timeline::wake_reached() noexcept {
  for (;;) {
    IntrusivePtr<Parker> parker;
    {
      const MutexLock lock(mutex_);
      for (WaitNode* node = waiters_.first(); node != nullptr && !parker; node = node->next()) {
        if (error_ || has_reached(static_cast<Waiter*>(node)->value())) {
          parker = waiters_.take(*node);
        }
      }
      if (!parker) {
        if (!waiters_.empty()) {
          has_waiters_.exchange(1, std::memory_order_acq_rel);
        }
        return;
      }
    }
    parker->unpark();
  }
}

Status Timeline::wait(std::uint64_t value, Deadline deadline) {
  schedule_point();
  if (has_reached(value)) {
    return {};
  }
  Waiter waiter(value);
  for (Wake wake = Wake::unparked;;) {
    {
      const MutexLock lock(mutex_);
      waiters_.add(waiter);
      has_waiters_.exchange(1, std::memory_order_acq_rel);
      const bool is_reached = has_reached(value);
      if (is_reached || error_ || wake == Wake::deadline) {
        waiters_.remove(waiter);
        if (is_reached) {
          return {};
        }
        if (error_) {
          return error_;
        }
        break;
      }
    }
    wake = current_context().parker().park(deadline);
  }
  return Error{.code = ErrorCode::deadline_exceeded,
               .text = "the deadline passed while waiting for timeline value " +
                       std::to_string(value) + "; it stands at " + std::to_string(this->value())};
}

}  // namespace hearth
