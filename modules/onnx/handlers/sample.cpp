#include "modules/onnx/handlers/resample.hpp"

#include <algorithm>
#include <array>

namespace hearth::onnx {
std::string check_grid_sample(const NodeInfo& node) {
  const std::string mode = node.text("mode", "bilinear");
  constexpr std::array<std::string_view, 5> kModes{
      "bilinear", "linear", "nearest", "bicubic", "cubic"};
  if (std::ranges::find(kModes, mode) == kModes.end()) {
    return fmt::format("attribute mode is '{}'", mode);
  }
  const std::string padding = node.text("padding_mode", "zeros");
  return padding == "zeros" || padding == "border" || padding == "reflection"
             ? std::string{}
             : fmt::format("attribute padding_mode is '{}'", padding);
}

void grid_sample(Call& call) {
  const OnnxType type = call.type(0);
  const std::string mode = call.node().text("mode", "bilinear");
  const std::string padding = call.node().text("padding_mode", "zeros");
  const GridSampleOptions options{.mode = mode == "nearest" ? GridMode::nearest
                                          : mode == "bicubic" || mode == "cubic"
                                              ? GridMode::bicubic
                                              : GridMode::bilinear,
                                  .padding = padding == "border"       ? GridPadding::border
                                             : padding == "reflection" ? GridPadding::reflection
                                                                       : GridPadding::zeros,
                                  .align_corners = call.node().integer("align_corners", 0) != 0};
  const Tensor x = widened(call.take(0));
  const Tensor grid = widened(call.take(1));
  call.give(hearth::grid_sample(x, grid, options), type);
}

void affine_grid(Call& call) {
  const OnnxType type = call.type(0);
  const Shape size(call.integers(1));
  const bool aligns = call.node().integer("align_corners", 0) != 0;
  const Tensor theta = widened(call.take(0));
  call.give(hearth::affine_grid(theta, size, {.align_corners = aligns}), type);
}

}  // namespace hearth::onnx
