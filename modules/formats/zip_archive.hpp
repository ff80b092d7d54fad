// The directory of a zip archive whose members are stored without compression, as torch.save()
// writes them: names, places and sizes. By minizip, zip64 too.
// Private to modules. Values; any thread.
// Invariant: the bytes of every listed member lie in the file.
#pragma once

#include <hearth/runtime/base/file_reader.hpp>
#include <hearth/runtime/base/result.hpp>

#include <cstdint>
#include <map>
#include <string>

namespace hearth::detail {

struct ZipMember {
  std::uint64_t offset_bytes = 0;  ///< Place of its first byte in the file.
  std::uint64_t size_bytes = 0;
  /// Reason why its bytes cannot be read in place: it is compressed or encrypted. Empty: they can.
  std::string unreadable = {};
};

/// Reads the directory. Members by their name.
///
/// Errors: bad_format for a file that is no zip archive or a damaged one. Damage is also a name
/// that stands twice or has more than 4 KiB, a member outside of the file, and a millionth member.
[[nodiscard]] Result<std::map<std::string, ZipMember>> read_zip_directory(const FileReader& reader);

}  // namespace hearth::detail
