// Parser and printer for the JSON header of a safetensors file. Private to modules; pure functions.
// Threads: any. Invariant: parse_header(print_header(x, spelling)) is x.
#pragma once

#include <hearth/modules/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

struct SafetensorsHeader {
  std::vector<WeightFile::Entry> entries;
  Metadata metadata;
};

/// The order of a tensor's three members in the JSON text.
enum class Spelling : std::uint8_t {
  /// data_offsets, shape, dtype. No other program uses this order, so it identifies our files even
  /// if the checksum's name is damaged.
  own,
  sorted,  ///< Sorted by name: the order of files from before `own` existed.
};

/// Prints the JSON text, padded with spaces to a multiple of eight bytes.
///
/// Errors: ArgumentError when a name or a metadata text is not UTF-8, or the text exceeds
/// kMaxHeaderBytes.
[[nodiscard]] std::string print_header(const SafetensorsHeader& header,
                                       Spelling spelling,
                                       SourceLoc loc);

struct ParsedHeader {
  SafetensorsHeader header;
  bool has_own_order = false;  ///< Whether at least one tensor is spelled as Spelling::own.
};

/// Parses and validates a header. Returns entries in the order of their offsets.
///
/// Errors: a text that names the tensor and the defect; the caller adds the file.
[[nodiscard]] Result<ParsedHeader> parse_header(std::string_view text, std::size_t data_size_bytes);

/// Whether each tensor of the header may be spelled as Spelling::sorted (sorted members, without
/// spaces), which excludes the spelling of Python's safetensors.
[[nodiscard]] bool has_sorted_spelling(std::string_view text,
                                       const SafetensorsHeader& header) noexcept;

/// The largest header that is read: the limit of the format.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

}  // namespace hearth::detail
