// Data-parallel training: one model on several devices, which share each batch. Uses two CPU
// devices, or those that HEARTH_DEVICES names. `mpirun -n 2 data_parallel` uses those of two
// processes.
#include <iostream>
#include <utility>
#include <vector>

#include <hearth/hearth.hpp>

struct Classifier {
  hearth::Linear inner, outer;
  hearth::Tensor forward(const hearth::Tensor& pixels) const {
    return outer.forward(relu(inner.forward(flatten(pixels, 1))));
  }
  HEARTH_MODULE(Classifier, inner, outer)
};

int main() {
  // The processes that mpirun or srun started; without them, this one.
  const hearth::ProcessGroup group = hearth::ProcessGroup::from_environment();
  const hearth::Runtime runtime({.cpu_device_count = 2});
  const std::vector<hearth::Device> devices = runtime.devices();
  hearth::Generator generator(1);
  Classifier model{{{.in = 784, .out = 64}, devices[0], generator},
                   {{.in = 64, .out = 10}, devices[0], generator}};

  // The loss of a worker's part of a batch. It runs on the worker's thread, next to the worker's
  // device.
  const auto loss =
      [](const Classifier& replica, hearth::HostBatch& batch, hearth::WorkerContext& worker) {
        const hearth::Tensor pixels = std::move(batch.examples.inputs).to(worker.device);
        const hearth::Tensor labels = std::move(batch.examples.targets).to(worker.device);
        return hearth::cross_entropy(replica.forward(pixels), labels);
      };
  // The trainer takes the model and gives every device a replica. Gradients are summed while the
  // backward sweep still runs.
  hearth::DataParallel<Classifier, hearth::HostBatch> trainer(
      runtime,
      std::move(model),
      loss,
      {.devices = devices,
       .optimizer = hearth::Adam::Config{.learning_rate = 2e-3},
       .processes = group});

  // The loader gives each rank of this process its part of a batch of 50.
  const hearth::ImageDataset digits(hearth::make_digits({.count = 1000}));
  hearth::ShardedLoader loader(
      digits, runtime.executor(), {.batch_size = 50, .seed = 1}, trainer.ranks());
  for (int epoch = 0; epoch < 5; ++epoch) {
    hearth::DataParallelReport report;
    for (auto shards = loader.next(); !shards.empty(); shards = loader.next()) {
      report = trainer.step(std::move(shards));
    }
    if (group.is_first()) {
      std::cout << "epoch " << epoch + 1 << ", step " << report.step << ": loss " << report.loss
                << "\n";
    }
  }

  // The model comes back and is an ordinary value again.
  const Classifier trained = trainer.take_model();
  if (group.is_first()) {
    std::cout << hearth::parameter_count(trained) << " parameters, trained in "
              << trainer.statistics().steps << " steps\n";
  }
  return 0;
}
