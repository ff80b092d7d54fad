// Overlaps of boxes, and non-maximum suppression of boxes that a device computed.
#include <hearth/runtime/box_suppression.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/vision_ops.hpp>

#include "runtime/composed/host_wait.hpp"
#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"
#include "runtime/ops/op_promotion.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using detail::At;
using detail::HostWait;

constexpr OpKind kBoxKind = OpKind::reduce_mean;

[[noreturn]] void refuse_boxes(ErrorCode code, std::string_view what, std::span<const Arg> inputs) {
  std::string text(what);
  for (const Arg& input : inputs) {
    const TensorSpec spec = detail::spec_of(kBoxKind, input);
    text += (&input == inputs.data() ? ": " : ", ") + describe(spec.dtype, spec.shape);
  }
  detail::throw_op_error(code, kBoxKind, text, inputs[0].location(), inputs);
}

bool are_boxes(const Shape& shape) {
  return shape.rank() == 2 && shape[1] == 4;
}

DType common_box_type(std::span<const Arg> inputs) {
  for (const Arg& input : inputs) {
    if (!is_float(detail::operand(kBoxKind, input).dtype)) {
      refuse_boxes(ErrorCode::dtype_mismatch, "takes floats", inputs);
    }
  }
  return detail::common_type(kBoxKind, inputs);
}

// One number of each box, as [n].
Tensor edge(const Tensor& boxes, std::int64_t number, const At& at) {
  return squeeze(at(slice(at(boxes), 1, {.start = number, .stop = number + 1})), 1);
}

Tensor areas_of(const Tensor& boxes, const At& at) {
  Tensor width = sub(at(edge(boxes, 2, at)), at(edge(boxes, 0, at)));
  Tensor height = sub(at(edge(boxes, 3, at)), at(edge(boxes, 1, at)));
  return mul(at(std::move(width)), at(std::move(height)));
}

// The lengths [n, m] of the common part of all pairs along one axis, 0 or 1.
Tensor common_length(const Tensor& a, const Tensor& b, std::int64_t axis, const At& at) {
  const auto pair_of = [&](std::int64_t number) {
    return std::pair(unsqueeze(at(edge(a, number, at)), 1), unsqueeze(at(edge(b, number, at)), 0));
  };
  const auto [a_low, b_low] = pair_of(axis);
  const auto [a_high, b_high] = pair_of(axis + 2);
  const Tensor high = minimum(at(a_high), at(b_high));
  return relu(at(sub(at(high), at(maximum(at(a_low), at(b_low))))));
}

template <class Real>
std::vector<std::int64_t> kept_of(const Tensor& rows,
                                  std::span<const std::int64_t> classes,
                                  double threshold,
                                  const HostWait& wait,
                                  SourceLoc loc) {
  const std::vector<Real> read = wait.values_of<Real>(rows, loc);
  const std::size_t count = read.size() / 5;
  std::vector<Real> boxes;
  std::vector<Real> scores;
  boxes.reserve(4 * count);
  scores.reserve(count);
  for (std::size_t i = 0; i < read.size(); ++i) {
    (i % 5 < 4 ? boxes : scores).push_back(read[i]);
  }
  return detail::kept_boxes<Real>(boxes, scores, classes, {.iou_threshold = threshold});
}

// The kept boxes. `classes`: null if all boxes are rivals.
Tensor suppressed(const Arg& boxes,
                  const Arg& scores,
                  const Arg* classes,
                  double threshold,
                  const HostWait& wait) {
  const std::array inputs{boxes, scores};
  const DType dtype = compute_type(common_box_type(inputs));
  const Shape shape = boxes.tensor().shape();
  if (!are_boxes(shape) || scores.tensor().shape() != Shape{shape[0]}) {
    refuse_boxes(ErrorCode::shape_mismatch, "needs boxes [n, 4] and scores [n]", inputs);
  }
  if (std::isnan(threshold)) {
    refuse_boxes(ErrorCode::invalid_argument, "iou_threshold is NaN", inputs);
  }
  const At at(boxes.location());
  const Device device = boxes.tensor().device();
  std::vector<std::int64_t> numbers;
  if (classes != nullptr) {
    const TensorImpl& given = detail::operand(kBoxKind, *classes);
    const std::array all{boxes, scores, *classes};
    if (given.dtype != DType::i32 && given.dtype != DType::i64) {
      refuse_boxes(ErrorCode::dtype_mismatch, "classes are i32 or i64", all);
    }
    if (given.layout->shape != Shape{shape[0]}) {
      refuse_boxes(ErrorCode::shape_mismatch, "needs one class for each box", all);
    }
    numbers = wait.values_of<std::int64_t>(cast(at(classes->tensor()), DType::i64), at.location());
  }
  const Tensor rows = concat({cast(at(boxes.tensor().detach()), dtype),
                              cast(at(unsqueeze(at(scores.tensor().detach()), 1)), dtype)},
                             1,
                             at.location());
  std::vector<std::int64_t> kept =
      dtype == DType::f64 ? kept_of<double>(rows, numbers, threshold, wait, at.location())
                          : kept_of<float>(rows, numbers, threshold, wait, at.location());
  const Shape size{static_cast<std::int64_t>(kept.size())};
  return Tensor::from(device, std::move(kept), size, at.location());
}

}  // namespace

Tensor box_iou(Arg a, Arg b) {
  return detail::named_as("box_iou", [&] {
    const std::array inputs{a, b};
    const DType dtype = common_box_type(inputs);
    if (!are_boxes(a.tensor().shape()) || !are_boxes(b.tensor().shape())) {
      refuse_boxes(ErrorCode::shape_mismatch, "needs boxes [n, 4] and [m, 4]", inputs);
    }
    const At at(a.location());
    const Tensor left = cast(at(a.tensor()), compute_type(dtype));
    const Tensor right = cast(at(b.tensor()), compute_type(dtype));
    const Tensor common =
        mul(at(common_length(left, right, 0, at)), at(common_length(left, right, 1, at)));
    const Tensor both =
        add(at(unsqueeze(at(areas_of(left, at)), 1)), at(unsqueeze(at(areas_of(right, at)), 0)));
    return cast(at(div(at(common), at(sub(at(both), at(common))))), dtype);
  });
}

Tensor nms(Arg boxes, Arg scores, double iou_threshold) {
  return detail::named_as(
      "nms", [&] { return suppressed(boxes, scores, nullptr, iou_threshold, HostWait()); });
}
Tensor nms(Arg boxes, Arg scores, double iou_threshold, const WaitOptions& wait) {
  return detail::named_as(
      "nms", [&] { return suppressed(boxes, scores, nullptr, iou_threshold, HostWait(wait)); });
}

Tensor batched_nms(Arg boxes, Arg scores, Arg classes, double iou_threshold) {
  return detail::named_as("batched_nms", [&] {
    return suppressed(boxes, scores, &classes, iou_threshold, HostWait());
  });
}
Tensor batched_nms(
    Arg boxes, Arg scores, Arg classes, double iou_threshold, const WaitOptions& wait) {
  return detail::named_as("batched_nms", [&] {
    return suppressed(boxes, scores, &classes, iou_threshold, HostWait(wait));
  });
}

}  // namespace hearth
