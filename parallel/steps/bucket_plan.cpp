#include <hearth/parallel/bucket_plan.hpp>

#include <hearth/runtime/base/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace hearth {

BucketPlan::BucketPlan(std::vector<ParameterForm> parameters, std::int64_t bucket_bytes)
    : parameters_(std::move(parameters)), places_(parameters_.size()) {
  bool is_open = false;
  for (std::size_t index = parameters_.size(); index-- > 0;) {
    const ParameterForm& form = parameters_[index];
    if (!is_float(form.dtype) || form.is_frozen) {
      continue;
    }
    const std::int64_t count = form.shape.element_count();
    const DType dtype = form.summed_dtype();
    const bool runs_alone = 2 * count * size_bytes(dtype) >= bucket_bytes;
    if (!is_open || runs_alone || buckets_.back().dtype != dtype) {
      buckets_.push_back({.dtype = dtype, .element_count = 0, .entries = {}});
    }
    GradientBucket& bucket = buckets_.back();
    places_[index] = BucketPlace{buckets_.size() - 1, bucket.entries.size()};
    bucket.entries.push_back({.parameter = index, .offset = bucket.element_count, .count = count});
    bucket.element_count += count;
    is_open = !runs_alone && bucket.element_count * size_bytes(dtype) < bucket_bytes;
  }
}

const std::optional<BucketPlace>& BucketPlan::place_of(std::size_t parameter, SourceLoc loc) const {
  if (parameter >= places_.size()) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("BucketPlan: there is no parameter {}: there are {}, "
                                          "counted from 0",
                                          static_cast<std::int64_t>(parameter),
                                          places_.size()),
                      .op = "BucketPlan",
                      .location = loc});
  }
  return places_[parameter];
}

}  // namespace hearth
