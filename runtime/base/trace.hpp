// Trace: who wants to know what ran when. Spans of time go to hooks; nobody hooked costs one load.
// Owned by the Runtime. Threads: any.
// Invariants: (1) hooks run on the thread that finished the span, under no lock; (2) while the
// trace is off nothing is measured.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/sync.hpp>

namespace hearth {

/// A piece of work. The texts are valid during the hook's call only.
struct TraceSpan {
  std::string_view name;    ///< "matmul", "upload", ...
  std::string_view device;  ///< "cpu:0", or empty for work of the host.
  detail::TimePoint begin;
  detail::TimePoint end;
};

using TraceHook = std::function<void(const TraceSpan&)>;
using TraceHookId = Id<struct TraceHookIdTag>;

class Trace final {
 public:
  Trace() = default;
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace() = default;

  /// Whether anybody listens; ask before reading a clock.
  [[nodiscard]] bool is_on() const noexcept {
    return is_on_.load(std::memory_order_acquire);  // pairs with the release in publish
  }
  /// Hands the span to all hooks. A hook may come from any thread, several at once, and must not
  /// throw.
  void record(const TraceSpan& span) const;

  /// Until remove_hook(), or as long as the trace.
  TraceHookId add_hook(TraceHook hook);
  /// After it no new call starts; one that another thread is in may still run.
  void remove_hook(TraceHookId id);

 private:
  struct Hook {
    TraceHookId id;
    TraceHook call;
  };
  using Hooks = std::vector<Hook>;
  void publish(Hooks hooks) HEARTH_REQUIRES(mutex_);

  std::atomic<bool> is_on_{false};
  mutable Mutex mutex_;
  std::shared_ptr<const Hooks> hooks_ HEARTH_GUARDED_BY(mutex_) = std::make_shared<Hooks>();
  std::uint32_t last_id_ HEARTH_GUARDED_BY(mutex_) = 0;
};

/// Measures from here to the end of the scope on the current thread's clock, if the trace is on.
/// Lifetime: both texts outlive the scope. Cost: 3 ns when off.
class TraceScope final {
 public:
  TraceScope(const Trace& trace, std::string_view name, std::string_view device = {});
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;
  ~TraceScope();

 private:
  const Trace* trace_;  // nullptr: off when the scope began
  TraceSpan span_;
};

}  // namespace hearth
