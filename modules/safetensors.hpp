// Model files in the safetensors format: named tensors and a few words of metadata. Python's
// safetensors reads what is written here, and the other way round. What is written here has its
// checksum among the metadata, as kChecksumName, and is read only when that is there and right: the
// order of each tensor's members in the header, data_offsets, shape, dtype, shows who wrote it. A
// program that saves such a file anew may keep the word, which then says nothing: it spells the
// header its own way, and what it wrote is read as if the word was not there.
// SafetensorsFile is a value that owns the file's bytes. Threads: any, const.
// Invariants: (1) a file is replaced whole or not at all; (2) what is read agrees with its header
// to the last byte, or the reader throws and names the file, the tensor or byte, and what was
// expected.
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

/// What a file says about itself ("step" → "120").
using Metadata = std::map<std::string, std::string>;

/// The metadata word that holds the XXH3 (64 bits, 16 hex digits) of the header's text as it would
/// be without this word, and of all bytes after the header. The library writes and checks it; it is
/// no part of what a program gives or gets as Metadata.
inline constexpr std::string_view kChecksumName = "hearth.xxh3_64";

/// How the names begin that the library gives to what it writes among the metadata: of the checksum
/// and of the state of a training. save_weights(), save_training() and what calls them refuse such
/// names of a program's own; write_safetensors() and the reader take any.
inline constexpr std::string_view kOwnNames = "hearth.";

/// Writes tensors of any devices to a file, whose folder must exist. Waits for their values.
///
/// Errors: ArgumentError for an empty tensor, a name twice, the name "__metadata__", names or
/// metadata that are not UTF-8 or take more than the format's 100,000,000 bytes; DeviceError when a
/// tensor is poisoned; OutOfMemory when the host has no room for a tensor; FileError io_error. The
/// old file is kept in each case.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const NamedTensor> tensors,
                       const Metadata& metadata = {},
                       SourceLoc loc = SourceLoc::current());

namespace detail {
/// Throws the error of a file with the user's line: OutOfMemory, or FileError for all else.
[[noreturn]] void throw_file_error(Error error, SourceLoc loc);
/// Errors: ArgumentError of `op` for a name that begins as the library's own.
void require_own_names(const Metadata& metadata, std::string_view op, SourceLoc loc);
}  // namespace detail

/// Each match of `pattern` in a name becomes `replacement`: a regular expression as of ECMAScript
/// (std::regex), where $1 stands for its first group.
struct WeightRename {
  std::string pattern;      ///< Pattern of names in the file.
  std::string replacement;  ///< Name in the model.
};
/// What may differ between a file of weights and a model that is to have them.
struct LoadWeightsOptions {
  /// Of the names in the file, one after another, each on what those before it made.
  std::vector<WeightRename> renames = {};
  bool allow_missing = false;  ///< What the file lacks stays as it is in the model.
  bool allow_unused = false;   ///< What the model lacks is passed by.
  bool cast = false;           ///< Floats of another type take the model's.
};
/// Which tensors of a file are whose.
struct WeightMatches {
  std::map<std::string, std::string> names = {};  ///< The model's → the file's.
  std::vector<std::string> missing = {};          ///< Of the model, that the file lacks.
  std::vector<std::string> unused = {};           ///< Of the file, that the model lacks.
};

class SafetensorsFile final {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    std::size_t offset_bytes = 0;  ///< From the first byte after the header.
    std::size_t size_bytes = 0;
    /// Why this library has no such tensor, for an error: a type or a shape that it lacks. Then
    /// dtype and shape mean nothing, and only bytes() gives what there is. Empty: tensor() reads
    /// it.
    std::string unsupported = {};
  };

  /// Reads the header; a tensor that this library lacks is an error only when it is used.
  ///
  /// Errors: FileError: not_found, io_error; bad_format for anything that the format forbids:
  /// truncated, a wrong header length, a header that is no JSON object, offsets that overlap, leave
  /// holes or lie outside, sizes that contradict shape and type, a name twice, another checksum
  /// than what was written here had, or none. OutOfMemory when the host has no room for the file.
  /// Cost: memory for the whole file.
  [[nodiscard]] static SafetensorsFile read(const std::filesystem::path& path,
                                            SourceLoc loc = SourceLoc::current());

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  /// In the order of the bytes in the file.
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  [[nodiscard]] bool contains(std::string_view name) const noexcept;
  /// Errors: FileError not_found, with the names that are there.
  [[nodiscard]] const Entry& at(std::string_view name, SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] std::span<const std::byte> bytes(const Entry& entry) const noexcept;
  /// Queues the upload; the file's bytes live until it is done.
  /// Dtypes: F64, F32, F16, BF16, I64, I32, I8, U8 and BOOL, as they are. No other type of the
  /// format is widened; a program converts the result of bytes() itself.
  /// Errors: as at(); FileError bad_format for an unsupported tensor, and for a BOOL with another
  /// byte than 0 and 1.
  [[nodiscard]] Tensor tensor(std::string_view name,
                              const Device& device,
                              SourceLoc loc = SourceLoc::current()) const;

  /// Finds these tensors in the file. An optimizer's state and running statistics may have 16 bits
  /// in the file where they have 32 here.
  /// Errors: FileError bad_format naming the first that is missing, unsupported, differs or is too
  /// much where it may not, two that get one name, or a file of which nothing is used;
  /// ArgumentError for a pattern that is none.
  [[nodiscard]] WeightMatches match(std::span<const NamedTensor> expected,
                                    const LoadWeightsOptions& options,
                                    SourceLoc loc = SourceLoc::current()) const;
  /// Checks that the file holds exactly these tensors: names, types and shapes.
  /// Errors: FileError bad_format naming the first that is missing, differs or is too much.
  void require_exactly(std::span<const NamedTensor> expected,
                       SourceLoc loc = SourceLoc::current()) const;
  /// Whether it is, checksum and all, what write_safetensors() wrote.
  [[nodiscard]] bool is_verified() const noexcept { return checksum_ == Checksum::right; }
  /// Tells the log that all tensors were loaded, to this device.
  void note_load(const Device& device) const;

 private:
  enum class Checksum { none, foreign, right };

  SafetensorsFile() = default;
  /// Errors: ArgumentError when it was moved from.
  void require_there(SourceLoc loc) const;

  std::filesystem::path path_;
  std::shared_ptr<const std::vector<std::byte>> file_;
  std::size_t data_begin_ = 0;
  Checksum checksum_ = Checksum::none;
  Metadata metadata_;
  std::vector<Entry> entries_;
};

}  // namespace hearth
