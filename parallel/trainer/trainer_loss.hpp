// Calls of a Trainer to a user's loss function, and sums of the figures of a data set. Users
// need only LossContext; LossOutputs is in rank_model.hpp.
// Values. Threads: a rank's worker; FigureSums: the Trainer's.
// Invariant: figures are summed in the order of batches and ranks, so they have the same bits in
// every run.
#pragma once

#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/evaluation_metric.hpp>
#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/precision.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/parallel/rank_model.hpp>
#include <hearth/parallel/trainer_options.hpp>
#include <hearth/parallel/worker.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth {

/// Device and purpose of a call to a loss function.
struct LossContext {
  Device device;            ///< Device on which the loss is computed.
  Mode mode = Mode::train;  ///< Training or evaluation.
  int rank = 0;             ///< Number of the device, from 0.
  SourceLoc where = {};     ///< The call of fit() or evaluate() that needs the loss.
};

namespace detail {

/// Selects the overload of a loss function that a Trainer calls: an overloaded name alone has no
/// type.
class LossFunction final {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a function's name converts to one
  LossFunction(Tensor (*function)(const Tensor&, const Tensor&))
      : function_([function](const Tensor& outputs, const Tensor& targets, SourceLoc) {
          return function(outputs, targets);
        }) {}
  // A template's name matches these templates too; the non-template constructor above is preferred.
  template <class Result = Tensor>
  LossFunction(Result (*function)(Arg, Arg))
      : function_([function](const Tensor& outputs, const Tensor& targets, SourceLoc where) {
          return function(Arg(outputs, where), Arg(targets, where));
        }) {}
  template <class Result = Tensor>
  LossFunction(Result (*function)(Tensor, Tensor))
      : function_([function](const Tensor& outputs, const Tensor& targets, SourceLoc) {
          return function(outputs, targets);
        }) {}
  // NOLINTEND(google-explicit-constructor)
  /// `where`: the line that errors name.
  [[nodiscard]] Tensor operator()(const Tensor& outputs,
                                  const Tensor& targets,
                                  SourceLoc where = {}) const {
    return function_(outputs, targets, where);
  }

