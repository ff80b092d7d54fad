#include <hearth/modules/rotary_embedding.hpp>

#include <hearth/modules/module.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/promotion.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace hearth {
namespace {

constexpr std::string_view kRotaryName = "rotary_embedding";

[[noreturn]] void refuse_rotary(ErrorCode code, const std::string& text, SourceLoc loc) {
  throw_error(Error{.code = code,
                    .text = fmt::format("{}: {}", kRotaryName, text),
                    .op = std::string(kRotaryName),
                    .location = loc});
}

// Checks x and returns the number of features that rotate.
std::int64_t rotated_width(const Arg& x, const RotaryOptions& options) {
  const SourceLoc loc = x.location();
  if (x.is_scalar()) {
    static_cast<void>(taken(x, kRotaryName));  // throws for a scalar
  }
  const Shape& shape = x.tensor().shape(loc);
  if (shape.rank() < 2) {
    refuse_rotary(ErrorCode::shape_mismatch,
                  fmt::format("needs rows of features, [..., n, features], got {}",
                              describe(x.tensor().dtype(), shape)),
                  loc);
  }
  if (!is_float(x.tensor().dtype())) {
    refuse_rotary(ErrorCode::dtype_mismatch,
                  fmt::format("needs floats, got {}", describe(x.tensor().dtype(), shape)),
                  loc);
  }
  const std::int64_t features = shape[shape.rank() - 1];
  detail::require_rotary(kRotaryName, options, features, loc);
  return options.width == 0 ? features : options.width;
}

// Angles [..., n, width/2] of positions [..., n]: position/scale·base^(-2i/width). The exponent of
// a width that is a power of two is exact in f32, so the angles of far positions are accurate.
Tensor angles_of(const Tensor& positions,
                 const RotaryOptions& options,
                 std::int64_t width,
                 SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const double half = static_cast<double>(width) / 2;
  const Tensor pairs = arange(positions.device(), 0, half, 1, positions.dtype(), loc);
  Tensor exponents = mul(Arg(pairs, loc), Arg(-1 / half, loc));
  Tensor turns = pow(Arg(options.base, loc), Arg(std::move(exponents), loc));
  Tensor column = unsqueeze(Arg(positions, loc), -1);
  if (options.scale != 1) {
    column = div(Arg(std::move(column), loc), Arg(options.scale, loc));
  }
  return mul(Arg(std::move(column), loc), Arg(std::move(turns), loc));
}

// Rotates the pairs of the first `width` features by `angles`.
Tensor rotated(
    const Arg& x, const Tensor& angles, RotaryLayout layout, std::int64_t width, SourceLoc loc) {
  const DType dtype = x.tensor().dtype();
  const Shape shape = x.tensor().shape();
  const Tensor value = cast(x, angles.dtype());
  const bool is_half = layout == RotaryLayout::half;
  const Range first =
      is_half ? Range{.start = 0, .stop = width / 2} : Range{.start = 0, .stop = width, .step = 2};
  const Range second = is_half ? Range{.start = width / 2, .stop = width}
                               : Range{.start = 1, .stop = width, .step = 2};
  const Tensor a = slice(Arg(value, loc), -1, first);
  const Tensor b = slice(Arg(value, loc), -1, second);
  const Tensor cosines = cos(Arg(angles, loc));
  const Tensor sines = sin(Arg(angles, loc));
  const auto times = [loc](const Tensor& l, const Tensor& r) {
    return mul(Arg(l, loc), Arg(r, loc));
  };
  const Tensor left = sub(Arg(times(a, cosines), loc), Arg(times(b, sines), loc));
  const Tensor right = add(Arg(times(b, cosines), loc), Arg(times(a, sines), loc));
  Tensor turned;
  if (is_half) {
    turned = concat({left, right}, -1, loc);
  } else {
    Shape rows = shape;
    rows.set(shape.rank() - 1, width);
    turned = reshape(Arg(stack({left, right}, -1, loc), loc), rows);
  }
  const std::int64_t features = shape[shape.rank() - 1];
  if (width < features) {
    const Tensor rest = slice(Arg(value, loc), -1, {.start = width, .stop = features});
    turned = concat({turned, rest}, -1, loc);
  }
  return cast(Arg(std::move(turned), loc), dtype);
}

// Checks that positions are integers that broadcast to the rows of x.
void require_positions_of(const Arg& positions, const Shape& shape, SourceLoc loc) {
  if (positions.is_scalar()) {
    refuse_rotary(ErrorCode::invalid_argument, "positions are a tensor, got a number", loc);
  }
  const Tensor& given = positions.tensor();
  const Shape& its = given.shape(loc);
  const DType dtype = given.dtype();
  if (dtype != DType::i32 && dtype != DType::i64) {
    refuse_rotary(ErrorCode::dtype_mismatch,
                  fmt::format("positions are i32 or i64, got {}", describe(dtype, its)),
                  loc);
  }
  const int lead = shape.rank() - 1 - its.rank();
  bool fits = lead >= 0;
  for (int axis = 0; fits && axis < its.rank(); ++axis) {
    fits = its[axis] == 1 || its[axis] == shape[lead + axis];
  }
  if (!fits) {
    refuse_rotary(
        ErrorCode::shape_mismatch,
        fmt::format(
            "positions {} do not broadcast to the rows of {}", its.to_string(), shape.to_string()),
        loc);
  }
}

}  // namespace

namespace detail {
void require_rotary(std::string_view user,
                    const RotaryOptions& options,
                    std::int64_t features,
                    SourceLoc loc) {
  const FloatEnvironment environment;
  const auto is_positive = [](double x) { return std::isfinite(x) && x > 0; };
  const std::int64_t width = options.width == 0 ? features : options.width;
  if (width < 0 || width > features || width % 2 != 0) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("{}: the width that rotates is even and at most the {} features, "
                                  "got {}",
                                  user,
                                  features,
                                  width),
              .location = loc});
  }
  if (!is_positive(options.base) || !is_positive(options.scale)) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format("{}: base and scale are finite and above 0, got {} and {}",
                                  user,
                                  options.base,
                                  options.scale),
              .location = loc});
  }
}
}  // namespace detail

Tensor rotary_embedding(Arg x, RotaryOptions options) {
  return detail::mistakes_named(kRotaryName, [&] {
    const std::int64_t width = rotated_width(x, options);
    const SourceLoc loc = x.location();
    const Shape& shape = x.tensor().shape();
    const auto first = static_cast<double>(options.offset);
    const double end = first + static_cast<double>(shape[shape.rank() - 2]);
    const Tensor places =
        arange(x.tensor().device(), first, end, 1, accumulation_dtype(x.tensor().dtype()), loc);
    return rotated(x, angles_of(places, options, width, loc), options.layout, width, loc);
  });
}

Tensor rotary_embedding(Arg x, Arg positions, RotaryOptions options) {
  return detail::mistakes_named(kRotaryName, [&] {
    const std::int64_t width = rotated_width(x, options);
    const SourceLoc loc = x.location();
    require_positions_of(positions, x.tensor().shape(), loc);
    Tensor places = positions.tensor();
    if (options.offset != 0) {
      places = add(Arg(std::move(places), loc), Arg(options.offset, loc));
    }
    places = cast(Arg(std::move(places), loc), accumulation_dtype(x.tensor().dtype()));
    return rotated(x, angles_of(places, options, width, loc), options.layout, width, loc);
  });
}

}  // namespace hearth
