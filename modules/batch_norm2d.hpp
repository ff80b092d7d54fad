// BatchNorm2d: each channel of a batch of pictures with mean 0 and deviation 1, then scaled and
// moved. A module; its running statistics are Buffers. Threads: one at a time.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/state_updates.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// In training the statistics are those of the batch, and the running ones move towards them; in
/// evaluation the running ones serve. In DataParallel and a Trainer each rank takes the statistics
/// of its own part of a batch, and the running ones of all move by the mean of the ranks' moves,
/// weighted by samples; a loop of one's own commits them (state_updates.hpp). A frozen one
/// (freeze_weights()) works in training as in evaluation: its statistics serve and stay. Those of a
/// layer of 16 bits are f32.
///
/// Paper: Ioffe, Szegedy, Batch Normalization, arXiv:1502.03167.
struct BatchNorm2d {
  struct Config {
    std::int64_t channels = 0;  ///< Size of axis 1 of x.
    double epsilon = 1e-5;      ///< Added to the variance.
    double momentum = 0.1;      ///< How far the running statistics move in a step.
    bool affine = true;         ///< Whether it has weight and bias.
  };

  std::optional<Tensor> weight;  ///< [channels]; starts with 1.
  std::optional<Tensor> bias;    ///< [channels]; starts with 0.
  Buffer running_mean;           ///< [channels]; starts with 0.
  Buffer running_variance;       ///< [channels]; starts with 1. With n - 1 for n, as in PyTorch.
  double epsilon = 1e-5;
  double momentum = 0.1;

  /// Errors: ArgumentError for less than one channel, an epsilon below 0, or a momentum outside of
  /// 0 to 1.
  BatchNorm2d(const Config& config,
              const Device& device,
              DType dtype = DType::f32,
              SourceLoc loc = SourceLoc::current());

  /// In training, `updates` gets what the running statistics are to become.
  ///
  /// Shapes: x [n, channels, height, width], in training with two values a channel or more; the
  /// result is like x.
  /// Dtypes: floats, x as the weight; f16 and bf16 are computed in f32.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x, Mode mode, StateUpdates& updates) const;
  /// The same with those of the calling thread's StateScope.
  /// Errors: ArgumentError in training outside of any scope.
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const;

  HEARTH_MODULE(BatchNorm2d, weight, bias, running_mean, running_variance)

 private:
  /// Whether the batch's own statistics serve, and the running ones move.
  [[nodiscard]] bool takes_statistics(Mode mode) const noexcept;
  [[nodiscard]] Tensor trained(const Arg& x, StateUpdates& updates) const;
  [[nodiscard]] Tensor evaluated(const Arg& x) const;
};

}  // namespace hearth
