// LayerLabel: the layer of the ops that are submitted while it is open and use no tensor of a
// layer. Such ops are the middle of an attention, a residual sum, or the gradient of an op. For
// traces and memory snapshots; the path of an input takes precedence.
// Threads: a label lives and dies on one thread, and holds for that thread's current stream of the
// device. Labels nest.
#pragma once

#include <string>
#include <string_view>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

class StreamState;

namespace detail {

/// Returns whether a trace or memory trace would use labels of ops with this tensor. Cost: a few
/// loads.
[[nodiscard]] bool wants_layers(const Tensor& tensor) noexcept;
/// The path last given to the tensor; empty: none.
[[nodiscard]] std::string_view path_of(const Tensor& tensor) noexcept;
/// The layer of the tensor, for errors: "blocks.0" of "blocks.0.weight".
[[nodiscard]] std::string layer_of(const Tensor& tensor);

class LayerLabel final {
 public:
  /// `path`: the path of a tensor of the layer, "blocks.0.attention.weight".
  LayerLabel(const Device& device, std::string_view path);
  LayerLabel(const LayerLabel&) = delete;
  LayerLabel& operator=(const LayerLabel&) = delete;
  ~LayerLabel();

 private:
  StreamState* stream_;
  PathId previous_;
};

}  // namespace detail

}  // namespace hearth
