// AdamW steps of 200 parameters: half of them matrices [width, width], half vectors [width].
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/update_group.hpp>

namespace hearth::bench {

class AdamSteps {
 public:
  static constexpr int kParameters = 200;

  AdamSteps(Device device, std::int64_t width) : device_(std::move(device)) {
    all_.reserve(kParameters);
    for (int i = 0; i < kParameters; ++i) {
      const Shape shape = i % 2 == 0 ? Shape{width, width} : Shape{width};
      all_.push_back({full(device_, shape, 1),
                      full(device_, shape, 0.1),
                      zeros(device_, shape),
                      zeros(device_, shape)});
    }
  }
  /// Makes the steps conditional. The condition holds.
  void set_condition() { condition_ = ones(device_, {}, DType::boolean); }
  /// Runs one update group and waits for it.
  void step() {
    ++step_;
    UpdateGroup group(device_);
    if (condition_.is_valid()) {
      group.when(condition_);
    }
    for (Trained& each : all_) {
      group.adam(each.parameter,
                 each.gradient,
                 each.mean,
                 each.variance,
                 {.learning_rate = 1e-3, .weight_decay = 1e-2, .decoupled = true, .step = step_});
    }
    group.commit().get();
  }

 private:
  struct Trained {
    Tensor parameter;
    Tensor gradient;
    Tensor mean;
    Tensor variance;
  };

  Device device_;
  std::vector<Trained> all_;
  Tensor condition_;  ///< Empty: none.
  std::int64_t step_ = 0;
};

}  // namespace hearth::bench
