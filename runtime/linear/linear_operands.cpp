#include "linear_operands.hpp"

#include "runtime/ops/op_operand.hpp"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

namespace hearth::detail {
namespace {

constexpr OpKind kLinearKind = OpKind::custom;

}  // namespace

void refuse_linear(ErrorCode code, std::string_view what, std::span<const Arg> operands) {
  std::string text(what);
  for (const Arg& each : operands) {
    const TensorSpec spec = spec_of(kLinearKind, each);
    text += (&each == operands.data() ? ": " : ", ") + describe(spec.dtype, spec.shape);
  }
  throw_op_error(code, kLinearKind, text, operands[0].location(), operands);
}

Shape require_real(const Arg& x, int least_rank, std::string_view needs) {
  const TensorImpl& impl = operand(kLinearKind, x);
  const std::span<const Arg> operands(&x, 1);
  if (impl.dtype != DType::f32 && impl.dtype != DType::f64) {
    refuse_linear(ErrorCode::dtype_mismatch, "takes f32 and f64: cast other types first", operands);
  }
  if (impl.layout->shape.rank() < least_rank) {
    refuse_linear(ErrorCode::shape_mismatch, fmt::format("needs {}", needs), operands);
  }
  return impl.layout->shape;
}

Shape require_square(const Arg& x) {
  const Shape shape = require_real(x, 2, "square matrices");
  if (shape[-1] != shape[-2]) {
    refuse_linear(ErrorCode::shape_mismatch, "needs square matrices", std::span<const Arg>(&x, 1));
  }
  return shape;
}

void require_float_type(std::string_view op, DType dtype, SourceLoc loc) {
  if (!is_float(dtype)) {
    throw_error(Error{.code = ErrorCode::dtype_mismatch,
                      .text = fmt::format("{}: {} is no type of floats", op, name(dtype)),
                      .op = std::string(op),
                      .location = loc});
  }
}

LinearPair broadcast_batches(const Arg& a, const Tensor& b, const Arg& named_b) {
  const At at(a.location());
  const Shape left = a.tensor().shape();
  const Shape right = b.shape();
  const auto batch = [](const Shape& shape) {
    return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 2)));
  };
  const std::array operands{a, named_b};
  if (a.tensor().dtype() != b.dtype()) {
    refuse_linear(ErrorCode::dtype_mismatch, "takes operands of one type", operands);
  }
  const Result<Shape> both = broadcast(batch(left), batch(right));
  if (!both.has_value()) {
    refuse_linear(ErrorCode::shape_mismatch, "leading axes do not broadcast", operands);
  }
  const auto widened = [&](const Tensor& x) {
    std::vector<std::int64_t> sizes(both.value().dims().begin(), both.value().dims().end());
    sizes.push_back(x.shape()[-2]);
    sizes.push_back(x.shape()[-1]);
    const Shape wanted(sizes, at.location());
    return wanted == x.shape() ? x : expand(at(x), wanted);
  };
  return {widened(a.tensor()), widened(b)};
}

Shape with_matrix(const Shape& shape, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> sizes(shape.dims().begin(), shape.dims().end());
  sizes[sizes.size() - 2] = rows;
  sizes[sizes.size() - 1] = columns;
  return Shape(sizes);
}

Shape with_row(const Shape& shape, std::int64_t size) {
  std::vector<std::int64_t> sizes(shape.dims().begin(), shape.dims().end() - 2);
  if (size >= 0) {
    sizes.push_back(size);
  }
  return Shape(sizes);
}

Tensor packed_row(const Tensor& packed, std::int64_t& offset, std::int64_t size, const At& at) {
  const std::int64_t start = offset;
  offset += size;
  return slice(at(packed), -1, {.start = start, .stop = offset});
}

Tensor packed_matrix(const Tensor& packed,
                     std::int64_t& offset,
                     std::int64_t rows,
                     std::int64_t columns,
                     const At& at) {
  Tensor part = packed_row(packed, offset, rows * columns, at);
  std::vector<std::int64_t> sizes(part.shape().dims().begin(), part.shape().dims().end() - 1);
  sizes.push_back(rows);
  sizes.push_back(columns);
  return reshape(at(std::move(part)), sizes);
}

}  // namespace hearth::detail
