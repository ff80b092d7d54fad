// The last uses of a tensor, as they travel: in the blob of a drop or adopt record, or in a
// message. Private to runtime. A plain value. Threads: any.
#pragma once

#include <array>
#include <cstdint>

namespace hearth {

inline constexpr int kInlineLastUses = 4;

/// Lists, for each lane, the record that must be consumed before the tensor's slot is free.
struct LastUsesBlob {
  std::uint32_t count = 0;
  /// 1 = every lane that is registered when the record is consumed, up to its tail at that time.
  std::uint32_t all_lanes = 0;
  std::array<std::uint64_t, kInlineLastUses + 1> lane{};
  std::array<std::uint64_t, kInlineLastUses + 1> sequence{};
};

}  // namespace hearth
