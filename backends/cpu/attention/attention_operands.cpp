#include "attention_operands.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <limits>

namespace hearth::cpu {

AttentionSizes::AttentionSizes(const KernelCall& call, std::size_t first_input) {
  const auto attributes = call.op.attributes<AttentionAttributes>();
  const Shape& q = call.inputs[first_input].shape();
  const Shape& k = call.inputs[first_input + 1].shape();
  const Shape& v = call.inputs[first_input + 2].shape();
  const int rank = q.rank();
  for (int axis = 0; axis < rank - 3; ++axis) {
    batches *= q[axis];
  }
  if (rank > 2) {
    key_heads = k[rank - 3];
    heads_per_key_head = key_heads == 0 ? 0 : q[rank - 3] / key_heads;
  }
  queries = q[rank - 2];
  keys = k[rank - 2];
  width = q[rank - 1];
  value_width = v[rank - 1];
  scale = attributes.scale;
  is_causal = attributes.causal != 0;
}

std::int64_t AttentionSizes::visible_keys(std::int64_t row) const noexcept {
  return is_causal ? std::clamp<std::int64_t>(row % queries + 1 + keys - queries, 0, keys) : keys;
}

std::int64_t AttentionSizes::visible_keys(std::int64_t first, std::int64_t count) const noexcept {
  const bool has_last_query = first % queries + count >= queries;
  return has_last_query ? keys : visible_keys(first + count - 1);
}

HeadTensor::HeadTensor(const TensorView& view, const Shape& queries, bool has_columns) noexcept
    : data_(view.data), dtype_(view.dtype), batch_axes_(std::max(queries.rank() - 3, 0)) {
  const int rank = queries.rank();
  const int missing = has_columns ? rank - view.shape().rank() : 0;
  const auto step = [&](int axis) -> std::int64_t {
    const int own = axis - missing;
    return own < 0 || view.shape()[own] == 1 ? 0 : view.strides()[static_cast<std::size_t>(own)];
  };
  for (int axis = 0; axis < batch_axes_; ++axis) {
    batch_sizes_[static_cast<std::size_t>(axis)] = queries[axis];
    batch_steps_[static_cast<std::size_t>(axis)] = step(axis);
  }
  head_step_ = rank > 2 ? step(rank - 3) : 0;
  row_step_ = step(rank - 2);
  column_step_ = has_columns ? step(rank - 1) : 0;
}

GemmOperand HeadTensor::head(std::int64_t batch, std::int64_t head) const noexcept {
  std::int64_t offset = head * head_step_;
  for (int axis = batch_axes_ - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    offset += batch % batch_sizes_[i] * batch_steps_[i];
    batch /= batch_sizes_[i];
  }
  return {data_ + offset * size_bytes(dtype_), dtype_, row_step_, column_step_};
}

GemmOperand HeadTensor::row(const AttentionSizes& sizes,
                            std::int64_t unit,
                            std::int64_t row) const noexcept {
  const std::int64_t first_head = unit % sizes.key_heads * sizes.heads_per_key_head;
  GemmOperand matrix = head(unit / sizes.key_heads, first_head + row / sizes.queries);
  matrix.data += row % sizes.queries * row_step_ * size_bytes(dtype_);
  return matrix;
}

template <class T>
void load_rows(const GemmOperand& rows,
               std::int64_t count,
               std::int64_t columns,
               const TileKernels<T>& kernels,
               T* to) {
  kernels.pack({.from = rows.data,
                .item_step = rows.column_step,
                .depth_step = rows.row_step,
                .depth = count,
                .items = columns,
                .width = columns},
               rows.dtype,
               to);
}

template <class T>
const T* mask_row(const HeadTensor& mask,
                  const AttentionSizes& sizes,
                  std::int64_t unit,
                  std::int64_t row,
                  std::int64_t first,
                  std::int64_t count,
                  const TileKernels<T>& kernels,
                  T* to) {
  if (!mask.exists()) {
    return nullptr;
  }
  const GemmOperand values = mask.row(sizes, unit, row);
  if (values.dtype == DType::boolean) {
    const auto* const allowed = reinterpret_cast<const std::uint8_t*>(values.data);
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = allowed[(first + i) * values.column_step] != 0 ? T{0}
                                                             : -std::numeric_limits<T>::infinity();
    }
    return to;
  }
  if (values.dtype == dtype_of<T> && values.column_step == 1) {
    return reinterpret_cast<const T*>(values.data) + first;
  }
  GemmOperand seen = values;
  seen.data += first * values.column_step * size_bytes(values.dtype);
  load_rows(seen, 1, count, kernels, to);
  return to;
}

template void load_rows<float>(
    const GemmOperand&, std::int64_t, std::int64_t, const TileKernels<float>&, float*);
template void load_rows<double>(
    const GemmOperand&, std::int64_t, std::int64_t, const TileKernels<double>&, double*);
template const float* mask_row<float>(const HeadTensor&,
                                      const AttentionSizes&,
                                      std::int64_t,
                                      std::int64_t,
                                      std::int64_t,
                                      std::int64_t,
                                      const TileKernels<float>&,
                                      float*);
template const double* mask_row<double>(const HeadTensor&,
                                        const AttentionSizes&,
                                        std::int64_t,
                                        std::int64_t,
                                        std::int64_t,
                                        std::int64_t,
                                        const TileKernels<double>&,
                                        double*);

}  // namespace hearth::cpu
