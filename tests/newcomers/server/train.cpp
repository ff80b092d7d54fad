// A model in a server, part one: trains it and saves the weights.
#include "digits_model.hpp"

int main() {
  const hearth::Runtime runtime;
  hearth::Generator generator(1);
  const hearth::ImageDataset digits(hearth::make_digits({.count = 2000}));
  hearth::TrainerOptions options{.epochs = 3, .folder = "digits"};
  hearth::Trainer trainer(
      runtime, DigitsModel(runtime.device(), generator), hearth::CrossEntropyLoss(), options);
  trainer.fit(digits);
}
