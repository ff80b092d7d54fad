// Threads that make pipelines while the device goes on. They start with the first job; those that
// prepare start earlier. Owned by the store of shaders. Threads: owner only. Invariants: (1) one
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

#include "pipeline_maker.hpp"

namespace hearth::vulkan {

/// A pipeline in the making.
class PipelineJob final {
 public:
  PipelineJob(const gpu::KernelKey& key, std::string text) : key_(key), text_(std::move(text)) {}

  /// Makes the pipeline, unless another thread has begun.
  void run(PipelineMaker& maker);
  [[nodiscard]] bool is_done() const noexcept {
    return is_done_.load(std::memory_order_acquire);  // partner: run
  }
  /// Makes the pipeline, or waits for the thread that does. Errors: those of
  /// PipelineMaker::pipeline; deadline_exceeded.
  [[nodiscard]] Result<VkPipeline> result(PipelineMaker& maker);

 private:
  const gpu::KernelKey key_;
  const std::string text_;
  std::atomic<bool> has_begun_{false};
  std::atomic<bool> is_done_{false};
  Result<VkPipeline> made_ = VkPipeline{VK_NULL_HANDLE};  ///< Valid once the job is done.
  Promise<void> done_{PendingOptions{.subject = "a pipeline"}};
  Pending<void> ready_ = done_.pending();
};

class CompilePool final {
 public:
  /// Lifetime: the executor outlives the pool.
  CompilePool(hearth::detail::Executor& executor, std::shared_ptr<PipelineMaker> maker)
      : executor_(executor), maker_(std::move(maker)) {}
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;
  ~CompilePool();

  /// Starts threads that make the pipelines of the program's last run (PipelineMaker::prepare).
  void prepare();
  /// Adds a job. Returns false if no thread could be started.
  [[nodiscard]] bool add(std::shared_ptr<PipelineJob> job);

 private:
  using Jobs = hearth::detail::Mailbox<std::shared_ptr<PipelineJob>>;

  void start();
  template <class Body>
  void add_thread(Body body);

  hearth::detail::Executor& executor_;
  const std::shared_ptr<PipelineMaker> maker_;
  const std::shared_ptr<Jobs> jobs_ = std::make_shared<Jobs>();
  const std::shared_ptr<std::atomic<bool>> has_ended_ = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::unique_ptr<hearth::detail::OwnedThread>> threads_;
  bool has_makers_ = false;  ///< At least one thread takes jobs.
};

}  // namespace hearth::vulkan
