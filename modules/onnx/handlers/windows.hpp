// Windows of convolutions and pools along each spatial axis: kernel, stride, dilation, padding by
// `pads` or `auto_pad`, and the number of windows. Values. Threads: any.
#pragma once

#include "modules/onnx/handlers/parts.hpp"

namespace hearth::onnx {

struct WindowAxis {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;  ///< Padding in front.
  std::int64_t after = 0;   ///< Padding behind, as the node states it.
  std::int64_t size = 0;    ///< Size of the input's axis.
  std::int64_t count = 0;   ///< Number of windows.

  /// Elements from the first to the last tap.
  [[nodiscard]] std::int64_t extent() const noexcept { return (kernel - 1) * dilation + 1; }
  /// Padding behind that the last window needs: more than `after` with ceil_mode, or less.
  [[nodiscard]] std::int64_t needed_after() const noexcept {
    return (count - 1) * stride + extent() - size - before;
  }
  [[nodiscard]] bool is_symmetric() const noexcept { return before == after; }
};

/// Reads the attributes of a node over the axes behind batch and channels.
///
/// Errors: ArgumentError for attributes of another number of axes, and for sizes below 1.
[[nodiscard]] std::vector<WindowAxis> windows_of(const Call& call,
                                                 const Shape& x,
                                                 const Sizes& kernel);
/// Returns why the attributes cannot run; a NodeCheck.
[[nodiscard]] std::string check_windows(const NodeInfo& node);

}  // namespace hearth::onnx
