// The header of a safetensors file: its JSON text and what it says. Private to modules; pure
// functions.
// Threads: any. Invariant: parse_header(print_header(x)) is x.
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

/// JSON, with spaces at its end up to a multiple of eight bytes.
/// Errors: ArgumentError when a name or a metadata text is not UTF-8.
[[nodiscard]] std::string print_header(const SafetensorsHeader& header, SourceLoc loc);

/// Entries come back in the order of their offsets.
/// Errors: a text that says what is wrong with which tensor; the caller knows the file.
[[nodiscard]] Result<SafetensorsHeader> parse_header(std::string_view text,
                                                     std::size_t data_size_bytes);

/// Whether each tensor of the header is spelled as print_header() does it, and not as Python's
/// safetensors: its members sorted, without spaces.
[[nodiscard]] bool has_own_spelling(std::string_view text,
                                    const SafetensorsHeader& header) noexcept;

/// The largest header that is read: the format's own limit.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

}  // namespace hearth::detail
