#include <hearth/modules/lora.hpp>

#include <hearth/modules/freeze_weights.hpp>
#include <hearth/modules/init.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/mistake_name.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace hearth {

Lora::Lora(Linear linear, const Config& config, Generator& generator, SourceLoc loc)
    : base(std::move(linear)), scale(0), dropout({.p = config.dropout}, loc) {
  const detail::FloatEnvironment environment;
  if (config.rank < 1 || !std::isfinite(config.alpha)) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("Lora: needs a rank of 1 or more and a finite alpha, got "
                                          "rank {}, alpha {}",
                                          config.rank,
                                          config.alpha),
                      .location = loc});
  }
  scale = config.alpha / static_cast<double>(config.rank);
  const Device device = base.weight.device(loc);
  const DType dtype = base.weight.dtype();
  freeze_weights(base, loc);
  const WeightScope weights(device);
  lora_a = kaiming_uniform(device, {config.rank, base.weight.size(1)}, generator, dtype, loc);
  lora_b = zeros(device, {base.weight.size(0), config.rank}, dtype, loc);
  detail::set_first_paths(*this);
}

Tensor Lora::changed(const Tensor& x, const Tensor& of_adapters, SourceLoc loc) const {
  const auto times = [loc](const Tensor& in, const Tensor& weight) {
    return matmul(Arg(in, loc), Arg(transpose(Arg(weight, loc)), loc));
  };
  Tensor result = base.forward(Arg(x, loc));  // first: its errors name the shapes
  Tensor change = times(times(of_adapters, lora_a), lora_b);
  change = mul(Arg(std::move(change), loc), Arg(scale, loc));
  return add(Arg(std::move(result), loc), Arg(std::move(change), loc));
}

Tensor Lora::forward(Arg x, Mode mode) const {
  return detail::mistakes_named(module_name(), [&] {
    const SourceLoc loc = x.location();
    const Tensor value = taken(x, module_name());
    return changed(value, dropout.forward(Arg(value, loc), mode), loc);
  });
}
Tensor Lora::forward(Arg x, Mode mode, Generator& generator) const {
  return detail::mistakes_named(module_name(), [&] {
    const SourceLoc loc = x.location();
    const Tensor value = taken(x, module_name());
    return changed(value, dropout.forward(Arg(value, loc), mode, generator), loc);
  });
}

Linear Lora::merged(SourceLoc loc) const {
  return detail::mistakes_named("Lora::merged", [&] {
    Linear result = fork(base, base.weight.device(loc), loc);
    const DType dtype = result.weight.dtype();
    const auto wide = [&](const Tensor& x) { return cast(Arg(x, loc), accumulation_dtype(dtype)); };
    const WeightScope weights(result.weight.device());
    Tensor change = matmul(Arg(wide(lora_b), loc), Arg(wide(lora_a), loc));
    change = mul(Arg(std::move(change), loc), Arg(scale, loc));
    Tensor sum = add(Arg(wide(result.weight), loc), Arg(std::move(change), loc));
    result.weight = cast(Arg(std::move(sum), loc), dtype);
    unfreeze_weights(result, loc);
    detail::set_first_paths(result);
    return result;
  });
}

namespace detail {

bool is_lora_path(std::string_view path) noexcept {
  const std::size_t dot = path.rfind('.');
  const std::string_view name = dot == std::string_view::npos ? path : path.substr(dot + 1);
  return name == "lora_a" || name == "lora_b";
}

void require_lora_weights(bool has_any, std::string_view model, SourceLoc loc) {
  if (!has_any) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("LoraWeights: {} has no Lora layer", model),
                      .location = loc});
  }
}

}  // namespace detail
}  // namespace hearth
