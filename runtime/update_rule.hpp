// UpdateRule: the update of a parameter by an optimizer of your own, as a function over plain ops.
// The function is called twice for each element type and becomes one fused kernel;
// UpdateGroup::update() runs it, with one record for each parameter. Owned by the optimizer; copies
// share the captured function. Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

struct Expression;

class UpdateRule final {
 public:
  /// Arguments of the function: tensors without values, all of one shape, which is [1] in one call
  /// and has several long axes in the other. Numbers that change from step to step are scalars; all
  /// others become constants. All have the parameter's type; for f16 and bf16 parameters they are
  /// f32, and only the new parameter is rounded.
  struct Operands {
    Tensor parameter;
    Tensor gradient;
    std::vector<Tensor> state;
    std::vector<Tensor> scalars;
    std::vector<Tensor> inputs;
  };
  /// Returns the new parameter, then the new state. Uses elementwise ops of hearth/runtime/ops.hpp,
  /// the same ones in each call. A device may have no room for a long function (custom_op.hpp has
  /// the CPU's limit): then the update fails.
  using Function = std::function<std::vector<Tensor>(const Operands& operands)>;
  struct Config {
    std::string name;      ///< Name in errors.
    int state_count = 0;   ///< Tensors of state for each parameter.
    int scalar_count = 0;  ///< Numbers passed with each step.
    int input_count = 0;   ///< Tensors that each update reads and does not replace.
  };
  /// A captured rule.
  struct Captured {
    std::shared_ptr<const Expression> expression;
    std::vector<std::uint8_t> scalars;  ///< The scalars that the function uses, in order.
  };

  /// Errors: ArgumentError for a rule without a name or function, or with too many operands; the
  /// text has the limits.
  UpdateRule(Config config, Function function, SourceLoc loc = SourceLoc::current());

  [[nodiscard]] const Config& config() const noexcept { return config_; }

  // ---- for the library ----
  /// The expression for parameters and gradients of these float types. A conditional one has a
  /// bool as its last input; where it is false, parameter and state stay.
  /// Errors: ArgumentError for a function that is not elementwise, reads a value, uses a tensor
  /// that is no operand, or ignores a tensor; ArgumentError for another number of results or
  /// other result types. Exceptions of the function pass through.
  [[nodiscard]] const Captured& expression(DType parameter,
                                           DType gradient,
                                           bool is_conditional = false);

 private:
  Config config_;
  Function function_;
  SourceLoc location_;
  /// By the types of parameter and gradient, and whether it is conditional.
  std::map<std::tuple<DType, DType, bool>, Captured> expressions_;
};

}  // namespace hearth
