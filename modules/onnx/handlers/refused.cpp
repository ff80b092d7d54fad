// Ops that this library knows and cannot run yet, with the reason and what would help.
#include "modules/onnx/handlers/op_table.hpp"

namespace hearth::onnx {
namespace refused_ops {
namespace {

constexpr OpRow kRows[] = {
    {.op = "Col2Im",
     .since = 18,
     .refusal = "no handler sums the columns of windows",
     .help = "ConvTranspose with a kernel of ones and zeros"},
    {.op = "TensorScatter",
     .since = 24,
     .refusal = "no handler writes into a cache of keys",
     .help = "ScatterElements"},
    {.op = "DeformConv",
     .since = 19,
     .refusal = "no op samples at positions of its own for each tap",
     .help = "a convolution, or GridSample before one"},
    {.op = "MaxRoiPool",
     .refusal = "no op pools regions whose sizes depend on values",
     .help = "RoiAlign"},
    {.op = "ImageDecoder",
     .since = 20,
     .refusal = "a graph reads no files of pictures",
     .help = "decode the picture before the run (image_file.hpp)"},
    {.op = "Gradient",
     .domain = "ai.onnx.preview.training",
     .refusal = "a graph states no gradients here",
     .help = "value_and_grad() of the model without this node"},
};

}  // namespace
}  // namespace refused_ops

std::span<const OpRow> refused_rows() {
  return refused_ops::kRows;
}

}  // namespace hearth::onnx