 private:
  std::function<Tensor(const Tensor&, const Tensor&, SourceLoc)> function_;
};

template <class Model, class Shard>
using TrainerLoss = std::function<LossOutputs(const Model&, Shard&, const LossContext&)>;

/// Argument of a loss function of three arguments.
template <class Shard>
using LossBatch = std::conditional_t<std::is_same_v<Shard, HostBatch>, Batch, Shard>;

template <class Model>
[[nodiscard]] Tensor forward_of(const Model& model,
                                const Tensor& inputs,
                                const LossContext& context) {
  if constexpr (requires { model.forward(inputs, context.mode); }) {
    return apply_layer(model, inputs, context.where, context.mode);
  } else {
    return apply_layer(model, inputs, context.where);
  }
}

/// A model whose outputs a Trainer can compute.
template <class Model>
concept ForwardsInputs = requires(const Model& model, const Tensor& inputs, const Mode mode) {
  model.forward(inputs, mode);
}
|| requires(const Model& model, const Tensor& inputs) {
  model.forward(inputs);
};

/// A model whose forward() matches but is not const.
template <class Model>
concept ForwardsAsMutable = requires(Model& model, const Tensor& inputs, const Mode mode) {
  model.forward(inputs, mode);
}
|| requires(Model& model, const Tensor& inputs) {
  model.forward(inputs);
};

template <class Loss, class Model, class Shard>
concept WholeLoss = std::invocable < const Loss&,
        const Model&, LossBatch<Shard>
&, const LossContext& > ;
template <class Loss>
concept OutputLoss = std::invocable<const Loss&, const Tensor&, const Tensor&>;

/// Result type of the loss function in one of the two forms; void if neither form matches.
template <class Model, class Shard, class Loss>
[[nodiscard]] constexpr auto loss_result() {
  if constexpr (WholeLoss<Loss, Model, Shard>) {
    return std::type_identity<
        std::invoke_result_t<const Loss&, const Model&, LossBatch<Shard>&, const LossContext&>>();
  } else if constexpr (std::is_same_v<Shard, HostBatch> && OutputLoss<Loss>) {
    return std::type_identity<std::invoke_result_t<const Loss&, const Tensor&, const Tensor&>>();
  } else {
    return std::type_identity<void>();
  }
}
/// Whether a user's loss function may return a weight.
template <class Model, class Shard, class Loss>
inline constexpr bool kCanHaveWeight =
    !std::is_same_v<typename decltype(loss_result<Model, Shard, Loss>())::type, Tensor>;

/// The loss function in the types of a precision: `loss` gets the model in the type of the forward
/// pass. In training the model has it already.
template <class Model, class Shard>
[[nodiscard]] TrainerLoss<Model, Shard> in_precision(TrainerLoss<Model, Shard> loss,
                                                     const Precision& precision) {
  if (!precision.is_mixed()) {
    return loss;
  }
  return [loss = std::move(loss), precision](
             const Model& model, Shard& shard, const LossContext& context) {
    return loss(precision.cast(model, context.where), shard, context);
  };
}

/// Wraps a user's loss function.
template <class Model, class Shard, class Loss>
[[nodiscard]] TrainerLoss<Model, Shard> trainer_loss(Loss loss, const Precision& precision) {
  constexpr bool kIsWhole = WholeLoss<Loss, Model, Shard>;
  constexpr bool kCanBeCalled = kIsWhole || (std::is_same_v<Shard, HostBatch> && OutputLoss<Loss>);
  constexpr bool kHasResult =
      kIsLossResult<typename decltype(loss_result<Model, Shard, Loss>())::type>;
  static_assert(kCanBeCalled,
                "a Trainer's loss function is called as loss(outputs, targets) or as "
                "loss(model, batch, context)");
  constexpr bool kHasOutputs = kIsWhole || !kCanBeCalled || ForwardsInputs<Model>;
  constexpr bool kIsConst = kHasOutputs || !ForwardsAsMutable<Model>;
  static_assert(
      kIsConst,
      "the model's forward() is not const, and a Trainer calls it on a const model: write "
      "Tensor forward(const Tensor& x) const");
  static_assert(kHasOutputs || !kIsConst,
                "loss(outputs, targets) is for a model with forward(x) or forward(x, mode): write "
                "loss(model, batch, context), which calls forward() itself");
  static_assert(kHasResult || !kCanBeCalled,
                "a Trainer's loss function returns a Tensor, a LossSum or a LossOutputs");
  if constexpr (!kCanBeCalled || !kHasResult || !kHasOutputs) {
    return {};
  } else if constexpr (!std::is_same_v<Shard, HostBatch>) {
    const auto call = [loss = std::move(loss)](
                          const Model& model, Shard& shard, const LossContext& context) {
      return loss_outputs(loss(model, shard, context));
    };
    return in_precision<Model, Shard>(call, precision);
  } else {
    const auto call = [loss = std::move(loss), precision](
                          const Model& model, Shard& shard, const LossContext& context) {
      Batch batch = std::move(shard).to(context.device, context.where);
      batch.inputs = precision.input(batch.inputs, context.where);
      if constexpr (kIsWhole) {
        return loss_outputs(loss(model, batch, context));
      } else {
        const Tensor outputs =
            precision.output(forward_of(model, batch.inputs, context), context.where);
        LossOutputs result = [&] {
          if constexpr (std::is_same_v<Loss, LossFunction> ||
                        std::is_same_v<Loss, Tensor (*)(Arg, Arg)>) {
            return loss_outputs(
                LossFunction(loss)(outputs, std::as_const(batch.targets), context.where));
          } else {
            return loss_outputs(loss(outputs, std::as_const(batch.targets)));
          }
        }();
        result.outputs = outputs;
        result.targets = std::move(batch.targets);
        return result;
      }
    };
    return in_precision<Model, Shard>(call, precision);
  }
}

/// One rank's figures for its part of a batch.
struct FigurePart {
  double loss = 0;  ///< Sum over all samples, or over all that the weight counts.
  double weight = 0;
  std::int64_t sample_count = 0;
  std::vector<EvaluationMetric::Statistics> statistics = {};
};

/// Errors: ArgumentError when there are metrics and the loss function returns no outputs.
[[nodiscard]] FigurePart figures_of(const LossOutputs& result,
                                    std::int64_t sample_count,
                                    const std::vector<EvaluationMetric>& metrics,
                                    SourceLoc where);

template <class Model, class Shard>
[[nodiscard]] FigurePart figures_of(const Model& model,
                                    Shard& shard,
                                    const TrainerLoss<Model, Shard>& loss,
                                    const std::vector<EvaluationMetric>& metrics,
                                    const WorkerContext& context) {
  const auto size = static_cast<std::int64_t>(shard.size);
  if (size == 0) {
    return {};
  }
  const LossContext here{
      .device = context.device, .mode = Mode::eval, .rank = context.rank, .where = context.where};
  return figures_of(loss(model, shard, here), size, metrics, context.where);
}

class FigureSums final {
 public:
  explicit FigureSums(const std::vector<EvaluationMetric>& metrics)
      : metrics_(metrics), statistics_(metrics.size()) {}

  /// Errors: ArgumentError, at `where`, when the number of a metric's statistics changes.
  void add(const FigurePart& part, SourceLoc where);
  /// NaN without samples, or without any sample that counts.
  [[nodiscard]] EvaluationFigures figures() const;

 private:
  const std::vector<EvaluationMetric>& metrics_;
  double loss_ = 0;
  double weight_ = 0;
  std::int64_t sample_count_ = 0;
  std::vector<EvaluationMetric::Statistics> statistics_;
};

}  // namespace detail

}  // namespace hearth
