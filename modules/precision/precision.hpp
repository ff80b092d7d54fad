// Precision: the float types of a training. The model's own parameters, usually f32, are the master
// weights; a forward pass computes with a copy of them in 16 bits. LossScaling: how the loss of an
// f16 training is scaled, so that small gradients do not become 0.
// Plain data. Threads: values.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/tensor.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hearth {

/// Settings of a loss scale that adapts to the gradients; those of PyTorch's GradScaler.
///
/// The loss is multiplied by the scale before the backward pass, and the gradients are divided by
/// it afterwards. A step whose gradients are not all finite is skipped, and the scale is multiplied
/// by `backoff`. After `growth_interval` steps in a row that were not skipped, it is multiplied by
/// `growth`.
struct LossScaling {
  double initial = 65536;               ///< Scale of the first step.
  double growth = 2;                    ///< 1 or more; 1: the scale never grows.
  double backoff = 0.5;                 ///< Above 0, up to 1; 1: the scale never shrinks.
  std::int64_t growth_interval = 2000;  ///< Steps in a row without an overflow before it grows.

  /// A scale that never changes. Steps whose gradients overflow are skipped all the same.
  [[nodiscard]] static LossScaling fixed(double scale) {
    return {.initial = scale, .growth = 1, .backoff = 1};
  }
};

/// Float types of a training:
///
///   options.precision = {.compute = hearth::DType::bf16};  // of a Trainer or of DataParallel
///
/// The optimizer's state, running statistics, the loss and the sums inside of ops are f32. A loop
/// of your own uses a LossScaler.
struct Precision {
  /// Type of the forward and backward pass: bf16, f16, or f32, which leaves the model's own types.
  DType compute = DType::f32;
  /// Scaling of the loss; nullopt: LossScaling{} if `compute` or `gradients` is f16, else none.
  std::optional<LossScaling> loss_scaling = std::nullopt;
  /// Type in which several devices exchange gradients: bf16, f16, or f32, which leaves the
  /// gradients' own types. 16 bits halve the bytes, and each sum is rounded to them.
  DType gradients = DType::f32;

  /// Whether the forward pass computes in 16 bits.
  [[nodiscard]] bool is_mixed() const noexcept { return compute != DType::f32; }
  /// The scaling that is used: the given one, or the default of the types.
  [[nodiscard]] std::optional<LossScaling> scaling() const {
    const bool has_f16 = compute == DType::f16 || gradients == DType::f16;
    return loss_scaling || !has_f16 ? loss_scaling : LossScaling{};
  }

  /// The model in the type of the forward pass. Shares all tensors that have it already. Inside of
  /// value_and_grad, gradients flow to the master weights, in their types.
  template <Module Model>
  [[nodiscard]] Model cast(const Model& model, SourceLoc loc = SourceLoc::current()) const {
    return is_mixed() ? to_dtype(model, compute, loc) : model;
  }
  /// An input of the model in the type of the forward pass. Tensors that are no floats stay.
  ///
  /// Shapes: any.
  [[nodiscard]] Tensor input(const Tensor& x, SourceLoc loc = SourceLoc::current()) const;
  /// An output of the model for a loss: f32 in place of 16 bits. Without a 16-bit forward pass it
  /// stays.
  ///
  /// Shapes: any.
  [[nodiscard]] Tensor output(const Tensor& x, SourceLoc loc = SourceLoc::current()) const;
};

/// The precision in words: "f16, loss scale from 65536".
[[nodiscard]] std::string describe(const Precision& precision);

namespace detail {
/// Validates the settings.
///
/// Errors: in the name of `op`, DtypeError for another type, ArgumentError for a scaling out of its
/// bounds.
void require_sound(const Precision& precision, std::string_view op, SourceLoc loc);
}  // namespace detail

}  // namespace hearth
