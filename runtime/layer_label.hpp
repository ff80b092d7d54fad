// LayerLabel: names the layer of the ops that are submitted while it is open and have no tensor of
// a layer themselves: the middle of an attention, a residual sum, the gradient of an op. For traces
// and memory pictures; where an input's own path is known, that stands.
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

/// Whether somebody would read labels of ops with this tensor. Cost: a few loads.
[[nodiscard]] bool wants_layers(const Tensor& tensor) noexcept;
/// The path that the tensor was given last; empty: none.
[[nodiscard]] std::string_view path_of(const Tensor& tensor) noexcept;
/// The layer that the tensor lies in, for errors: "blocks.0" of "blocks.0.weight".
[[nodiscard]] std::string layer_of(const Tensor& tensor);

class LayerLabel final {
 public:
  /// `path`: of a tensor of the layer, "blocks.0.attention.weight".
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
