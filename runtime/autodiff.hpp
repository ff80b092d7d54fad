// Gradients as values: grad and value_and_grad run a function on tracked copies, sweep the tape
// backwards and return owned gradients. There is no backward(), and parameters hold no gradients. A
// tape belongs to one call on one thread, so there are no locks.
// Threads: any; each call has its own tape.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <hearth/runtime/buffer.hpp>
#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/model_tensor.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/tensor_access.hpp>
#include <hearth/runtime/tied_tensors.hpp>
#include <hearth/runtime/visit.hpp>

namespace hearth {

namespace detail {
/// The memory ranges of a model, used to find its tensors that the walk does not name.
struct ModelPlaces {
  std::string_view name = {};  ///< The model's name; empty if it has none.
  struct Part {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
  };
  std::vector<Part> parts = {};           ///< The model and the modules in it.
  std::vector<const Tensor*> named = {};  ///< All tensors that the walk has visited.
};

/// The parameters of a model, each once, as value_and_grad() tracks them.
struct TrackedParameters {
  std::vector<std::string> paths;   ///< In visit order; the first path of a tied parameter.
  std::vector<std::size_t> leaves;  ///< The parameter's number for each leaf of the tape.
  std::size_t frozen_count = 0;     ///< Number of parameters that are no leaves.
  [[nodiscard]] bool is_all_frozen() const noexcept { return frozen_count > 0 && leaves.empty(); }
};

/// The tape of one call. Defined in runtime/tape/tape.hpp.
class TapeScope {
 public:
  TapeScope();
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;
  ~TapeScope();
  /// Returns a tracked copy of the value; leaves are numbered from 0.
  /// Errors: ArgumentError of `caller` if the value is empty or tracked by another thread's tape.
  [[nodiscard]] Tensor track(const Tensor& value,
                             std::string_view caller = "grad",
                             SourceLoc loc = SourceLoc::current());
  /// Warns, while the tape lives, of used weights that no model has named. These are weights of a
  /// layer that this model omits from HEARTH_MODULE, and unnamed tensors in the model.
  void watch_weights(ModelPlaces model, SourceLoc loc);
  /// Gradients of `output` (one float element) with respect to every leaf, in order of track().
  /// Leaves on which the output does not depend get zeros. The sweep calls `on_ready` with each
  /// leaf's gradient as soon as it is final, in the order of the sweep.
  [[nodiscard]] std::vector<Tensor> sweep(const Tensor& output,
                                          const GradientHook& on_ready,
                                          SourceLoc loc);
  /// After sweep(): for each leaf, the zeros that replace a missing gradient, else an empty tensor.
  /// Empty if the output depends on every leaf.
  [[nodiscard]] std::vector<Tensor> take_unreached();
  /// The tensor without this tape's tracking; outer tapes still track it.
  [[nodiscard]] Tensor outside(const Tensor& tensor) const;
  /// sweep() for the leaves of a model: one entry for each parameter, empty if it is frozen.
  /// `on_ready` receives the parameter's number.
  [[nodiscard]] Gradients sweep_parameters(const Tensor& loss,
                                           TrackedParameters parameters,
                                           const GradientHook& on_ready,
                                           SourceLoc loc);

 private:
  Tape* tape_;
};
/// Walks a model; collects its parameters and their memory ranges.
class ParameterWalk {
 public:
  explicit ParameterWalk(SourceLoc loc) noexcept : loc_(loc) {}

  template <class Part>
  void operator()(const std::string& path, Part& part) {
    places.named.push_back(&part);
    if constexpr (std::is_same_v<Part, Buffer>) {
      if (part.is_valid()) {
        part.set_path(path, loc_);
      }
    } else {
      require_tensor("value_and_grad", path, part, loc_);
      const TiedTensors::Place place = tied_.meet(part);
      const bool is_frozen = TensorAccess::has_mark(part, MemberMark::frozen);
      if (place.is_first) {
        part.set_path(path, loc_);
        parameters.push_back({.path = path, .tensor = &part, .is_frozen = is_frozen});
      } else {
        others.emplace_back(&part, place.number);
        parameters[place.number].is_frozen |= is_frozen;
      }
    }
  }
  /// Called by HEARTH_MODULE for each module that the walk enters.
  void enter_module(const void* module, std::size_t size_bytes) {
    const auto* const begin = static_cast<const std::byte*>(module);
    places.parts.push_back({.begin = begin, .end = begin + size_bytes});
  }

