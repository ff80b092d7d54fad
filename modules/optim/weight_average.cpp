#include <hearth/modules/weight_average.hpp>

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void fail(std::string text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "WeightAverage: " + std::move(text),
                    .op = "WeightAverage",
                    .location = loc});
}

void require_full(std::span<const TensorRef> parameters, SourceLoc loc) {
  for (const TensorRef& parameter : parameters) {
    detail::require_tensor("WeightAverage", parameter.path, *parameter.tensor, loc);
  }
}

}  // namespace

WeightAverage::WeightAverage(double decay, SourceLoc loc) : decay_(decay) {
  if (!(decay >= 0 && decay < 1)) {
    fail(fmt::format("the decay is {}, but must be 0 or more and below 1", decay), loc);
  }
}

void WeightAverage::require_there(SourceLoc loc) const {
  if (mark_.is_moved_from()) {
    fail("it was moved from: its sums are in another one now, which goes on with them", loc);
  }
}

void WeightAverage::require_same(std::span<const TensorRef> parameters, SourceLoc loc) const {
  if (!std::ranges::equal(parameters, paths_, {}, &TensorRef::path, std::identity{})) {
    fail("the model has other parameters than the one that was averaged before", loc);
  }
}

void WeightAverage::prepare(std::span<const TensorRef> parameters, SourceLoc loc) {
  require_there(loc);
  if (!paths_.empty()) {
    require_same(parameters, loc);
    return;
  }
  if (parameters.empty()) {
    return;
  }
  std::vector<Tensor> tensors;
  std::vector<std::string> paths;
  for (const TensorRef& parameter : parameters) {
    detail::require_tensor("WeightAverage", parameter.path, *parameter.tensor, loc);
    const Tensor& weights = *parameter.tensor;
    if (parameter.is_trained()) {
      const WeightScope scope(weights.device());
      tensors.push_back(
          zeros(weights.device(), weights.shape(), accumulation_dtype(weights.dtype()), loc));
      tensors.back().set_path("average." + parameter.path);
    } else {
      tensors.emplace_back();
    }
    paths.push_back(parameter.path);
  }
  tensors_ = std::move(tensors);
  paths_ = std::move(paths);
}

void WeightAverage::update(std::span<const TensorRef> parameters, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  prepare(parameters, loc);
  require_same(parameters, loc);
  require_full(parameters, loc);
  // The share of the newest weights in an average whose shares add up to 1.
  const double share =
      (1 - decay_) / (1 - std::pow(decay_, static_cast<double>(update_count_ + 1)));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor weights = parameters[i].tensor->detach();
    if (!tensors_[i].is_valid() && !parameters[i].is_trained()) {
      continue;
    }
    if (!tensors_[i].is_valid()) {  // frozen so far: the average equals the weights
      const WeightScope scope(weights.device());
      tensors_[i] = detail::forked(weights, weights.device(), loc)
                        .to(accumulation_dtype(weights.dtype()), loc);
      tensors_[i].set_path("average." + parameters[i].path);
      continue;
    }
    const Tensor newest = weights.to(tensors_[i].dtype(), loc);
    const WeightScope scope(newest.device());
    Tensor before = mul(Arg(std::move(tensors_[i]), loc), Arg(1 - share, loc));
    Tensor added = mul(Arg(newest, loc), Arg(share, loc));
    tensors_[i] = add(Arg(std::move(before), loc), Arg(std::move(added), loc));
    tensors_[i].set_path("average." + parameters[i].path);
  }
  ++update_count_;
}

void WeightAverage::set_update_count(std::int64_t count, SourceLoc loc) {
  if (count < 0) {
    fail(fmt::format("a count of {} updates is below 0", count), loc);
  }
  update_count_ = count;
}

void WeightAverage::apply_to(std::span<const TensorRef> parameters, SourceLoc loc) const {
  require_there(loc);
  if (update_count_ == 0) {
    return;
  }
  require_same(parameters, loc);
  require_full(parameters, loc);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].is_valid()) {
      detail::require_untracked("WeightAverage", parameters[i].path, *parameters[i].tensor, loc);
      const detail::SoleName sole(parameters[i]);
      *parameters[i].tensor = tensors_[i].to(parameters[i].tensor->dtype(), loc);
      // The tensor may be shared with the average; update() makes a new one.
      parameters[i].tensor->set_path(parameters[i].path, loc);
    }
  }
}

}  // namespace hearth
