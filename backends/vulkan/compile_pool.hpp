// Threads that make pipelines while the device goes on. They start with the first job, but for
// those that prepare. Owned by the store of shaders. Threads: owner only. Invariants: (1) a job is
// made once, by a thread of the pool or by the owner who will not wait for its turn; (2) the end of
// the pool waits for jobs that have begun, and no longer than a deadline: a thread in a driver that
// does not come back is left behind, with all that it uses.
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

/// A pipeline that is being made.
class PipelineJob final {
 public:
  PipelineJob(const ShaderKey& key, std::string text) : key_(key), text_(std::move(text)) {}

  /// Makes it, unless somebody else has begun.
  void run(PipelineMaker& maker);
  [[nodiscard]] bool is_done() const noexcept {
    return is_done_.load(std::memory_order_acquire);  // partner: run
  }
  /// Makes it, or waits for who does. Errors: those of PipelineMaker::pipeline; deadline_exceeded.
  [[nodiscard]] Result<VkPipeline> result(PipelineMaker& maker);

 private:
  const ShaderKey key_;
  const std::string text_;
  std::atomic<bool> has_begun_{false};
  std::atomic<bool> is_done_{false};
  Result<VkPipeline> made_ = VkPipeline{VK_NULL_HANDLE};  ///< Once it is done.
  Promise<void> done_{PendingOptions{.subject = "a pipeline"}};
  Pending<void> ready_ = done_.pending();
};

class CompilePool final {
 public:
  /// Lifetime: the executor outlives it.
  CompilePool(hearth::detail::Executor& executor, std::shared_ptr<PipelineMaker> maker)
      : executor_(executor), maker_(std::move(maker)) {}
  CompilePool(const CompilePool&) = delete;
  CompilePool& operator=(const CompilePool&) = delete;
  ~CompilePool();

  /// Threads make what the program used when it ran last (PipelineMaker::prepare).
  void prepare();
  /// False: no thread could be started.
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
  bool has_makers_ = false;  ///< Some of them take jobs.
};

}  // namespace hearth::vulkan
