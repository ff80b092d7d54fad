// ThreadExecutor: each spawned thread is a thread of the operating system, in real time. The one
// that programs use. Threads: any.
#pragma once

#include <memory>

#include <hearth/runtime/base/executor.hpp>

namespace hearth {

class ThreadExecutor final : public detail::Executor {
 public:
  /// Named (the first 15 bytes) and pinned to the cores of the options; where the process may use
  /// none of these, the thread runs anywhere.
  [[nodiscard]] std::unique_ptr<detail::Joinable> spawn(detail::ThreadOptions options,
                                                        UniqueFunction<void()> body) override;
  [[nodiscard]] bool is_manual() const noexcept override { return false; }
  [[nodiscard]] detail::Clock& clock() noexcept override { return clock_; }

 private:
  detail::SteadyClock clock_;
};

}  // namespace hearth
