// TokenWindows: windows of a token sequence with the next tokens as targets, for language models.
// padded_rows: token rows of different lengths as one array.
// Owns its tokens. Threads: any, after construction.
#pragma once

#include <hearth/modules/dataset.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace hearth {

struct WindowOptions {
  std::int64_t length = 64;  ///< Tokens per window.
  std::int64_t stride = 0;   ///< Distance between the starts of neighbouring windows; 0: length.
};

/// A tokenised text, from Vocabulary::encode(). Example i starts at token i·stride. Its targets are
/// the same window, shifted by one token.
class TokenWindows final : public Dataset {
 public:
  /// Errors: ArgumentError for a length below 1, a stride below 0, and fewer tokens than length +
  /// 1.
  TokenWindows(std::vector<std::int32_t> tokens,
               const WindowOptions& options,
               SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t size() const override { return size_; }
  /// Reads windows and their targets.
  ///
  /// Shapes: inputs and targets i32 [n, length].
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override;

 private:
  std::vector<std::int32_t> tokens_;
  WindowOptions options_;
  std::int64_t size_ = 0;
};

/// Copies rows of tokens to an array: longer rows are cut at `length`, shorter ones filled with
/// `padding`.
///
/// Shapes: i32 [rows, length].
/// Errors: ArgumentError for a length below 1.
[[nodiscard]] HostArray padded_rows(std::span<const std::vector<std::int32_t>> rows,
                                    std::int64_t length,
                                    std::int32_t padding = 0,
                                    SourceLoc loc = SourceLoc::current());
[[nodiscard]] HostArray padded_rows(std::initializer_list<std::vector<std::int32_t>> rows,
                                    std::int64_t length,
                                    std::int32_t padding = 0,
                                    SourceLoc loc = SourceLoc::current());

}  // namespace hearth
