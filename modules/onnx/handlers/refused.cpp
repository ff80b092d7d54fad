// Ops that this library knows and cannot run yet, with the reason and what would help.
#include "modules/onnx/handlers/op_table.hpp"

namespace hearth::onnx {
namespace refused_ops {
namespace {

constexpr std::string_view kNoArcTangent = "no op computes inverse circular functions";
constexpr std::string_view kWantArcTangent = "an op kind `atan`";
constexpr std::string_view kNoScatter = "no op writes elements at indices";
constexpr std::string_view kWantScatter = "an op kind `scatter`";
constexpr std::string_view kNoBits = "no op works on the bits of integers";
constexpr std::string_view kWantBits = "op kinds for bits; for flags, use bools";

constexpr OpRow kRows[] = {
    {.op = "Acos", .since = 7, .refusal = kNoArcTangent, .help = kWantArcTangent},
    {.op = "Asin", .since = 7, .refusal = kNoArcTangent, .help = kWantArcTangent},
    {.op = "Atan", .since = 7, .refusal = kNoArcTangent, .help = kWantArcTangent},
    {.op = "MaxUnpool", .since = 9, .refusal = kNoScatter, .help = kWantScatter},
    {.op = "Col2Im", .since = 18, .refusal = kNoScatter, .help = kWantScatter},
    {.op = "TensorScatter", .since = 24, .refusal = kNoScatter, .help = kWantScatter},
    {.op = "BitwiseAnd", .since = 18, .refusal = kNoBits, .help = kWantBits},
    {.op = "BitwiseOr", .since = 18, .refusal = kNoBits, .help = kWantBits},
    {.op = "BitwiseXor", .since = 18, .refusal = kNoBits, .help = kWantBits},
    {.op = "BitwiseNot", .since = 18, .refusal = kNoBits, .help = kWantBits},
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
