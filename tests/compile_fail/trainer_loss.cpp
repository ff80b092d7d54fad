// A Trainer's loss function that cannot be called, or returns no loss; and names of overloaded
// functions or templates. Those with one match are accepted, others need a lambda.
#include <hearth/hearth.hpp>

#if defined(HEARTH_MUTABLE)
#define HEARTH_CONST
#else
#define HEARTH_CONST const
#endif

struct Net {
  hearth::Linear inner;
  [[nodiscard]] hearth::Tensor forward(const hearth::Tensor& x) HEARTH_CONST {
    return inner.forward(x);
  }
  HEARTH_MODULE(Net, inner)
};

hearth::Tensor ours(const hearth::Tensor& outputs, const hearth::Tensor& targets);
hearth::Tensor ours(const hearth::Tensor& outputs, const hearth::Tensor& targets, double weight);
template <class Outputs, class Targets>
hearth::Tensor any(Outputs outputs, Targets targets);
template <class Model>
hearth::Tensor whole(const Model& model,
                     const hearth::Batch& batch,
                     const hearth::LossContext& context);

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
#ifndef HEARTH_MUTABLE
  hearth::Trainer overloaded(runtime, net, hearth::cross_entropy, {.epochs = 2});
  hearth::Trainer of_ours(runtime, net, ours, {.epochs = 2});
  hearth::Trainer of_template(runtime, net, any, {.epochs = 2});
  hearth::Trainer of_one(runtime, net, whole<Net>, {.epochs = 2});
#endif
#endif
#if defined(HEARTH_TEMPLATE)
  hearth::Trainer refused(runtime, net, whole, {.epochs = 2});
#elif defined(HEARTH_OPTIONS)
  hearth::Trainer refused(runtime, net, loss, {.epoch = 2});
#endif
  hearth::Trainer trainer(runtime, net, loss, {.epochs = 2});
  trainer.fit(data);
}
