// Layout of a view: reshape, permute, slice and expand as arithmetic on strides. Private to
// runtime. Pure functions.
#pragma once

#include <cstdint>

#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

struct ViewLayout {
  /// False for a reshape whose elements do not lie at fixed strides; it needs a copy.
  bool possible = true;
  std::int64_t offset_elements = 0;  ///< from the input's first element
  detail::Layout layout = {};
};

/// Returns the view that `op` makes of a tensor laid out as `from`. `to` is the contiguous layout
/// of the result's shape.
[[nodiscard]] ViewLayout view_layout(const OpView& op,
                                     const detail::Layout& from,
                                     const detail::Layout& to);

}  // namespace hearth
