// GradientExchange: one rank's part in one step. It takes finished gradients out of the backward
// sweep, joins them into buckets and lends these on the communication stream, while the default
// stream goes on with the sweep; what comes back are the sums over all ranks.
// Owned by the worker that runs the step. Threads: the worker's.
// Invariants: (1) buckets are lent in the plan's order on every rank, whatever order gradients come
// in; (2) the last one is lent by collect(), when nothing can go wrong on this rank any more; (3)
// the loss goes before the first bucket.
#pragma once

#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace hearth {

class GradientExchange final {
 public:
  /// `limit`: how long a lane that has lent a bucket waits before it gives its tensor up.
  GradientExchange(const BucketPlan& plan,
                   CoordinatorInbox coordinator,
                   WorkerContext& context,
                   std::int64_t step,
                   std::chrono::nanoseconds limit);

  /// This rank's part of the step's loss: one element, untracked, and its weight, if it has one.
  /// Without it the part is 0.
  void report_loss(const Tensor& loss, const Tensor& weight = {});
  /// Of what the plan has there.
  [[nodiscard]] DType dtype_of(std::size_t parameter) const {
    return plan_.parameters()[parameter].dtype;
  }
  /// Whether the plan has a place for it.
  [[nodiscard]] bool is_summed(std::size_t parameter) const {
    return plan_.place_of(parameter).has_value();
  }
  /// A gradient is final. Takes it, if its parameter lies in a bucket. What the plan has behind the
  /// parameters is added in the same way.
  void add(std::size_t parameter, Tensor& gradient);
  /// The loss of this rank does not depend on the parameter: its gradient is zeros.
  void note_unused(std::size_t parameter);
  /// For a rank without samples: zeros for all, and none of the parameters, of which there are so
  /// many, is used.
  void add_zeros(std::size_t parameter_count);
  /// Lends the rest and gives `gradients`, which were taken, their sums over all ranks. Returns the
  /// sums of what the plan has behind the parameters.
  std::vector<Tensor> collect(Gradients& gradients);
  /// Behind collect(): marks those gradients that no rank has, so that all ranks leave the same
  /// parameters alone. Waits for the ends of the other ranks' sweeps, if this rank does not use all
  /// parameters. Why the step fails, or null.
  [[nodiscard]] ErrorRef leave_out_unused(Gradients& gradients, std::chrono::nanoseconds limit);

 private:
  struct LossPart {
    std::optional<Result<double>> loss = 0.0;
    LossKind kind = LossKind::none;
    double weight = 0;
  };
  struct Filling {
    std::vector<Tensor> pieces;  ///< By entry, flat.
    std::size_t count = 0;
    Tensor reduced;  ///< Of the communication stream: the sums, or what stands for them.
    Tensor own;      ///< Of a rank that is alone: its bucket, which are the sums.
  };

  void lend_next(bool is_early);
  [[nodiscard]] bool is_alone() const noexcept { return context_.world == 1; }
  /// The call that the step belongs to.
  [[nodiscard]] SourceLoc where() const noexcept { return context_.where; }

  const BucketPlan& plan_;
  const CoordinatorInbox coordinator_;
  WorkerContext& context_;
  const std::int64_t step_;
  const std::chrono::nanoseconds limit_;
  std::vector<Filling> buckets_;
  std::size_t next_ = 0;                            ///< The next bucket to be lent.
  std::vector<std::size_t> unused_;                 ///< Parameters that this rank does not use.
  Pending<std::vector<std::size_t>> used_by_none_;  ///< Asked for when there are such.
  std::shared_ptr<LossPart> loss_;  ///< Written and read by the holder of the device's token.
};

}  // namespace hearth
