#include "elements.hpp"
#include "evaluators.hpp"

#include <cstdint>

namespace hearth::reference {
namespace {

/// Returns the batch axes of `result` with the last two axes of `matrix`.
Shape batched(const Shape& result, const Shape& matrix) {
  Shape shape = result;
  for (const int from_end : {2, 1}) {
    shape.set(shape.rank() - from_end, matrix[matrix.rank() - from_end]);
  }
  return shape;
}

}  // namespace

Status evaluate_matmul(const KernelCall& call) {
  const TensorView& result = call.outputs[0];
  const Shape& shape = result.shape();
  const Shape a_shape = batched(shape, call.inputs[0].shape());
  const Reals a = load_reals(call.inputs[0], a_shape);
  const Reals b = load_reals(call.inputs[1], batched(shape, call.inputs[1].shape()));
  const std::int64_t rows = shape[shape.rank() - 2];
  const std::int64_t columns = shape[shape.rank() - 1];
  const std::int64_t inner = a_shape[a_shape.rank() - 1];

  // A bias [n] broadcasts over rows and batches.
  Reals out = call.inputs.size() > 2 ? load_reals(call.inputs[2], shape) : filled(shape, 0.0);
  const std::int64_t total_rows =
      columns == 0 ? 0 : static_cast<std::int64_t>(out.size()) / columns;
  for (std::int64_t row = 0; row < total_rows; ++row) {
    const std::int64_t matrix = row / rows;
    for (std::int64_t k = 0; k < inner; ++k) {
      const double left = at(a, row * inner + k);
      for (std::int64_t j = 0; j < columns; ++j) {
        at(out, row * columns + j) += left * at(b, (matrix * inner + k) * columns + j);
      }
    }
  }
  store(result, out);
  return {};
}

}  // namespace hearth::reference
