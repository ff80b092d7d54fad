// RankModel, RankShards, RankLoss: a user's model, shards and loss function behind interfaces
// without their types. The user's unit compiles the small templates here and DataParallel; the rest
// of the trainer is compiled once.
// Owned by a rank; shards on their way belong to the task. Threads: one at a time; a thread that
// hands one over publishes its tensors.
// Invariant: the models of one trainer have one type, and so have its shards, so the casts need no
// check.
#pragma once

#include <hearth/modules/loss_scaler.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/state_updates.hpp>
#include <hearth/parallel/hand_over.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/loss_sum.hpp>
#include <hearth/runtime/ops.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth {

struct WorkerContext;

/// A rank's part of a batch, with its number of samples.
template <class T>
concept BatchShard = std::movable<T> && requires(const T& shard) {
  { shard.size } -> std::convertible_to<std::int64_t>;
};

/// Results that a loss function can return beside the loss.
struct LossOutputs {
  Tensor loss;          ///< The mean over the batch; with a weight, the sum, as in LossSum.
  Tensor outputs = {};  ///< Outputs of the model, for a Trainer's metrics.
  Tensor targets = {};  ///< Expected outputs, for a Trainer's metrics.
  Tensor weight = {};   ///< Divisor of the sum of all devices' losses, as in LossSum.

  /// The loss, divided by its weight if it has one: the value that value_and_grad differentiates.
  [[nodiscard]] Tensor mean(SourceLoc loc = SourceLoc::current()) const;
};

class RankModel {
 public:
  RankModel() = default;
  RankModel(const RankModel&) = delete;
  RankModel& operator=(const RankModel&) = delete;
  virtual ~RankModel() = default;

  [[nodiscard]] virtual std::vector<TensorRef> tensors() = 0;
  [[nodiscard]] virtual std::vector<TensorRef> parameters() = 0;
  [[nodiscard]] virtual std::vector<TensorRef> buffers() = 0;
  /// A deep copy on `device`.
  [[nodiscard]] virtual std::unique_ptr<RankModel> copy_to(const Device& device,
                                                           SourceLoc where) const = 0;
};

/// A rank's part of a step: one shard for each micro-batch.
class RankShards {
 public:
  RankShards() = default;
  RankShards(const RankShards&) = delete;
  RankShards& operator=(const RankShards&) = delete;
  virtual ~RankShards() = default;

  /// Makes the calling thread's stream the home of the shards that were handed over, and drops
  /// empty ones.
  virtual void take() = 0;
  /// Number of shards with samples. Requires take() before.
  [[nodiscard]] virtual std::size_t count() const = 0;
  [[nodiscard]] virtual std::int64_t sample_count() const = 0;
};

/// Inputs and callbacks of a sweep over one micro-batch.
struct SweepTerms {
  std::int64_t sample_count = 0;  ///< Over all ranks and micro-batches.
  /// Called before the sweep with the loss and its weight, if it has one, both scaled in the same
  /// way.
  std::function<void(const Tensor& loss, const Tensor& weight)> on_loss = {};
  GradientHook on_gradient = {};
  Precision precision = {};
  const LossScaler* scaler = nullptr;  ///< Scales the loss of the sweep, if there is one.
  SourceLoc where = {};                ///< The call of step() that the step belongs to.
};

class RankLoss {
 public:
  RankLoss() = default;
  RankLoss(const RankLoss&) = delete;
  RankLoss& operator=(const RankLoss&) = delete;
  virtual ~RankLoss() = default;

  /// A copy for another rank.
  [[nodiscard]] virtual std::unique_ptr<RankLoss> copy() const = 0;
  /// Whether the loss may have a weight.
  [[nodiscard]] virtual bool can_have_weight() const = 0;
  /// Differentiates the loss of one shard, scaled by the shard's share of all samples. A loss with
  /// a weight is divided by the number of samples instead, and so is the weight.
  [[nodiscard]] virtual ValueAndGradients<Tensor> differentiate(const RankModel& model,
                                                                RankShards& shards,
                                                                std::size_t index,
                                                                const SweepTerms& terms,
                                                                WorkerContext& context) = 0;
};

namespace detail {

template <Module Model>
class ModelOf final : public RankModel {
 public:
  /// Names the tensors by their paths in the whole model: a layer knows only the paths within
  /// itself.
  explicit ModelOf(Model model) : value(std::move(model)) {
    visit_once(value, "", [](const std::string& path, const Tensor& tensor) {
      if (tensor.is_valid()) {
        tensor.set_path(path);
      }
    });
  }
  [[nodiscard]] std::vector<TensorRef> tensors() override { return tensor_refs(value); }
  [[nodiscard]] std::vector<TensorRef> parameters() override { return parameter_refs(value); }
  [[nodiscard]] std::vector<TensorRef> buffers() override { return buffer_refs(value); }
  [[nodiscard]] std::unique_ptr<RankModel> copy_to(const Device& device,
                                                   SourceLoc where) const override {
    return std::make_unique<ModelOf>(fork(value, device, where));
  }

