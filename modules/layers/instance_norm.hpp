// InstanceNorm: normalises each channel of each example to mean 0 and deviation 1. A module; its
// running statistics, if any, are Buffers.
// Threads: one at a time.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/state_updates.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>

namespace hearth {

/// Instance normalisation of sequences, pictures and volumes. Without running statistics it is the
/// same in training and evaluation.
///
/// With `track_running_stats`, training moves running statistics towards the mean of the examples',
/// and evaluation normalises by them. They move as those of BatchNorm2d: see state_updates.hpp. A
/// frozen layer (freeze_weights()) behaves in training as in evaluation.
///
/// Paper: Ulyanov, Vedaldi, Lempitsky, Instance Normalization, arXiv:1607.08022.
struct InstanceNorm {
  struct Config {
    std::int64_t channels = 0;  ///< Size of axis 1 of x.
    double epsilon = 1e-5;      ///< Added to the variance.
    double momentum = 0.1;      ///< Share of new statistics in each update of the running ones.
    bool affine = false;        ///< Whether the layer has a weight and a bias.
    bool track_running_stats = false;  ///< Whether evaluation uses running statistics.
  };

  std::optional<Tensor> weight;            ///< [channels]; starts at 1.
  std::optional<Tensor> bias;              ///< [channels]; starts at 0.
  std::optional<Buffer> running_mean;      ///< [channels]; starts at 0.
  std::optional<Buffer> running_variance;  ///< [channels]; starts at 1. Divides by n - 1.
  std::int64_t channels = 0;
  double epsilon = 1e-5;
  double momentum = 0.1;

  /// Creates the weights and statistics that the options ask for.
  ///
  /// Errors: ArgumentError for less than one channel, an epsilon below 0, or a momentum outside [0,
  /// 1].
  InstanceNorm(const Config& config,
               const Device& device,
               DType dtype = DType::f32,
               SourceLoc loc = SourceLoc::current());

  /// Applies a layer without running statistics.
  ///
  /// Shapes: x [n, channels, ...] with one to three axes behind the channels and two values or more
  /// in each channel; the result is like x.
  /// Dtypes: floats; x has the weight's dtype. f16 and bf16 are computed in f32.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; ArgumentError for a layer with running
  /// statistics; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x) const;
  /// Applies the layer. In training, adds the moves of the running statistics to `updates`.
  [[nodiscard]] Tensor forward(Arg x, Mode mode, StateUpdates& updates) const;
  /// Applies the layer with the updates of the calling thread's StateScope.
  ///
  /// Errors: ArgumentError in training outside of any scope, if there are running statistics.
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const;

  HEARTH_MODULE(InstanceNorm, weight, bias, running_mean, running_variance)

 private:
  /// Whether the layer moves its running statistics.
  [[nodiscard]] bool moves_statistics(Mode mode) const noexcept;
  /// Queues the moves of the running statistics. Requires them.
  void blend_statistics(const Arg& x, StateUpdates& updates) const;
  /// Normalises by the statistics of x, or by the running ones.
  [[nodiscard]] Tensor by_own(const Arg& x) const;
  [[nodiscard]] Tensor by_running(const Arg& x) const;
};

// PyTorch's names. The layer takes any number of axes.
using InstanceNorm1d = InstanceNorm;
using InstanceNorm2d = InstanceNorm;
using InstanceNorm3d = InstanceNorm;

}  // namespace hearth
