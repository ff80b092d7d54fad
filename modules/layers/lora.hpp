// Lora: a frozen Linear with a trained low-rank change of its weight. A module. LoraWeights: a view
// of the adapters in a model, to save and load them alone.
// Threads: one at a time.
#pragma once

#include <hearth/modules/dropout.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/mode.hpp>
#include <hearth/modules/module.hpp>

#include <hearth/runtime/ops.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace hearth {

/// Low-rank adaptation: base(x) + (alpha/rank)·dropout(x)·lora_aᵀ·lora_bᵀ.
///
/// The base is frozen, so an optimizer trains the two adapters only. lora_b starts at 0: a new
/// layer computes what its base does.
///
/// Paper: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, arXiv:2106.09685.
struct Lora {
  struct Config {
    std::int64_t rank = 8;  ///< Rows of lora_a.
    double alpha = 16;      ///< The change of the weight is alpha/rank·lora_b·lora_a.
    double dropout = 0.0;   ///< Probability of dropout on the input of the adapters.
  };

  Linear base;    ///< Frozen.
  Tensor lora_a;  ///< [rank, in]
  Tensor lora_b;  ///< [out, rank]
  double scale;   ///< alpha/rank
  Dropout dropout;

  /// Wraps a layer: freezes it, and initialises lora_a as a Linear's weight and lora_b with 0. The
  /// adapters have the base's dtype and device.
  ///
  /// Errors: ArgumentError for a rank below 1, an alpha that is not finite or a dropout outside
  /// [0, 1]; ArgumentError inside the function that value_and_grad differentiates.
  Lora(Linear linear,
       const Config& config,
       Generator& generator,
       SourceLoc loc = SourceLoc::current());

  /// Applies the layer. In training with dropout, draws from `generator` or from the calling
  /// thread's GeneratorScope.
  ///
  /// Shapes: x [..., in]; result [..., out].
  /// Dtypes: floats; x has the weights' dtype.
  /// Errors: ShapeError, DtypeError, DeviceMismatch now; ArgumentError in training with dropout
  /// outside of any scope; DeviceError when the result is read.
  [[nodiscard]] Tensor forward(Arg x, Mode mode) const;
  [[nodiscard]] Tensor forward(Arg x, Mode mode, Generator& generator) const;

  /// Returns a Linear that computes what this layer does in evaluation. It is not frozen and shares
  /// nothing with this layer.
  ///
  /// Dtypes: the base's; the sum of f16 and bf16 is rounded once.
  [[nodiscard]] Linear merged(SourceLoc loc = SourceLoc::current()) const;

  HEARTH_MODULE(Lora, base, lora_a, lora_b)

 private:
  // base(x) plus the change of the adapters, which read `of_adapters` in place of x.
  [[nodiscard]] Tensor changed(const Tensor& x, const Tensor& of_adapters, SourceLoc loc) const;
};

namespace detail {
/// Whether a path names an adapter of a Lora.
[[nodiscard]] bool is_lora_path(std::string_view path) noexcept;
/// Errors: ArgumentError if a model has no adapters.
void require_lora_weights(bool has_any, std::string_view model, SourceLoc loc);
}  // namespace detail

/// The adapters of all Lora layers in a model: a module with their paths in the model, without
/// anything else. Refers to the model, which must outlive it.
///
///   hearth::LoraWeights adapters(model);
///   hearth::save_weights(adapters, "adapters.safetensors");
///   hearth::load_weights(adapters, "adapters.safetensors");
template <Module Model>
class LoraWeights final {
 public:
  static constexpr std::string_view module_name() noexcept { return "LoraWeights"; }

  /// Errors: ArgumentError for a model without adapters.
  explicit LoraWeights(Model& model, SourceLoc loc = SourceLoc::current()) : model_(model) {
    bool has_any = false;
    std::as_const(model).visit("", [&](const std::string& path, const Tensor& /*tensor*/) {
      has_any = has_any || detail::is_lora_path(path);
    });
    detail::require_lora_weights(has_any, Model::module_name(), loc);
  }
  // A copy would refer to the same model, so fork() and value_and_grad() would change that.
  LoraWeights(const LoraWeights&) = delete;
  LoraWeights& operator=(const LoraWeights&) = delete;
  ~LoraWeights() = default;

  void visit(const std::string& prefix, TensorVisitor fn) {
    model_.visit(prefix, [&](const std::string& path, auto& tensor) {
      if (detail::is_lora_path(path)) {
        fn(path, tensor);
      }
    });
  }
  void visit(const std::string& prefix, ConstTensorVisitor fn) const {
    std::as_const(model_).visit(prefix, [&](const std::string& path, const auto& tensor) {
      if (detail::is_lora_path(path)) {
        fn(path, tensor);
      }
    });
  }

 private:
  Model& model_;
};

}  // namespace hearth
