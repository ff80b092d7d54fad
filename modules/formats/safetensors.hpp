// Model files in the safetensors format: named tensors and string metadata, compatible with
// Python's safetensors in both directions.
// Files written here carry a checksum in the metadata (kChecksumName) and are read only if it is
// present and correct. The order of each tensor's members in the header (data_offsets, shape,
// dtype) identifies such files. Another program that rewrites a file spells the header differently.
// Its copy of the checksum is then ignored.
// Threads: any, const.
// Invariants: (1) a file is replaced whole or not at all; (2) a file that was read agrees with its
// header to the last byte. Otherwise the reader throws and names the file, the tensor or byte, and
// the expected value.
#pragma once

#include <hearth/modules/named_tensor.hpp>
#include <hearth/modules/weight_file.hpp>

#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

namespace hearth {

/// Metadata key of the checksum: XXH3 (64 bits, 16 hex digits) over the header text without this
/// key and all bytes after the header. The library writes and checks it. It is never part of the
/// Metadata that a program passes or receives.
inline constexpr std::string_view kChecksumName = "hearth.xxh3_64";

/// Prefix of the metadata keys that the library writes: the checksum and the state of a training.
/// save_weights(), save_training() and their callers reject such keys from a program.
/// write_safetensors() and the reader accept any key.
inline constexpr std::string_view kOwnNames = "hearth.";

/// Writes tensors of any devices to a file, whose folder must exist. Waits for their values.
///
/// Errors: ArgumentError for an empty tensor, a duplicate name, the name "__metadata__", names or
/// metadata that are not UTF-8 or exceed the format's 100,000,000 bytes; DeviceError when a tensor
/// is poisoned; OutOfMemory when the host lacks memory for a tensor; FileError io_error. On any
/// error the old file is kept.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const NamedTensor> tensors,
                       const Metadata& metadata = {},
                       SourceLoc loc = SourceLoc::current());

namespace detail {
/// Checks that no metadata key begins with kOwnNames.
///
/// Errors: ArgumentError of `op` otherwise.
void require_own_names(const Metadata& metadata, std::string_view op, SourceLoc loc);
}  // namespace detail

/// A WeightFile that is one safetensors file.
class SafetensorsFile final : public WeightFile {
 public:
  /// Opens a file and checks its header. An unsupported tensor is an error only when it is used.
  ///
  /// Errors: FileError: not_found, io_error; bad_format for a violation of the format, or a wrong
  /// or missing checksum in a file of this library; OutOfMemory when the host lacks memory for the
  /// header. Violations are a truncated file, a wrong header length, a header that is not a JSON
  /// object, and a duplicate name. So are sizes that contradict shape and dtype, and offsets that
  /// overlap, leave holes or lie outside.
  /// Cost: memory for the header; time for the whole file if it has a checksum of this library.
  [[nodiscard]] static SafetensorsFile read(const std::filesystem::path& path,
                                            SourceLoc loc = SourceLoc::current());

  /// Whether write_safetensors() wrote this file and its checksum is correct.
  [[nodiscard]] bool is_verified() const noexcept { return is_verified_; }

 private:
  SafetensorsFile(detail::WeightFileContent content, bool is_verified)
      : WeightFile(std::move(content)), is_verified_(is_verified) {}

  bool is_verified_;
};

namespace detail {
struct SafetensorsContent {
  WeightFileContent file;
  bool is_verified = false;
};
/// Opens a file as SafetensorsFile::read() does, with the same errors.
[[nodiscard]] SafetensorsContent read_safetensors(const std::filesystem::path& path, SourceLoc loc);
}  // namespace detail

}  // namespace hearth
