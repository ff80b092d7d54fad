// All per-thread state of the library in one object: identity, clock, parker, and attachments
// (streams, scopes). Each thread, and each logical thread of the manual executor, has exactly one;
// it replaces thread_local variables.
// Threads: owner only, except parker().unpark().
// Invariants: (1) ids are never reused within a process; (2) attachments die in reverse order, on
// their own thread, while the context can still be used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/parker.hpp>
#include <hearth/runtime/base/unique_function.hpp>

namespace hearth::detail {

using ThreadId =
    /// Never reused; 0 = none. Only a name: no behaviour depends on it.
    Id<struct ThreadIdTag, std::uint64_t>;

/// Per-thread state of another component; destroyed when the thread ends.
class ContextAttachment {
 public:
  ContextAttachment() = default;
  ContextAttachment(const ContextAttachment&) = delete;
  ContextAttachment& operator=(const ContextAttachment&) = delete;
  virtual ~ContextAttachment() = default;

  /// Returns whether the attachment is no longer needed, so that drop_obsolete() may destroy it.
  [[nodiscard]] virtual bool is_obsolete() const noexcept { return false; }
};

class ThreadContext final {
 public:
  /// Makes a context in real time. An empty name becomes "thread-<id>".
  explicit ThreadContext(std::string name);
  /// Makes a context of a logical thread. The clock and the logical thread outlive it.
  ThreadContext(std::string name, Clock& clock, LogicalThread& logical_thread);
  ThreadContext(const ThreadContext&) = delete;
  ThreadContext& operator=(const ThreadContext&) = delete;
  ~ThreadContext();

  [[nodiscard]] ThreadId id() const noexcept { return id_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] Clock& clock() const noexcept { return *clock_; }
  [[nodiscard]] Parker& parker() const noexcept { return *parker_; }
  /// Returns null for a real thread.
  [[nodiscard]] LogicalThread* logical_thread() const noexcept { return logical_thread_; }
  [[nodiscard]] bool is_manual() const noexcept { return logical_thread_ != nullptr; }

  /// Returns the attachment of this key, or null. A key always has the same T.
  ///
  /// Cost: 1 ns for the key that was looked up last, else a linear search.
  template <class T>
  [[nodiscard]] T* find(std::uint64_t key) noexcept {
    static_assert(std::is_base_of_v<ContextAttachment, T>);
    if (hot_ == nullptr || hot_key_ != key) {
      if (!find_slow(key)) {
        return nullptr;
      }
    }
    return static_cast<T*>(hot_);
  }

  /// Keeps the attachment until detach() or the end of the thread. The key must be free.
  template <class T>
  T& attach(std::uint64_t key, std::unique_ptr<T> attachment) {
    static_assert(std::is_base_of_v<ContextAttachment, T>);
    T& kept = *attachment;
    add(key, std::move(attachment));
    return kept;
  }
  /// Destroys the attachment of the key, if any.
  void detach(std::uint64_t key);
  /// Destroys the obsolete attachments.
  void drop_obsolete();
  /// Destroys all attachments, newest first. Executors call this when a thread's body has returned.
  void clear_attachments();

  /// List of tasks that ContinuationRunner must destroy after the current one; null outside a
  /// destruction.
  [[nodiscard]] std::vector<UniqueFunction<void()>>*& tasks_to_destroy() noexcept {
    return tasks_to_destroy_;
  }

  /// Receives the name of each composite op at its begin, and an empty name at its end. The end
  /// never throws. Null if this thread captures no function.
  using CallListener = UniqueFunction<void(std::string_view)>;
  [[nodiscard]] CallListener*& call_listener() noexcept { return call_listener_; }

  /// Count the locks that this thread holds; called by Mutex in builds with asserts.
  void count_lock() noexcept { ++held_lock_count_; }
  void count_unlock() noexcept { --held_lock_count_; }
  [[nodiscard]] int held_lock_count() const noexcept { return held_lock_count_; }

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::unique_ptr<ContextAttachment> attachment;
  };
  bool find_slow(std::uint64_t key) noexcept;
  void add(std::uint64_t key, std::unique_ptr<ContextAttachment> attachment);

  ThreadId id_;
  std::string name_;
  SteadyClock steady_clock_;
  Clock* clock_ = &steady_clock_;
  LogicalThread* logical_thread_ = nullptr;
  IntrusivePtr<Parker> parker_;
  int held_lock_count_ = 0;
  std::vector<UniqueFunction<void()>>* tasks_to_destroy_ = nullptr;
  CallListener* call_listener_ = nullptr;
  std::uint64_t hot_key_ = 0;
  ContextAttachment* hot_ = nullptr;
  std::vector<Entry> attachments_;
};

extern constinit thread_local ThreadContext* thread_context;
ThreadContext& make_foreign_context();

/// Returns the calling thread's context. Creates it on first use for threads that no executor
/// started, such as main. Threads: any. Cost: one load.
[[nodiscard]] inline ThreadContext& current_context() noexcept {
  ThreadContext* const context = thread_context;
  return context != nullptr ? *context : make_foreign_context();
}

/// Replaces the calling thread's context and returns the previous one (null: none yet). For
/// executors only.
ThreadContext* exchange_current_context(ThreadContext* context) noexcept;

/// Lets the manual executor run another thread; does nothing in real threads. Never call it while
/// holding a Mutex.
inline void schedule_point() {
  ThreadContext* const context = thread_context;
  if (context != nullptr && context->logical_thread() != nullptr) {
    HEARTH_ASSERT(context->held_lock_count() == 0, "a Mutex is held across a schedule point");
    context->logical_thread()->yield();
  }
}

/// Called before a lock is taken. Lets another thread run if the manual executor preempts at locks.
inline void lock_point() {
  ThreadContext* const context = thread_context;
  if (context != nullptr && context->logical_thread() != nullptr) {
    HEARTH_ASSERT(context->held_lock_count() == 0, "a Mutex is locked while another is held");
    context->logical_thread()->reach_lock();
  }
}

}  // namespace hearth::detail
