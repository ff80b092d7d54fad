#include "stored_call.hpp"

namespace hearth::sim {

StoredCall::StoredCall(const KernelCall& call)
    : record_(call.op.record()), input_count_(call.inputs.size()), expression_(call.expression) {
  if (record_.blob_size_bytes > 0) {
    blob_.assign(call.op.blob(), call.op.blob() + record_.blob_size_bytes);
  }
  layouts_.reserve(call.inputs.size() + call.outputs.size());  // the views point into it
  for (const TensorView& view : call.inputs) {
    keep(view);
  }
  for (const TensorView& view : call.outputs) {
    keep(view);
  }
}

void StoredCall::keep(const TensorView& view) {
  layouts_.push_back(*view.layout);
  views_.push_back({view.data, &layouts_.back(), view.dtype});
}

KernelCall StoredCall::call() const noexcept {
  const std::span<const TensorView> views(views_);
  return {OpView(record_, blob_.data()),
          views.first(input_count_),
          views.subspan(input_count_),
          expression_};
}

ByteRange range_of(const TensorView& view) noexcept {
  if (view.element_count() == 0) {
    return {};
  }
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (int axis = 0; axis < view.shape().rank(); ++axis) {
    const std::int64_t reach =
        (view.shape()[axis] - 1) * view.strides()[static_cast<std::size_t>(axis)];
    (reach < 0 ? first : last) += reach;
  }
  const std::int64_t size = size_bytes(view.dtype);
  return {view.data + first * size, (last - first + 1) * size};
}

}  // namespace hearth::sim
