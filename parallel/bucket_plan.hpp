// BucketPlan: which parameter's gradient lies where in which bucket. Gradients come out of a
// backward sweep roughly in reverse visit order, so buckets are filled in that order.
// Behind the parameters a plan may have more that is summed over the ranks with them: the moves of
// Buffers, and the weight of the loss. A value, made once from a model; the same for all its
// replicas. Threads: any, after construction. Invariants: (1) every float parameter lies in exactly
// one bucket, whole; (2) a bucket has one type; (3) the plan depends on types, shapes and options
// alone, so all ranks have the same one.
#pragma once

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/base/source_loc.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hearth {

/// What a plan needs to know of a parameter, or of what else is summed.
struct ParameterForm {
  DType dtype = DType::f32;
  Shape shape;
  bool is_frozen = false;  ///< Nothing is summed for it.
};

/// A parameter's place in a bucket, in elements.
struct BucketEntry {
  std::size_t parameter = 0;  ///< In visit order.
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

struct GradientBucket {
  DType dtype = DType::f32;
  std::int64_t element_count = 0;
  std::vector<BucketEntry> entries;  ///< Last parameter first.
};

/// Where a parameter's gradient lies.
struct BucketPlace {
  std::size_t bucket = 0;
  std::size_t entry = 0;
};

class BucketPlan final {
 public:
  /// A bucket is closed as soon as it holds `bucket_bytes` or more, or the type changes. A
  /// parameter of half of that or more is a bucket by itself, whose gradient need not be copied.
  BucketPlan(std::vector<ParameterForm> parameters, std::int64_t bucket_bytes);

  /// In the order in which they are filled.
  [[nodiscard]] std::span<const GradientBucket> buckets() const noexcept { return buckets_; }
  [[nodiscard]] std::span<const ParameterForm> parameters() const noexcept { return parameters_; }
  /// Nothing for a parameter without a gradient (integers, frozen ones). Errors: ArgumentError for
  /// one that is not there.
  [[nodiscard]] const std::optional<BucketPlace>& place_of(
      std::size_t parameter, SourceLoc loc = SourceLoc::current()) const;

 private:
  std::vector<ParameterForm> parameters_;
  std::vector<GradientBucket> buckets_;
  std::vector<std::optional<BucketPlace>> places_;
};

}  // namespace hearth
