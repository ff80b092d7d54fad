// Who used a tensor last, in the form in which it travels: as the blob of a drop or adopt record,
// or in a message. Private to runtime. A plain value. Threads: any.
#pragma once

#include <array>
#include <cstdint>

namespace hearth {

inline constexpr int kInlineLastUses = 4;

/// Which lanes must be consumed how far before the tensor's slot is free.
struct LastUsesBlob {
  std::uint32_t count = 0;
  /// 1: every lane that is registered when the record is consumed, up to its tail then.
  std::uint32_t all_lanes = 0;
  std::array<std::uint64_t, kInlineLastUses + 1> lane{};
  std::array<std::uint64_t, kInlineLastUses + 1> sequence{};
};

}  // namespace hearth
