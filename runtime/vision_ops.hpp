// Ops of object detection: overlaps of boxes, suppression, and features of regions. A box is
// (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2. Errors and threads: as in ops.hpp. Without
// WaitOptions, an op that waits does so until the deadline of the calling thread's stream. Errors
// of a wait: as Tensor::to_vector().
#pragma once

#include <cstdint>
#include <span>

#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/size2d.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// The common area of two boxes divided by the area of both, for all pairs. NaN if both have no
/// area.
///
/// Shapes: a [n, 4], b [m, 4] -> [n, m].
/// Dtypes: floats, promoted to one type; f16 and bf16 are computed in f32. Both have gradients.
/// Errors: ShapeError, DtypeError.
/// Cost: elementwise ops of n·m elements.
[[nodiscard]] Tensor box_iou(Arg a, Arg b);

/// Non-maximum suppression: takes the box with the highest score, drops all that overlap it by more
/// than the threshold, and repeats. Returns the indices of the kept boxes, by falling score; the
/// first of equal ones. NaN counts as the largest score. Waits for the boxes and scores.
///
/// Shapes: boxes [n, 4], scores [n]; result [kept].
/// Dtypes: floats, promoted to one type; result i64. Overlaps are computed in f32, of f64 in f64.
/// No gradient.
/// Errors: ShapeError, DtypeError; ArgumentError for a threshold that is NaN.
/// Cost: reads 5·n numbers; n·kept overlaps on the calling thread.
/// Paper: Neubeck, Van Gool, Efficient Non-Maximum Suppression, ICPR 2006.
[[nodiscard]] Tensor nms(Arg boxes, Arg scores, double iou_threshold);
[[nodiscard]] Tensor nms(Arg boxes, Arg scores, double iou_threshold, const WaitOptions& wait);
/// nms for each class on its own: boxes of different classes do not suppress one another. The
/// result has the boxes of all classes, by falling score.
///
/// Shapes: classes [n]. Dtypes: classes i32 or i64; others as nms.
[[nodiscard]] Tensor batched_nms(Arg boxes, Arg scores, Arg classes, double iou_threshold);
[[nodiscard]] Tensor batched_nms(
    Arg boxes, Arg scores, Arg classes, double iou_threshold, const WaitOptions& wait);

struct RoiAlignOptions {
  Size2d size = 7;                  ///< Rows and columns of the result.
  double spatial_scale = 1;         ///< Factor from a box's coordinates to those of the features.
  std::int64_t sampling_ratio = 0;  ///< Samples of a bin along an axis; 0: by the box's size.
  /// True: moves boxes by half an element, and allows ones smaller than an element.
  bool aligned = false;
};
/// Features of regions: the mean of bilinear samples in each bin of a box, as
/// torchvision.ops.roi_align. Samples more than one element outside count as 0.
///
/// Shapes: x [n, c, h, w], boxes [k, 5] with the number of the picture in front
/// -> [k, c, rows, columns].
/// Dtypes: floats; f16 and bf16 are computed in f32. The gradient flows to x, not to the boxes.
/// Errors: ShapeError, DtypeError; ArgumentError for a size below 1, a negative ratio, or a scale
/// that is not finite. A number outside of [0, n) poisons the result with out_of_range.
/// Cost: two matmuls for each picture, of 2·k·rows·h·c·w operations, and at most 2^26 elements
/// between them. Waits for k numbers if n is above 1, and for two numbers if the ratio is 0.
/// Paper: He et al., Mask R-CNN, arXiv:1703.06870.
[[nodiscard]] Tensor roi_align(Arg x, Arg boxes, const RoiAlignOptions& options = {});
[[nodiscard]] Tensor roi_align(Arg x,
                               Arg boxes,
                               const RoiAlignOptions& options,
                               const WaitOptions& wait);

}  // namespace hearth
