// Sorting on the device: lines of a tensor become entries, which are a key and a place each, and
// the entries of each line are put in order, equal keys by their places. topk orders values so, and
// add_at the places of each index. Private to kernels/. Threads: owner only.
//
// An entry is 8 bytes, the key above the place, or 16 where the element has 8 bytes: the key, then
// the place. The last entry in any order is all ones: it stands for nothing.
#pragma once

#include <cstdint>

#include "axis_lines.hpp"
#include "backends/vulkan/kernel_encoder.hpp"

namespace hearth::vulkan {

/// How an element becomes a key, whose unsigned order is that of the entries.
enum class KeyOrder : std::uint32_t {
  ascending,   ///< Of values; NaN behind all, -0 and 0 are one.
  descending,  ///< NaN before all.
  index,       ///< The low 32 bits of an i32 or i64; what is outside of the axis fails and is last.
};

struct SortOf {
  AxisLines lines;
  DType dtype;
  KeyOrder order;
  std::int64_t axis_size = 0;  ///< index: what bounds it. `cell` gets the failure.
  std::uint64_t cell = 0;
  std::int64_t place_inner = 1;  ///< index: to say where it stands, the lines between two of one.

  [[nodiscard]] bool is_wide() const noexcept {
    return order != KeyOrder::index && size_bytes(dtype) == 8;
  }
  [[nodiscard]] std::int64_t entry_bytes() const noexcept { return is_wide() ? 16 : 8; }
  [[nodiscard]] int key_bits() const noexcept;
};

/// The longest line that a workgroup sorts by itself.
inline constexpr std::int64_t kMostGroupLine = 2048;

/// Where the values of the first places go, and these.
struct SortTarget {
  std::uint64_t values = 0;
  std::uint64_t positions = 0;  ///< As i64.
};

/// Bytes of scratch that encode_sorted() and encode_first() take for `kept` of each line.
[[nodiscard]] std::int64_t sort_scratch_bytes(const SortOf& sort, std::int64_t kept) noexcept;

/// All entries of each line in order, line by line, in `scratch`. Returns where they begin.
[[nodiscard]] Result<std::uint64_t> encode_sorted(const SortOf& sort,
                                                  std::uint64_t scratch,
                                                  KernelEncoder& encoder);
/// The first `kept` elements of each line in order, into contiguous tensors of the shape of the
/// lines' tensor with `kept` along the axis.
[[nodiscard]] Status encode_first(const SortOf& sort,
                                  std::int64_t kept,
                                  const SortTarget& target,
                                  std::uint64_t scratch,
                                  KernelEncoder& encoder);

/// ENTRY, before(a, b), NOTHING, key_part(entry, shift): 4 bits of the key, place_of(entry),
/// LOAD_ENTRY, STORE_ENTRY.
[[nodiscard]] std::string_view glsl_entry(bool is_wide);

}  // namespace hearth::vulkan
