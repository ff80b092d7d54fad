// Vocabulary: maps the words or bytes of a text to numbers. A value that owns its words.
// Threads: a value; const functions from any.
// Invariants: (1) every number in [0, size()) has a unique word; (2) the same texts and options
// give the same numbers.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace hearth {

enum class TextUnit : std::uint8_t {
  bytes,  ///< Each byte that occurs, in the order of byte values.
  words,  ///< Runs of letters, digits and apostrophes; bytes beyond ASCII count as letters.
};

struct VocabularyOptions {
  TextUnit unit = TextUnit::words;  ///< Unit of a token.
  bool lower_case = true;           ///< For words: whether A to Z are mapped to a to z.
  /// For words: the number of most frequent words to keep, without the two special ones; 0: all.
  std::int64_t max_words = 0;
  std::int64_t min_count = 1;  ///< For words: the lowest number of occurrences to keep.
  /// For bytes: whether to include all 256, so that every text can be encoded, as a server's
  /// prompts require.
  bool all_bytes = false;
};

/// Reads a text file unchanged.
///
/// Errors: FileError: not_found, io_error; OutOfMemory.
[[nodiscard]] std::string read_text(const std::filesystem::path& file,
                                    SourceLoc loc = SourceLoc::current());

class Vocabulary final {
 public:
  /// Special numbers in a vocabulary of words: padding behind the end of a text, and a word that
  /// the vocabulary lacks.
  static constexpr std::int32_t kPadding = 0;
  static constexpr std::int32_t kUnknown = 1;

  /// Collects the units of these texts. Words are numbered from 2, by falling frequency and then by
  /// their bytes.
  ///
  /// Errors: ArgumentError for negative counts, and for texts without a byte or word.
  explicit Vocabulary(std::span<const std::string> texts,
                      const VocabularyOptions& options = {},
                      SourceLoc loc = SourceLoc::current());
  explicit Vocabulary(const std::string& text,
                      const VocabularyOptions& options = {},
                      SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t size() const noexcept {
    return static_cast<std::int64_t>(words_.size());
  }
  [[nodiscard]] TextUnit unit() const noexcept { return unit_; }
  /// The word of a number.
  ///
  /// Errors: ArgumentError for a number out of range.
  [[nodiscard]] const std::string& word(std::int32_t number,
                                        SourceLoc loc = SourceLoc::current()) const;

  /// Encodes a text as numbers. Words that the vocabulary lacks become kUnknown.
  ///
  /// Errors: ArgumentError with the position of a byte that the vocabulary lacks.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 SourceLoc loc = SourceLoc::current()) const;
  /// Decodes numbers to text: bytes unchanged, words joined by spaces and without padding.
  ///
  /// Errors: ArgumentError for a number out of range.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> numbers,
                                   SourceLoc loc = SourceLoc::current()) const;

  /// Writes the vocabulary to a file, for programs that use a trained model. The first line holds a
  /// checksum of the rest.
  ///
  /// Errors: FileError io_error.
  void save(const std::filesystem::path& file, SourceLoc loc = SourceLoc::current()) const;
  /// Reads a file of save(). Older files without a checksum are accepted.
  ///
  /// Errors: FileError: not_found, io_error; bad_format for a file that save() did not write, or
  /// that changed since.
  [[nodiscard]] static Vocabulary load(const std::filesystem::path& file,
                                       SourceLoc loc = SourceLoc::current());

 private:
  Vocabulary() = default;
  void number_words();

  TextUnit unit_ = TextUnit::words;
  bool lower_case_ = true;
  std::vector<std::string> words_;
  std::unordered_map<std::string, std::int32_t> numbers_;
};

}  // namespace hearth
