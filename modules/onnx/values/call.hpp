// Call: one run of one node: its inputs, and the place for its results. Handlers take inputs as
// tensors or as elements on the host, whatever they are, and give results.
// A local variable of the executor. Threads: one.
// Invariants: (1) an input that no later node needs is moved in, so that take() lets an op reuse
// its memory; (2) reading a tensor's elements on the host waits, and is counted as a sync point.
// Errors of all members: ArgumentError with the broken rule; the executor adds node, op and opset.
#pragma once

#include "modules/onnx/values/node_info.hpp"

#include <hearth/modules/mode.hpp>
#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
class Buffer;
}  // namespace hearth

namespace hearth::onnx {

class Frame;

/// Sizes of axes, or a list of them among the attributes.
using Sizes = std::vector<std::int64_t>;

/// State that all nodes of one run share.
struct RunContext {
  Device device;
  Mode mode = Mode::eval;
  WaitOptions wait = {};
  SourceLoc loc = {};
  std::size_t sync_points = 0;
  /// Runs a body of a control-flow node inside the frame of that node.
  std::vector<OnnxValue> (*run_body)(const Plan& body,
                                     Frame& outer,
                                     RunContext& context,
                                     std::vector<OnnxValue> inputs) = nullptr;
};

class Call final {
 public:
  Call(const NodeInfo& node, RunContext& context, Frame& frame, std::vector<OnnxValue> inputs);

  [[nodiscard]] const NodeInfo& node() const noexcept { return node_; }
  [[nodiscard]] RunContext& context() const noexcept { return context_; }
  [[nodiscard]] const Device& device() const noexcept { return context_.device; }
  [[nodiscard]] std::int64_t opset() const noexcept { return node_.opset; }
  [[nodiscard]] bool is_training() const noexcept { return context_.mode == Mode::train; }

  // ---- inputs ----
  [[nodiscard]] std::size_t count() const noexcept { return inputs_.size(); }
  /// Whether the node has this input, and it is no empty optional.
  [[nodiscard]] bool has(std::size_t i) const noexcept {
    return i < inputs_.size() && !inputs_[i].is_none();
  }
  [[nodiscard]] const OnnxValue& value(std::size_t i) const;
  [[nodiscard]] OnnxType type(std::size_t i) const { return value(i).type(); }
  [[nodiscard]] const Shape& shape(std::size_t i) const { return value(i).shape(context_.loc); }
  [[nodiscard]] int rank(std::size_t i) const { return shape(i).rank(); }
  /// The input on the device; elements on the host are uploaded.
  [[nodiscard]] const Tensor& tensor(std::size_t i);
  /// As tensor(), moved out: the last use of this input in the handler.
  [[nodiscard]] Tensor take(std::size_t i);
  /// The input's elements on the host. May wait.
  [[nodiscard]] const HostArray& host(std::size_t i);
  [[nodiscard]] std::vector<std::int64_t> integers(std::size_t i) { return integers_of(host(i)); }
  [[nodiscard]] std::int64_t integer(std::size_t i);
  [[nodiscard]] double real(std::size_t i);
  /// The value of an attribute that became an input: from input i if present, else from the
  /// attribute, else empty.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::size_t i,
                                                                  std::string_view attribute);
  /// Normalises a possibly negative axis.
  [[nodiscard]] int axis(std::int64_t axis, int rank) const;
  [[nodiscard]] std::vector<int> axes(const std::vector<std::int64_t>& axes, int rank) const;

  // ---- results ----
  /// Whether anything uses output i.
  [[nodiscard]] bool wants(std::size_t i) const noexcept {
    return i < node_.is_wanted.size() && node_.is_wanted[i];
  }
  void give(std::size_t i, OnnxValue value);
  void give(OnnxValue value) { give(0, std::move(value)); }
  void give(HostArray array) { give(0, OnnxValue(std::move(array))); }
  void give(Tensor tensor) { give(0, OnnxValue(std::move(tensor))); }
  /// Gives a tensor as elements of `type`, cast if it has another one.
  void give(Tensor tensor, OnnxType type) { give(0, std::move(tensor), type); }
  void give(std::size_t i, Tensor tensor, OnnxType type);
  /// As give(tensor, type), wrapped to the range of a type that the device holds in a wider one.
  void give_wrapped(Tensor tensor, OnnxType type);
  [[nodiscard]] std::vector<OnnxValue> results() && { return std::move(results_); }

  // ---- control flow ----
  [[nodiscard]] bool has_body(std::string_view attribute) const noexcept;
  /// Runs the graph in this attribute.
  [[nodiscard]] std::vector<OnnxValue> run_body(std::string_view attribute,
                                                std::vector<OnnxValue> inputs);

  // ---- errors ----
  /// Throws ArgumentError with this text.
  template <class... Values>
  [[noreturn]] void refuse(fmt::format_string<Values...> text, Values&&... values) const {
    refuse_text(fmt::format(text, std::forward<Values>(values)...));
  }
  /// Marks results that differ in each run, so that no later run takes them from this one.
  void set_random() noexcept { is_random_ = true; }
  [[nodiscard]] bool is_random() const noexcept { return is_random_; }
  /// The Buffer of the module that holds input i; null if it is none.
  [[nodiscard]] const Buffer* buffer(std::size_t i) const noexcept;

 private:
  [[noreturn]] void refuse_text(std::string text) const;

  const NodeInfo& node_;
  RunContext& context_;
  Frame& frame_;
  std::vector<OnnxValue> inputs_;
  std::vector<OnnxValue> results_;
  bool is_random_ = false;
};

/// Wraps a tensor to the range of a type that the device holds in a wider one; others unchanged.
[[nodiscard]] Tensor wrapped(Tensor tensor, OnnxType type);

}  // namespace hearth::onnx
