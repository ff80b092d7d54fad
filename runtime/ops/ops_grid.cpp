#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace hearth {

Tensor detail::reals_on(const Device& device,
                        const std::vector<double>& values,
                        const Shape& shape,
                        DType dtype,
                        SourceLoc loc) {
  if (dtype == DType::f64) {
    return Tensor::from(device, values, shape, loc);
  }
  std::vector<float> rounded(values.size());
  std::ranges::transform(
      values, rounded.begin(), [](double value) { return static_cast<float>(value); });
  const Tensor exact = Tensor::from(device, std::move(rounded), shape, loc);
  return cast(Arg(exact, loc), dtype);
}

// Each half counts from its own end, so the last value is exactly `stop`.
Tensor linspace(const Device& device,
                double start,
                double stop,
                std::int64_t count,
                DType dtype,
                SourceLoc loc) {
  return detail::named_as("linspace", [&] {
    constexpr OpKind kKind = OpKind::arange;
    if (!is_float(dtype)) {
      detail::throw_op_error(
          ErrorCode::dtype_mismatch, kKind, fmt::format("makes floats, not {}", name(dtype)), loc);
    }
    if (count < 0 || !std::isfinite(start) || !std::isfinite(stop)) {
      detail::throw_op_error(
          ErrorCode::invalid_argument,
          kKind,
          fmt::format("{} values from {} to {} are no row of numbers", count, start, stop),
          loc);
    }
    for (const double end : {start, stop}) {
      if (!fits(end, dtype)) {
        detail::throw_op_error(ErrorCode::invalid_argument,
                               kKind,
                               fmt::format("the value {} does not fit {}", end, name(dtype)),
                               loc);
      }
    }
    if (count <= 1) {
      return full(device, {count}, start, dtype, loc);
    }
    const auto last = static_cast<double>(count - 1);
    const double step = stop / last - start / last;
    const Tensor places = arange(device, 0, last + 1, 1, DType::f64, loc);
    Tensor up = add(Arg(mul(Arg(places, loc), Arg(step, loc)), loc), Arg(start, loc));
    Tensor to_go = sub(Arg(last, loc), Arg(places, loc));
    Tensor down = sub(Arg(stop, loc), Arg(mul(Arg(std::move(to_go), loc), Arg(step, loc)), loc));
    Tensor is_first_half = less(Arg(places, loc), Arg(last / 2, loc));
    Tensor values = where(
        Arg(std::move(is_first_half), loc), Arg(std::move(up), loc), Arg(std::move(down), loc));
    return cast(Arg(std::move(values), loc), dtype);
  });
}

Tensor eye(const Device& device,
           std::int64_t rows,
           std::optional<std::int64_t> columns,
           DType dtype,
           SourceLoc loc) {
  return detail::named_as("eye", [&] {
    if (rows < 0 || columns.value_or(rows) < 0) {
      detail::throw_op_error(
          ErrorCode::shape_mismatch,
          OpKind::arange,
          fmt::format("a matrix of {} rows and {} columns", rows, columns.value_or(rows)),
          loc);
    }
    const Shape shape({rows, columns.value_or(rows)}, loc);
    const auto numbers = [&](std::int64_t count) {
      return arange(device, 0, static_cast<double>(count), 1, DType::i64, loc);
    };
    const Tensor down = reshape(Arg(numbers(shape[0]), loc), {shape[0], 1});
    Tensor is_one = equal(Arg(down, loc), Arg(numbers(shape[1]), loc));
    return cast(Arg(std::move(is_one), loc), dtype);
  });
}

}  // namespace hearth
