// Options of train_mnist. A part of train_mnist.cpp.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace train_mnist {

struct Options {
  std::string data = "builtin";
  std::vector<std::string> devices = {"cpu:0", "cpu:1"};
  std::string model = "cnn";
  int epochs = 3;
  std::int64_t batch_size = 64;
  std::string optimizer = "adam";
  double learning_rate = 1e-3;
  std::string precision = "f32";
  std::uint64_t seed = 1;
  std::string checkpoint = "checkpoints/mnist";
  std::string json;
  int save_every = 0;
  bool resume = false;
};

/// Returns the exit code, or nullopt if the program continues.
inline std::optional<int> parse(int argc, char** argv, Options& options) {
  CLI::App app{"Trains a small network on digits, data-parallel on several devices."};
  app.add_option("--data",
                 options.data,
                 "builtin, mnist ($HEARTH_DATA_DIR/mnist), or a folder with IDX files")
      ->capture_default_str();
  app.add_option("--devices", options.devices, "devices, with commas between them")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--model", options.model, "the network")
      ->check(CLI::IsMember({"mlp", "cnn"}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "times over the images")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "the global batch, divided among the devices")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--optimizer", options.optimizer, "sgd has momentum 0.9")
      ->check(CLI::IsMember({"sgd", "adam", "adamw"}))
      ->capture_default_str();
  app.add_option("--lr", options.learning_rate, "learning rate")
      ->check([](const std::string& text) {
        const double rate = std::strtod(text.c_str(), nullptr);
        return rate > 0 && rate <= 1e3 ? "" : text + " is not above 0 and at most 1000";
      })
      ->capture_default_str();
  app.add_option("--precision", options.precision, "type of the forward pass; weights are f32")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of weights and order")
      ->check([](const std::string& text) {
        const bool is_number =
            text.size() <= 19 && text.find_first_not_of("0123456789") == std::string::npos;
        return is_number ? "" : text + " is no whole number of at most 19 digits";
      })
      ->capture_default_str();
  app.add_option("--checkpoint", options.checkpoint, "folder for weights and training state")
      ->capture_default_str();
  app.add_option("--save-every", options.save_every, "batches between saves; 0: after each epoch")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  app.add_flag("--resume", options.resume, "go on with the run in the checkpoint folder");
  app.add_option(
      "--json", options.json, "file for one JSON object with the figures; without: none");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return std::nullopt;
}

}  // namespace train_mnist
