// LayerScope: counts ops without a tensor of their own to a layer, in traces and memory pictures.
// Composite layers of the library open one in forward(); so may a module of your own:
//
//   hearth::Tensor forward(hearth::Arg x) const {
//     const hearth::LayerScope scope(*this, projection.weight);
//     …
//   }
//
// Threads: as LayerLabel's. Cost: a few loads while nobody traces; else a walk over the module.
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
  /// `tensor`: any of the layer's own.
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
  // The first tensor's path in the layer is the end of its path in the model; what stands before it
  // is the layer's.
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
