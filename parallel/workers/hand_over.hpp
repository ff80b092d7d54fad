// hand_over() and take_over(): move a value that holds tensors from one thread to another. The
// sender calls hand_over(), the receiver take_over(). DeviceWorker and DataParallel call both for
// their arguments and results.
// Stateless. Threads: the value's owner.
// Invariant: parts without tensors are left alone, so every movable type may be handed over.
#pragma once

#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/tensor.hpp>

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth {

namespace detail {

template <class T>
struct IsValueAndGradients : std::false_type {};
template <class T>
struct IsValueAndGradients<ValueAndGradients<T>> : std::true_type {};

/// Calls fn with each part of `value` that has publish() and adopt(): tensors, gradients and
/// modules. Looks also inside batches, pairs, tuples, lists, maps, optionals and results of
/// value_and_grad.
template <class T, class Fn>
void for_each_handed(T& value, Fn& fn) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (std::is_base_of_v<Tensor, Plain>) {
    if (value.is_valid()) {
      fn(value);
    }
  } else if constexpr (std::is_same_v<Plain, Gradients> || Module<Plain>) {
    fn(value);
  } else if constexpr (IsValueAndGradients<Plain>::value) {
    for_each_handed(value.value, fn);
    fn(value.gradients);
  } else if constexpr (std::is_same_v<Plain, Batch>) {
    for_each_handed(value.inputs, fn);
    for_each_handed(value.targets, fn);
  } else if constexpr (IsOptional<Plain>::value) {
    if (value.has_value()) {
      for_each_handed(*value, fn);
    }
  } else if constexpr (IsList<Plain>::value) {
    if constexpr (!std::is_arithmetic_v<typename IsList<Plain>::Element>) {
      for (auto& element : value) {
        for_each_handed(element, fn);
      }
    }
  } else if constexpr (IsMap<Plain>::value) {
    for (auto& element : value) {
      for_each_handed(element.second, fn);
    }
  } else if constexpr (IsTuple<Plain>::value) {
    std::apply([&](auto&... parts) { (for_each_handed(parts, fn), ...); }, value);
  }
}

}  // namespace detail

/// Flushes this thread's stream, so that another thread may use the value.
template <class T>
void hand_over(const T& value) {
  auto publish_part = [](const auto& part) {
    if constexpr (Module<std::remove_cvref_t<decltype(part)>>) {
      publish(part);
    } else {
      part.publish();
    }
  };
  detail::for_each_handed(value, publish_part);
}

/// Makes the calling thread's stream the home of a value that another thread has handed over.
template <class T>
void take_over(T& value) {
  auto adopt_part = [](auto& part) {
    if constexpr (Module<std::remove_cvref_t<decltype(part)>>) {
      adopt(part);
    } else {
      part.adopt();
    }
  };
  detail::for_each_handed(value, adopt_part);
}

}  // namespace hearth
