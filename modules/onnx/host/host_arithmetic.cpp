#include "host_arithmetic.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "modules/onnx/host/host_elements.hpp"

namespace hearth::onnx {
namespace {

using Integer = std::int64_t;

// Integers wrap, as on the device.
Integer wrapping(std::uint64_t value) {
  return static_cast<Integer>(value);
}
std::uint64_t bits(Integer value) {
  return static_cast<std::uint64_t>(value);
}

// Legacy broadcasting is left to the device's handler.
bool binary(Call& call, BinaryOnReal real, BinaryOnInteger integer) {
  if (call.opset() < 7 || call.count() != 2 || has_strings(call.host(0)) ||
      has_strings(call.host(1))) {
    return false;
  }
  call.give(combined(call.host(0), call.host(1), call.type(0), real, integer));
  return true;
}

bool compared(Call& call, BinaryOnReal real, BinaryOnInteger integer) {
  if (call.opset() < 7 || has_strings(call.host(0)) || has_strings(call.host(1))) {
    return false;
  }
  call.give(combined(call.host(0), call.host(1), OnnxType::boolean, real, integer));
  return true;
}

// Min and Max take any number of inputs.
bool folded(Call& call, BinaryOnReal real, BinaryOnInteger integer) {
  if (call.opset() < 8) {
    return false;
  }
  HostArray result = call.host(0);
  for (std::size_t i = 1; i < call.count(); ++i) {
    result = combined(result, call.host(i), call.type(0), real, integer);
  }
  call.give(std::move(result));
  return true;
}

Integer floored_remainder(Integer a, Integer b) {
  if (b == -1) {
    return 0;
  }
  const Integer rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Integer power(Integer base, Integer exponent) {
  std::uint64_t result = 1;
  std::uint64_t factor = bits(base);
  for (Integer rest = exponent; rest > 0; rest /= 2) {
    result *= rest % 2 != 0 ? factor : 1;
    factor *= factor;
  }
  return wrapping(result);
}

bool has_zero(const HostArray& array) {
  return !has_reals(array) && std::ranges::find(array.integers(), 0) != array.integers().end();
}

double smaller(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::min(a, b);
}
double larger(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b);
}

}  // namespace

bool add_on_host(Call& call) {
  return binary(
      call,
      [](double a, double b) { return a + b; },
      [](Integer a, Integer b) { return wrapping(bits(a) + bits(b)); });
}

bool sub_on_host(Call& call) {
  return binary(
      call,
      [](double a, double b) { return a - b; },
      [](Integer a, Integer b) { return wrapping(bits(a) - bits(b)); });
}

bool mul_on_host(Call& call) {
  return binary(
      call,
      [](double a, double b) { return a * b; },
      [](Integer a, Integer b) { return wrapping(bits(a) * bits(b)); });
}

bool div_on_host(Call& call) {
  if (has_zero(call.host(1))) {
    call.refuse("integer division by 0");
  }
  return binary(
      call,
      [](double a, double b) { return a / b; },
      [](Integer a, Integer b) { return b == -1 ? wrapping(-bits(a)) : a / b; });
}

bool mod_on_host(Call& call) {
  if (has_zero(call.host(1))) {
    call.refuse("integer division by 0");
  }
  if (call.node().integer("fmod", 0) != 0) {
    return binary(
        call,
        [](double a, double b) { return std::fmod(a, b); },
        [](Integer a, Integer b) { return b == -1 ? 0 : a % b; });
  }
  return binary(
      call, [](double a, double b) { return a - b * std::floor(a / b); }, floored_remainder);
}

bool pow_on_host(Call& call) {
  const HostArray& exponents = call.host(1);
  if (!has_reals(exponents) &&
      std::ranges::any_of(exponents.integers(), [](Integer value) { return value < 0; })) {
    return false;
  }
  return binary(
      call, [](double a, double b) { return std::pow(a, b); }, power);
}

bool min_on_host(Call& call) {
  return folded(call, smaller, [](Integer a, Integer b) { return std::min(a, b); });
}
bool max_on_host(Call& call) {
  return folded(call, larger, [](Integer a, Integer b) { return std::max(a, b); });
}

bool equal_on_host(Call& call) {
  const HostArray& a = call.host(0);
  const HostArray& b = call.host(1);
  if (has_strings(a) && has_strings(b)) {
    const Shape shape = broadcast_shape(a.shape, b.shape);
    const std::vector<std::size_t> of_a = broadcast_places(a.shape, shape);
    const std::vector<std::size_t> of_b = broadcast_places(b.shape, shape);
    std::vector<Integer> result;
    for (std::size_t i = 0; i < of_a.size(); ++i) {
      result.push_back(a.strings()[of_a[i]] == b.strings()[of_b[i]] ? 1 : 0);
    }
    call.give(host_integers(std::move(result), shape, OnnxType::boolean));
    return true;
  }
  return compared(
      call,
      [](double x, double y) { return x == y ? 1.0 : 0.0; },
      [](Integer x, Integer y) { return Integer{x == y}; });
}

bool less_on_host(Call& call) {
  return compared(
      call,
      [](double a, double b) { return a < b ? 1.0 : 0.0; },
      [](Integer a, Integer b) { return Integer{a < b}; });
}
bool less_or_equal_on_host(Call& call) {
  return compared(
      call,
      [](double a, double b) { return a <= b ? 1.0 : 0.0; },
      [](Integer a, Integer b) { return Integer{a <= b}; });
}
bool greater_on_host(Call& call) {
  return compared(
      call,
      [](double a, double b) { return a > b ? 1.0 : 0.0; },
      [](Integer a, Integer b) { return Integer{a > b}; });
}
bool greater_or_equal_on_host(Call& call) {
  return compared(
      call,
      [](double a, double b) { return a >= b ? 1.0 : 0.0; },
      [](Integer a, Integer b) { return Integer{a >= b}; });
}

bool and_on_host(Call& call) {
  return compared(call, nullptr, [](Integer a, Integer b) { return a & b; });
}
bool or_on_host(Call& call) {
  return compared(call, nullptr, [](Integer a, Integer b) { return a | b; });
}
bool xor_on_host(Call& call) {
  return compared(call, nullptr, [](Integer a, Integer b) { return a ^ b; });
}
bool not_on_host(Call& call) {
  return unary_on_host(call, nullptr, [](Integer value) { return Integer{value == 0}; });
}

bool where_on_host(Call& call) {
  const HostArray& condition = call.host(0);
  const HostArray& a = call.host(1);
  const HostArray& b = call.host(2);
  if (a.elements.index() != b.elements.index()) {
    return false;
  }
  const Shape shape = broadcast_shape(condition.shape, broadcast_shape(a.shape, b.shape));
  const std::vector<std::size_t> of_condition = broadcast_places(condition.shape, shape);
  HostArray result = selected(a, broadcast_places(a.shape, shape), shape);
  const HostArray other = selected(b, broadcast_places(b.shape, shape), shape);
  std::visit(
      [&](auto& elements) {
        const auto& others = std::get<std::remove_cvref_t<decltype(elements)>>(other.elements);
        for (std::size_t i = 0; i < elements.size(); ++i) {
          if (condition.integers()[of_condition[i]] == 0) {
            elements[i] = others[i];
          }
        }
      },
      result.elements);
  call.give(std::move(result));
  return true;
}

bool cast_on_host(Call& call) {
  call.give(cast_host(call.host(0), onnx_type_of(call.node().integer("to", 0))));
  return true;
}

bool cast_like_on_host(Call& call) {
  call.give(cast_host(call.host(0), call.type(1)));
  return true;
}

bool neg_on_host(Call& call) {
  return unary_on_host(
      call,
      [](double value) { return -value; },
      [](Integer value) { return wrapping(-bits(value)); });
}
bool abs_on_host(Call& call) {
  return unary_on_host(
      call,
      [](double value) { return std::abs(value); },
      [](Integer value) { return value < 0 ? wrapping(-bits(value)) : value; });
}
bool floor_on_host(Call& call) {
  return unary_on_host(
      call, [](double value) { return std::floor(value); }, nullptr);
}
bool ceil_on_host(Call& call) {
  return unary_on_host(
      call, [](double value) { return std::ceil(value); }, nullptr);
}
bool round_on_host(Call& call) {
  return unary_on_host(
      call, [](double value) { return std::nearbyint(value); }, nullptr);
}
bool sqrt_on_host(Call& call) {
  return unary_on_host(
      call, [](double value) { return std::sqrt(value); }, nullptr);
}
bool exp_on_host(Call& call) {
  return unary_on_host(
      call, [](double value) { return std::exp(value); }, nullptr);
}
bool log_on_host(Call& call) {
  return unary_on_host(
      call, [](double value) { return std::log(value); }, nullptr);
}
bool sign_on_host(Call& call) {
  return unary_on_host(
      call,
      [](double value) { return value > 0   ? 1.0
                                : value < 0 ? -1.0
                                            : 0.0; },
      [](Integer value) { return Integer{value > 0} - Integer{value < 0}; });
}
bool reciprocal_on_host(Call& call) {
  return unary_on_host(
      call, [](double value) { return 1 / value; }, nullptr);
}

}  // namespace hearth::onnx
