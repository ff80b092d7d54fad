#include "modules/onnx/handlers/windows.hpp"

#include <algorithm>

namespace hearth::onnx {
namespace {

Sizes attribute_or(const Call& call, std::string_view name, std::size_t count, std::int64_t value) {
  const Sizes* const given = call.node().integers(name);
  if (given == nullptr || given->empty()) {
    return Sizes(count, value);
  }
  if (given->size() != count) {
    call.refuse("attribute {} has {} numbers, not {}", name, given->size(), count);
  }
  return *given;
}

// SAME: as many windows as strides fit; the odd element goes behind or in front.
void pad_same(WindowAxis& axis, bool is_upper) {
  axis.count = (axis.size + axis.stride - 1) / axis.stride;
  const std::int64_t total =
      std::max<std::int64_t>(0, (axis.count - 1) * axis.stride + axis.extent() - axis.size);
  axis.before = is_upper ? total / 2 : total - total / 2;
  axis.after = total - axis.before;
}

}  // namespace

std::string check_windows(const NodeInfo& node) {
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "SAME_UPPER" && mode != "SAME_LOWER" && mode != "VALID") {
    return fmt::format("attribute auto_pad is '{}'", mode);
  }
  for (const std::string_view name : {"strides", "dilations", "kernel_shape"}) {
    const Sizes* const given = node.integers(name);
    if (given != nullptr && std::ranges::any_of(*given, [](std::int64_t v) { return v < 1; })) {
      return fmt::format("attribute {} has a number below 1", name);
    }
  }
  const Sizes* const pads = node.integers("pads");
  return pads != nullptr && std::ranges::any_of(*pads, [](std::int64_t v) { return v < 0; })
             ? "attribute pads has a number below 0"
             : "";
}

std::vector<WindowAxis> windows_of(const Call& call, const Shape& x, const Sizes& kernel) {
  const std::size_t count = kernel.size();
  if (x.rank() != static_cast<int>(count) + 2) {
    call.refuse("{} does not fit windows of {} axes", x.to_string(), count);
  }
  const Sizes strides = attribute_or(call, "strides", count, 1);
  const Sizes dilations = attribute_or(call, "dilations", count, 1);
  const Sizes pads = attribute_or(call, "pads", 2 * count, 0);
  const std::string mode = call.node().text("auto_pad", "NOTSET");
  const bool is_ceil = call.node().integer("ceil_mode", 0) != 0;
  std::vector<WindowAxis> axes;
  for (std::size_t i = 0; i < count; ++i) {
    WindowAxis axis{.kernel = kernel[i],
                    .stride = strides[i],
                    .dilation = dilations[i],
                    .size = x[static_cast<int>(i) + 2]};
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      pad_same(axis, mode == "SAME_UPPER");
      axes.push_back(axis);
      continue;
    }
    if (mode == "NOTSET") {
      axis.before = pads[i];
      axis.after = pads[i + count];
    }
    const std::int64_t room = axis.size + axis.before + axis.after - axis.extent();
    if (room < 0) {
      call.refuse("the window of {} is longer than axis {} of {} with its padding",
                  axis.extent(),
                  i + 2,
                  x.to_string());
    }
    axis.count = (room + (is_ceil ? axis.stride - 1 : 0)) / axis.stride + 1;
    // A window that begins in the padding behind has no elements.
    if (is_ceil && (axis.count - 1) * axis.stride >= axis.size + axis.before) {
      --axis.count;
    }
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace hearth::onnx
