// Reads the fields of one protobuf message, one after another, from bytes in memory. Copies
// nothing: a nested message is a range of the same bytes.
// A local variable: the bytes outlive it. Threads: one.
// Errors of all members: FileError bad_format for bytes that are no message.
#pragma once

#include <google/protobuf/io/coded_stream.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hearth::onnx {

/// Throws FileError bad_format.
[[noreturn]] void refuse_bytes(std::string text);

/// A part of a file's bytes.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t size = 0;
};

class WireReader final {
 public:
  /// Reads the message in this part of `file`. Requires that the part lies inside.
  WireReader(std::span<const std::byte> file, ByteRange part);

  /// Advances to the next field. Returns false at the end of the message. The caller then reads the
  /// field's value with one of the members below, or skips it.
  [[nodiscard]] bool next();
  /// Number of the current field.
  [[nodiscard]] int field() const noexcept { return static_cast<int>(tag_ >> 3U); }
  void skip();
  [[nodiscard]] std::int64_t integer();
  [[nodiscard]] float real();
  [[nodiscard]] ByteRange bytes();
  [[nodiscard]] std::string text();
  /// Appends the numbers of a repeated field, packed or not.
  void integers(std::vector<std::int64_t>& to);
  void reals(std::vector<float>& to);
  void doubles(std::vector<double>& to);

 private:
  [[nodiscard]] int wire_type() const noexcept { return static_cast<int>(tag_ & 7U); }
  void require_type(int wanted) const;
  template <class T, class Read>
  void repeated(std::vector<T>& to, int single_type, const Read& read);

  std::span<const std::byte> file_;
  ByteRange part_;
  google::protobuf::io::CodedInputStream stream_;
  std::uint32_t tag_ = 0;
};

}  // namespace hearth::onnx
