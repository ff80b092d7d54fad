// BucketPlan: the place of each parameter's gradient in the buckets that ranks reduce together. A
// backward sweep yields gradients roughly in reverse visit order, so the plan fills buckets in that
// order. A plan may hold further values that are summed over the ranks, behind the parameters: the
// moves of Buffers, and the weight of the loss. A value, made once from a model and shared by all
// its replicas.
// Threads: any, after construction.
// Invariants: (1) every float parameter lies in exactly one bucket, whole; (2) a bucket has one
// type, in which it is summed; (3) the plan depends on types, shapes and options alone, so all
// ranks compute the same plan.
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

/// Type and shape of a parameter, or of another value that is summed.
struct ParameterForm {
  DType dtype = DType::f32;
  Shape shape;
  bool is_frozen = false;  ///< The plan has no place for it.
  /// Type in which it is summed; nullopt: its own.
  std::optional<DType> summed_in = std::nullopt;

  [[nodiscard]] DType summed_dtype() const noexcept { return summed_in.value_or(dtype); }
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

/// The place of one parameter's gradient.
struct BucketPlace {
  std::size_t bucket = 0;
  std::size_t entry = 0;
};

class BucketPlan final {
 public:
  /// Closes a bucket when it holds at least `bucket_bytes`, or when the type changes. A parameter
  /// of half that size or more gets a bucket of its own, so its gradient is not copied.
  BucketPlan(std::vector<ParameterForm> parameters, std::int64_t bucket_bytes);

  /// Buckets in the order in which they are filled.
  [[nodiscard]] std::span<const GradientBucket> buckets() const noexcept { return buckets_; }
  [[nodiscard]] std::span<const ParameterForm> parameters() const noexcept { return parameters_; }
  /// Place of the parameter's gradient; nullopt for a parameter without one (integer or frozen).
  /// Errors: ArgumentError for an index that is out of range.
  [[nodiscard]] const std::optional<BucketPlace>& place_of(
      std::size_t parameter, SourceLoc loc = SourceLoc::current()) const;

 private:
  std::vector<ParameterForm> parameters_;
  std::vector<GradientBucket> buckets_;
  std::vector<std::optional<BucketPlace>> places_;
};

}  // namespace hearth
