// A call of each public function that makes tensors. The page of ops derives the function's types
// and op kinds from it. A new function gets its call here.
// Owned by the program. Threads: one.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth::docs {

/// Operands of one element type. Each is made once, so that a second call computes only the op.
class OpInputs final {
 public:
  OpInputs(Device on, DType type) : device(std::move(on)), dtype(type) {}

  /// Positive values of the type. With a factor they are multiplied by it, so that they are
  /// tracked.
  [[nodiscard]] Tensor x(const Shape& shape = {2, 3});
  /// A matrix [3, 3] whose lower triangle is that of a positive definite one.
  [[nodiscard]] Tensor positive();
  [[nodiscard]] Tensor condition(const Shape& shape = {2, 3});
  /// i64: 0, 1, 0, 1, ...
  [[nodiscard]] Tensor index(const Shape& shape);

  Device device;
  DType dtype;
  Generator generator = Generator(1);
  std::optional<Tensor> factor;

 private:
  [[nodiscard]] const Tensor& kept(const std::string& what, DType type, const Shape& shape);

  std::map<std::string, Tensor> made_;
};

struct OpExample {
  std::string name;
  std::function<Tensor(OpInputs& in)> call;
  /// The function's description, where neither its header nor the op table has one.
  std::string doc = {};
};
[[nodiscard]] const std::vector<OpExample>& op_examples();

}  // namespace hearth::docs