  Model value;
};
template <Module Model>
[[nodiscard]] Model& value_of(RankModel& model) {
  return static_cast<ModelOf<Model>&>(model).value;
}
template <Module Model>
[[nodiscard]] const Model& value_of(const RankModel& model) {
  return static_cast<const ModelOf<Model>&>(model).value;
}

template <BatchShard Shard>
class ShardsOf final : public RankShards {
 public:
  void take() override {
    take_over(all);
    std::erase_if(all, [](const Shard& shard) { return shard.size == 0; });
  }
  [[nodiscard]] std::size_t count() const override { return all.size(); }
  [[nodiscard]] std::int64_t sample_count() const override {
    std::int64_t sum = 0;
    for (const Shard& shard : all) {
      sum += shard.size;
    }
    return sum;
  }

  std::vector<Shard> all;  ///< By micro-batch.
};

/// Result types of a loss function; loss_outputs() converts each of them.
template <class Result>
inline constexpr bool kIsLossResult =
    std::is_same_v<Result, Tensor> || std::is_same_v<Result, LossSum> ||
    std::is_same_v<Result, LossOutputs>;
[[nodiscard]] inline LossOutputs loss_outputs(Tensor mean) {
  return {.loss = std::move(mean)};
}
[[nodiscard]] inline LossOutputs loss_outputs(LossSum parts) {
  return {.loss = std::move(parts.sum), .weight = std::move(parts.weight)};
}
[[nodiscard]] inline LossOutputs loss_outputs(LossOutputs all) {
  return all;
}
/// Errors: ArgumentError for a weight that is not a single number.
[[nodiscard]] Tensor checked_weight(const Tensor& weight, SourceLoc where);

template <Module Model, BatchShard Shard>
class LossOf final : public RankLoss {
 public:
  using Fn = std::function<LossOutputs(const Model& model, Shard& shard, WorkerContext& context)>;

  LossOf(Fn fn, bool can_have_weight) : fn_(std::move(fn)), can_have_weight_(can_have_weight) {}
  /// Wraps a user's loss function.
  template <class Loss>
  [[nodiscard]] static std::unique_ptr<LossOf> of(Loss loss) {
    using Result = std::invoke_result_t<Loss&, const Model&, Shard&, WorkerContext&>;
    static_assert(kIsLossResult<Result>,
                  "a loss function returns a Tensor, a LossSum or a LossOutputs");
    if constexpr (kIsLossResult<Result>) {
      return std::make_unique<LossOf>(
          [loss = std::move(loss)](
              const Model& model, Shard& shard, WorkerContext& context) mutable {
            return loss_outputs(loss(model, shard, context));
          },
          !std::is_same_v<Result, Tensor>);
    } else {
      return nullptr;
    }
  }
  [[nodiscard]] std::unique_ptr<RankLoss> copy() const override {
    return std::make_unique<LossOf>(fn_, can_have_weight_);
  }
  [[nodiscard]] bool can_have_weight() const override { return can_have_weight_; }
  [[nodiscard]] ValueAndGradients<Tensor> differentiate(const RankModel& model,
                                                        RankShards& shards,
                                                        std::size_t index,
                                                        const SweepTerms& terms,
                                                        WorkerContext& context) override {
    Shard& shard = static_cast<ShardsOf<Shard>&>(shards).all[index];
    const auto size = static_cast<double>(shard.size);
    const auto count = static_cast<double>(terms.sample_count);
    const SourceLoc where = terms.where;
    const auto scaled = [where](Tensor value, double factor) {
      return mul(Arg(std::move(value), where), Arg(factor, where));
    };
    const auto weighted = [&](const Model& tracked) {
      LossOutputs result = terms.precision.is_mixed()
                               ? fn_(terms.precision.cast(tracked, where), shard, context)
                               : fn_(tracked, shard, context);
      require_loss("DataParallel", result.loss, where);
      result.loss = terms.precision.output(result.loss, where);
      const bool is_sum = result.weight.is_valid();
      const double factor = is_sum ? 1 / count : size / count;
      Tensor loss = factor == 1 ? std::move(result.loss) : scaled(std::move(result.loss), factor);
      terms.on_loss(loss, is_sum ? scaled(checked_weight(result.weight, where), factor) : Tensor());
      return terms.scaler != nullptr ? terms.scaler->scaled(loss, where) : loss;
    };
    return value_and_grad(value_of<Model>(model), weighted, terms.on_gradient, where);
  }

 private:
  Fn fn_;
  const bool can_have_weight_;
};

}  // namespace detail

}  // namespace hearth
