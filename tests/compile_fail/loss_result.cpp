// A function for value_and_grad, grad and DataParallel returns its loss as a Tensor.
#include <utility>
#include <vector>

#include <hearth/hearth.hpp>

hearth::Tensor loss_of(const hearth::Linear& model, const hearth::Tensor& x) {
  return sum(model.forward(x));
}

#if defined(HEARTH_NUMBER)
#define HEARTH_RESULT loss_of(tracked, x).item()
#elif defined(HEARTH_NOTHING)
#define HEARTH_RESULT static_cast<void>(loss_of(tracked, x))
#elif defined(HEARTH_SECOND)
#define HEARTH_RESULT std::pair(1.0, loss_of(tracked, x))
#else
#define HEARTH_RESULT std::pair(loss_of(tracked, x), 1.0)
#endif

#if defined(HEARTH_MUTABLE)
#define HEARTH_TRACKED hearth::Linear& tracked
#elif defined(HEARTH_TWO)
#define HEARTH_TRACKED const hearth::Linear &tracked, int
#else
#define HEARTH_TRACKED const hearth::Linear& tracked
#endif

void differentiate(const hearth::Linear& model, const hearth::Tensor& x) {
  auto [loss, gradients] =
      hearth::value_and_grad(model, [&](HEARTH_TRACKED) { return HEARTH_RESULT; });
  static_cast<void>(loss);
  static_cast<void>(gradients.norm());
}

std::vector<hearth::Tensor> slopes(const std::vector<hearth::Tensor>& inputs) {
  return hearth::grad(
      [](const std::vector<hearth::Tensor>& in) {
#ifdef HEARTH_SLOPES
        return sum(in[0]).item();
#else
        return sum(in[0]);
#endif
      },
      inputs);
}

void train(const hearth::Runtime& runtime, const hearth::Linear& model) {
  hearth::DataParallel<hearth::Linear, hearth::HostBatch> trainer(
      runtime,
      model,
      [](const hearth::Linear& replica, hearth::HostBatch&, hearth::WorkerContext&) {
#ifdef HEARTH_PARALLEL
        return sum(replica.weight).item();
#else
        return sum(replica.weight);
#endif
      },
      {});
}
