#include <hearth/modules/precision.hpp>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/promotion.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace hearth {
namespace {

void require_type(std::string_view op, const char* field, DType dtype, SourceLoc loc) {
  if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
    throw_error(
        Error{.code = ErrorCode::dtype_mismatch,
              .text = fmt::format(
                  "{}: precision.{} is {}, but must be f32, bf16 or f16", op, field, name(dtype)),
              .op = std::string(op),
              .location = loc});
  }
}

[[noreturn]] void refuse_scaling(std::string_view op, const std::string& what, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("{}: precision.loss_scaling: {}", op, what),
                    .op = std::string(op),
                    .location = loc});
}

void require_scaling(std::string_view op, const LossScaling& scaling, SourceLoc loc) {
  // The scale is f32 on the device.
  using Limits = std::numeric_limits<float>;
  if (!(scaling.initial >= Limits::min() && scaling.initial <= Limits::max())) {
    refuse_scaling(
        op,
        fmt::format("initial is {}, but must be above 0 and finite in f32", scaling.initial),
        loc);
  }
  if (!(scaling.growth >= 1 && std::isfinite(scaling.growth))) {
    refuse_scaling(op, fmt::format("growth is {}, but must be 1 or more", scaling.growth), loc);
  }
  if (!(scaling.backoff > 0 && scaling.backoff <= 1)) {
    refuse_scaling(
        op, fmt::format("backoff is {}, but must be above 0, and at most 1", scaling.backoff), loc);
  }
  // The steps are counted in f32.
  constexpr std::int64_t kMost = std::int64_t{1} << 24U;
  if (scaling.growth_interval < 1 || scaling.growth_interval > kMost) {
    refuse_scaling(
        op,
        fmt::format("growth_interval is {}, but must be 1 to {}", scaling.growth_interval, kMost),
        loc);
  }
}

}  // namespace

void detail::require_sound(const Precision& precision, std::string_view op, SourceLoc loc) {
  require_type(op, "compute", precision.compute, loc);
  require_type(op, "gradients", precision.gradients, loc);
  if (const std::optional<LossScaling> used = precision.scaling()) {
    require_scaling(op, *used, loc);
  }
}

Tensor Precision::input(const Tensor& x, SourceLoc loc) const {
  return is_mixed() && is_float(x.dtype(loc)) ? x.to(compute, loc) : x;
}

Tensor Precision::output(const Tensor& x, SourceLoc loc) const {
  return is_mixed() ? x.to(accumulation_dtype(x.dtype(loc)), loc) : x;
}

std::string describe(const Precision& precision) {
  std::string words(name(precision.compute));
  if (const std::optional<LossScaling> scaling = precision.scaling()) {
    const bool is_fixed = scaling->growth == 1 && scaling->backoff == 1;
    words += fmt::format(", loss scale {}{}", is_fixed ? "" : "from ", scaling->initial);
  }
  if (precision.gradients != DType::f32) {
    words += fmt::format(", gradients exchanged in {}", name(precision.gradients));
  }
  return words;
}

}  // namespace hearth
