// The table of ops that save_onnx() writes: for each kind the function that turns a step into
// nodes. Read-only data. Threads: any.
#pragma once

#include "modules/onnx/save/step_call.hpp"

#include <hearth/streams/op_kind.hpp>

#include <span>

namespace hearth::onnx {

struct StepRow {
  OpKind kind;
  void (*write)(StepCall& call);
};

[[nodiscard]] std::span<const StepRow> element_steps();
[[nodiscard]] std::span<const StepRow> shape_steps();
[[nodiscard]] std::span<const StepRow> sum_steps();
[[nodiscard]] std::span<const StepRow> product_steps();

/// Writes the node of a norm whose last op is this step. Returns false if it ends no norm. The
/// nodes of the norm's earlier ops are then without use.
[[nodiscard]] bool write_norm(StepCall& call);

/// Writes one step, or notes why it cannot be written.
void write_step(StepCall& call);

}  // namespace hearth::onnx
