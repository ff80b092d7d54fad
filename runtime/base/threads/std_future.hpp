// A Pending as a std::future, for programs that are built on those. Threads: as Pending.
#pragma once

#include <exception>
#include <future>
#include <type_traits>
#include <utility>

#include <hearth/runtime/base/pending.hpp>

namespace hearth {

namespace detail {
/// A std::promise whose future gets `cancelled`, not broken_promise, if the promise dies
/// unfulfilled.
template <class T>
class KeptPromise final {
 public:
  KeptPromise() = default;
  KeptPromise(KeptPromise&&) noexcept = default;
  KeptPromise& operator=(KeptPromise&&) = delete;
  KeptPromise(const KeptPromise&) = delete;
  KeptPromise& operator=(const KeptPromise&) = delete;
  ~KeptPromise() {
    if (is_open_.value) {
      promise_.set_exception(std::make_exception_ptr(
          DeviceError(Error{.code = ErrorCode::cancelled,
                            .text = "the runner of continuations ended before the result came"})));
    }
  }

  [[nodiscard]] std::future<T> future() { return promise_.get_future(); }
  void take_from(Pending<T>&& ready) {
    is_open_.value = false;
    try {
      if constexpr (std::is_void_v<T>) {
        std::move(ready).get();
        promise_.set_value();
      } else {
        promise_.set_value(std::move(ready).get());
      }
    } catch (...) {
      promise_.set_exception(std::current_exception());
    }
  }

 private:
  struct OpenFlag {
    OpenFlag() = default;
    OpenFlag(OpenFlag&& other) noexcept : value(std::exchange(other.value, false)) {}
    OpenFlag& operator=(OpenFlag&&) = delete;
    bool value = true;
  };

  std::promise<T> promise_;
  OpenFlag is_open_;
};
}  // namespace detail

/// Returns a std::future of the same result, fulfilled on the runner's thread. Its get() throws
/// what Pending::get() would (DeviceError, ...), and cancelled if the producer cancelled the result
/// or the runner has ended. It has no deadline and does not help the device: prefer Pending::get().
template <class T>
[[nodiscard]] std::future<T> as_std_future(Pending<T> pending, ContinuationRunner& runner) {
  detail::KeptPromise<T> promise;
  std::future<T> future = promise.future();
  detail::PendingAccess::when_ready(
      std::move(pending), runner, [promise = std::move(promise)](Pending<T> ready) mutable {
        promise.take_from(std::move(ready));
      });
  return future;
}

}  // namespace hearth
