// Matrix products.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

namespace hearth::onnx {
namespace product_ops {
namespace {

// The device multiplies floats; whole numbers are multiplied in f64, which is exact below 2^53.
Tensor product(const Call& call, Tensor a, Tensor b) {
  if (is_float(a.dtype())) {
    return matmul(std::move(a), std::move(b));
  }
  constexpr std::int64_t kMostExact = std::int64_t{1} << 20;
  if (a.dtype() == DType::i64 || a.size(-1) > kMostExact) {
    call.refuse("products of {} are not exact in f64", name(a.dtype()));
  }
  return matmul(cast(std::move(a), DType::f64), cast(std::move(b), DType::f64));
}

void multiply(Call& call) {
  const OnnxType type = call.type(0);
  Tensor a = call.take(0);
  call.give(product(call, std::move(a), call.take(1)), type);
}

// alpha·A·B + beta·C.
void general(Call& call) {
  const OnnxType type = call.type(0);
  const double alpha = call.node().real("alpha", 1);
  const double beta = call.node().real("beta", 1);
  Tensor a = call.take(0);
  Tensor b = call.take(1);
  if (call.node().integer("transA", 0) != 0) {
    a = transpose(std::move(a));
  }
  if (call.node().integer("transB", 0) != 0) {
    b = transpose(std::move(b));
  }
  const bool is_bias = call.has(2) && alpha == 1 && beta == 1 && is_float(type) &&
                       call.rank(2) == 1 && call.shape(2)[0] == b.size(1);
  if (is_bias) {
    call.give(matmul(std::move(a), std::move(b), call.take(2)), type);
    return;
  }
  Tensor result = product(call, std::move(a), std::move(b));
  if (alpha != 1) {
    result = mul(std::move(result), alpha);
  }
  if (call.has(2) && beta != 0) {
    Tensor c = call.take(2);
    result = add(std::move(result), beta == 1 ? std::move(c) : mul(std::move(c), beta));
  }
  call.give(std::move(result), type);
}

void sum_products(Call& call) {
  const OnnxType type = call.type(0);
  std::vector<Tensor> operands;
  for (std::size_t i = 0; i < call.count(); ++i) {
    operands.push_back(call.take(i));
  }
  call.give(einsum(call.node().text("equation", ""), operands), type);
}

constexpr OpRow kRows[] = {
    {.op = "MatMul", .run = multiply},
    {.op = "Gemm", .run = general},
    {.op = "Einsum", .since = 12, .run = sum_products},
};

}  // namespace
}  // namespace product_ops

std::span<const OpRow> product_rows() {
  return product_ops::kRows;
}

}  // namespace hearth::onnx
