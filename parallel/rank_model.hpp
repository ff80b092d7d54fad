// RankModel, RankShards, RankLoss: a user's model, shards and loss function as a trainer knows
// them, without their types. The user's unit compiles the small templates here and DataParallel;
// the rest of the trainer is compiled once. Owned by a rank, but for shards on their way. Threads:
// one at a time; who hands one over publishes its tensors. Invariant: the models of one trainer
// have one type, and so have its shards: the casts need no check.
#pragma once

#include <hearth/modules/module.hpp>
#include <hearth/modules/state_updates.hpp>
#include <hearth/parallel/hand_over.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/ops.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace hearth {

struct WorkerContext;

/// A rank's part of a batch: it knows how many samples it has.
template <class T>
concept BatchShard = std::movable<T> && requires(const T& shard) {
  { shard.size } -> std::convertible_to<std::int64_t>;
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

/// A rank's part of a step: a shard a micro-batch.
class RankShards {
 public:
  RankShards() = default;
  RankShards(const RankShards&) = delete;
  RankShards& operator=(const RankShards&) = delete;
  virtual ~RankShards() = default;

  /// Makes the calling thread's stream the home of what was handed over, and drops empty shards.
  virtual void take() = 0;
  /// Behind take(): shards with samples.
  [[nodiscard]] virtual std::size_t count() const = 0;
  [[nodiscard]] virtual std::int64_t sample_count() const = 0;
};

/// What a sweep over one micro-batch reports.
struct SweepTerms {
  std::int64_t sample_count = 0;                         ///< Of all ranks and micro-batches.
  std::function<void(const Tensor& loss)> on_loss = {};  ///< Before the sweep; may be empty.
  GradientHook on_gradient = {};
};

class RankLoss {
 public:
  RankLoss() = default;
  RankLoss(const RankLoss&) = delete;
  RankLoss& operator=(const RankLoss&) = delete;
  virtual ~RankLoss() = default;

  /// One for another rank.
  [[nodiscard]] virtual std::unique_ptr<RankLoss> copy() const = 0;
  /// The loss of one of the shards, weighted by its share of all samples, and its gradients.
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
  explicit ModelOf(Model model) : value(std::move(model)) {}
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

template <Module Model, BatchShard Shard>
class LossOf final : public RankLoss {
 public:
  using Fn = std::function<Tensor(const Model& model, Shard& shard, WorkerContext& context)>;

  explicit LossOf(Fn fn) : fn_(std::move(fn)) {}
  [[nodiscard]] std::unique_ptr<RankLoss> copy() const override {
    return std::make_unique<LossOf>(fn_);
  }
  [[nodiscard]] ValueAndGradients<Tensor> differentiate(const RankModel& model,
                                                        RankShards& shards,
                                                        std::size_t index,
                                                        const SweepTerms& terms,
                                                        WorkerContext& context) override {
    Shard& shard = static_cast<ShardsOf<Shard>&>(shards).all[index];
    const auto share = static_cast<double>(shard.size) / static_cast<double>(terms.sample_count);
    const auto weighted = [&](const Model& tracked) {
      Tensor loss = fn_(tracked, shard, context);
      loss = share == 1 ? std::move(loss) : mul(std::move(loss), share);
      if (terms.on_loss) {
        terms.on_loss(loss);
      }
      return loss;
    };
    return value_and_grad(value_of<Model>(model), weighted, terms.on_gradient);
  }

 private:
  Fn fn_;
};

}  // namespace detail

}  // namespace hearth
