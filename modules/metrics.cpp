#include <hearth/modules/metrics.hpp>

#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <cmath>

namespace hearth {
namespace {

Tensor hits(const Tensor& logits, const Tensor& labels) {
  if (logits.rank() != 2 || labels.rank() != 1 || logits.size(0) != labels.size(0)) {
    throw_error(Error{.code = ErrorCode::shape_mismatch,
                      .text = fmt::format("accuracy: logits [n, classes] and labels [n] expected, "
                                          "got {} and {}",
                                          logits.shape().to_string(),
                                          labels.shape().to_string()),
                      .op = "accuracy"});
  }
  return equal(argmax(logits, 1), labels.to(DType::i64));
}

}  // namespace

Tensor correct_count(const Tensor& logits, const Tensor& labels) {
  return sum(cast(hits(logits, labels), DType::i64));
}

Tensor accuracy(const Tensor& logits, const Tensor& labels) {
  return mean(cast(hits(logits, labels), DType::f32));
}

void require_finite(double loss, std::int64_t step) {
  if (!std::isfinite(loss)) {
    throw_error(Error{.code = ErrorCode::non_finite,
                      .text = fmt::format("the loss of step {} is {}", step, loss)});
  }
}

}  // namespace hearth
