// TokenWindows: pieces of a text as numbers, to learn what comes next; and texts of different
// lengths as rows of one.
// Owns its numbers. Threads: any, after construction.
#pragma once

#include <hearth/modules/dataset.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace hearth {

struct WindowOptions {
  std::int64_t length = 64;  ///< Of a piece.
  std::int64_t stride = 0;   ///< From the beginning of one piece to that of the next; 0: length.
};

/// A text that a Vocabulary made numbers of. Example i begins at number i·stride; its targets are
/// the same piece one further on.
class TokenWindows final : public Dataset {
 public:
  /// Errors: ArgumentError for a length below 1, a stride below 0, and fewer numbers than length
  /// + 1.
  TokenWindows(std::vector<std::int32_t> tokens,
               const WindowOptions& options,
               SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t size() const override { return size_; }
  /// Shapes: inputs and targets i32 [n, length].
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;

 private:
  std::vector<std::int32_t> tokens_;
  WindowOptions options_;
  std::int64_t size_ = 0;
};

/// Rows of numbers as an array, the longer ones cut at `length`, the shorter ones filled up with
/// `padding`.
///
/// Shapes: i32 [rows, length]. Errors: ArgumentError for a length below 1.
[[nodiscard]] HostArray padded_rows(std::span<const std::vector<std::int32_t>> rows,
                                    std::int64_t length,
                                    std::int32_t padding = 0,
                                    SourceLoc loc = SourceLoc::current());
[[nodiscard]] HostArray padded_rows(std::initializer_list<std::vector<std::int32_t>> rows,
                                    std::int64_t length,
                                    std::int32_t padding = 0,
                                    SourceLoc loc = SourceLoc::current());

}  // namespace hearth