  struct Parameter {
    std::string path;
    Tensor* tensor = nullptr;
    bool is_frozen = false;  ///< Frozen under one of its names.
  };
  std::vector<Parameter> parameters;
  /// The further places of tied parameters, with the parameter's number.
  std::vector<std::pair<Tensor*, std::size_t>> others;
  ModelPlaces places;

 private:
  SourceLoc loc_;
  TiedTensors tied_;
};

/// The argument of visit(). Its copies, for example in a std::function, continue the same walk.
struct ParameterVisitor {
  template <class Part>
  void operator()(const std::string& path, Part& part) const {
    (*walk)(path, part);
  }
  void enter_module(const void* module, std::size_t size_bytes) const {
    walk->enter_module(module, size_bytes);
  }
  ParameterWalk* walk;
};

/// Tracks the parameters of a module that are not frozen, each once; tied ones under their first
/// name.
template <class Model>
TrackedParameters track_parameters(Model& model, TapeScope& scope, SourceLoc loc) {
  ParameterWalk walk(loc);
  ParameterVisitor visitor{&walk};
  model.visit("", visitor);
  TrackedParameters tracked;
  for (ParameterWalk::Parameter& parameter : walk.parameters) {
    if (parameter.is_frozen) {
      ++tracked.frozen_count;
    } else {
      *parameter.tensor = scope.track(*parameter.tensor, "value_and_grad", loc);
      tracked.leaves.push_back(tracked.paths.size());
    }
    tracked.paths.push_back(std::move(parameter.path));
  }
  for (const auto& [other, number] : walk.others) {
    *other = *walk.parameters[number].tensor;
  }
  if constexpr (requires { Model::module_name(); }) {
    walk.places.name = Model::module_name();
  }
  scope.watch_weights(std::move(walk.places), loc);
  return tracked;
}
/// Checks that the loss depends on a parameter. Errors: ArgumentError if there are parameters and
/// the loss depends on none, or if all are frozen.
void require_tracked(const Tensor& loss, const TrackedParameters& parameters, SourceLoc loc);

// The three return types of a loss function. LossTensor: a Tensor. LossParts: a sum and its weight,
// which have a mean(). LossFirst: a pair or tuple whose first element is a Tensor.
template <class Result>
concept LossTensor = std::derived_from<Result, Tensor>;
template <class Result>
concept LossParts = requires(const Result& parts, SourceLoc loc) {
  { parts.mean(loc) } -> std::same_as<Tensor>;
};
template <class Result>
concept LossFirst = requires(Result& all) {
  { std::get<0>(all) } -> std::same_as<Tensor&>;
};

/// The value that value_and_grad returns: the loss, or the pair or tuple.
template <class Result>
auto loss_value(Result result, [[maybe_unused]] SourceLoc loc) {
  if constexpr (LossParts<Result>) {
    return result.mean(loc);
  } else if constexpr (LossTensor<Result>) {
    return Tensor(std::move(result));
  } else {
    return result;
  }
}
template <class Value>
Tensor& loss_of(Value& value) {
  if constexpr (std::is_same_v<Value, Tensor>) {
    return value;
  } else {
    return std::get<0>(value);
  }
}
/// Stands for the result of a call that a static_assert has rejected; never called.
template <class Result>
std::conditional_t<std::is_void_v<Result>, Tensor, Result> refused();
}  // namespace detail

/// The value of fn, and the gradients of its loss with respect to the model's parameters.
template <class Value>
struct ValueAndGradients {
  Value value;  ///< Return value of fn, detached from the tape.
  Gradients gradients;
};

/// Gradients of fn(inputs) with respect to the inputs. fn takes a const std::vector<Tensor>& and
/// returns a float tensor with one element, a LossSum or a LossOutputs.
/// Errors: ShapeError if the result has more than one element; DtypeError if it is no float;
/// ArgumentError if an input is empty, or tracked by a grad call of another thread.
///
/// A call inside of another one differentiates again: the inner call's gradients are tracked by the
/// outer one. An inner call keeps all values that it needs: checkpoint() and RecomputeScope act on
/// the outermost one. attention(), cross_entropy() and custom ops run as plain ops there.
template <class Fn>
[[nodiscard]] std::vector<Tensor> grad(Fn&& fn,
                                       const std::vector<Tensor>& inputs,
                                       SourceLoc loc = SourceLoc::current()) {
  detail::TapeScope scope;
  std::vector<Tensor> tracked;
  tracked.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    tracked.push_back(scope.track(input, "grad", loc));
  }
  using Result = std::decay_t<decltype(std::forward<Fn>(fn)(std::as_const(tracked)))>;
  constexpr bool kIsLoss = detail::LossTensor<Result> || detail::LossParts<Result>;
  static_assert(kIsLoss, "the function of grad() returns the loss, a Tensor");
  if constexpr (kIsLoss) {
    const Tensor output =
        detail::loss_value<Result>(std::forward<Fn>(fn)(std::as_const(tracked)), loc);
    tracked.clear();
    return scope.sweep(output, {}, loc);
  } else {
    return {};
  }
}

