// Files of named tensors that some program wrote: safetensors, PyTorch's archives, and folders of
// several files with an index. read_weights() recognises the format by the content.
// A WeightFile is a value that keeps the file open and reads tensors from it piece by piece; copies
// share the open file. Threads: any, const.
// Invariants: (1) nothing in a file is ever executed; (2) host memory beside the tensors stays
// below kMostQueuedBytes and two pieces, whatever the size of the file; (3) every error names the
// file, the broken rule and the values.
#pragma once

#include <hearth/modules/named_tensor.hpp>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/file_reader.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/device.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
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
  /// Part of the file that holds the weights, such as "model" of a checkpoint. Only tensors whose
  /// names begin with it and a dot take part, under the rest of their names. Empty:
  /// WeightFile::main_part().
  std::string select = {};
  /// Whether each tensor is replaced as soon as it is read. This needs memory for one tensor beside
  /// the model, not for a second model; but an error half-way leaves the tensors before it
  /// replaced.
  bool one_by_one = false;
};
/// Assignment of a file's tensors to a model's.
struct WeightMatches {
  std::map<std::string, std::string> names = {};  ///< Name in the model → name in the file.
  std::vector<std::string> missing = {};          ///< Tensors of the model that the file lacks.
  std::vector<std::string> unused = {};           ///< Tensors of the file that the model lacks.
  /// Unused tensors that the library cannot represent: "name: reason".
  std::vector<std::string> skipped = {};
};

/// Element type of a tensor in a file.
enum class StoredType : std::uint8_t {
  same,  ///< The entry's dtype.
  i16,   ///< Read as i32.
  u16,   ///< Read as i32.
  u32,   ///< Read as i64.
  u64,   ///< Read as i64; values of 2⁶³ and more are an error when they are read.
};
/// Returns the bytes of one element in the file.
[[nodiscard]] std::size_t stored_bytes(StoredType stored, DType dtype) noexcept;

namespace detail {
struct FilePart;
struct WeightFileContent;
}  // namespace detail

class WeightFile {
 public:
  struct Entry {
    std::string name;
    DType dtype = DType::f32;  ///< Type of the tensor once it is read.
    Shape shape;
    std::size_t offset_bytes = 0;  ///< From the first byte after the header of its file.
    std::size_t size_bytes = 0;    ///< Bytes in the file from its first to its last element.
    /// Reason why this library cannot represent the tensor (its dtype or shape), for an error.
    /// dtype and shape are then meaningless, and only bytes() is available. Empty: tensor() can
    /// read it.
    std::string unsupported = {};
    StoredType stored = StoredType::same;
    /// Distance of neighbours along each axis, in elements. Empty: row-major without gaps.
    std::vector<std::int64_t> strides = {};
    std::uint32_t part = 0;  ///< Number of its file, of a model in several files.
  };

  explicit WeightFile(detail::WeightFileContent content);

  /// The file or the index that was read.
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const Metadata& metadata() const noexcept { return metadata_; }
  /// All tensors, in the order of the file.
  [[nodiscard]] const std::vector<Entry>& entries() const noexcept { return entries_; }
  /// Part of the file that holds the weights, found by the shape of the file: "model" if
  /// "model.fc.weight" lies beside "optimizer…". Empty: the whole file.
  [[nodiscard]] const std::string& main_part() const noexcept { return main_part_; }
  [[nodiscard]] bool contains(std::string_view name) const noexcept;
  /// Returns the entry of this name.
  ///
  /// Errors: FileError not_found that lists the existing names.
  [[nodiscard]] const Entry& at(std::string_view name, SourceLoc loc = SourceLoc::current()) const;
  /// Reads the bytes of an entry as they lie in the file.
  ///
  /// Errors: FileError: io_error, and bad_format when the file changed since it was opened;
  /// OutOfMemory.
  [[nodiscard]] std::vector<std::byte> bytes(const Entry& entry,
                                             SourceLoc loc = SourceLoc::current()) const;
  /// Reads a tensor from the file and queues its upload. Waits for earlier uploads once they hold
  /// kMostQueuedBytes of host memory, and for the whole upload of a tensor above 16 MiB.
  ///
  /// Dtypes: F64, F32, F16, BF16, I64, I32, I8, U8 and BOOL, unchanged; I16 and U16 become i32, U32
  /// and U64 i64. Other types are unsupported; a program can convert the result of bytes() itself.
  /// Errors: as at() and bytes(); FileError bad_format for an unsupported tensor, for a BOOL byte
  /// other than 0 and 1, and for a U64 above i64's range; DeviceError from a wait.
  /// Cost: a tensor with strides needs host memory for the bytes from its first to its last
  /// element.
  [[nodiscard]] Tensor tensor(std::string_view name,
                              const Device& device,
                              SourceLoc loc = SourceLoc::current()) const;

  /// Finds these tensors in the file. Optimizer state and running statistics may have 16 bits in
  /// the file and 32 in the model. A second name of a matched tensor's bytes (a tied weight of
  /// PyTorch) is not unused.
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
  /// Logs that all tensors were loaded to this device.
  void record_load(const Device& device) const;

  /// Host memory of queued uploads from which on tensor() waits.
  static constexpr std::size_t kMostQueuedBytes = std::size_t{64} << 20U;

 private:
  friend struct detail::WeightFileContent;
  struct Open;
  /// Checks that the file was not moved from.
  ///
  /// Errors: ArgumentError otherwise.
  void require_there(SourceLoc loc) const;
  [[nodiscard]] Tensor small_tensor(const Entry& entry, const Device& device, SourceLoc loc) const;

  std::filesystem::path path_;
  std::shared_ptr<const Open> open_;
  Metadata metadata_;
  std::vector<Entry> entries_;
  std::string main_part_;
  std::string remark_;
};

namespace detail {
/// One open file of a model.
struct FilePart {
  FileReader reader;
  std::uint64_t data_begin_bytes = 0;  ///< Place of the byte that entries count from.
};
/// Result of the reader of one format. Entries are checked: their bytes lie in their part.
struct WeightFileContent {
  std::filesystem::path path;
  std::vector<FilePart> parts;
  Metadata metadata = {};
  std::vector<WeightFile::Entry> entries = {};
  std::string main_part = {};
  std::string remark = {};  ///< Appended to the log's line of a load.
};
/// Throws a file's error with the user's line: OutOfMemory, or FileError for all others.
[[noreturn]] void throw_file_error(Error error, SourceLoc loc);
/// Throws FileError: "file PATH: text".
[[noreturn]] void refuse_file(ErrorCode code,
                              const std::filesystem::path& path,
                              std::string_view text,
                              SourceLoc loc);
}  // namespace detail

/// Opens a file of weights, whatever its name: safetensors, an index of several files
/// (model.safetensors.index.json), or a file of PyTorch's torch.save(), zip or older.
///
/// Errors: FileError: not_found, io_error; bad_format for a violation of its format, for a missing
/// file of an index, and for another format, which the error names.
/// Cost: memory for the names; time for the whole file only if this library wrote it, to compare
/// its checksum.
[[nodiscard]] WeightFile read_weights(const std::filesystem::path& path,
                                      SourceLoc loc = SourceLoc::current());

}  // namespace hearth
