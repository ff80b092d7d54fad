// Sorts on the device. Elements of a tensor's lines become entries, a key and a place each. The
// entries of each line are sorted, equal keys by their places. topk sorts values, and add_at the
// places of each index. Private to backends/gpu. Threads: owner only.
//
// An entry is 8 bytes, the key above the place. For elements of 8 bytes it is 16: the key, then the
// place. The last entry in any order is all ones, which marks padding.
#pragma once

#include <cstdint>

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "backends/gpu/space/axis_lines.hpp"

namespace hearth::gpu {

/// Maps an element to a key, whose unsigned order is that of the entries.
enum class KeyOrder : std::uint32_t {
  ascending,   ///< Values ascend; NaN is last, -0 equals 0.
  descending,  ///< Values descend; NaN is first.
  index,  ///< The low 32 bits of an i32 or i64; an index outside the axis fails and sorts last.
};

struct SortOf {
  AxisLines lines;
  DType dtype;
  KeyOrder order;
  std::int64_t axis_size = 0;  ///< index: the size of the axis. `cell` receives a failure.
  std::uint64_t cell = 0;
  /// index: lines between two elements of a line, to report an element's place.
  std::int64_t place_inner = 1;

  [[nodiscard]] bool is_wide() const noexcept {
    return order != KeyOrder::index && size_bytes(dtype) == 8;
  }
  [[nodiscard]] std::int64_t entry_bytes() const noexcept { return is_wide() ? 16 : 8; }
  [[nodiscard]] int key_bits() const noexcept;
};

/// The longest line that one workgroup sorts.
inline constexpr std::int64_t kMostGroupLine = 2048;

/// Addresses of the first values and of their positions.
struct SortTarget {
  std::uint64_t values = 0;
  std::uint64_t positions = 0;  ///< Stored as i64.
};

/// Bytes of scratch that encode_sorted() and encode_first() need for `kept` elements of each line.
[[nodiscard]] std::int64_t sort_scratch_bytes(const SortOf& sort, std::int64_t kept) noexcept;

/// Sorts all entries of each line, line by line, in `scratch`. Returns the address of the first.
[[nodiscard]] Result<std::uint64_t> encode_sorted(const SortOf& sort,
                                                  std::uint64_t scratch,
                                                  KernelEncoder& encoder);
/// Writes the first `kept` elements of each line in order. The targets are contiguous tensors of
/// the shape of the lines' tensor, with `kept` along the axis.
[[nodiscard]] Status encode_first(const SortOf& sort,
                                  std::int64_t kept,
                                  const SortTarget& target,
                                  std::uint64_t scratch,
                                  KernelEncoder& encoder);

/// GLSL of ENTRY, before(a, b), NOTHING, key_part(entry, shift), which is 4 bits of the key,
/// place_of(entry), LOAD_ENTRY and STORE_ENTRY.
[[nodiscard]] std::string_view glsl_entry(bool is_wide);

}  // namespace hearth::gpu
