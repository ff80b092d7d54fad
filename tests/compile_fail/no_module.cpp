// A struct without HEARTH_MODULE where a module is required: one use a case. The control case has
// HEARTH_MODULE and compiles all uses.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <hearth/hearth.hpp>

struct Net {
  hearth::Linear inner;
  [[nodiscard]] hearth::Tensor forward(const hearth::Tensor& x) const { return inner.forward(x); }
#ifndef HEARTH_MUST_FAIL
  HEARTH_MODULE(Net, inner)
#define HEARTH_SAVED
#define HEARTH_LOADED
#define HEARTH_DIFFERENTIATED
#define HEARTH_TRAINED
#define HEARTH_PARALLEL
#define HEARTH_FORKED
#define HEARTH_FROZEN
#define HEARTH_STEPPED
#define HEARTH_IN_SEQUENTIAL
#define HEARTH_SERVED
#define HEARTH_COUNTED
#define HEARTH_CAST
#define HEARTH_AVERAGED
#define HEARTH_AVERAGE_TAKEN
#define HEARTH_SUMMARISED
#define HEARTH_MEMBER
#define HEARTH_LISTED
#endif
};

#ifdef HEARTH_SAVED
void save(const Net& net) {
  hearth::save_weights(net, "folder");
}
#endif

#ifdef HEARTH_LOADED
void load(Net& net) {
  hearth::load_weights(net, "folder");
}
#endif

#ifdef HEARTH_DIFFERENTIATED
double differentiate(const Net& net, const hearth::Tensor& x) {
  auto [loss, gradients] =
      hearth::value_and_grad(net, [&](const Net& tracked) { return sum(tracked.forward(x)); });
  return loss.item() + gradients.norm().item();
}
#endif

#ifdef HEARTH_TRAINED
void train(const hearth::Runtime& runtime, const Net& net, const hearth::Dataset& data) {
  hearth::Trainer trainer(runtime, net, hearth::CrossEntropyLoss(), {.epochs = 2});
  trainer.fit(data);
}
#endif

#ifdef HEARTH_PARALLEL
void step(const hearth::Runtime& runtime, const Net& net, std::vector<hearth::HostBatch> batch) {
  hearth::DataParallel<Net, hearth::HostBatch> trainer(
      runtime,
      net,
      [](const Net& replica, hearth::HostBatch&, hearth::WorkerContext&) {
        return sum(replica.inner.weight);
      },
      {});
  trainer.step(std::move(batch));
}
#endif

#ifdef HEARTH_FORKED
void copy(const Net& net, const hearth::Device& device) {
  const Net forked = hearth::fork(net, device);
}
#endif

#ifdef HEARTH_FROZEN
void freeze_it(const Net& net) {
  static_cast<void>(hearth::freeze(net));
}
#endif

#ifdef HEARTH_STEPPED
void update(hearth::Sgd& sgd, Net& net, hearth::Gradients gradients) {
  static_cast<void>(sgd.step(net, std::move(gradients)));
}
#endif

#ifdef HEARTH_SERVED
void serve(const Net& net) {
  const hearth::ServedModel place(hearth::freeze(net));
}
void find(hearth::ServedModel<Net>& place) {
  static_cast<void>(place);
}
#endif

#ifdef HEARTH_COUNTED
std::int64_t count(const Net& net) {
  return hearth::parameter_count(net);
}
#endif

#ifdef HEARTH_CAST
Net halve(const Net& net) {
  return hearth::to_dtype(net, hearth::DType::f16);
}
#endif

#ifdef HEARTH_AVERAGED
void average(hearth::WeightAverage& average, Net& net) {
  average.update(net);
}
#endif

#ifdef HEARTH_AVERAGE_TAKEN
Net averaged(const hearth::WeightAverage& average, const Net& net) {
  return average.applied_to(net);
}
#endif

#ifdef HEARTH_SUMMARISED
std::string describe(const Net& net) {
  return hearth::model_summary(net).to_string();
}
#endif

#ifdef HEARTH_IN_SEQUENTIAL
void put_in_line(const Net& net) {
  const hearth::Sequential layers(hearth::Flatten(), net);
}
#endif

#ifdef HEARTH_MEMBER
struct Whole {
  Net net;
  HEARTH_MODULE(Whole, net)
};
void save_whole(const Whole& whole) {
  hearth::save_weights(whole, "folder");
}
#endif

#ifdef HEARTH_LISTED
struct Row {
  std::vector<Net> nets;
  HEARTH_MODULE(Row, nets)
};
void save_row(const Row& row) {
  hearth::save_weights(row, "folder");
}
#endif
