// Options of train_gpt. A part of train_gpt.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace train_gpt {

struct Size {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
};

struct Options {
  std::string size = "10m";
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t context = 128;
  std::int64_t batch_size = 8;
  std::int64_t accumulate = 1;
  std::int64_t epochs = 1;
  std::int64_t steps = 0;
  std::int64_t warmup = 10;
  std::int64_t report_every = 10;
  std::int64_t save_every = 0;
  std::uint64_t seed = 1;
  double learning_rate = 6e-4;
  double peak_tflops = 0;
  std::string precision = "f32";
  std::vector<std::string> devices = {"auto"};
  std::string text;
  std::string folder;
  bool resume = false;
  bool tf32 = false;
};

/// Returns the exit code, or nullopt if the program continues.
inline std::optional<int> parse(int argc, char** argv, Options& options) {
  static const std::map<std::string, Size> kSizes = {
      {"10m", {6, 384, 6}}, {"25m", {8, 512, 8}}, {"85m", {12, 768, 12}}, {"300m", {24, 1024, 16}}};
  CLI::App app{"Trains a GPT on the bytes of a text."};
  app.option_defaults()->always_capture_default();
  app.add_option("--size", options.size, "parameters of the model")
      ->check(CLI::IsMember({"10m", "25m", "85m", "300m"}));
  app.add_option("--layers", options.layers, "in place of the size's")->check(CLI::Range(0, 1000));
  app.add_option("--width", options.width, "in place of the size's")->check(CLI::Range(0, 65536));
  app.add_option("--heads", options.heads, "in place of the size's")->check(CLI::Range(0, 1024));
  app.add_option("--context", options.context, "bytes in a window")->check(CLI::Range(1, 65536));
  app.add_option("--batch-size", options.batch_size, "windows in a batch, over all devices")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--accumulate", options.accumulate, "batches in a step")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--epochs", options.epochs, "times over the text")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--steps", options.steps, "end after N steps; 0: never")
      ->check(CLI::Range(0, 1'000'000'000));
  app.add_option("--lr", options.learning_rate, "highest learning rate")
      ->check(CLI::Range(1e-9, 1e3));
  app.add_option("--warmup", options.warmup, "steps in which the rate rises")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--precision", options.precision, "type of products and activations")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_flag(
      "--tensor-float", options.tf32, "round f32 products of CUDA devices to TF32; without it: no");
  app.add_option("--devices", options.devices, "they share each batch; auto: the best")
      ->delimiter(',');
  app.add_option("--text", options.text, "file to learn; without it, counting in words");
  app.add_option("--folder", options.folder, "for weights, state and figures; without it, none");
  app.add_option("--save-every", options.save_every, "steps between saves; 0: after each epoch")
      ->check(CLI::Range(0, 1'000'000'000));
  app.add_flag("--resume", options.resume, "go on with the run in the folder");
  app.add_option("--report-every", options.report_every, "steps between lines")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--peak-tflops",
                 options.peak_tflops,
                 "nominal rate of a device, for its utilisation; 0: that of a known GPU")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--seed", options.seed, "of weights and order")->check(CLI::Range(0, 1'000'000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const Size size = kSizes.at(options.size);
  options.layers = options.layers == 0 ? size.layers : options.layers;
  options.width = options.width == 0 ? size.width : options.width;
  options.heads = options.heads == 0 ? size.heads : options.heads;
  return std::nullopt;
}

}  // namespace train_gpt
