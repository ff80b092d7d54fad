// GradientExchange: one rank's part in one step. It takes finished gradients out of the backward
// sweep and joins them into buckets. It lends these on the communication stream, while the default
// stream continues the sweep. The buckets return with the sums over all ranks.
// Owned by the worker that runs the step. Threads: the worker's.
// A lone rank's gradients are the sums, so it lends its loss alone, in place of the last bucket.
// A plan may sum in another type than that of the values: they are cast into the buckets and back.
// Invariants: (1) every rank lends buckets in the plan's order, in whatever order its gradients
// come; (2) collect() lends the last bucket, when nothing on this rank can fail any more; (3) the
// loss is sent before the first bucket.
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
  /// `limit`: how long a lane that has lent a bucket waits for it; then the tensor gets an error.
  GradientExchange(const BucketPlan& plan,
                   CoordinatorInbox coordinator,
                   WorkerContext& context,
                   std::int64_t step,
                   std::chrono::nanoseconds limit);

  /// Reports this rank's part of the step's loss (one untracked element) and its weight, if it has
  /// one. Without a call the part is 0.
  void report_loss(const Tensor& loss, const Tensor& weight = {});
  /// Type of the plan's value at this index, as the optimizer gets it.
  [[nodiscard]] DType dtype_of(std::size_t parameter) const {
    return plan_.parameters()[parameter].dtype;
  }
  /// Whether the plan sums the value at this index.
  [[nodiscard]] bool is_summed(std::size_t parameter) const {
    return plan_.place_of(parameter).has_value();
  }
  /// Adds a final gradient. Takes the tensor if the plan sums it. The values behind the parameters
  /// are added in the same way.
  void add(std::size_t parameter, Tensor& gradient);
  /// Notes that this rank's loss does not use the parameter: its gradient is zeros.
  void record_unused(std::size_t parameter);
  /// Adds zeros for every value of the plan, and notes all parameters as unused: for a rank without
  /// samples.
  void add_zeros(std::size_t parameter_count);
  /// Lends the remaining buckets, and moves the sums over all ranks into `gradients`. Returns the
  /// sums of the values behind the parameters.
  std::vector<Tensor> collect(Gradients& gradients);
  /// Marks the gradients that no rank has, so that all ranks skip the same parameters. Comes after
  /// collect(). If this rank does not use all parameters, it waits for the ends of the other ranks'
  /// sweeps. Returns the failure of the step, or null.
  [[nodiscard]] ErrorRef leave_out_unused(Gradients& gradients, std::chrono::nanoseconds limit);

 private:
  struct LossPart {
    std::optional<Result<double>> loss = 0.0;
    LossKind kind = LossKind::none;
    double weight = 0;

    /// Reads the numbers that were lent, or their error.
    void read(const Result<LentRegion>& region);
  };
  struct Filling {
    std::vector<Tensor> pieces;  ///< By entry, flat.
    std::size_t count = 0;
    Tensor reduced;  ///< On the communication stream: the sums.
  };

  void lend_next(bool is_early);
  void lend_loss();
  void collect_own(Gradients& gradients, std::vector<Tensor>& others);
  /// Lends on the communication stream, and passes the region to the coordinator.
  [[nodiscard]] Tensor lend_bucket(Tensor bucket, std::size_t index, bool is_early);
  [[nodiscard]] bool is_alone() const noexcept { return context_.world == 1; }
  /// The call of step() that the step belongs to.
  [[nodiscard]] SourceLoc where() const noexcept { return context_.where; }

  const BucketPlan& plan_;
  const CoordinatorInbox coordinator_;
  WorkerContext& context_;
  const std::int64_t step_;
  const std::chrono::nanoseconds limit_;
  std::vector<Filling> buckets_;
  std::size_t next_ = 0;                            ///< The next bucket to be lent.
  std::vector<std::size_t> unused_;                 ///< Parameters that this rank does not use.
  Pending<std::vector<std::size_t>> used_by_none_;  ///< Requested if unused_ is not empty.
  Tensor loss_numbers_;                             ///< The loss, and its weight if it has one.
  std::shared_ptr<LossPart> loss_;  ///< Written and read by the holder of the device's token.
};

}  // namespace hearth
