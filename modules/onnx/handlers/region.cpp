#include "modules/onnx/handlers/resample.hpp"

#include <hearth/runtime/vision_ops.hpp>

namespace hearth::onnx {

void roi_align(Call& call) {
  const OnnxType type = call.type(0);
  if (call.node().text("mode", "avg") == "max") {
    call.refuse("mode 'max' takes the largest weighted corner, which no composition of ops gives");
  }
  const bool is_half_pixel =
      call.opset() >= 16 &&
      call.node().text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const RoiAlignOptions options{
      .size = {call.node().integer("output_height", 1), call.node().integer("output_width", 1)},
      .spatial_scale = call.node().real("spatial_scale", 1),
      .sampling_ratio = call.node().integer("sampling_ratio", 0),
      .aligned = is_half_pixel};
  const Tensor x = widened(call.take(0));
  const Tensor corners = cast(call.take(1), x.dtype());
  const Tensor pictures = unsqueeze(cast(call.take(2), x.dtype()), 1);
  ++call.context().sync_points;
  call.give(hearth::roi_align(x, concat({pictures, corners}, 1), options, call.context().wait),
            type);
}

}  // namespace hearth::onnx
