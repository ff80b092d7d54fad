#include "elements.hpp"

#include <hearth/runtime/base/dtype.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace hearth::reference {
namespace {

template <class T>
constexpr bool is_half = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

// Rounds f64 to f32 to odd, so that the later rounding to 16 bits is the only one. f32 has more
// than two bits beyond either 16-bit type, which rounding to odd needs.
float round_to_odd(double value) {
  const auto near = static_cast<float>(value);
  if (static_cast<double>(near) == value || std::isnan(value)) {
    return near;
  }
  auto word = std::bit_cast<std::uint32_t>(near);
  if (std::fabs(static_cast<double>(near)) > std::fabs(value)) {
    --word;
  }
  return std::bit_cast<float>(word | 1U);
}

// Rounds an integer of more than 53 bits to odd: clears the lowest 11 bits and sets the next one if
// a bit was lost.
double round_to_odd(std::int64_t value) {
  constexpr std::uint64_t kLost = (1U << 11U) - 1;
  const auto word = static_cast<std::uint64_t>(value);
  std::uint64_t size = value < 0 ? 0 - word : word;
  if (size >> 53U != 0 && (size & kLost) != 0) {
    size = (size & ~kLost) | (kLost + 1);
  }
  return value < 0 ? -static_cast<double>(size) : static_cast<double>(size);
}

template <class T>
T from_real(double value) {
  if constexpr (is_half<T>) {
    return T(round_to_odd(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else if constexpr (std::is_integral_v<T>) {
    if (std::isnan(value)) {
      return 0;
    }
    // The limits as doubles: 2^63 itself is above the range, hence >=.
    if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
      return std::numeric_limits<T>::max();
    }
    if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
      return std::numeric_limits<T>::min();
    }
    return static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
T from_integer(std::int64_t value) {
  if constexpr (is_half<T>) {
    return T(round_to_odd(round_to_odd(value)));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
double to_real(T value) {
  if constexpr (is_half<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

template <class T>
std::int64_t to_integer(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::int64_t>(value);
  } else {
    return static_cast<std::int64_t>(to_real(value));
  }
}

/// Calls fn with a value of the unsigned type that has the element's size.
template <class Fn>
void visit_word(DType dtype, const Fn& fn) {
  switch (size_bytes(dtype)) {
    case 1:
      return fn(std::uint8_t{});
    case 2:
      return fn(std::uint16_t{});
    case 4:
      return fn(std::uint32_t{});
    default:
      return fn(std::uint64_t{});
  }
}

template <class T, class Out, class Fn>
void load_with(const TensorView& view,
               const Shape& target,
               std::vector<Out>& out,
               const Fn& convert) {
  out.reserve(static_cast<std::size_t>(target.element_count()));
  const T* data = view.as<T>();
  visit_offsets(target, broadcast_strides(*view.layout, target), [&](std::int64_t offset) {
    out.push_back(convert(data[offset]));
  });
}

template <class T, class In, class Fn>
void store_with(const TensorView& view, const std::vector<In>& values, const Fn& convert) {
  T* data = view.as<T>();
  std::size_t next = 0;
  visit_offsets(view.shape(), view.strides(), [&](std::int64_t offset) {
    data[offset] = convert(values[next++]);
  });
}

}  // namespace

Reals load_reals(const TensorView& view, const Shape& target) {
  Reals out;
  visit_dtype(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    load_with<T>(view, target, out, to_real<T>);
  });
  return out;
}

Integers load_integers(const TensorView& view, const Shape& target) {
  Integers out;
  visit_dtype(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    load_with<T>(view, target, out, to_integer<T>);
  });
  return out;
}

Bits load_bits(const TensorView& view, const Shape& target) {
  Bits out;
  visit_word(view.dtype, [&](auto zero) {
    load_with<decltype(zero)>(view, target, out, [](auto word) { return std::uint64_t{word}; });
  });
  return out;
}

void store(const TensorView& view, const Reals& values) {
  visit_dtype(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    store_with<T>(view, values, from_real<T>);
  });
}

void store(const TensorView& view, const Integers& values) {
  visit_dtype(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    store_with<T>(view, values, from_integer<T>);
  });
}

void store_bits(const TensorView& view, const Bits& values) {
  visit_word(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    store_with<T>(view, values, [](std::uint64_t word) { return static_cast<T>(word); });
  });
}

}  // namespace hearth::reference
