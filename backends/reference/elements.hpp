// Elements of tensor views as dense row-major vectors: f64 for floats, i64 for integers and bool,
// raw bits for movement. The reference loads every input whole, computes on dense vectors and
// stores once, so no other file handles strides or in-place operands. Private to
// backends/reference. Pure functions. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/shape.hpp>

namespace hearth::reference {

using Reals = std::vector<double>;
using Integers = std::vector<std::int64_t>;
using Bits = std::vector<std::uint64_t>;

/// Calls fn(offset) for every index of `shape` in row-major order; offset is the sum of index times
/// stride.
template <class Fn>
void visit_offsets(const Shape& shape, const Strides& strides, const Fn& fn) {
  if (shape.element_count() == 0) {
    return;
  }
  std::array<std::int64_t, kMaxRank> index{};
  std::int64_t offset = 0;
  while (true) {
    fn(offset);
    int axis = shape.rank() - 1;
    for (; axis >= 0; --axis) {
      const auto i = static_cast<std::size_t>(axis);
      offset += strides[i];
      if (++index[i] < shape[axis]) {
        break;
      }
      offset -= strides[i] * shape[axis];
      index[i] = 0;
    }
    if (axis < 0) {
      return;
    }
  }
}

/// Loads all elements of a view, broadcast to `target`. load_reals takes any dtype; load_integers
/// takes integers and bool.
[[nodiscard]] Reals load_reals(const TensorView& view, const Shape& target);
[[nodiscard]] Integers load_integers(const TensorView& view, const Shape& target);
[[nodiscard]] Bits load_bits(const TensorView& view, const Shape& target);

/// Loads all elements in the view's own shape.
[[nodiscard]] inline Reals load_reals(const TensorView& view) {
  return load_reals(view, view.shape());
}
[[nodiscard]] inline Integers load_integers(const TensorView& view) {
  return load_integers(view, view.shape());
}
[[nodiscard]] inline Bits load_bits(const TensorView& view) {
  return load_bits(view, view.shape());
}

/// Stores with one rounding. Real to integer truncates toward zero and saturates (NaN gives 0).
/// Integer to integer wraps. Any type to bool is "not zero".
void store(const TensorView& view, const Reals& values);
void store(const TensorView& view, const Integers& values);
void store_bits(const TensorView& view, const Bits& values);

/// Loads as double or std::int64_t, the two number types of the reference.
template <class T>
[[nodiscard]] std::vector<T> load(const TensorView& view, const Shape& target) {
  if constexpr (std::is_same_v<T, double>) {
    return load_reals(view, target);
  } else {
    return load_integers(view, target);
  }
}
template <class T>
[[nodiscard]] std::vector<T> load(const TensorView& view) {
  return load<T>(view, view.shape());
}

/// A vector of `shape`'s size, filled with `value`.
template <class T>
[[nodiscard]] std::vector<T> filled(const Shape& shape, T value) {
  return std::vector<T>(static_cast<std::size_t>(shape.element_count()), value);
}

/// Returns an element by a signed index.
template <class T>
[[nodiscard]] T& at(std::vector<T>& values, std::int64_t index) noexcept {
  return values[static_cast<std::size_t>(index)];
}
template <class T>
[[nodiscard]] const T& at(const std::vector<T>& values, std::int64_t index) noexcept {
  return values[static_cast<std::size_t>(index)];
}

// Sums and products; integers wrap.
[[nodiscard]] inline double plus(double a, double b) noexcept {
  return a + b;
}
[[nodiscard]] inline double minus(double a, double b) noexcept {
  return a - b;
}
[[nodiscard]] inline double times(double a, double b) noexcept {
  return a * b;
}
[[nodiscard]] inline std::int64_t plus(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
[[nodiscard]] inline std::int64_t minus(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
[[nodiscard]] inline std::int64_t times(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace hearth::reference
