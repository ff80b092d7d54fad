// The common part of BatchNorm1d, BatchNorm2d and BatchNorm3d, which normalise each channel of a
// batch to mean 0 and deviation 1, then scale and shift it. The running statistics are Buffers.
// Threads: one at a time.
#pragma once

#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/modules/state_updates.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <optional>
#include <string_view>

namespace hearth {

struct BatchNormConfig {
  std::int64_t channels = 0;  ///< Size of axis 1 of x.
  double epsilon = 1e-5;      ///< Added to the variance.
  double momentum = 0.1;  ///< Share of the batch's statistics in each update of the running ones.
  bool affine = true;     ///< Whether the layer has a weight and a bias.
};

namespace detail {

/// Inputs of one batch norm.
struct BatchNormInput {
  std::string_view layer;  // name in errors
  int rank;
  std::string_view axes;       // names of the axes after the channels, for errors
  bool may_lack_axes = false;  // whether [n, channels] is an input too
};

/// Batch normalisation. Training normalises by the statistics of the batch and moves the running
/// statistics towards them. Evaluation normalises by the running statistics.
///
/// In DataParallel and Trainer each rank normalises by its own part of a batch. The running
/// statistics move by the mean of the ranks' moves, weighted by samples. A user's training loop
/// commits the moves itself (state_updates.hpp). A frozen layer (freeze_weights()) behaves in
/// training as in evaluation. A 16-bit layer keeps f32 statistics.
///
/// Paper: Ioffe, Szegedy, Batch Normalization, arXiv:1502.03167.
struct BatchNorm {
  using Config = BatchNormConfig;

  std::optional<Tensor> weight;  ///< [channels]; starts at 1.
  std::optional<Tensor> bias;    ///< [channels]; starts at 0.
  Buffer running_mean;           ///< [channels]; starts at 0.
  Buffer running_variance;       ///< [channels]; starts at 1. Divides by n - 1, as in PyTorch.
  double epsilon = 1e-5;
  double momentum = 0.1;

  /// Applies the layer. In training, adds the moves of the running statistics to `updates`.
  ///
  /// Dtypes: floats; x has the weight's dtype. f16 and bf16 are computed in f32.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x, Mode mode, StateUpdates& updates) const;
  /// Applies the layer with the updates of the calling thread's StateScope.
  ///
  /// Errors: ArgumentError in training outside of any scope.
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const;

 protected:
  /// Creates weight, bias and running statistics. `input` outlives the layer and its copies.
  BatchNorm(const BatchNormInput& input,
            const BatchNormConfig& config,
            const Device& device,
            DType dtype,
            SourceLoc loc);

 private:
  /// Whether the layer normalises by the batch and moves its running statistics.
  [[nodiscard]] bool takes_statistics(Mode mode) const noexcept;
  void require_input(const Arg& x, bool is_training) const;
  [[nodiscard]] Tensor trained(const Arg& x, StateUpdates& updates) const;
  [[nodiscard]] Tensor evaluated(const Arg& x) const;

  const BatchNormInput* input_;
};

}  // namespace detail
}  // namespace hearth
