// A CSV file becomes a model: what is a house worth? Numbers are standardised, texts become
// categories, gaps are filled; a small network learns from four fifths of the rows and is tried on
// the others.
//   HEARTH_DATA_DIR=... housing    reads california_housing/housing.csv there
// Without the variable it makes up a district and its prices.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <random>
#include <string>
#include <utility>

#include <hearth/modules/activations.hpp>
#include <hearth/modules/adam.hpp>
#include <hearth/modules/csv.hpp>
#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/modules/table_encoder.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

hearth::CsvTable made_up_houses() {
  std::mt19937 random(1);
  const auto draw = [&] { return static_cast<double>(random() % 1000) / 1000; };
  const char* const places[] = {"INLAND", "NEAR BAY", "ISLAND"};
  std::string text = "rooms,age,income,place,median_house_value\n";
  for (int i = 0; i < 2000; ++i) {
    const double rooms = 2 + 8 * draw();
    const double age = 50 * draw();
    const double income = 1 + 9 * draw();
    const auto place = random() % 3;
    const double value = 20'000 * rooms + 9'000 * income * static_cast<double>(place + 1) -
                         500 * age + 5'000 * draw();
    text += std::to_string(rooms) + "," + (i % 50 == 0 ? "" : std::to_string(age)) + "," +
            std::to_string(income) + "," + places[place] + "," + std::to_string(value) + "\n";
  }
  return hearth::parse_csv(text);
}

hearth::CsvTable houses() {
  const char* const folder = std::getenv("HEARTH_DATA_DIR");  // NOLINT(concurrency-mt-unsafe)
  return folder == nullptr
             ? made_up_houses()
             : hearth::read_csv(std::filesystem::path(folder) / "california_housing/housing.csv");
}

int main() try {
  const hearth::Runtime runtime;
  const hearth::Device device = runtime.device("cpu:0");
  const hearth::TableSplit rows = hearth::split_rows(houses(), 0.8, 1);
  const hearth::TableEncoder encoder(rows.train, {.target = "median_house_value"});
  const hearth::ArrayDataset train = encoder.encode(rows.train);
  const hearth::ArrayDataset test = encoder.encode(rows.test);

  hearth::Generator generator(1);
  auto model =
      hearth::Sequential(hearth::Linear({.in = encoder.width(), .out = 128}, device, generator),
                         hearth::Relu{},
                         hearth::Linear({.in = 128, .out = 64}, device, generator),
                         hearth::Relu{},
                         hearth::Linear({.in = 64, .out = 1}, device, generator));
  hearth::AdamW optimizer({.learning_rate = 3e-3, .weight_decay = 1e-2});
  hearth::DataLoader loader(train, runtime.executor(), {.batch_size = 64});
  for (int epoch = 1; epoch <= 40; ++epoch) {
    double last_loss = 0;
    while (const auto batch = loader.next(device)) {
      auto [loss, gradients] = hearth::value_and_grad(model, [&](const auto& tracked) {
        return huber_loss(tracked.forward(batch->inputs), batch->targets);
      });
      auto report = optimizer.step(model, std::move(gradients));
      last_loss = loss.item();
    }
    std::printf("epoch %2d: loss of the last batch %.4f\n", epoch, last_loss);
    optimizer.set_learning_rate(optimizer.learning_rate() * 0.93);
  }

  hearth::Examples held_out = test.examples();
  const hearth::Tensor truth = std::move(held_out.targets).to(device);
  const hearth::Tensor guess = model.forward(std::move(held_out.inputs).to(device));
  const double r2 = 1 - (mse_loss(guess, truth) / var(truth, {}, {.correction = 0})).item();
  const double off = encoder.target_value(l1_loss(guess, truth).item()) - encoder.target_value(0);
  std::printf("held-out rows: R2 %.3f; a guess is off by %.0f in the mean\n", r2, off);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "housing: %s\n", error.what());
  return 1;
}
