#include <hearth/modules/metrics.hpp>

#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

[[noreturn]] void refuse_metric(ErrorCode code,
                                std::string_view op,
                                std::string text,
                                SourceLoc loc) {
  throw_error(Error{.code = code,
                    .text = fmt::format("{}: {}", op, text),
                    .op = std::string(op),
                    .location = loc});
}

// Compares predicted classes [n] with labels [n]: i64 [n]. Looks up each label among the classes,
// so that an invalid label fails and does not count as a miss.
Tensor is_label(const Tensor& taken, const Tensor& labels, std::int64_t classes, SourceLoc loc) {
  const Tensor all = arange(taken.device(), 0, static_cast<double>(classes), 1, DType::i64, loc);
  const Tensor wanted = index_select(Arg(all, loc), 0, Arg(labels.to(DType::i64, loc), loc));
  return equal(Arg(taken, loc), Arg(wanted, loc)).to(DType::i64, loc);
}

Tensor hits(const Tensor& logits, const Tensor& labels, SourceLoc loc) {
  if (logits.rank(loc) != 2 || labels.rank(loc) != 1 || logits.size(0) != labels.size(0)) {
    refuse_metric(ErrorCode::shape_mismatch,
                  "accuracy",
                  fmt::format("logits [n, classes] and labels [n] expected, got {} and {}",
                              logits.shape().to_string(),
                              labels.shape().to_string()),
                  loc);
  }
  if (logits.size(1) < 2) {
    refuse_metric(ErrorCode::shape_mismatch,
                  "accuracy",
                  fmt::format("logits {} are of fewer than two classes; of one logit a row it is "
                              "binary_accuracy()",
                              logits.shape().to_string()),
                  loc);
  }
  if (!is_integer(labels.dtype())) {
    refuse_metric(ErrorCode::dtype_mismatch,
                  "accuracy",
                  fmt::format("labels are classes in i32 or i64, got {}", name(labels.dtype())),
                  loc);
  }
  return is_label(argmax(Arg(logits, loc), 1), labels, logits.size(1), loc);
}

}  // namespace

Tensor correct_count(const Tensor& logits, const Tensor& labels, SourceLoc loc) {
  const Tensor counted = hits(logits, labels, loc);
  return sum(Arg(counted, loc));
}

Tensor accuracy(const Tensor& logits, const Tensor& labels, SourceLoc loc) {
  const Tensor counted = hits(logits, labels, loc).to(DType::f32, loc);
  return mean(Arg(counted, loc));
}

Tensor binary_accuracy(const Tensor& outputs,
                       const Tensor& targets,
                       double threshold,
                       SourceLoc loc) {
  detail::require_binary("binary_accuracy", outputs, targets, loc);
  const std::int64_t count = outputs.element_count();
  const Tensor taken = greater(Arg(outputs, loc), Arg(threshold, loc)).to(DType::i64, loc);
  // A target other than 0 or 1 becomes class 2, which fails as an invalid label.
  const Tensor is_one = equal(Arg(targets, loc), Arg(1, loc)).to(DType::i64, loc);
  const Tensor is_zero = equal(Arg(targets, loc), Arg(0, loc)).to(DType::i64, loc);
  const Tensor labels = Arg(2, loc) - Arg(is_one, loc) - Arg(is_zero, loc) * Arg(2, loc);
  const Tensor flat = reshape(Arg(taken, loc), {count});
  const Tensor counted = is_label(flat, labels, 2, loc).to(DType::f32, loc);
  return mean(Arg(counted, loc));
}

void detail::require_binary(std::string_view op,
                            const Tensor& outputs,
                            const Tensor& targets,
                            SourceLoc loc) {
  // Treats [n, 1] as [n].
  const auto rows = [loc](const Tensor& tensor) {
    const Shape& shape = tensor.shape(loc);
    std::vector<std::int64_t> sizes(shape.dims().begin(), shape.dims().end());
    if (sizes.size() == 2 && sizes.back() == 1) {
      sizes.pop_back();
    }
    return sizes;
  };
  if (rows(outputs) != rows(targets)) {
    refuse_metric(
        ErrorCode::shape_mismatch,
        op,
        fmt::format("outputs [n] or [n, 1], or of the targets' shape expected, got {} and {}",
                    outputs.shape().to_string(),
                    targets.shape().to_string()),
        loc);
  }
}

void require_finite(double loss, std::int64_t step, SourceLoc loc) {
  if (!std::isfinite(loss)) {
    throw_error(
        Error{.code = ErrorCode::non_finite,
              .text = fmt::format(
                  "the loss of step {} is {}", step, std::isnan(loss) ? std::fabs(loss) : loss),
              .location = loc});
  }
}

void require_finite(const Gradients& gradients, std::int64_t step, SourceLoc loc) {
  gradients.require_unused("require_finite()", loc);
  std::vector<Pending<double>> bad_counts;  // all are queued before the first wait
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].is_valid() && is_float(gradients[i].dtype())) {
      const Tensor is_good = is_finite(Arg(gradients[i], loc));
      const Tensor is_bad = equal(Arg(is_good, loc), Arg(0, loc)).to(DType::i64, loc);
      bad_counts.push_back(sum(Arg(is_bad, loc)).item_later(loc));
      indices.push_back(i);
    }
  }
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const double count = bad_counts[i].get();
    if (count > 0) {
      const std::string& path = gradients.path(indices[i]);
      throw_error(Error{.code = ErrorCode::non_finite,
                        .text = fmt::format("the gradient of '{}' in step {} has {} values of {} "
                                            "that are NaN or infinite",
                                            path,
                                            step,
                                            count,
                                            gradients[indices[i]].element_count()),
                        .module_path = path,
                        .location = loc});
    }
  }
}

}  // namespace hearth
