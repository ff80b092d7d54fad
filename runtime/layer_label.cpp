#include <hearth/runtime/layer_label.hpp>

#include <hearth/runtime/base/chrome_trace.hpp>
#include <hearth/runtime/tensor_access.hpp>

#include "runtime/client/stream_state.hpp"
#include "runtime/client/tensor_impl.hpp"

namespace hearth::detail {

bool wants_layers(const Tensor& tensor) noexcept {
  const TensorImpl* const impl = TensorAccess::impl(tensor);
  return impl != nullptr && impl->endpoint->tables().trace().wants_layers();
}

std::string_view path_of(const Tensor& tensor) noexcept {
  const TensorImpl* const impl = TensorAccess::impl(tensor);
  return impl == nullptr
             ? std::string_view()
             : impl->endpoint->tables().paths.path(impl->path.load(std::memory_order_acquire));
}

std::string layer_of(const Tensor& tensor) {
  const std::string_view path = path_of(tensor);
  const std::string_view layer = hearth::layer_of(path);
  // a bare "weight" has no layer
  return layer.size() == path.size() ? std::string() : std::string(layer);
}

LayerLabel::LayerLabel(const Device& device, std::string_view path)
    : stream_(&current_stream(device.endpoint())),
      previous_(stream_->exchange_path(device.endpoint().tables().paths.intern(path))) {}

LayerLabel::~LayerLabel() {
  static_cast<void>(stream_->exchange_path(previous_));
}

}  // namespace hearth::detail
