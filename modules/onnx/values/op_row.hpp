// OpRow: a row in the table of ops: which handler runs an op from which opset on. Each file of
// handlers has the rows of its family; op_table.hpp joins them.
// A constant. Threads: any.
#pragma once

#include "modules/onnx/values/call.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace hearth::onnx {

/// Computes a node by ops on the device, or on the host by elements.
using Handler = void (*)(Call&);
/// Computes a node on the host. Returns false, without a result, if the device must do it, as for a
/// large result.
using HostHandler = bool (*)(Call&);
/// Returns why a node cannot run, for an attribute's value; empty if it can.
using NodeCheck = std::string (*)(const NodeInfo&);

/// A set of inputs, as bits.
using InputSet = std::uint32_t;
inline constexpr InputSet kAllInputs = 0xffff'ffff;
template <class... Numbers>
[[nodiscard]] constexpr InputSet inputs(Numbers... numbers) noexcept {
  return ((InputSet{1} << static_cast<unsigned>(numbers)) | ... | 0U);
}

struct OpRow {
  std::string_view op;
  /// The first opset in which the handler's rules hold. A node takes the row with the largest one
  /// that is not above its opset.
  std::int64_t since = 1;
  Handler run = nullptr;          ///< On the device. Null: on_host runs, with values read back.
  HostHandler on_host = nullptr;  ///< Runs if all inputs have elements on the host.
  InputSet host_inputs = 0;       ///< Inputs whose elements the device's handler needs on the host.
  /// Inputs whose constants are numbers of the graph, as bounds, and never weights.
  InputSet plain_inputs = 0;
  NodeCheck check = nullptr;
  std::string_view domain = {};
  std::string_view refusal = {};  ///< Why no node of this op runs, if it has no handler.
  std::string_view help = {};     ///< Remedy for a refusal or a failed check.
  /// Whether the result is known on the host whatever the inputs are, as a shape.
  bool is_known = false;
};

}  // namespace hearth::onnx
