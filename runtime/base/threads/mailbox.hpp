// Mailbox: a queue of messages between any threads, which blocks on parkers. Messages are moved,
// never copied. Threads: any.
// Invariants: (1) messages leave in the order in which they were accepted; (2) after close() no
// message is accepted, but queued ones can still be taken; (3) a refused message stays with its
// sender.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/base/wait_list.hpp>

namespace hearth::detail {

struct MailboxOptions {
  std::size_t capacity =
      std::numeric_limits<std::size_t>::max();  ///< At least 1; a push into a full mailbox waits.
};

enum class MailboxPush : std::uint8_t {
  accepted,
  closed,    ///< close() was called.
  deadline,  ///< The mailbox stayed full until the deadline.
};

template <class T>
class Mailbox final {
 public:
  explicit Mailbox(MailboxOptions options = {}) : capacity_(options.capacity) {
    HEARTH_ASSERT(capacity_ > 0, "a mailbox needs room for one message");
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox() = default;

  /// Adds a message. Waits up to kDefaultWait while the mailbox is full. Any result but `accepted`
  /// leaves `message` unchanged.
  MailboxPush push(T&& message) HEARTH_EXCLUDES(mutex_) {
    return push(std::move(message), Deadline::in(kDefaultWait));
  }
  MailboxPush push(T&& message, Deadline deadline) HEARTH_EXCLUDES(mutex_) {
    schedule_point();
    std::optional<WaitNode> node;
    for (Wake wake = Wake::unparked;;) {
      if (const auto result = offer(message, node, wake)) {
        return *result;
      }
      wake = current_context().parker().park(deadline);
    }
  }
  /// Adds a message unless the mailbox is full (`deadline`) or closed. Never waits.
  MailboxPush try_push(T&& message) HEARTH_EXCLUDES(mutex_) {
    std::optional<WaitNode> node;
    return *offer(message, node, Wake::deadline);
  }

  /// Returns the oldest message, or nothing if the mailbox is empty. Never waits.
  [[nodiscard]] std::optional<T> try_pop() HEARTH_EXCLUDES(mutex_) {
    std::optional<T> message;
    std::optional<WaitNode> node;
    take(message, node, Wake::deadline);
    return message;
  }
  /// Waits for the oldest message. Returns nothing if the deadline passes, or if the mailbox is
  /// closed and empty. An idle thread passes Deadline::never().
  [[nodiscard]] std::optional<T> pop(Deadline deadline) HEARTH_EXCLUDES(mutex_) {
    schedule_point();
    std::optional<T> message;
    std::optional<WaitNode> node;
    for (Wake wake = Wake::unparked; !take(message, node, wake);) {
      wake = current_context().parker().park(deadline);
    }
    return message;
  }

  /// Closes the mailbox and wakes all waiting threads.
  void close() noexcept HEARTH_EXCLUDES(mutex_) {
    for (;;) {
      IntrusivePtr<Parker> parker;
      {
        const MutexLock lock(mutex_);
        is_closed_ = true;
        parker = poppers_.empty() ? pushers_.take_first() : poppers_.take_first();
      }
      if (!parker) {
        return;
      }
      parker->unpark();
    }
  }

  [[nodiscard]] bool is_closed() const noexcept HEARTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return is_closed_;
  }
  [[nodiscard]] std::size_t size() const noexcept HEARTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return messages_.size();
  }

 private:
  /// Moves the message in if there is room. Returns nothing if `node` was registered and the caller
  /// must park.
  std::optional<MailboxPush> offer(T& message, std::optional<WaitNode>& node, Wake wake)
      HEARTH_EXCLUDES(mutex_) {
    IntrusivePtr<Parker> popper;
    {
      const MutexLock lock(mutex_);
      std::optional<MailboxPush> result;
      if (is_closed_) {
        result = MailboxPush::closed;
      } else if (messages_.size() < capacity_) {
        messages_.push_back(std::move(message));
        popper = poppers_.take_first();
        result = MailboxPush::accepted;
      } else if (wake == Wake::deadline) {
        result = MailboxPush::deadline;
      }
      settle(pushers_, node, result.has_value());
      if (!popper) {
        return result;
      }
    }
    popper->unpark();
    return MailboxPush::accepted;
  }

  /// Returns false if `node` was registered and the caller must park.
  bool take(std::optional<T>& message, std::optional<WaitNode>& node, Wake wake)
      HEARTH_EXCLUDES(mutex_) {
    IntrusivePtr<Parker> pusher;
    {
      const MutexLock lock(mutex_);
      const bool has_message = !messages_.empty();
      if (has_message) {
        message.emplace(std::move(messages_.front()));
        messages_.pop_front();
        pusher = pushers_.take_first();
      }
      const bool is_done = has_message || is_closed_ || wake == Wake::deadline;
      settle(poppers_, node, is_done);
      if (!pusher) {
        return is_done;
      }
    }
    pusher->unpark();
    return true;
  }

  static void settle(WaitList& waiters, std::optional<WaitNode>& node, bool is_done) {
    if (!is_done) {
      waiters.add(node ? *node : node.emplace());
    } else if (node) {
      waiters.remove(*node);
    }
  }

  const std::size_t capacity_;
  mutable Mutex mutex_;
  std::deque<T> messages_ HEARTH_GUARDED_BY(mutex_);
  bool is_closed_ HEARTH_GUARDED_BY(mutex_) = false;
  WaitList pushers_ HEARTH_GUARDED_BY(mutex_);
  WaitList poppers_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::detail
