// Fourier transforms: operands are checked here, their axis is brought to its length, and a host op
// computes over it in place.
#include <hearth/runtime/fourier_ops.hpp>
#include <hearth/runtime/ops.hpp>

#include "fourier_kernels.hpp"
#include "linear_operands.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using detail::At;

[[noreturn]] void refuse_fourier(ErrorCode code, std::string_view what, const Arg& x) {
  detail::refuse_linear(code, what, std::span<const Arg>(&x, 1));
}

// The factor of a transform, or of its inverse.
double factor_of(FourierNorm norm, bool is_inverse, std::int64_t n) {
  const auto size = static_cast<double>(n);
  if (norm == FourierNorm::ortho) {
    return 1 / std::sqrt(size);
  }
  return (norm == FourierNorm::backward) == is_inverse ? 1 / size : 1.0;
}

// Requires numbers with `parts` axes behind them: 1 of complex ones, 0 of real ones.
Shape require_numbers(const Arg& x, int parts) {
  const bool is_complex = parts == 1;
  const Shape shape = detail::require_real(
      x, 1 + parts, is_complex ? "complex numbers [..., n, 2]" : "numbers [..., n]");
  if (is_complex && shape[-1] != 2) {
    refuse_fourier(ErrorCode::shape_mismatch, "needs complex numbers [..., n, 2]", x);
  }
  return shape;
}

// A tensor of numbers with `parts` axes behind them, as [outer, n, inner] or [outer, n, inner, 2]
// around the axis of a transform; and back.
class AxisView final {
 public:
  AxisView(std::string_view op, const Arg& x, int parts, int axis)
      : at_(x.location()), shape_(x.tensor().shape()), numbers_(shape_.rank() - parts) {
    axis_ = detail::checked(normalize_axis(op, axis, numbers_), OpKind::custom, x);
  }
  [[nodiscard]] int axis() const noexcept { return axis_; }
  [[nodiscard]] std::int64_t size() const { return shape_[axis_]; }
  [[nodiscard]] Tensor of(const Tensor& x) const {
    std::vector<std::int64_t> sizes{
        product(0, axis_), x.shape()[axis_], product(axis_ + 1, numbers_)};
    if (x.rank() > numbers_) {
      sizes.push_back(2);
    }
    return reshape(at_(x), sizes);
  }
  [[nodiscard]] Tensor back(const Tensor& x) const {
    const std::span<const std::int64_t> dims = shape_.dims();
    std::vector<std::int64_t> sizes(dims.begin(), dims.begin() + numbers_);
    sizes[static_cast<std::size_t>(axis_)] = x.shape()[1];
    if (x.rank() == 4) {
      sizes.push_back(2);
    }
    return reshape(at_(x), sizes);
  }

 private:
  [[nodiscard]] std::int64_t product(int begin, int end) const {
    std::int64_t count = 1;
    for (int axis = begin; axis < end; ++axis) {
      count *= shape_[axis];
    }
    return count;
  }

  At at_;
  Shape shape_;
  int numbers_;
  int axis_ = 0;
};

// Cuts the axis, or pads it with zeros.
Tensor with_length(Tensor x, int axis, std::int64_t length, const At& at) {
  const std::int64_t size = x.shape()[axis];
  if (length < size) {
    return slice(at(std::move(x)), axis, {.start = 0, .stop = length});
  }
  return length == size ? x
                        : pad(at(std::move(x)), {PadAxis{.axis = axis, .after = length - size}});
}

std::int64_t checked_length(std::int64_t length, const Arg& x) {
  if (length < 1) {
    refuse_fourier(ErrorCode::invalid_argument, fmt::format("length {} is below 1", length), x);
  }
  return length;
}

Tensor complex_of(std::string_view op, const Arg& x, const FourierOptions& options) {
  const bool is_inverse = op == "ifft";
  return detail::named_as(op, [&] {
    static_cast<void>(require_numbers(x, 1));
    const At at(x.location());
    const AxisView view(op, x, 1, options.axis);
    const std::int64_t n = checked_length(options.length.value_or(view.size()), x);
    const Tensor numbers = view.of(with_length(x.tensor(), view.axis(), n, at));
    return view.back(
        detail::complex_transform(is_inverse, numbers, factor_of(options.norm, is_inverse, n), at));
  });
}

Tensor plane_of(std::string_view op, const Arg& x, const Fourier2dOptions& options) {
  return detail::named_as(op, [&] {
    const Shape shape = require_numbers(x, 1);
    if (shape.rank() < 3) {
      refuse_fourier(ErrorCode::shape_mismatch, "needs complex numbers [..., m, n, 2]", x);
    }
    const std::string_view along = op == "fft2" ? "fft" : "ifft";
    const At at(x.location());
    const Tensor rows = complex_of(along, x, {.axis = -1, .norm = options.norm});
    return complex_of(along, at(rows), {.axis = -2, .norm = options.norm});
  });
}

