// Converts the operands of matmul to strides; matrix_product.cpp and product.cpp split the work.
#include "matmul.hpp"

#include "library_call.hpp"
#include "matrix_product.hpp"
#include "product_result.hpp"

namespace hearth::gpu {
namespace {

// The stride of an input along a batch axis of the result, counted from the last axis.
std::int64_t batch_stride(const TensorView& view, int from_end) noexcept {
  const int axis = view.shape().rank() - from_end;
  return axis < 0 || view.shape()[axis] == 1 ? 0 : view.strides()[static_cast<std::size_t>(axis)];
}

// The product of a call whose result has this shape.
MatrixProduct product_of_call(const KernelCall& call, const Shape& shape) noexcept {
  const TensorView& a = call.inputs[0];
  const TensorView& b = call.inputs[1];
  const auto stride = [](const TensorView& view, int from_end) {
    return view.strides()[static_cast<std::size_t>(view.shape().rank() - from_end)];
  };
  MatrixProduct product{.dtype = a.dtype,
                        .a = a.data,
                        .b = b.data,
                        .rows = shape[shape.rank() - 2],
                        .columns = shape[shape.rank() - 1],
                        .depth = a.shape()[a.shape().rank() - 1],
                        .a_row = stride(a, 2),
                        .a_depth = stride(a, 1),
                        .b_depth = stride(b, 2),
                        .b_column = stride(b, 1)};
  if (call.inputs.size() > 2) {
    product.bias = call.inputs[2].data;
    product.bias_column = stride(call.inputs[2], 1);
  }
  for (int from_end = shape.rank(); from_end > 2; --from_end) {
    product.add_batch({.size = shape[shape.rank() - from_end],
                       .a = batch_stride(a, from_end),
                       .b = batch_stride(b, from_end)});
  }
  return product;
}

}  // namespace

Support supports_matmul(const KernelCall& call, const DeviceLimits& limits) {
  // A product on matrix units takes a fraction of the time of one that sums by itself.
  const DType dtype = call.inputs[0].dtype;
  const bool is_on_units = dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::i8 ||
                           (dtype == DType::f32 && limits.allows_tf32);
  if (call.epilogue != nullptr && is_on_units) {
    MatrixProduct product = product_of_call(call, call.epilogue->result->shape);
    product.join_rows();
    if (is_for_library(product, limits)) {
      return {.yes = false, .reason = "matmul: the library's products have no epilogue"};
    }
  }
  return supports_epilogue(call, limits);
}

Status encode_matmul(const KernelCall& call, KernelEncoder& encoder) {
  if (encoder.guard() != 0) {
    return Error{.code = ErrorCode::unsupported, .text = "matmul: not in an update group"};
  }
  return encode_product(product_of_call(call, call.outputs[0].shape()), call, encoder);
}

}  // namespace hearth::gpu
