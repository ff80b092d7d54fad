// ThreadExecutor: each spawned thread is a thread of the operating system, in real time. The
// executor of programs. Threads: any.
#pragma once

#include <memory>

#include <hearth/runtime/base/executor.hpp>

namespace hearth {

class ThreadExecutor final : public detail::Executor {
 public:
  /// Spawns a thread with the name (its first 15 bytes) and the cores of the options. If the
  /// process may use none of these cores, the thread runs anywhere.
  [[nodiscard]] std::unique_ptr<detail::Joinable> spawn(detail::ThreadOptions options,
                                                        UniqueFunction<void()> body) override;
  [[nodiscard]] bool is_manual() const noexcept override { return false; }
  [[nodiscard]] detail::Clock& clock() noexcept override { return clock_; }

 private:
  detail::SteadyClock clock_;
};

}  // namespace hearth
