// Gradients as values: grad and value_and_grad run a function on tracked copies, sweep the tape
// backwards, and return owned gradients. There is no backward(), and no gradient inside a
// parameter. A tape belongs to one call on one thread; nothing is shared, so nothing is locked.
// Threads: any; each call works on its own.
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
/// Where a model lies in memory: to find the tensors in it that its walk does not name.
struct ModelPlaces {
  std::string_view name = {};  ///< The model's; empty: it has none.
  struct Part {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
  };
  std::vector<Part> parts = {};           ///< The model and the modules in it.
  std::vector<const Tensor*> named = {};  ///< All that the walk has come to.
};

/// The parameters of a model, each once, as value_and_grad() tracks them.
struct TrackedParameters {
  std::vector<std::string> paths;   ///< In visit order; of a tied one the first.
  std::vector<std::size_t> leaves;  ///< By leaf of the tape, which parameter it is.
  std::size_t frozen_count = 0;     ///< Those that are no leaves.
  [[nodiscard]] bool is_all_frozen() const noexcept { return frozen_count > 0 && leaves.empty(); }
};

/// The tape of one call. Defined in runtime/tape/tape.hpp.
class TapeScope {
 public:
  TapeScope();
  TapeScope(const TapeScope&) = delete;
  TapeScope& operator=(const TapeScope&) = delete;
  ~TapeScope();
  /// The same values, tracked; the index counts the leaves from 0.
  /// Errors: ArgumentError of `caller` when it is empty, or tracked by another tape.
  [[nodiscard]] Tensor track(const Tensor& value,
                             std::string_view caller = "grad",
                             SourceLoc loc = SourceLoc::current());
  /// Warns, while it lives, of weights that are used and that no model has named: those of a layer
  /// that this model has left out of HEARTH_MODULE, and tensors in the model that it does not name.
  void watch_weights(ModelPlaces model, SourceLoc loc);
  /// Gradients of `output` (one element, float) with respect to every leaf, in order of track().
  /// Leaves that the output does not depend on get zeros. The sweep calls `on_ready` with each
  /// leaf's gradient as soon as it is final, in the order of the sweep.
  [[nodiscard]] std::vector<Tensor> sweep(const Tensor& output,
                                          const GradientHook& on_ready,
                                          SourceLoc loc);
  /// After sweep(): by leaf, the zeros of those that the output does not depend on, else empty;
  /// nothing when there are none.
  [[nodiscard]] std::vector<Tensor> take_unreached();
  /// sweep() for the leaves of a model: a place for each parameter, empty where it is frozen.
  /// `on_ready` gets the numbers of parameters.
  [[nodiscard]] Gradients sweep_parameters(const Tensor& loss,
                                           TrackedParameters parameters,
                                           const GradientHook& on_ready,
                                           SourceLoc loc);

 private:
  Tape* tape_;
};
/// A walk through a model that finds its parameters and where they lie.
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
  /// HEARTH_MODULE calls it for each module that the walk enters.
  void enter_module(const void* module, std::size_t size_bytes) {
    const auto* const begin = static_cast<const std::byte*>(module);
    places.parts.push_back({.begin = begin, .end = begin + size_bytes});
  }

  struct Parameter {
    std::string path;
    Tensor* tensor = nullptr;
    bool is_frozen = false;  ///< Under one of its names.
  };
  std::vector<Parameter> parameters;
  /// Where tied ones stand under further names, with their numbers.
  std::vector<std::pair<Tensor*, std::size_t>> others;
  ModelPlaces places;

 private:
  SourceLoc loc_;
  TiedTensors tied_;
};

/// What visit() is given: copies of it, in a std::function say, go on with the same walk.
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

/// Tracks the parameters of a module that are not frozen, each once: those with several names under
/// their first.
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
/// Errors: ArgumentError when there are parameters, and the loss depends on none, or all are
/// frozen.
void require_tracked(const Tensor& loss, const TrackedParameters& parameters, SourceLoc loc);

// What a function can return as its loss: a Tensor; a sum and its weight, which have a mean(); a
// pair or a tuple whose first is a Tensor.
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

/// What value_and_grad keeps of it: the loss, or the pair.
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
/// What stands for a call's result where a static_assert has failed: it is never called.
template <class Result>
std::conditional_t<std::is_void_v<Result>, Tensor, Result> refused();
}  // namespace detail

/// The value of fn and the gradients of its loss with respect to the model's parameters.
template <class Value>
struct ValueAndGradients {
  Value value;  ///< What fn returned, cut from the tape.
  Gradients gradients;
};

/// Gradients of fn(inputs) with respect to the inputs. fn takes a const std::vector<Tensor>& and
/// returns a float tensor with one element, a LossSum or a LossOutputs. Errors: ShapeError when the
/// result has more than one element; DtypeError when it is not a float; ArgumentError when an input
/// is empty, or tracked by an outer grad.
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
/// visit() names, but for Buffers. A tensor with several names (tied weights) is one parameter: it
/// has one gradient, the sum, under its first name. A parameter on which the loss does not depend
/// has zeros, and Gradients::has_gradient() says so. For one that is frozen (freeze_weights()) none
/// is computed, and its place is empty. fn gets a const Model& whose tensors are
/// tracked, and returns the loss (a float tensor with one element), a std::pair or std::tuple of
/// the loss and anything else, or a LossSum or LossOutputs, whose mean() is the loss then and the
/// value. `on_ready` is called on this thread as each gradient becomes final, last layers first.
///
/// Errors: ArgumentError when the loss comes from none of the parameters, as that of a function
/// that uses another model than the one it is given does, naming a parameter that is empty, when
/// all are frozen, or when one is tracked by an outer one: gradients of gradients are not
/// available; ShapeError and DtypeError as grad().
///
/// What a model leaves out of HEARTH_MODULE is neither trained, moved nor saved. The log warns of a
/// tensor in the model, and in the modules that it names, that takes part without being named, and
/// of a weight of one of the library's layers that takes part twice, on a device of the parameters.
///
/// A loss that became NaN or infinite is no error here, since finding out would mean to wait:
/// DataParallel checks it at every step; your own loop does with require_finite(loss.item(), step),
/// and require_finite(gradients, step) names the parameter where it began (modules/metrics.hpp). A
/// failed op is an error of the read of the loss, or of the step with the gradients.
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
    detail::loss_of(value) = loss.detach();
    Gradients gradients = scope.sweep_parameters(loss, std::move(parameters), on_ready, loc);
    return ValueAndGradients<decltype(value)>{std::move(value), std::move(gradients)};
  } else {
    return ValueAndGradients<decltype(detail::refused<Result>())>{detail::refused<Result>(), {}};
  }
}

/// For a function that cannot be called with a const model.
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
/// For a model that is no module.
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
