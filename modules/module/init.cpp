#include <hearth/modules/init.hpp>

#include <hearth/runtime/base/float_environment.hpp>

#include <fmt/format.h>

#include <cmath>

namespace hearth {
namespace {

std::int64_t product_without(const Shape& shape, int left_out, SourceLoc loc) {
  std::int64_t product = 1;
  bool is_valid = shape.rank() >= 2;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    is_valid = is_valid && shape[axis] > 0;
    product *= axis == left_out ? 1 : shape[axis];
  }
  if (!is_valid) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("init: a weight of shape {} has no fan: it needs two or "
                                          "more dimensions, none of them 0",
                                          shape.to_string()),
                      .location = loc});
  }
  return product;
}

Tensor uniform_within(const Device& device,
                      const Shape& shape,
                      Generator& generator,
                      double bound,
                      DType dtype,
                      SourceLoc loc) {
  return random_uniform(device, shape, generator, -bound, bound, dtype, loc);
}

}  // namespace

std::int64_t fan_in(const Shape& shape, SourceLoc loc) {
  return product_without(shape, 0, loc);
}
std::int64_t fan_out(const Shape& shape, SourceLoc loc) {
  return product_without(shape, 1, loc);
}

Tensor kaiming_uniform(
    const Device& device, const Shape& shape, Generator& generator, DType dtype, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in(shape, loc)));
  return uniform_within(device, shape, generator, bound, dtype, loc);
}

Tensor kaiming_normal(
    const Device& device, const Shape& shape, Generator& generator, DType dtype, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const double deviation = std::sqrt(2 / static_cast<double>(fan_in(shape, loc)));
  return random_normal(device, shape, generator, 0, deviation, dtype, loc);
}

Tensor xavier_uniform(
    const Device& device, const Shape& shape, Generator& generator, DType dtype, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const auto fans = static_cast<double>(fan_in(shape, loc) + fan_out(shape, loc));
  return uniform_within(device, shape, generator, std::sqrt(6 / fans), dtype, loc);
}

}  // namespace hearth
