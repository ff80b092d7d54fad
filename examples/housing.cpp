// A CSV file becomes a model of house prices. Numbers are standardised, texts become categories,
// and gaps are filled. A small network learns from four fifths of the rows.
//   HEARTH_DATA_DIR=... housing    reads california_housing/housing.csv there
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <hearth/hearth.hpp>

#include "made_up_houses.hpp"

int main() try {
  const char* const data = std::getenv("HEARTH_DATA_DIR");  // NOLINT(concurrency-mt-unsafe)
  const std::filesystem::path file = "california_housing/housing.csv";
  const auto rows =
      hearth::split_rows(data ? hearth::read_csv(data / file) : made_up_houses(), 0.8);
  const hearth::TableEncoder encoder(rows.train, {.target = "median_house_value"});
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.devices().front();
  hearth::Generator random(1);
  const hearth::Linear first({.in = encoder.width(), .out = 128}, device, random);
  const hearth::Linear second({.in = 128, .out = 64}, device, random);
  const hearth::Linear last({.in = 64, .out = 1}, device, random);
  const hearth::Sequential model(first, hearth::Relu(), second, hearth::Relu(), last);
  hearth::TrainerOptions options{.epochs = 40, .schedule = hearth::CosineRate{}, .batch_size = 64};
  options.optimizer = hearth::AdamW::Config{.learning_rate = 3e-3};
  options.metrics = {hearth::r_squared_metric()};
  hearth::Trainer trainer(runtime, model, hearth::MeanSquaredLoss(), options);
  const auto result = trainer.fit(encoder.encode(rows.train), encoder.encode(rows.test));
  std::cout << "held-out rows: R2 " << result.history.epochs.back().metrics.front()
            << "\na step takes "
            << std::chrono::duration<double, std::milli>(result.median_step).count() << " ms\n";
} catch (const std::exception& error) {
  std::cerr << "housing: " << error.what() << "\n";
  return 1;
}
