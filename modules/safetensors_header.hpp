// The header of a safetensors file: its JSON text and what it says. Private to modules; pure
// functions.
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
  std::vector<SafetensorsFile::Entry> entries;
  Metadata metadata;
};

/// The order of a tensor's three members.
enum class Spelling : std::uint8_t {
  own,  ///< data_offsets, shape, dtype: no other program's, so that damage cannot hide whose file
        ///< it is.
  sorted,  ///< By name, as files were written before there was an own order.
};

/// JSON, with spaces at its end up to a multiple of eight bytes.
/// Errors: ArgumentError when a name or a metadata text is not UTF-8, or the text is longer than
/// what is read.
[[nodiscard]] std::string print_header(const SafetensorsHeader& header,
                                       Spelling spelling,
                                       SourceLoc loc);

struct ParsedHeader {
  SafetensorsHeader header;
  bool has_own_order = false;  ///< At least one tensor is spelled as Spelling::own.
};

/// Entries come back in the order of their offsets.
/// Errors: a text that says what is wrong with which tensor; the caller knows the file.
[[nodiscard]] Result<ParsedHeader> parse_header(std::string_view text, std::size_t data_size_bytes);

/// Whether each tensor of the header may be spelled as Spelling::sorted, and not as by Python's
/// safetensors: its members sorted, without spaces.
[[nodiscard]] bool has_sorted_spelling(std::string_view text,
                                       const SafetensorsHeader& header) noexcept;

/// The largest header that is read: the format's own limit.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

}  // namespace hearth::detail
