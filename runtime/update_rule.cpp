#include <hearth/runtime/update_rule.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>

#include "runtime/ops/capture.hpp"
#include "runtime/ops/update_rules.hpp"

namespace hearth {
namespace {

[[noreturn]] void refuse(const std::string& rule, const std::string& what, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = rule + ": " + what,
                    .op = rule,
                    .location = loc});
}

void require_results(const UpdateRule::Config& config,
                     std::span<const Tensor> results,
                     DType dtype,
                     SourceLoc loc) {
  if (results.size() != static_cast<std::size_t>(config.state_count) + 1) {
    refuse(config.name,
           fmt::format("the function returned {} tensors; the new parameter and {} states are {}",
                       results.size(),
                       config.state_count,
                       config.state_count + 1),
           loc);
  }
  for (const Tensor& result : results) {
    if (result.is_valid() && result.dtype() != accumulation_dtype(dtype)) {
      refuse(config.name,
             fmt::format("the function returned {} for parameters of {}{}",
                         name(result.dtype()),
                         name(dtype),
                         dtype == accumulation_dtype(dtype) ? "" : ", which are computed in f32"),
             loc);
    }
  }
}

}  // namespace

UpdateRule::UpdateRule(Config config, Function function, SourceLoc loc)
    : config_(std::move(config)), function_(std::move(function)), location_(loc) {
  if (config_.name.empty() || !function_) {
    refuse("UpdateRule", "it needs a name and a function", loc);
  }
  constexpr int kMostTensors = kMostExpressionInputs - 2;
  if (config_.state_count < 0 || config_.state_count >= kMostExpressionOutputs ||
      config_.input_count < 0 || config_.input_count > kMostTensors - config_.state_count ||
      config_.scalar_count < 0 || config_.scalar_count > kMostExpressionParameters) {
    refuse(
        config_.name,
        fmt::format("{} states, {} inputs and {} scalars; possible are 0 to {} states, {} states "
                    "and inputs together, and 0 to {} scalars",
                    config_.state_count,
                    config_.input_count,
                    config_.scalar_count,
                    kMostExpressionOutputs - 1,
                    kMostTensors,
                    kMostExpressionParameters),
        loc);
  }
}

const UpdateRule::Captured& UpdateRule::expression(DType parameter,
                                                   DType gradient,
                                                   bool is_conditional) {
  Captured& known = expressions_[{parameter, gradient, is_conditional}];
  if (known.expression != nullptr) {
    return known;
  }
  const DType wide = accumulation_dtype(parameter);
  std::vector<DType> tensors{parameter, gradient};
  const auto first_input = static_cast<std::ptrdiff_t>(config_.state_count) + 2;
  const auto end = first_input + config_.input_count;
  tensors.resize(static_cast<std::size_t>(end), wide);
  if (is_conditional) {
    tensors.push_back(DType::boolean);
  }
  const std::vector<DType> scalars(static_cast<std::size_t>(config_.scalar_count), wide);
  const detail::CaptureForm form{
      .name = config_.name, .tensors = tensors, .scalars = scalars, .location = location_};
  const detail::Captured captured =
      detail::capture_checked(form, [&](std::span<Tensor> all, std::span<Tensor> numbers) {
        std::vector<Tensor> results = function_(
            Operands{.parameter = cast(all[0], wide),
                     .gradient = cast(all[1], wide),
                     .state = std::vector<Tensor>(all.begin() + 2, all.begin() + first_input),
                     .scalars = std::vector<Tensor>(numbers.begin(), numbers.end()),
                     .inputs = std::vector<Tensor>(all.begin() + first_input, all.begin() + end)});
        require_results(config_, results, parameter, location_);
        if (results[0].is_valid()) {
          results[0] = cast(results[0], parameter);
        }
        if (is_conditional && std::ranges::all_of(results, &Tensor::is_valid)) {
          detail::keep_unless(all.back(), all, results);
        }
        return results;
      });
  detail::require_all_tensors(form, captured);
  known = {.expression = detail::expression_of(form, captured), .scalars = captured.scalars};
  return known;
}

}  // namespace hearth
