// UpdateRule: how an optimizer of your own updates a parameter, as a function over plain ops. It is
// called twice for each element type and becomes one fused kernel; UpdateGroup::update() runs it,
// at one record a parameter. Owned by the optimizer; a copy shares what was captured. Threads: one
// at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/tensor.hpp>

namespace hearth {

struct Expression;

class UpdateRule final {
 public:
  /// What the function is called with: tensors without values, all of one shape, which is [1] in
  /// one call and has several long axes in the other. Numbers that change from step to step are
  /// scalars, all others become constants. All have the parameter's type; of f16 and bf16
  /// parameters they are f32, and the new parameter alone is rounded.
  struct Operands {
    Tensor parameter;
    Tensor gradient;
    std::vector<Tensor> state;
    std::vector<Tensor> scalars;
  };
  /// Gives the new parameter, then the new state. Made of the ops of hearth/runtime/ops.hpp that go
  /// element by element, the same ones in each call. A device may have no room for a long one
  /// (custom_op.hpp has the CPU's limit): then the update fails.
  using Function = std::function<std::vector<Tensor>(const Operands& operands)>;
  struct Config {
    std::string name;      ///< What errors call it.
    int state_count = 0;   ///< Tensors of state for each parameter.
    int scalar_count = 0;  ///< Numbers given with each step.
  };

  /// Errors: ArgumentError for a rule without a name or function, or with more than 3 states or 32
  /// scalars.
  UpdateRule(Config config, Function function, SourceLoc loc = SourceLoc::current());

  [[nodiscard]] const Config& config() const noexcept { return config_; }

  // ---- for the library ----
  /// The rule for parameters and gradients of these float types. Errors: ArgumentError for a
  /// function that is not elementwise, reads a value, uses a tensor that is no operand, does not
  /// use all of its operands, or gives another number of results or other types; what the function
  /// throws.
  [[nodiscard]] const std::shared_ptr<const Expression>& expression(DType parameter,
                                                                    DType gradient);

 private:
  Config config_;
  Function function_;
  SourceLoc location_;
  /// By the types of parameter and gradient.
  std::map<std::pair<DType, DType>, std::shared_ptr<const Expression>> expressions_;
};

}  // namespace hearth
