#include <hearth/modules/metrics.hpp>

#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

namespace hearth {
namespace {

Tensor hits(const Tensor& logits, const Tensor& labels, SourceLoc loc) {
  if (logits.rank(loc) != 2 || labels.rank(loc) != 1 || logits.size(0) != labels.size(0)) {
    throw_error(Error{.code = ErrorCode::shape_mismatch,
                      .text = fmt::format("accuracy: logits [n, classes] and labels [n] expected, "
                                          "got {} and {}",
                                          logits.shape().to_string(),
                                          labels.shape().to_string()),
                      .op = "accuracy",
                      .location = loc});
  }
  const Tensor best = argmax(Arg(logits, loc), 1);
  const Tensor wanted = labels.to(DType::i64, loc);
  return equal(Arg(best, loc), Arg(wanted, loc));
}

}  // namespace

Tensor correct_count(const Tensor& logits, const Tensor& labels, SourceLoc loc) {
  const Tensor counted = hits(logits, labels, loc).to(DType::i64, loc);
  return sum(Arg(counted, loc));
}

Tensor accuracy(const Tensor& logits, const Tensor& labels, SourceLoc loc) {
  const Tensor counted = hits(logits, labels, loc).to(DType::f32, loc);
  return mean(Arg(counted, loc));
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
  std::vector<Pending<double>> bad_counts;  // all are queued before the first is waited for
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (is_float(gradients[i].dtype())) {
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
