// A Trainer turns a model and data into a trained, saved model: epochs, figures, files and a
// report.
#include <utility>

#include <hearth/hearth.hpp>

int main() {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::Generator generator(1);
  const hearth::Linear inner({.in = 784, .out = 128}, device, generator);
  const hearth::Linear outer({.in = 128, .out = 10}, device, generator);
  const hearth::Sequential model(hearth::Flatten(), inner, hearth::Relu(), outer);
  const hearth::ImageDataset train(hearth::make_digits({.count = 4000}));
  const hearth::ImageDataset test(hearth::make_digits({.count = 1000, .first = 4000}));

  hearth::TrainerOptions options{.epochs = 5, .folder = "checkpoints/trainer"};
  options.metrics = {hearth::accuracy_metric()};
  hearth::Trainer trainer(runtime, model, hearth::CrossEntropyLoss(), options);
  trainer.fit(train, test);
}
