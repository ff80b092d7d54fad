// LayerScope: attributes ops that have no tensor of their own to a layer, in traces and memory
// traces. Composite layers of the library open one in forward(), and so may user modules:
//
//   hearth::Tensor forward(hearth::Arg x) const {
//     const hearth::LayerScope scope(*this, projection.weight);
//     …
//   }
//
// Threads: as LayerLabel.
// Cost: a few loads without a trace; a walk over the module with one.
#pragma once

#include <hearth/modules/module.hpp>

#include <hearth/runtime/layer_label.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace hearth {

class [[nodiscard]] LayerScope final {
 public:
  /// `tensor`: any tensor of the layer.
  template <Module Layer>
  LayerScope(const Layer& layer, const Tensor& tensor) {
    if (detail::wants_layers(tensor)) {
      open(layer);
    }
  }
  LayerScope(const LayerScope&) = delete;
  LayerScope& operator=(const LayerScope&) = delete;
  ~LayerScope() = default;

 private:
  // A tensor's path in the layer is a suffix of its path in the model. The rest is the path of the
  // layer.
  template <class Layer>
  void open(const Layer& layer) {
    bool is_first = true;
    layer.visit("", [&]<class Part>(const std::string& inner, const Part& part) {
      if constexpr (std::is_same_v<std::remove_const_t<Part>, Tensor>) {
        if (!is_first) {
          return;
        }
        is_first = false;
        const std::string_view path = detail::path_of(part);
        if (path.size() > inner.size() && path.ends_with(inner)) {
          std::string of_layer(path.substr(0, path.size() - inner.size()));
          label_.emplace(part.device(), of_layer + "forward");
        }
      }
    });
  }

  std::optional<detail::LayerLabel> label_;
};

}  // namespace hearth