/// Runs fn(model) and differentiates its loss with respect to every parameter that the model's
/// visit() names, except Buffers.
///
/// fn receives a const Model& whose tensors are tracked. It returns the loss (a float tensor with
/// one element), a std::pair or std::tuple that begins with the loss, or a LossSum or LossOutputs.
/// The mean() of the last two is the loss and the value. `on_ready` is called on this thread as
/// each gradient becomes final, last layers first.
///
/// A tensor with several names (tied weights) is one parameter: it has one gradient, the sum, under
/// its first name. A parameter on which the loss does not depend gets zeros, and
/// Gradients::has_gradient() is false for it. A frozen parameter (freeze_weights()) gets an empty
/// entry.
///
/// Errors: ArgumentError if a parameter is empty (its name is given) or all are frozen; if the loss
/// depends on no parameter, for example because fn uses another model than its argument. ShapeError
/// and DtypeError as grad().
///
/// A tensor that a model omits from HEARTH_MODULE is not trained, moved or saved. The log warns of
/// a used tensor in the model, or in its named modules, that has no name. It also warns of an
/// unnamed weight of a library layer that is used twice on a device of the parameters.
///
/// A loss that became NaN or infinite is no error here, since a check would have to wait.
/// DataParallel checks it at every step. Your own loop can call require_finite(loss.item(), step);
/// require_finite(gradients, step) names the parameter where it began (modules/report/metrics.hpp).
/// A failed op is reported by the read of the loss, or by the step with the gradients.
template <class Model, class Fn>
[[nodiscard]] auto value_and_grad(const Model& model,
                                  Fn&& fn,
                                  const GradientHook& on_ready = {},
                                  SourceLoc loc = SourceLoc::current()) {
  detail::TapeScope scope;
  Model tracked = model;  // shares the values
  detail::TrackedParameters parameters = detail::track_parameters(tracked, scope, loc);
  using Result = std::decay_t<decltype(std::forward<Fn>(fn)(std::as_const(tracked)))>;
  constexpr bool kIsLoss =
      detail::LossTensor<Result> || detail::LossParts<Result> || detail::LossFirst<Result>;
  static_assert(
      kIsLoss,
      "the function of value_and_grad() returns the loss, a Tensor, or a pair whose first "
      "is the loss");
  if constexpr (kIsLoss) {
    auto value = detail::loss_value<Result>(std::forward<Fn>(fn)(std::as_const(tracked)), loc);
    const Tensor loss = detail::loss_of(value);
    detail::require_tracked(loss, parameters, loc);
    tracked.visit("", [](const std::string&, Tensor& parameter) { parameter = Tensor(); });
    detail::loss_of(value) = scope.outside(loss);
    Gradients gradients = scope.sweep_parameters(loss, std::move(parameters), on_ready, loc);
    return ValueAndGradients<decltype(value)>{std::move(value), std::move(gradients)};
  } else {
    return ValueAndGradients<decltype(detail::refused<Result>())>{detail::refused<Result>(), {}};
  }
}

/// Rejects a function that cannot be called with a const model.
template <class Model, class Fn>
requires(detail::HasVisit<Model> && !std::invocable<Fn, const Model&>)
    ValueAndGradients<Tensor> value_and_grad(const Model& /*model*/,
                                             Fn&& /*fn*/,
                                             const GradientHook& /*on_ready*/ = {},
                                             SourceLoc /*loc*/ = SourceLoc::current()) {
  constexpr bool kTakesConst = std::invocable<Fn, const Model&>;
  static_assert(kTakesConst,
                "the function of value_and_grad() gets the model as a const reference, and nothing "
                "else: write [&](const Net& net) { return ...; }");
  return {};
}
/// Rejects a model that is no module.
template <class Model, class Fn>
requires(!detail::HasVisit<Model>)
    ValueAndGradients<Tensor> value_and_grad(const Model& /*model*/,
                                             Fn&& /*fn*/,
                                             const GradientHook& /*on_ready*/ = {},
                                             SourceLoc /*loc*/ = SourceLoc::current()) {
  static_assert(detail::refuse_no_module<Model>());
  return {};
}

}  // namespace hearth
