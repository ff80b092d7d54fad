// Non-maximum suppression on the host. nms() and ONNX's NonMaxSuppression use it. Header-internal.
// Stateless. Threads: any.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace hearth::detail {

struct SuppressionRule {
  double iou_threshold = 0.5;  ///< A larger overlap with a kept box drops a box.
  /// Boxes whose score is not above it are dropped; empty: none.
  std::optional<double> score_threshold = {};
  std::int64_t most = std::numeric_limits<std::int64_t>::max();  ///< Number of boxes kept at most.
};

/// The places of the kept boxes, by falling score; the first of equal ones. NaN is the largest
/// score. A box is four numbers: x1, y1, x2, y2. With classes, only boxes of one class drop each
/// other.
///
/// Errors: none; requires 4 numbers of a box for each score, and one class for each, or none.
template <class Real>
[[nodiscard]] std::vector<std::int64_t> kept_boxes(std::span<const Real> boxes,
                                                   std::span<const Real> scores,
                                                   std::span<const std::int64_t> classes,
                                                   const SuppressionRule& rule);
extern template std::vector<std::int64_t> kept_boxes<float>(std::span<const float> boxes,
                                                            std::span<const float> scores,
                                                            std::span<const std::int64_t> classes,
                                                            const SuppressionRule& rule);
extern template std::vector<std::int64_t> kept_boxes<double>(std::span<const double> boxes,
                                                             std::span<const double> scores,
                                                             std::span<const std::int64_t> classes,
                                                             const SuppressionRule& rule);

}  // namespace hearth::detail
