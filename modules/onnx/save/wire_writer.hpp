// Writes the fields of one protobuf message, one after another. Bytes of weights are borrowed, not
// copied.
// A local variable: borrowed bytes outlive it. Threads: one.
// Source: the encoding of protocol buffers, https://protobuf.dev/programming-guides/encoding.
#pragma once

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::onnx {

class WireWriter final {
 public:
  void integer(int field, std::int64_t value);
  void real(int field, float value);
  void text(int field, std::string_view text);
  void message(int field, const WireWriter& inner);
  /// Adds a field of bytes that the caller keeps alive.
  void borrowed(int field, std::span<const std::byte> bytes);
  /// Adds a packed repeated field.
  void integers(int field, std::span<const std::int64_t> values);

  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_bytes_; }
  /// Appends the message to a file. Errors: those of the file.
  [[nodiscard]] Status write_to(FileWriter& file) const;

 private:
  struct Piece {
    std::string own = {};
    std::span<const std::byte> borrowed = {};
  };

  void variable(std::uint64_t value);
  void head(int field, int wire_type);
  void bytes(const char* data, std::size_t size);

  std::vector<Piece> pieces_;
  std::size_t size_bytes_ = 0;
};

}  // namespace hearth::onnx
