// ItemValue: the one value that Tensor::item() reads, and its conversion to a C++ number, which is
// exact or throws. A value, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/source_loc.hpp>

namespace hearth {

struct ItemValue {
  bool is_integer = false;  ///< The tensor is of an integer type or bool.
  double real = 0;          ///< The value of a float tensor.
  std::int64_t integer = 0;

  /// Converts the value: a float T rounds; an integer T truncates a float; bool is true if the
  /// value is not 0. Errors: ArgumentError if T cannot hold it.
  template <class T>
  [[nodiscard]] T as(SourceLoc loc) const {
    static_assert(std::is_arithmetic_v<T> || Element<T>, "item gives a number: this type is none");
    if constexpr (std::is_same_v<T, bool>) {
      return is_integer ? integer != 0 : real != 0;
    } else if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      if (!is_between(static_cast<std::int64_t>(Limits::min()),
                      static_cast<std::uint64_t>(Limits::max()))) {
        throw_misfit(Limits::is_signed ? "an integer" : "an unsigned integer", sizeof(T), loc);
      }
      return is_integer ? static_cast<T>(integer) : static_cast<T>(real);
    } else if constexpr (sizeof(T) >= sizeof(double)) {
      return is_integer ? static_cast<T>(integer) : static_cast<T>(real);
    } else {
      if (!(is_integer ? fits(integer, dtype_of<T>) : fits(real, dtype_of<T>))) {
        throw_misfit("a float", sizeof(T), loc);
      }
      return T(is_integer ? static_cast<float>(integer) : static_cast<float>(real));
    }
  }

 private:
  /// Returns whether the truncated value lies in low … high; false for NaN.
  [[nodiscard]] bool is_between(std::int64_t low, std::uint64_t high) const noexcept;
  [[noreturn]] void throw_misfit(std::string_view kind,
                                 std::size_t size_bytes,
                                 SourceLoc loc) const;
};

}  // namespace hearth
