// Throughput of train_gpt. A part of train_gpt.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "train_gpt_options.hpp"

namespace train_gpt {

/// Operations of forward and backward pass for one token, each multiplication and addition counted.
/// `weights`: elements of the matrices of all products.
/// Source: Chowdhery et al., PaLM, arXiv:2204.02311, appendix B.
inline double flops_per_token(std::int64_t weights, const Options& options) {
  return 6.0 * static_cast<double>(weights) +
         12.0 * static_cast<double>(options.layers * options.width * options.context);
}

/// The nominal dense rate in operations a second, from the makers' data sheets; 0: not in the
/// table.
inline double nominal_rate(std::string_view description, const Options& options) {
  struct Card {
    std::string_view name;
    double half, tf32, f32;  // TFLOP/s
  };
  static constexpr Card kCards[] = {
      {"H200", 989.5, 494.7, 66.9}, {"H100", 989.5, 494.7, 66.9}, {"A100", 312, 156, 19.5}};
  if (options.peak_tflops > 0) {
    return options.peak_tflops * 1e12;
  }
  for (const Card& card : kCards) {
    if (description.find(card.name) != std::string_view::npos) {
      return 1e12 * (options.precision != "f32" ? card.half : options.tf32 ? card.tf32 : card.f32);
    }
  }
  return 0;
}

/// Prints a line for every `every` steps: mean loss, tokens a second, utilisation.
class Progress {
 public:
  Progress(std::int64_t every, double flops_of_token, double rate_of_all)
      : every_(every), flops_of_token_(flops_of_token), rate_of_all_(rate_of_all) {}

  void add(std::int64_t step, double loss, double learning_rate, std::int64_t tokens) {
    loss_ += loss;
    tokens_ += tokens;
    if (++steps_ < every_) {
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    const double rate =
        static_cast<double>(tokens_) / std::chrono::duration<double>(now - begin_).count();
    std::printf("step %6lld  loss %.4f  rate %.2e  %9.0f tokens/s",
                static_cast<long long>(step),
                loss_ / static_cast<double>(steps_),
                learning_rate,
                rate);
    if (rate_of_all_ > 0) {
      std::printf("  MFU %.1f %%", 100 * rate * flops_of_token_ / rate_of_all_);
    }
    std::printf("\n");
    std::fflush(stdout);
    begin_ = now;
    loss_ = 0;
    tokens_ = steps_ = 0;
  }

 private:
  std::int64_t every_;
  double flops_of_token_;
  double rate_of_all_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double loss_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace train_gpt
