// Threads that make kernels while the device goes on. They start with the first job; those that
// prepare start earlier. Owned by the store of kernels. Threads: owner only. Invariants: (1) one
// thread makes a job, once: a thread of the pool, or an owner that cannot wait for its turn; (2)
// the end of the pool waits for running jobs up to a deadline. A thread that a driver does not
// return from is abandoned, with the objects that it uses.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/owned_thread.hpp>
#include <hearth/runtime/base/pending.hpp>

#include "kernel_factory.hpp"

namespace hearth::gpu {

/// A kernel in the making.
class KernelJob final {
 public:
  KernelJob(const KernelKey& key, std::string text) : key_(key), text_(std::move(text)) {}

  /// Makes the kernel, unless another thread has begun.
  void run(KernelFactory& factory);
  [[nodiscard]] bool is_done() const noexcept {
    return is_done_.load(std::memory_order_acquire);  // partner: run
  }
  /// Makes the kernel, or waits for the thread that does. Errors: those of
  /// KernelFactory::kernel; deadline_exceeded.
  [[nodiscard]] Result<KernelHandle> result(KernelFactory& factory);

 private:
  const KernelKey key_;
  const std::string text_;
  std::atomic<bool> has_begun_{false};
  std::atomic<bool> is_done_{false};
  Result<KernelHandle> made_ = KernelHandle::none;  ///< Valid once the job is done.
  Promise<void> done_{PendingOptions{.subject = "a kernel"}};
  Pending<void> ready_ = done_.pending();
};

class CompilePool final {
 public:
  /// Lifetime: the executor outlives the pool.
  CompilePool(hearth::detail::Executor& executor, std::shared_ptr<KernelFactory> factory)
      : executor_(executor), factory_(std::move(factory)) {}
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;
  ~CompilePool();

  /// Starts threads that make the kernels of the program's last run (KernelFactory::prepare).
  void prepare();
  /// Adds a job. Returns false if no thread could be started.
  [[nodiscard]] bool add(std::shared_ptr<KernelJob> job);

 private:
  using Jobs = hearth::detail::Mailbox<std::shared_ptr<KernelJob>>;

  void start();
  template <class Body>
  void add_thread(Body body);

  hearth::detail::Executor& executor_;
  const std::shared_ptr<KernelFactory> factory_;
  const std::shared_ptr<Jobs> jobs_ = std::make_shared<Jobs>();
  const std::shared_ptr<std::atomic<bool>> has_ended_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::unique_ptr<hearth::detail::OwnedThread>> threads_;
  bool has_threads_ = false;  ///< At least one thread takes jobs.
};

}  // namespace hearth::gpu
