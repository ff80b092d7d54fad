// A struct without HEARTH_MODULE, where a module is needed.
#include <utility>
#include <vector>

#include <hearth/hearth.hpp>

struct Net {
  hearth::Linear inner;
  [[nodiscard]] hearth::Tensor forward(const hearth::Tensor& x) const { return inner.forward(x); }
#ifndef HEARTH_MUST_FAIL
  HEARTH_MODULE(Net, inner)
#endif
};

#if defined(HEARTH_SAVED)
void use(const Net& net) {
  hearth::save_weights(net, "folder");
}
#elif defined(HEARTH_LOADED)
void use(Net& net) {
  hearth::load_weights(net, "folder");
}
#elif defined(HEARTH_DIFFERENTIATED)
double use(const Net& net, const hearth::Tensor& x) {
  auto [loss, gradients] =
      hearth::value_and_grad(net, [&](const Net& tracked) { return sum(tracked.forward(x)); });
  return loss.item() + gradients.norm().item();
}
#elif defined(HEARTH_TRAINED)
void use(const hearth::Runtime& runtime, const Net& net, const hearth::Dataset& data) {
  hearth::Trainer trainer(runtime, net, hearth::CrossEntropyLoss(), {.epochs = 2});
  trainer.fit(data);
}
#elif defined(HEARTH_PARALLEL)
void use(const hearth::Runtime& runtime, const Net& net, std::vector<hearth::HostBatch> batch) {
  hearth::DataParallel<Net, hearth::HostBatch> trainer(
      runtime,
      net,
      [](const Net& replica, hearth::HostBatch&, hearth::WorkerContext&) {
        return sum(replica.inner.weight);
      },
      {});
  trainer.step(std::move(batch));
}
#elif defined(HEARTH_FORKED)
void use(const Net& net, const hearth::Device& device) {
  const Net copy = hearth::fork(net, device);
}
#elif defined(HEARTH_FROZEN)
void use(const Net& net) {
  static_cast<void>(hearth::freeze(net));
}
#elif defined(HEARTH_STEPPED)
void use(hearth::Sgd& sgd, Net& net, hearth::Gradients gradients) {
  static_cast<void>(sgd.step(net, std::move(gradients)));
}
#elif defined(HEARTH_IN_SEQUENTIAL)
void use(const Net& net) {
  const hearth::Sequential layers(hearth::Flatten(), net);
}
#else
struct Whole {
#ifdef HEARTH_LISTED
  std::vector<Net> nets;
  HEARTH_MODULE(Whole, nets)
#else
  Net net;
  HEARTH_MODULE(Whole, net)
#endif
};
void use(const Whole& whole) {
  hearth::save_weights(whole, "folder");
}
#endif