Tensor shifted(std::string_view op, const Arg& x, int axis) {
  return detail::named_as(op, [&] {
    const Shape shape = detail::operand(OpKind::custom, x).layout->shape;
    const int place = detail::checked(normalize_axis(op, axis, shape.rank()), OpKind::custom, x);
    const std::int64_t half = shape[place] / 2;
    return roll(x, op == "fftshift" ? half : shape[place] - half, place);
  });
}

Tensor frequencies(std::string_view op,
                   const Device& device,
                   std::int64_t count,
                   double spacing,
                   DType dtype,
                   SourceLoc loc) {
  if (count < 1 || spacing == 0) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: count {}, spacing {}: needs at least one number and "
                                          "another spacing than 0",
                                          op,
                                          count,
                                          spacing),
                      .op = std::string(op),
                      .location = loc});
  }
  detail::require_float_type(op, dtype, loc);
  const std::int64_t half = count / 2;
  const bool is_real = op == "rfftfreq";
  std::vector<double> values;
  for (std::int64_t k = 0; k < (is_real ? half + 1 : count); ++k) {
    const std::int64_t number = is_real || 2 * k < count ? k : k - count;
    values.push_back(static_cast<double>(number) / (static_cast<double>(count) * spacing));
  }
  const auto size = static_cast<std::int64_t>(values.size());
  return detail::reals_on(device, values, {size}, dtype, loc);
}

}  // namespace

Tensor fft(Arg x, FourierOptions options) {
  return complex_of("fft", x, options);
}
Tensor ifft(Arg x, FourierOptions options) {
  return complex_of("ifft", x, options);
}

Tensor rfft(Arg x, FourierOptions options) {
  return detail::named_as("rfft", [&] {
    static_cast<void>(require_numbers(x, 0));
    const At at(x.location());
    const AxisView view("rfft", x, 0, options.axis);
    const std::int64_t n = checked_length(options.length.value_or(view.size()), x);
    const Tensor numbers = view.of(with_length(x.tensor(), view.axis(), n, at));
    return view.back(detail::half_transform(numbers, factor_of(options.norm, false, n), 1, at));
  });
}

Tensor irfft(Arg x, FourierOptions options) {
  return detail::named_as("irfft", [&] {
    static_cast<void>(require_numbers(x, 1));
    const At at(x.location());
    const AxisView view("irfft", x, 1, options.axis);
    const std::int64_t n = checked_length(options.length.value_or(2 * (view.size() - 1)), x);
    const Tensor numbers = view.of(with_length(x.tensor(), view.axis(), n / 2 + 1, at));
    return view.back(detail::real_from_half(numbers, n, factor_of(options.norm, true, n), 1, at));
  });
}

Tensor fft2(Arg x, Fourier2dOptions options) {
  return plane_of("fft2", x, options);
}
Tensor ifft2(Arg x, Fourier2dOptions options) {
  return plane_of("ifft2", x, options);
}

Tensor fftshift(Arg x, int axis) {
  return shifted("fftshift", x, axis);
}
Tensor ifftshift(Arg x, int axis) {
  return shifted("ifftshift", x, axis);
}

Tensor fftfreq(
    const Device& device, std::int64_t count, double spacing, DType dtype, SourceLoc loc) {
  return frequencies("fftfreq", device, count, spacing, dtype, loc);
}
Tensor rfftfreq(
    const Device& device, std::int64_t count, double spacing, DType dtype, SourceLoc loc) {
  return frequencies("rfftfreq", device, count, spacing, dtype, loc);
}

Tensor complex_mul(Arg a, Arg b) {
  return detail::named_as("complex_mul", [&] {
    static_cast<void>(require_numbers(a, 1));
    static_cast<void>(require_numbers(b, 1));
    const At at(a.location());
    const auto part = [&](const Arg& x, std::int64_t i) {
      return slice(at(x.tensor()), -1, {.start = i, .stop = i + 1});
    };
    const Tensor a_re = part(a, 0);
    const Tensor a_im = part(a, 1);
    const Tensor b_re = part(b, 0);
    const Tensor b_im = part(b, 1);
    const Tensor re = sub(at(mul(at(a_re), at(b_re))), at(mul(at(a_im), at(b_im))));
    const Tensor im = add(at(mul(at(a_re), at(b_im))), at(mul(at(a_im), at(b_re))));
    return concat({re, im}, -1, at.location());
  });
}

}  // namespace hearth
