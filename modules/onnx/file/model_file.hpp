// An ONNX file in memory, and the bytes of its tensors. These lie in the file as raw bytes or in
// typed fields, or in another file of the same folder.
// A value; copies share the bytes. Threads: any, const.
// Invariants: (1) a name of external data never leads out of the model's folder, also not through a
// link; (2) a tensor's bytes have exactly the size that its shape and type need, or are refused.
#pragma once

#include "modules/onnx/file/onnx_proto.hpp"

#include <hearth/runtime/base/shape.hpp>
#include <hearth/runtime/base/source_loc.hpp>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hearth::onnx {

/// Elements as a device holds them, row-major.
struct TensorBytes {
  DType dtype = DType::f32;
  Shape shape = {};
  std::span<const std::byte> bytes = {};
  std::shared_ptr<const void> owner = {};  ///< Keeps `bytes` alive.
};

class ModelFile final {
 public:
  /// Reads and parses a file of at most 2 GiB.
  ///
  /// Errors: FileError not_found, io_error, bad_format; OutOfMemory.
  [[nodiscard]] static ModelFile read(const std::filesystem::path& path, SourceLoc loc);
  /// Parses bytes. External data are relative to the folder of `path`.
  [[nodiscard]] static ModelFile parse(std::vector<std::byte> bytes,
                                       const std::filesystem::path& path,
                                       SourceLoc loc);

  /// Wraps bytes that are no model but tensors, which the caller parses.
  [[nodiscard]] static ModelFile of_tensors(std::vector<std::byte> bytes,
                                            const std::filesystem::path& path);

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return *bytes_; }
  [[nodiscard]] const ModelProto& model() const noexcept { return *model_; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_->size(); }
  [[nodiscard]] std::string text(ByteRange range) const;
  /// Returns the reason why the tensor cannot be read: its type, its shape, the number of its
  /// elements, its external file. Empty: it can. Reads no external file, except its size.
  [[nodiscard]] std::string problem(const TensorProto& tensor) const;
  /// Returns the elements as a device holds them.
  ///
  /// Errors: FileError, with the text of problem() or of a failed read; OutOfMemory.
  [[nodiscard]] TensorBytes tensor(const TensorProto& tensor, SourceLoc loc) const;
  /// Returns the texts of a tensor of strings. Errors: as tensor().
  [[nodiscard]] std::vector<std::string> strings(const TensorProto& tensor, SourceLoc loc) const;

 private:
  [[nodiscard]] TensorBytes external(const TensorProto& tensor, SourceLoc loc) const;

  std::filesystem::path path_;
  std::shared_ptr<const std::vector<std::byte>> bytes_;
  std::shared_ptr<const ModelProto> model_;
};

}  // namespace hearth::onnx
