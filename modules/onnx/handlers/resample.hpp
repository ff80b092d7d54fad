// Places of a resampled axis, and samples at positions that a tensor holds.
// Stateless. Threads: any. Errors: ArgumentError with the broken rule.
#pragma once

#include "modules/onnx/handlers/parts.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hearth::onnx {

enum class SampleMode : std::uint8_t { nearest, linear, cubic };

/// How the positions of a result's axis lie among those of the input's.
struct SampleRule {
  std::int64_t from = 1;  ///< Size of the input's axis.
  std::int64_t to = 1;    ///< Size of the result's axis.
  double scale = 1;
  SampleMode mode = SampleMode::nearest;
  std::string coordinates = {};  ///< ONNX's name of the transformation.
  std::string nearest = {};      ///< ONNX's name of the rounding.
  double cubic = -0.75;          ///< Coefficient a of the cubic.
  bool excludes_outside = false;
  bool is_antialiased = false;
  double start = 0;  ///< Region of tf_crop_and_resize, in parts of the axis.
  double end = 1;
};

/// Returns why a transformation of coordinates cannot run; empty if it can.
[[nodiscard]] std::string check_coordinates(std::string_view name);
/// Resamples one axis. The result is a float if weights are needed.
[[nodiscard]] Tensor resampled(const Call& call, Tensor x, int axis, const SampleRule& rule);
/// For each position of the result, whether it lies inside the input.
[[nodiscard]] std::vector<bool> inside_of(const SampleRule& rule);

[[nodiscard]] std::string check_grid_sample(const NodeInfo& node);
/// Samples pictures at the positions of a grid.
/// Paper: Jaderberg et al., Spatial Transformer Networks, arXiv:1506.02025.
void grid_sample(Call& call);
/// Means of samples in regions. Paper: He et al., Mask R-CNN, arXiv:1703.06870.
void roi_align(Call& call);
void affine_grid(Call& call);

}  // namespace hearth::onnx
