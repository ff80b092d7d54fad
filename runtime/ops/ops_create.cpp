#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_submit.hpp"
#include "random_draw.hpp"

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/philox.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace hearth {
namespace {

template <class Attributes>
Tensor create(OpKind kind,
              const Device& device,
              const Attributes& attributes,
              DType dtype,
              const Shape& shape,
              SourceLoc location,
              CalledAs called = CalledAs::itself) {
  if (!accepts(kind, dtype)) {
    detail::throw_op_error(
        ErrorCode::dtype_mismatch,
        kind,
        fmt::format("does not make {}, only {}", name(dtype), describe(op_info(kind).dtypes)),
        location);
  }
  return detail::submit_on(device,
                           {.kind = kind,
                            .location = location,
                            .inputs = {},
                            .attributes = detail::bytes_of(attributes),
                            .flags = flags_of(called)},
                           dtype,
                           shape);
}

[[noreturn]] void throw_bad_value(OpKind kind, std::string_view what, SourceLoc location) {
  detail::throw_op_error(ErrorCode::invalid_argument, kind, what, location);
}

void require_fit(OpKind kind, double value, DType dtype, SourceLoc location) {
  if (!fits(value, dtype)) {
    throw_bad_value(
        kind, fmt::format("the value {} does not fit {}", value, name(dtype)), location);
  }
}

// Checks that the range of random_uniform contains a value of the element type.
void require_values_between(double low, double high, DType dtype, SourceLoc location) {
  if (!is_float(dtype)) {
    return;  // create() refuses it
  }
  const double largest = largest_value(dtype);
  if (std::fabs(low) > largest || std::fabs(high) > largest) {
    throw_bad_value(
        OpKind::random_uniform,
        fmt::format(
            "[{}, {}) goes beyond {}, whose values end at {}", low, high, name(dtype), largest),
        location);
  }
  const philox::UniformRange range = philox::uniform_range(low, high, dtype);
  if (low != high && range.first > range.last) {
    throw_bad_value(OpKind::random_uniform,
                    fmt::format("there is no {} in [{}, {})", name(dtype), low, high),
                    location);
  }
}

// Checks both ends; all values lie between them.
void require_ends_fit(
    double start, double step, std::int64_t count, DType dtype, SourceLoc location) {
  if (count == 0) {
    return;
  }
  require_fit(OpKind::arange, start, dtype, location);
  if (is_float(dtype)) {
    require_fit(OpKind::arange, start + static_cast<double>(count - 1) * step, dtype, location);
    return;
  }
  require_fit(OpKind::arange, step, DType::i64, location);
  std::int64_t last = 0;
  if (__builtin_mul_overflow(count - 1, static_cast<std::int64_t>(step), &last) ||
      __builtin_add_overflow(last, static_cast<std::int64_t>(start), &last) || !fits(last, dtype)) {
    throw_bad_value(
        OpKind::arange,
        fmt::format(
            "{} values from {} in steps of {} do not fit {}", count, start, step, name(dtype)),
        location);
  }
}

Tensor random(OpKind kind,
              const Device& device,
              const Shape& shape,
              Generator& generator,
              const RandomAttributes& range,
              DType dtype,
              SourceLoc location) {
  const bool is_wide = dtype == DType::f64 && kind != OpKind::random_bernoulli;
  detail::RandomDraw draw(generator, philox::block_count(shape.element_count(), is_wide));
  RandomAttributes attributes = range;
  attributes.seed = draw.seed();
  attributes.counter = draw.counter();
  Tensor result = create(kind, device, attributes, dtype, shape, location);
  draw.take();
  return result;
}

Tensor filled(CalledAs called,
              const Device& device,
              const Shape& shape,
              double value,
              DType dtype,
              SourceLoc loc) {
  require_fit(OpKind::fill, value, dtype, loc);
  ScalarAttributes attributes;
  if (is_float(dtype)) {
    attributes.real = value;
  } else {
    attributes.integer = static_cast<std::int64_t>(value);
  }
  return create(OpKind::fill, device, attributes, dtype, shape, loc, called);
}

// Fills; errors now and later carry the name of `called`.
Tensor filled_as(CalledAs called,
                 const Device& device,
                 const Shape& shape,
                 double value,
                 DType dtype,
                 SourceLoc loc) {
  return detail::named_as(called_info(called).name,
                          [&] { return filled(called, device, shape, value, dtype, loc); });
}

Tensor filled_like(CalledAs called, const Tensor& like, double value, SourceLoc loc) {
  return detail::named_as(called_info(called).name, [&] {
    const TensorImpl& impl = detail::operand(OpKind::fill, Arg(like, loc));
    return filled(called, like.device(), impl.layout->shape, value, impl.dtype, loc);
  });
}

}  // namespace

Tensor detail::full_integer(
    const Device& device, const Shape& shape, std::int64_t value, DType dtype, SourceLoc loc) {
  if (!fits(value, dtype)) {
    throw_bad_value(
        OpKind::fill, fmt::format("the value {} does not fit {}", value, name(dtype)), loc);
  }
  ScalarAttributes attributes;
  if (is_float(dtype)) {
    attributes.real = static_cast<double>(value);
  } else {
    attributes.integer = value;
  }
  return create(OpKind::fill, device, attributes, dtype, shape, loc);
}

Tensor full(const Device& device, const Shape& shape, double value, DType dtype, SourceLoc loc) {
  return filled(CalledAs::itself, device, shape, value, dtype, loc);
}
Tensor zeros(const Device& device, const Shape& shape, DType dtype, SourceLoc loc) {
  return filled_as(CalledAs::zeros, device, shape, 0, dtype, loc);
}
Tensor ones(const Device& device, const Shape& shape, DType dtype, SourceLoc loc) {
  return filled_as(CalledAs::ones, device, shape, 1, dtype, loc);
}
Tensor zeros_like(const Tensor& like, SourceLoc loc) {
  return filled_like(CalledAs::zeros_like, like, 0, loc);
}
Tensor ones_like(const Tensor& like, SourceLoc loc) {
  return filled_like(CalledAs::ones_like, like, 1, loc);
}

Tensor arange(
    const Device& device, double start, double stop, double step, DType dtype, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const auto fail = [&](std::string_view what) {
    throw_bad_value(OpKind::arange,
                    fmt::format("{}: start {}, stop {}, step {}", what, start, stop, step),
                    loc);
  };
  if (!std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step)) {
    fail("needs finite numbers");
  }
  if (!is_float(dtype) && (std::trunc(start) != start || std::trunc(step) != step)) {
    fail(fmt::format("{} needs whole numbers", name(dtype)));
  }
  if (step == 0) {
    fail("the step is 0");
  }
  const double count = std::max(0.0, std::ceil((stop - start) / step));
  if (!(count < 0x1p59)) {
    fail("too many values");
  }
  require_ends_fit(start, step, static_cast<std::int64_t>(count), dtype, loc);
  return create(OpKind::arange,
                device,
                ArangeAttributes{.start = start, .step = step},
                dtype,
                Shape{static_cast<std::int64_t>(count)},
                loc);
}

