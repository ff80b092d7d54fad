// A newcomer's model and CSV file: predicts the price of a house.
#include <hearth/hearth.hpp>

#include <cstdio>
#include <filesystem>
#include <string>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: program HOUSES.csv [EPOCHS]\n");
    return 2;
  }
  const hearth::TableSplit rows = hearth::split_rows(hearth::read_csv(argv[1]), 0.8, 1);
  const hearth::TableEncoder encoder(rows.train, {.target = "median_house_value"});
  const hearth::ArrayDataset train = encoder.encode(rows.train);
  const hearth::ArrayDataset test = encoder.encode(rows.test);

  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device();
  hearth::Generator generator(1);
  const hearth::Sequential model(
      hearth::Linear({.in = encoder.width(), .out = 128}, device, generator),
      hearth::Relu(),
      hearth::Linear({.in = 128, .out = 64}, device, generator),
      hearth::Relu(),
      hearth::Linear({.in = 64, .out = 1}, device, generator));

  hearth::TrainerOptions options{.epochs = argc > 2 ? std::stoi(argv[2]) : 30,
                                 .schedule = hearth::CosineRate{},
                                 .batch_size = 64,
                                 .metrics = {hearth::r_squared_metric()},
                                 .folder = "houses"};
  options.optimizer = hearth::AdamW::Config{.learning_rate = 3e-3, .weight_decay = 1e-2};
  hearth::Trainer trainer(runtime, model, hearth::MeanSquaredLoss(), options);
  trainer.fit(train, test);
  encoder.save("houses/encoder");
  std::printf("R2 %.3f\n", trainer.evaluate(test).metrics[0]);
}
