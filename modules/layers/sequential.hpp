// Sequential: applies layers one after the other. A module; its paths are "0.weight", "1.bias", ...
// Threads: one at a time.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <concepts>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace hearth {

namespace detail {

/// Whether layer.forward(x, more...) takes an Arg, which carries the user's line.
template <class Layer, class... More>
concept TakesArg = requires(const Layer& layer, Arg x, More&... more) {
  { layer.forward(x, more...) } -> std::same_as<Tensor>;
};
template <class Layer, class... More>
concept TakesTensor = requires(const Layer& layer, const Tensor& x, More&... more) {
  { layer.forward(x, more...) } -> std::same_as<Tensor>;
};

template <class Layer, class... More>
Tensor apply_layer(const Layer& layer, Tensor x, SourceLoc loc, More&... more) {
  if constexpr (TakesArg<Layer, More...>) {
    return layer.forward(Arg(std::move(x), loc), more...);
  } else {
    return layer.forward(std::move(x), more...);
  }
}

template <class Layer, class... More>
concept Takes = TakesArg<Layer, More...> || TakesTensor<Layer, More...>;

/// Whether forward() matches one of the three forms. A missing or overloaded forward() passes here
/// and is checked at the call.
template <class Layer>
concept TakesSomehow =
    Takes<Layer> || Takes<Layer, const Mode> || Takes<Layer, const Mode, Generator> || !requires {
  &Layer::forward;
};

}  // namespace detail

/// A chain of layers. A layer is a value with forward(x), forward(x, mode) or forward(x, mode,
/// generator). Sequential calls the longest form that its own arguments can fill.
template <class... Layers>
class Sequential final {
 public:
  static constexpr std::string_view module_name() noexcept { return "Sequential"; }
  static_assert((!detail::is_unnamed_layer<Layers>() && ...),
                "a layer has forward() and is no module: name its members with "
                "HEARTH_MODULE(Type, members...) in the public part of its struct");

  static_assert(((detail::is_unnamed_layer<Layers>() || detail::TakesSomehow<Layers>)&&...),
                "a layer in a Sequential has forward(x), forward(x, mode) or forward(x, mode, "
                "generator), which returns a Tensor; write a struct with a forward() of its own");

  explicit Sequential(Layers... layers) : layers_(std::move(layers)...) {}

  /// Applies layers that need no mode.
  [[nodiscard]] Tensor forward(Arg x) const requires(detail::Takes<Layers>&&...) {
    return run(x, [](const auto& layer, Tensor value, SourceLoc loc) {
      return detail::apply_layer(layer, std::move(value), loc);
    });
  }
  // Compilers show the line: it is the message.
  // clang-format off
  Tensor forward(Arg x) const requires(!(detail::Takes<Layers> && ...)) = delete;  // a layer in it, a Dropout say, asks for the mode: forward(x, Mode::train) or forward(x, Mode::eval)
  // clang-format on
  /// Applies the layers. Random layers draw from the calling thread's GeneratorScope.
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const {
    return run(x, [mode](const auto& layer, Tensor value, SourceLoc loc) {
      if constexpr (detail::Takes<std::remove_cvref_t<decltype(layer)>, const Mode>) {
        return detail::apply_layer(layer, std::move(value), loc, mode);
      } else {
        return detail::apply_layer(layer, std::move(value), loc);
      }
    });
  }
  [[nodiscard]] Tensor forward(Arg x, Mode mode, Generator& generator) const {
    return run(x, [&](const auto& layer, Tensor value, SourceLoc loc) {
      using Layer = std::remove_cvref_t<decltype(layer)>;
      if constexpr (detail::Takes<Layer, const Mode, Generator>) {
        return detail::apply_layer(layer, std::move(value), loc, std::as_const(mode), generator);
      } else if constexpr (detail::Takes<Layer, const Mode>) {
        return detail::apply_layer(layer, std::move(value), loc, std::as_const(mode));
      } else {
        return detail::apply_layer(layer, std::move(value), loc);
      }
    });
  }

  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) {
    detail::visit_part(prefix, layers_, fn);
  }
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) const {
    detail::visit_part(prefix, layers_, fn);
  }

  template <std::size_t kIndex>
  [[nodiscard]] auto& layer() noexcept {
    return std::get<kIndex>(layers_);
  }
  template <std::size_t kIndex>
  [[nodiscard]] const auto& layer() const noexcept {
    return std::get<kIndex>(layers_);
  }

 private:
  template <class Step>
  [[nodiscard]] Tensor run(const Arg& x, Step step) const {
    const SourceLoc loc = x.location();
    Tensor value = taken(x, module_name());
    std::apply([&](const auto&... layers) { ((value = step(layers, std::move(value), loc)), ...); },
               layers_);
    return value;
  }

  std::tuple<Layers...> layers_;
};

}  // namespace hearth
