// Reads the bytes of one tensor of a file, as the tensor will hold them: converted, and row-major.
// Private to modules. Threads: one at a time. Each call reads from the file.
#pragma once

#include <hearth/modules/weight_file.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace hearth::detail {

class EntryReader final {
 public:
  /// Both outlive the reader.
  EntryReader(const FilePart& part, const WeightFile::Entry& entry) : part_(part), entry_(entry) {}

  /// The tensor's bytes, once it is read.
  [[nodiscard]] std::size_t size_bytes() const;
  /// Fills `piece` with the tensor's bytes from `offset_bytes` on. Both are whole elements.
  ///
  /// Errors: those of FileReader::read_at(); bad_format for a BOOL byte above 1, or a U64 that i64
  /// cannot hold; out_of_memory.
  [[nodiscard]] Status read(std::size_t offset_bytes, std::span<std::byte> piece);
  /// Reads `target.size()` bytes as they lie in the file, from `offset_bytes` of the entry on.
  [[nodiscard]] Status read_raw(std::size_t offset_bytes, std::span<std::byte> target) const;

 private:
  [[nodiscard]] Status read_dense(std::size_t offset_bytes, std::span<std::byte> piece);
  [[nodiscard]] Status read_strided(std::size_t offset_bytes, std::span<std::byte> piece);
  [[nodiscard]] Status convert(std::size_t first,
                               std::span<const std::byte> from,
                               std::span<std::byte> to) const;
  [[nodiscard]] Status check_booleans(std::size_t first, std::span<const std::byte> bytes) const;

  const FilePart& part_;
  const WeightFile::Entry& entry_;
  std::vector<std::byte> extent_;  // all bytes of an entry with strides
};

}  // namespace hearth::detail
