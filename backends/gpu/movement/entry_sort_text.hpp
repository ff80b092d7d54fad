// The GLSL of entry_sort.cpp. Private to it. Values. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "entry_sort.hpp"

namespace hearth::gpu {

/// Flags of kPiecesBody: it reads elements, else entries; it writes the first values, else entries.
inline constexpr std::uint32_t kFromElements = 1;
inline constexpr std::uint32_t kToValues = 2;
[[nodiscard]] std::string glsl_flags(std::uint32_t flags);

/// ENTRY entry_at(INDEX line, INDEX j): the entry of element j of a line.
[[nodiscard]] std::string glsl_key(DType dtype, bool is_index);

extern const std::string_view kPiecesBody;   ///< Sorts pieces of up to 2,048 in shared memory.
extern const std::string_view kEntriesBody;  ///< Converts elements to entries.
extern const std::string_view kCountBody;    ///< Counts the entries of a block by digit.
extern const std::string_view kScanBody;     ///< Scans the counts of a line to first places.
extern const std::string_view kScatterBody;  ///< Moves entries to their places.
extern const std::string_view kTakeBody;     ///< Converts sorted entries to values and positions.

}  // namespace hearth::gpu
