// What train_mnist prints and writes of a run. A part of train_mnist.cpp.
#pragma once

#include "train_mnist_options.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace train_mnist {

using Clock = std::chrono::steady_clock;

/// Where Ctrl-C or SIGTERM ended the run.
struct Interruption {
  int epoch = 0;
  std::int64_t batch = 0;  ///< So many batches of the epoch are trained.
  std::int64_t batches = 0;
};

/// One line that is drawn again and again on a terminal, and once an epoch elsewhere.
class ProgressBar {
 public:
  explicit ProgressBar(int epochs) : epochs_(epochs), is_terminal_(isatty(STDOUT_FILENO) == 1) {}

  void show(
      int epoch, std::int64_t batch, std::int64_t batches, double loss, double samples_per_s) {
    const auto now = Clock::now();
    if (!is_terminal_ || (batch != batches && now - last_ < std::chrono::milliseconds(80))) {
      return;
    }
    last_ = now;
    constexpr std::int64_t kWidth = 20;  // 75 columns in all: a terminal of 80 must not wrap
    const auto filled = static_cast<std::size_t>(kWidth * batch / batches);
    std::string bar(filled, '#');
    bar.resize(kWidth, '.');
    std::printf("\repoch %d/%d [%s] %4ld/%ld  loss %.4f  %7.0f samples/s ",
                epoch,
                epochs_,
                bar.c_str(),
                batch,
                batches,
                loss,
                samples_per_s);
    std::fflush(stdout);
  }
  /// Of an epoch that was interrupted, how far it came.
  void end_epoch(int epoch,
                 double loss,
                 double accuracy,
                 double samples_per_s,
                 const std::optional<Interruption>& interruption) const {
    const std::string how_far =
        interruption ? " interrupted after " + std::to_string(interruption->batch) + " of " +
                           std::to_string(interruption->batches) + " batches, saving:"
                     : "";
    std::printf("%sepoch %d/%d%s  loss %.4f  test accuracy %.2f %%  %.0f samples/s%s\n",
                is_terminal_ ? "\r" : "",
                epoch,
                epochs_,
                how_far.c_str(),
                loss,
                accuracy * 100,
                samples_per_s,
                is_terminal_ ? "                " : "");
    std::fflush(stdout);
  }

 private:
  int epochs_;
  bool is_terminal_;
  Clock::time_point last_;
};

struct Result {
  std::vector<double> train_loss;  ///< Of each epoch.
  double test_accuracy = 0;
  double samples_per_s = 0;
  double median_step_us = 0;
  std::vector<std::int64_t> peak_bytes;
  std::optional<Interruption> interruption;
};

inline void write_json(const Options& options, const Result& result) {
  nlohmann::json object = {
      {"devices", options.devices},
      {"epochs", result.train_loss.size()},  // the last in part, if interrupted
      {"train_loss", result.train_loss},
      {"test_accuracy", result.test_accuracy},
      {"samples_per_s", result.samples_per_s},
      {"step_us", result.median_step_us},
      {"peak_bytes", result.peak_bytes}};
  object["interrupted"] = nullptr;
  if (result.interruption) {
    object["interrupted"] = {{"epoch", result.interruption->epoch},
                             {"batches", result.interruption->batch},
                             {"of", result.interruption->batches}};
  }
  std::ofstream file(options.json);
  file << object.dump(2) << "\n";
  if (!file.flush()) {
    throw std::runtime_error("cannot write " + options.json);
  }
}

}  // namespace train_mnist
