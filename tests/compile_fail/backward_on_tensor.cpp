// Only grad and value_and_grad compute gradients: there is no backward() to call without a tape.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

std::vector<hearth::Tensor> differentiate(const std::vector<hearth::Tensor>& inputs) {
#ifdef HEARTH_MUST_FAIL
  hearth::Tensor loss = sum(square(inputs[0]));
  loss.backward();
  return inputs;
#else
  return hearth::grad([](const std::vector<hearth::Tensor>& x) { return sum(square(x[0])); },
                      inputs);
#endif
}
