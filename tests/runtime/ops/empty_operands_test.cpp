// Every op and its gradient accept tensors without elements where the op's rule allows them: the
// cpu's results are those of the reference.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace hearth {
namespace {

using Op = std::function<Tensor(const Tensor&)>;
struct NamedOp {
  const char* name;
  Op op;
};

const std::vector<NamedOp>& ops() {
  static const std::vector<NamedOp> all{
      {"neg", [](const Tensor& x) { return -x; }},
      {"exp", [](const Tensor& x) { return exp(x); }},
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"cast", [](const Tensor& x) { return cast(cast(x, DType::f16), DType::f32); }},
      {"scalar", [](const Tensor& x) { return 2 / (x + 1); }},
      {"binary", [](const Tensor& x) { return x * x - maximum(x, x); }},
      {"where", [](const Tensor& x) { return where(less(x, 0), x, x * 2); }},
      {"sum", [](const Tensor& x) { return sum(x); }},
      {"mean", [](const Tensor& x) { return mean(x); }},
      {"sum of an axis", [](const Tensor& x) { return sum(x, 0); }},
      {"mean of an axis", [](const Tensor& x) { return mean(x, -1, {.keep_dims = true}); }},
      {"max", [](const Tensor& x) { return max(x, -1); }},
      {"min", [](const Tensor& x) { return min(x, 0); }},
      {"prod", [](const Tensor& x) { return prod(x, -1); }},
      {"cumsum", [](const Tensor& x) { return cumsum(x, 0); }},
      {"cumprod", [](const Tensor& x) { return cumprod(x, 0); }},
      {"cummax", [](const Tensor& x) { return cummax(x, -1); }},
      {"angles", [](const Tensor& x) { return atan2(asin(x), acos(x)); }},
      {"scatter",
       [](const Tensor& x) {
         return scatter(
             x, 0, zeros(x.device(), x.shape(), DType::i32), x, {.mode = ScatterMode::mul});
       }},
      {"log1p", [](const Tensor& x) { return log1p(expm1(x)); }},
      {"var", [](const Tensor& x) { return var(x, -1); }},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x, 0); }},
      {"clamp", [](const Tensor& x) { return clamp(x, -1, 1); }},
      {"tril", [](const Tensor& x) { return tril(x); }},
      {"gelu", [](const Tensor& x) { return silu(gelu(x)); }},
      {"softmax", [](const Tensor& x) { return softmax(x, -1); }},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x, 0); }},
      {"flatten", [](const Tensor& x) { return flatten(x); }},
      {"transpose", [](const Tensor& x) { return contiguous(transpose(x)); }},
      {"slice", [](const Tensor& x) { return slice(x, 0, {.start = 1, .step = 2}); }},
      {"reversed", [](const Tensor& x) { return contiguous(slice(x, -1, {.step = -1})); }},
      {"concat",
       [](const Tensor& x) {
         return concat({x, x}, 0);
       }},
      {"stack",
       [](const Tensor& x) {
         return stack({x, x}, -1);
       }},
      {"index_select",
       [](const Tensor& x) {
         return index_select(x, 0, zeros(x.device(), {x.size(0)}, DType::i64));
       }},
      {"gather",
       [](const Tensor& x) { return gather(x, 1, zeros(x.device(), x.shape(), DType::i32)); }},
      {"scatter_add",
       [](const Tensor& x) {
         return scatter_add(x, 0, zeros(x.device(), x.shape(), DType::i32), x);
       }},
      {"product", [](const Tensor& x) { return matmul(x, transpose(x)); }},
      {"inner product", [](const Tensor& x) { return matmul(transpose(x), x); }},
      {"convolution",
       [](const Tensor& x) {
         const Tensor image = unsqueeze(unsqueeze(x, 0), 0);
         const Tensor weight = ones(x.device(), {2, 1, 2, 2});
         return conv2d(image, weight, {.padding = {1, 1}});
       }},
      {"pools",
       [](const Tensor& x) {
         const Tensor images = expand(reshape(sum(x, {0, 1}), {1, 1, 1, 1}), {1, 0, 4, 4});
         return max_pool2d(images) + avg_pool2d(images);
       }},
      {"cross entropy",
       [](const Tensor& x) {
         const Tensor targets = zeros(x.device(), {x.size(0)}, DType::i64);
         return cross_entropy(x, targets);
       }},
  };
  return all;
}

const Shape kShapes[] = {{0, 3}, {3, 0}, {0, 0}, {0, 1}, {1, 0}};

// The result of an op or the text of its error, and those of its gradient.
struct Outcome {
  std::string text;

  static Outcome of(const Tensor& tensor) {
    std::string text = tensor.shape().to_string();
    for (const float value : tensor.to_vector<float>()) {
      text +=
          " " + std::to_string(value == value ? std::bit_cast<std::uint32_t>(value) : 0x7fc00000U);
    }
    return {text};
  }
  template <class Fn>
  static Outcome of_call(const Fn& fn) {
    try {
      return of(fn());
    } catch (const ArgumentError& error) {
      return {error.error().text};
    }
  }
};

TEST(EmptyOperands, OpsAndGradientsGiveWhatTheReferenceGives) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}, {.name = "reference:0"}}});
  for (const NamedOp& named : ops()) {
    for (const Shape& shape : kShapes) {
      std::vector<std::string> results;
      std::vector<std::string> gradients;
      for (const Device& device : runtime.devices()) {
        const Tensor x = zeros(device, shape);
        results.push_back(Outcome::of_call([&] { return named.op(x); }).text);
        gradients.push_back(Outcome::of_call([&] {
                              const auto loss = [&](const std::vector<Tensor>& inputs) {
                                return sum(named.op(inputs[0]));
                              };
                              return grad(loss, std::vector<Tensor>{x})[0];
                            }).text);
      }
      const std::string where = std::string(named.name) + " of " + shape.to_string();
      EXPECT_EQ(results[0], results[1]) << where;
      EXPECT_EQ(gradients[0], gradients[1]) << where;
      EXPECT_TRUE(gradients[0].starts_with(shape.to_string()) || gradients[0] == results[0])
          << where << ": " << gradients[0];
    }
  }
}

}  // namespace
}  // namespace hearth
