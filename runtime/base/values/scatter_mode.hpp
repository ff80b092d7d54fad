// The modes of scatter, for programs and for the op's attributes. A value. Threads: any.
#pragma once

#include <cstdint>

namespace hearth {

/// How scatter joins an update with the element at its index. Numbers are fixed, because trace
/// files store them.
enum class ScatterMode : std::int32_t {
  set = 0,  ///< Replaces it; of several updates for one element the last in index order stays.
  add = 1,
  mul = 2,
  min = 3,  ///< The smaller one; NaN if either is NaN.
  max = 4,
};
inline constexpr int kScatterModeCount = 5;

}  // namespace hearth
