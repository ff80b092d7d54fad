// A Trainer's loss function that cannot be called, or returns what is no loss; and one with
// overloads, which is taken.
#include <hearth/hearth.hpp>

struct Net {
  hearth::Linear inner;
  [[nodiscard]] hearth::Tensor forward(const hearth::Tensor& x) const { return inner.forward(x); }
  HEARTH_MODULE(Net, inner)
};

void use(const hearth::Runtime& runtime, const Net& net, const hearth::Dataset& data) {
#if defined(HEARTH_ARGUMENTS)
  const auto loss = [](const hearth::Tensor& outputs) { return sum(outputs); };
#elif defined(HEARTH_RESULT)
  const auto loss = [](const hearth::Tensor& outputs, const hearth::Tensor& targets) {
    return cross_entropy(outputs, targets).item();
  };
#else
  const auto loss = [](const hearth::Tensor& outputs, const hearth::Tensor& targets) {
    return cross_entropy(outputs, targets);
  };
  hearth::Trainer overloaded(runtime, net, hearth::cross_entropy, {.epochs = 2});
#endif
  hearth::Trainer trainer(runtime, net, loss, {.epochs = 2});
  trainer.fit(data);
}
