// OptionalArg: an operand that may be omitted, as the bounds of clamp(x, {}, 1): an Arg with the
// line of the call, or nothing. A value that borrows its tensor, as Arg does. Threads: that of the
// call.
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

class OptionalArg {
 public:
  OptionalArg() noexcept = default;
  // NOLINTBEGIN(google-explicit-constructor)
  OptionalArg(std::nullopt_t /*nothing*/) noexcept {}
  OptionalArg(const Arg& arg) noexcept : arg_(arg) {}
  OptionalArg(const Tensor& tensor, SourceLoc loc = SourceLoc::current()) noexcept
      : arg_(Arg(tensor, loc)) {}
  OptionalArg(Tensor&& tensor, SourceLoc loc = SourceLoc::current()) noexcept
      : arg_(Arg(std::move(tensor), loc)) {}
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  OptionalArg(Number value, SourceLoc loc = SourceLoc::current()) noexcept
      : arg_(Arg(value, loc)) {}
  /// The value of the program's own optional: a number, a Tensor, an Arg, or nothing.
  template <class T, class = std::enable_if_t<std::is_constructible_v<Arg, const T&>>>
  OptionalArg(const std::optional<T>& value, SourceLoc loc = SourceLoc::current()) noexcept {
    if (value.has_value()) {
      set(*value, loc);
    }
  }
  template <class T, class = std::enable_if_t<std::is_constructible_v<Arg, T&&>>>
  OptionalArg(std::optional<T>&& value, SourceLoc loc = SourceLoc::current()) noexcept {
    if (value.has_value()) {
      set(*std::move(value), loc);
    }
  }
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] bool has_value() const noexcept { return arg_.has_value(); }
  /// Requires has_value().
  [[nodiscard]] const Arg& operator*() const noexcept { return *arg_; }
  [[nodiscard]] const Arg* operator->() const noexcept { return &*arg_; }

 private:
  template <class T>
  void set(T&& value, SourceLoc loc) noexcept {
    if constexpr (std::is_same_v<std::remove_cvref_t<T>, Arg>) {
      arg_ = value;
    } else {
      arg_.emplace(std::forward<T>(value), loc);
    }
  }

  std::optional<Arg> arg_;
};

}  // namespace hearth