Tensor random_uniform(const Device& device,
                      const Shape& shape,
                      Generator& generator,
                      double low,
                      double high,
                      DType dtype,
                      SourceLoc loc) {
  if (!(low <= high) || !std::isfinite(high - low)) {
    throw_bad_value(OpKind::random_uniform, fmt::format("[{}, {}) is no range", low, high), loc);
  }
  require_values_between(low, high, dtype, loc);
  return random(
      OpKind::random_uniform, device, shape, generator, {.a = low, .b = high}, dtype, loc);
}

Tensor random_normal(const Device& device,
                     const Shape& shape,
                     Generator& generator,
                     double mean,
                     double standard_deviation,
                     DType dtype,
                     SourceLoc loc) {
  if (!std::isfinite(mean) || !(standard_deviation >= 0) || !std::isfinite(standard_deviation)) {
    throw_bad_value(
        OpKind::random_normal,
        fmt::format(
            "mean {} and standard deviation {} give no distribution", mean, standard_deviation),
        loc);
  }
  return random(OpKind::random_normal,
                device,
                shape,
                generator,
                {.a = mean, .b = standard_deviation},
                dtype,
                loc);
}

Tensor random_bernoulli(const Device& device,
                        const Shape& shape,
                        Generator& generator,
                        double p,
                        DType dtype,
                        SourceLoc loc) {
  if (!(p >= 0 && p <= 1)) {
    throw_bad_value(
        OpKind::random_bernoulli, fmt::format("the probability {} is not in 0 to 1", p), loc);
  }
  return random(OpKind::random_bernoulli, device, shape, generator, {.a = p, .b = 0}, dtype, loc);
}

}  // namespace hearth
