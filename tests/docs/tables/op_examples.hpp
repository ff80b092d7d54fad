// A call of each public function that makes tensors, for the page of ops to find out what it takes
// and what it is made of. A new function gets its call here.
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

/// Operands of one element type. Each is made once, so that a second call computes nothing else.
class OpInputs final {
 public:
  OpInputs(Device on, DType type) : device(std::move(on)), dtype(type) {}

  /// Positive values of the type. Times the factor, where there is one, so that they are tracked.
  [[nodiscard]] Tensor x(const Shape& shape = {2, 3});
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
  /// What it does, where neither its header nor the op table says.
  std::string doc = {};
};
[[nodiscard]] const std::vector<OpExample>& op_examples();

}  // namespace hearth::docs
