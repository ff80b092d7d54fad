// Options of concurrent_inference. A part of concurrent_inference.cpp.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace concurrent_inference {

struct Options {
  int clients = 16;
  double seconds = 5;
  std::string weights;
  std::string data;  // empty: the training data of the weights
  std::vector<std::string> devices = {"cpu:0", "cpu:1"};
  double limit_ms = 0;  // of a request; 0: no limit
  // offered load as a multiple of the capacity; 0: each client waits for its last answer
  double load = 0;
};

/// Returns the exit code, or nullopt if the program continues.
inline std::optional<int> parse(int argc, char** argv, Options& options) {
  CLI::App app("Many client threads request the classes of images from one model.");
  app.add_option("--clients", options.clients, "client threads")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  const auto is_positive = [](const std::string& text) {
    const double number = std::strtod(text.c_str(), nullptr);
    return number > 0 && number <= 1e6 ? "" : text + " is not above 0 and at most 1000000";
  };
  app.add_option("--seconds", options.seconds, "how long, in seconds")
      ->check(is_positive)
      ->capture_default_str();
  CLI::Option* const limit =
      app.add_option("--limit-ms",
                     options.limit_ms,
                     "milliseconds that a request may take; without: any, with --load 50")
          ->check(is_positive);
  app.add_option("--load",
                 options.load,
                 "how many times as many requests as the machine can bear, which is measured "
                 "first; without: each client sends a request when it has its answer")
      ->check(is_positive);
  app.add_option(
      "--weights",
      options.weights,
      "folder or file that train_mnist has saved; without: checkpoints/mnist, or a small "
      "network trained now");
  app.add_option("--data",
                 options.data,
                 "images to classify: builtin, mnist, or a folder; without: those of the training");
  app.add_option("--devices", options.devices, "devices, each with a copy of the weights")
      ->delimiter(',')
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  if (options.load > 0 && limit->empty()) {
    options.limit_ms = 50;
  }
  return std::nullopt;
}

}  // namespace concurrent_inference
