// The one lock of the library, with annotations that clang's -Wthread-safety checks. Device code
// needs none: a device's state belongs to the holder of its token. Locks are used in these files
// only:
//   runtime/base/threads/mailbox.hpp              queues between threads
//   runtime/base/threads/pending.hpp              waiters of a result
//   runtime/base/threads/watchdog.hpp             registered waits
//   runtime/base/threads/continuation_runner.hpp  starting its thread once
//   runtime/base/tables/interner.hpp             intern tables
//   runtime/base/files/trace.hpp                trace readers; a thread's events, once in a
//   thousand runtime/base/threads/last_act.cpp, interrupt.cpp   acts of the terminate handler;
//   scopes of signals runtime/base/files/log.cpp                  the sink of all loggers (inside
//   spdlog): std::mutex runtime/base/files/failure_book.hpp, lost_reports.hpp   unread failures
//   runtime/client/device_endpoint.hpp    a device's control inbox, its waiters, its tensors' names
//   parallel/serving/served_model.hpp             the newest weights, copied when they change
//   parallel/serving/server_desk.hpp              the queue and the seats of a ModelServer
//   parallel/steps/replica.hpp                  the random numbers with which a rank continues
//   backends/gpu/store/kernel_factory.hpp, launches/batch_recorder.cpp   kernels; failure reasons
//   backends/gpu/copies/, launches/left_behind.hpp   bytes and blocks of copies; hung objects
//   backends/vulkan/device/vulkan_instance.cpp, pipelines/   the one Vulkan instance; pipelines
//   backends/sim/async_sim.hpp            a simulated device's time, which waiting threads advance
//   runtime/record/recorder.hpp           one recording of all threads
//   streams/slot_pool.hpp                 blocks of slot numbers
// Invariants: (1) a Mutex is held for a few instructions and never across a park, a push that may
// wait, or a schedule point (asserted); (2) no user code runs under one; (3) no Mutex is locked
// while another is held: the manual executor may schedule another thread at each lock().
#pragma once

#include <mutex>

#include <hearth/runtime/base/thread_context.hpp>

#if defined(__clang__)
#define HEARTH_THREAD_ANNOTATION(attribute) __attribute__((attribute))
#else
#define HEARTH_THREAD_ANNOTATION(attribute)
#endif
#define HEARTH_CAPABILITY(name) HEARTH_THREAD_ANNOTATION(capability(name))
#define HEARTH_SCOPED_CAPABILITY HEARTH_THREAD_ANNOTATION(scoped_lockable)
#define HEARTH_GUARDED_BY(mutex) HEARTH_THREAD_ANNOTATION(guarded_by(mutex))
#define HEARTH_PT_GUARDED_BY(mutex) HEARTH_THREAD_ANNOTATION(pt_guarded_by(mutex))
#define HEARTH_REQUIRES(...) HEARTH_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define HEARTH_EXCLUDES(...) HEARTH_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define HEARTH_ACQUIRE(...) HEARTH_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define HEARTH_TRY_ACQUIRE(...) HEARTH_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define HEARTH_RELEASE(...) HEARTH_THREAD_ANNOTATION(release_capability(__VA_ARGS__))

namespace hearth::detail {

class HEARTH_CAPABILITY("mutex") Mutex final {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  ~Mutex() = default;

  void lock() HEARTH_ACQUIRE() {
    lock_point();
    mutex_.lock();
    count_locked();
  }
  [[nodiscard]] bool try_lock() HEARTH_TRY_ACQUIRE(true) {
    lock_point();
    if (!mutex_.try_lock()) {
      return false;
    }
    count_locked();
    return true;
  }
  void unlock() HEARTH_RELEASE() {
#ifdef HEARTH_ASSERTS
    current_context().count_unlock();
#endif
    mutex_.unlock();
  }

 private:
  static void count_locked() noexcept {
#ifdef HEARTH_ASSERTS
    current_context().count_lock();
#endif
  }

  std::mutex mutex_;
};

/// Holds a Mutex to the end of its scope.
class HEARTH_SCOPED_CAPABILITY MutexLock final {
 public:
  explicit MutexLock(Mutex& mutex) HEARTH_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  ~MutexLock() HEARTH_RELEASE() { mutex_.unlock(); }

 private:
  Mutex& mutex_;
};

}  // namespace hearth::detail
