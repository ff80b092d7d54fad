// Muon: steps along the nearest orthogonal matrix of a momentum, for weights of two axes.
// Plain data. Threads: values; the optimizer as RuleOptimizer.
#pragma once

#include <hearth/modules/rule_optimizer.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace hearth {

/// How the learning rate of a matrix [rows, columns] is scaled.
enum class MuonScale : std::uint8_t {
  match_adamw,  ///< By 0.2·sqrt(max(rows, columns)): steps as long as AdamW's, so one rate fits
                ///< both.
  original,     ///< By sqrt(max(1, rows/columns)): PyTorch's default.
};

/// Muon for parameters of two axes, AdamW for all others.
///
/// m = momentum·m + (1 - momentum)·g; u = nesterov ? momentum·m + (1 - momentum)·g : m;
/// p = (1 - learning_rate·weight_decay)·p - scale·learning_rate·o, where o is u after `iterations`
/// steps of Newton-Schulz: o = a·o + (b·o·oᵀ + c·(o·oᵀ)²)·o with (a, b, c) = (3.4445, -4.775,
/// 2.0315). The steps begin with u / max(‖u‖, epsilon), and bring the singular values near 1.
///
/// `adamw` lists patterns for matrices that AdamW updates too, as for ParameterGroup::match. Usual
/// are those of the first and the last layer: `.adamw = {"embedding.*", "head.*"}`.
///
/// Dtypes: products are computed in f32 for f16 and bf16 parameters.
/// Cost: 2·iterations·rows·columns·min(rows, columns)·3 flops a matrix, and memory for its size.
/// Paper: Jordan et al., Muon, https://kellerjordan.github.io/posts/muon, 2024; the scale: Liu et
/// al., Muon is Scalable for LLM Training, arXiv:2502.16982.
struct MuonRule {
  double learning_rate = 1e-3;  ///< Learning rate; set_learning_rate() changes it.
  double weight_decay = 0.1;    ///< Each step scales p by 1 - learning_rate·weight_decay.
  double momentum = 0.95;       ///< Decay of the momentum.
  bool nesterov = true;         ///< Whether to use Nesterov's momentum.
  int iterations = 5;           ///< Steps of Newton-Schulz.
  double epsilon = 1e-7;        ///< Smallest norm that u is divided by.
  MuonScale scale = MuonScale::match_adamw;  ///< Scale of the learning rate of a matrix.
  std::vector<std::string> adamw = {};       ///< Patterns of matrices that AdamW updates.
  double beta1 = 0.9;                        ///< AdamW's decay of the mean of gradients.
  double beta2 = 0.999;                      ///< AdamW's decay of the mean of squared gradients.
  double adamw_epsilon = 1e-8;               ///< Added to the root in AdamW's denominator.
  std::vector<ParameterGroup> groups = {};   ///< Different settings for some parameters.

  static std::string name() { return "Muon"; }
  [[nodiscard]] std::vector<UpdateFormula> formula() const;
  [[nodiscard]] std::vector<OptimizerSetting> settings() const;
};

using Muon = RuleOptimizer<MuonRule>;

}  // namespace hearth
