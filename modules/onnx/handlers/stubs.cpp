#include "modules/onnx/handlers/op_table.hpp"
namespace hearth::onnx {
std::span<const OpRow> contrib_rows() { return {}; }
}
