// Model files in the safetensors format: named tensors and string metadata, compatible with
// Python's safetensors in both directions.
// Files written here carry a checksum in the metadata (kChecksumName) and are read only if it is
// present and correct. The order of each tensor's members in the header (data_offsets, shape,
// dtype) identifies such files. Another program that rewrites a file spells the header differently.
// Its copy of the checksum is then ignored.
// SafetensorsFile is a value that owns the file's bytes. Threads: any, const.
// Invariants: (1) a file is replaced whole or not at all; (2) a file that was read agrees with its
// header to the last byte. Otherwise the reader throws and names the file, the tensor or byte, and
// the expected value.
#pragma once

#include <hearth/modules/named_tensor.hpp>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/device.hpp>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Key-value metadata of a file ("step" → "120").
using Metadata = std::map<std::string, std::string>;

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
/// Throws a file's error with the user's line: OutOfMemory, or FileError for all others.
[[noreturn]] void throw_file_error(Error error, SourceLoc loc);
/// Checks that no metadata key begins with kOwnNames.
///
/// Errors: ArgumentError of `op` otherwise.
void require_own_names(const Metadata& metadata, std::string_view op, SourceLoc loc);
}  // namespace detail

/// Renaming rule for tensors of a file. Each match of `pattern` in a name is replaced by
/// `replacement`. Patterns are ECMAScript regular expressions (std::regex); $1 is the first group.
struct WeightRename {
  std::string pattern;      ///< Regular expression for names in the file.
  std::string replacement;  ///< Replacement, which yields the name in the model.
};
/// Permitted differences between a file of weights and the model that loads it.
struct LoadWeightsOptions {
  /// Renames for the names in the file, applied in order, each to the result of the one before.
  std::vector<WeightRename> renames = {};
  /// Whether the file may lack tensors of the model, which then keep their values.
  bool allow_missing = false;
  bool allow_unused = false;  ///< Whether the file may have tensors that the model lacks.
  bool cast = false;          ///< Whether floats of another dtype are converted to the model's.
};
/// Assignment of a file's tensors to a model's.
struct WeightMatches {
  std::map<std::string, std::string> names = {};  ///< Name in the model → name in the file.
  std::vector<std::string> missing = {};          ///< Tensors of the model that the file lacks.
  std::vector<std::string> unused = {};           ///< Tensors of the file that the model lacks.
};

class SafetensorsFile final {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    std::size_t offset_bytes = 0;  ///< From the first byte after the header.
    std::size_t size_bytes = 0;
    /// Reason why this library cannot represent the tensor (its dtype or shape), for an error.
    /// dtype and shape are then meaningless, and only bytes() is available. Empty: tensor() can
    /// read it.
    std::string unsupported = {};
  };

  /// Reads a file. An unsupported tensor is an error only when it is used.
  ///
  /// Errors: FileError: not_found, io_error; bad_format for a violation of the format, or a wrong
  /// or missing checksum in a file of this library; OutOfMemory when the host lacks memory for the
  /// file. Violations are a truncated file, a wrong header length, a header that is not a JSON
  /// object, and a duplicate name. So are sizes that contradict shape and dtype, and offsets that
  /// overlap, leave holes or lie outside.
  /// Cost: memory for the whole file.
  [[nodiscard]] static SafetensorsFile read(const std::filesystem::path& path,
                                            SourceLoc loc = SourceLoc::current());

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  /// All tensors, in the order of their bytes in the file.
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] bool contains(std::string_view name) const noexcept;
  /// Returns the entry of this name.
  ///
  /// Errors: FileError not_found that lists the existing names.
  [[nodiscard]] const Entry& at(std::string_view name, SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] std::span<const std::byte> bytes(const Entry& entry) const noexcept;
  /// Queues the upload of a tensor. The file's bytes live until it is done.
  ///
  /// Dtypes: F64, F32, F16, BF16, I64, I32, I8, U8 and BOOL, unchanged. Other types of the format
  /// are unsupported; a program can convert the result of bytes() itself.
  /// Errors: as at(); FileError bad_format for an unsupported tensor, and for a BOOL byte other
  /// than 0 and 1.
  [[nodiscard]] Tensor tensor(std::string_view name,
                              const Device& device,
                              SourceLoc loc = SourceLoc::current()) const;

  /// Finds these tensors in the file. Optimizer state and running statistics may have 16 bits in
  /// the file and 32 in the model.
  ///
  /// Errors: FileError bad_format naming the first tensor that is missing, unsupported, different
  /// or superfluous and may not be; bad_format for two tensors renamed to one name, or for a file
  /// of which no tensor matches; ArgumentError for an invalid pattern.
  [[nodiscard]] WeightMatches match(std::span<const NamedTensor> expected,
                                    const LoadWeightsOptions& options,
                                    SourceLoc loc = SourceLoc::current()) const;
  /// Checks that the file holds exactly these tensors: names, dtypes and shapes.
  ///
  /// Errors: FileError bad_format naming the first that is missing, different or superfluous.
  void require_exactly(std::span<const NamedTensor> expected,
                       SourceLoc loc = SourceLoc::current()) const;
  /// Whether write_safetensors() wrote this file and its checksum is correct.
  [[nodiscard]] bool is_verified() const noexcept { return checksum_ == Checksum::right; }
  /// Logs that all tensors were loaded to this device.
  void record_load(const Device& device) const;

 private:
  enum class Checksum { none, foreign, right };

  SafetensorsFile() = default;
  /// Checks that the file was not moved from.
  ///
  /// Errors: ArgumentError otherwise.
  void require_there(SourceLoc loc) const;

  std::filesystem::path path_;
  std::shared_ptr<const std::vector<std::byte>> file_;
  std::size_t data_begin_ = 0;
  Checksum checksum_ = Checksum::none;
  Metadata metadata_;
  std::vector<Entry> entries_;
};

}  // namespace hearth
