#include "wire_writer.hpp"

#include <array>
#include <bit>

namespace hearth::onnx {
namespace {

constexpr int kVariable = 0;
constexpr int kLength = 2;
constexpr int kFourBytes = 5;

void append_variable(std::string& to, std::uint64_t value) {
  while (value >= 0x80U) {
    to.push_back(static_cast<char>((value & 0x7fU) | 0x80U));
    value >>= 7U;
  }
  to.push_back(static_cast<char>(value));
}

}  // namespace

void WireWriter::bytes(const char* data, std::size_t size) {
  if (pieces_.empty() || !pieces_.back().borrowed.empty()) {
    pieces_.emplace_back();
  }
  pieces_.back().own.append(data, size);
  size_bytes_ += size;
}

void WireWriter::variable(std::uint64_t value) {
  std::string text;
  append_variable(text, value);
  bytes(text.data(), text.size());
}

void WireWriter::head(int field, int wire_type) {
  variable(static_cast<std::uint64_t>(field) << 3U | static_cast<std::uint64_t>(wire_type));
}

void WireWriter::integer(int field, std::int64_t value) {
  head(field, kVariable);
  variable(static_cast<std::uint64_t>(value));
}

void WireWriter::real(int field, float value) {
  head(field, kFourBytes);
  const auto raw = std::bit_cast<std::array<char, sizeof value>>(value);
  bytes(raw.data(), raw.size());
}

void WireWriter::text(int field, std::string_view text) {
  head(field, kLength);
  variable(text.size());
  bytes(text.data(), text.size());
}

void WireWriter::message(int field, const WireWriter& inner) {
  head(field, kLength);
  variable(inner.size_bytes_);
  for (const Piece& piece : inner.pieces_) {
    bytes(piece.own.data(), piece.own.size());
    if (!piece.borrowed.empty()) {
      pieces_.push_back({.borrowed = piece.borrowed});
      size_bytes_ += piece.borrowed.size();
    }
  }
}

void WireWriter::borrowed(int field, std::span<const std::byte> bytes) {
  head(field, kLength);
  variable(bytes.size());
  pieces_.push_back({.borrowed = bytes});
  size_bytes_ += bytes.size();
}

void WireWriter::integers(int field, std::span<const std::int64_t> values) {
  std::string packed;
  for (const std::int64_t value : values) {
    append_variable(packed, static_cast<std::uint64_t>(value));
  }
  text(field, packed);
}

Status WireWriter::write_to(FileWriter& file) const {
  for (const Piece& piece : pieces_) {
    HEARTH_TRY_STATUS(file.write(std::as_bytes(std::span<const char>(piece.own))));
    HEARTH_TRY_STATUS(file.write(piece.borrowed));
  }
  return {};
}

}  // namespace hearth::onnx
