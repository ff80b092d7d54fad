// BatchNorm2d: normalises each channel of a batch of images to mean 0 and deviation 1, then scales
// and shifts it. A module; its running statistics are Buffers.
// Threads: one at a time.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/state_updates.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// Batch normalisation. Training normalises by the statistics of the batch and moves the running
/// statistics towards them. Evaluation normalises by the running statistics.
///
/// In DataParallel and Trainer each rank normalises by its own part of a batch. The running
/// statistics move by the mean of the ranks' moves, weighted by samples. A user's training loop
/// commits the moves itself (state_updates.hpp). A frozen layer (freeze_weights()) behaves in
/// training as in evaluation. A 16-bit layer keeps f32 statistics.
///
/// Paper: Ioffe, Szegedy, Batch Normalization, arXiv:1502.03167.
struct BatchNorm2d {
  struct Config {
    std::int64_t channels = 0;  ///< Size of axis 1 of x.
    double epsilon = 1e-5;      ///< Added to the variance.
    double momentum = 0.1;  ///< Share of the batch's statistics in each update of the running ones.
    bool affine = true;     ///< Whether the layer has a weight and a bias.
  };

  std::optional<Tensor> weight;  ///< [channels]; starts at 1.
  std::optional<Tensor> bias;    ///< [channels]; starts at 0.
  Buffer running_mean;           ///< [channels]; starts at 0.
  Buffer running_variance;       ///< [channels]; starts at 1. Divides by n - 1, as in PyTorch.
  double epsilon = 1e-5;
  double momentum = 0.1;

  /// Creates weight, bias and running statistics.
  ///
  /// Errors: ArgumentError for less than one channel, an epsilon below 0, or a momentum outside [0,
  /// 1].
  BatchNorm2d(const Config& config,
              const Device& device,
              DType dtype = DType::f32,
              SourceLoc loc = SourceLoc::current());

  /// Applies the layer. In training, adds the moves of the running statistics to `updates`.
  ///
  /// Shapes: x [n, channels, height, width], with at least two values per channel in training; the
  /// result is like x.
  /// Dtypes: floats; x has the weight's dtype. f16 and bf16 are computed in f32.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x, Mode mode, StateUpdates& updates) const;
  /// Applies the layer with the updates of the calling thread's StateScope.
  ///
  /// Errors: ArgumentError in training outside of any scope.
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const;

  HEARTH_MODULE(BatchNorm2d, weight, bias, running_mean, running_variance)

 private:
  /// Whether the layer normalises by the batch and moves its running statistics.
  [[nodiscard]] bool takes_statistics(Mode mode) const noexcept;
  [[nodiscard]] Tensor trained(const Arg& x, StateUpdates& updates) const;
  [[nodiscard]] Tensor evaluated(const Arg& x) const;
};

}  // namespace hearth
