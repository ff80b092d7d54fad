// The GLSL of entry_sort.cpp. Private to it. Values. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "entry_sort.hpp"

namespace hearth::vulkan {

/// What kPiecesBody reads and writes: elements or entries, the first values or entries.
inline constexpr std::uint32_t kFromElements = 1;
inline constexpr std::uint32_t kToValues = 2;
[[nodiscard]] std::string glsl_flags(std::uint32_t flags);

/// ENTRY entry_at(INDEX line, INDEX j): of element j of a line.
[[nodiscard]] std::string glsl_key(DType dtype, bool is_index);

extern const std::string_view kPiecesBody;   ///< Sorts pieces of up to 2,048 in shared memory.
extern const std::string_view kEntriesBody;  ///< Elements become entries.
extern const std::string_view kCountBody;    ///< How many entries of a block have each digit.
extern const std::string_view kScanBody;     ///< The counts of a line become first places.
extern const std::string_view kScatterBody;  ///< Entries go to their places.
extern const std::string_view kTakeBody;     ///< Sorted entries become values and positions.

}  // namespace hearth::vulkan
