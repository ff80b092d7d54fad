// Vocabulary: the words of a text, or its bytes, as numbers. A value that owns its words.
// Threads: a value; const functions from any. Invariant: every number in [0, size()) has a word of
// its own, and the same texts and options give the same numbers.
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
  bytes,  ///< Each byte that occurs, in the order of bytes.
  words,  ///< Runs of letters, digits and apostrophes; bytes beyond ASCII are letters.
};

struct VocabularyOptions {
  TextUnit unit = TextUnit::words;  ///< Unit of a token.
  bool lower_case = true;           ///< Of words: A to Z become a to z.
  /// Of words: the most frequent ones, so many, without the two that are no words; 0: all.
  std::int64_t max_words = 0;
  std::int64_t min_count = 1;  ///< Of words: how often one occurs at least.
  /// Of bytes: all 256, also those that the texts do not have: every text can be encoded then, as a
  /// server's prompts want it.
  bool all_bytes = false;
};

/// A text file as it is.
/// Errors: FileError: not_found, io_error; OutOfMemory.
[[nodiscard]] std::string read_text(const std::filesystem::path& file,
                                    SourceLoc loc = SourceLoc::current());

class Vocabulary final {
 public:
  /// Of words: what stands behind the end of a text, and for a word that is not in the vocabulary.
  static constexpr std::int32_t kPadding = 0;
  static constexpr std::int32_t kUnknown = 1;

  /// What these texts consist of. Words are numbered from 2 on, the most frequent first, and those
  /// of one frequency in the order of their bytes. Errors: ArgumentError for negative counts, and
  /// for texts without a byte or word.
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
  /// Errors: ArgumentError for a number without a word.
  [[nodiscard]] const std::string& word(std::int32_t number,
                                        SourceLoc loc = SourceLoc::current()) const;

  /// A text as numbers. Errors: ArgumentError for a byte that the vocabulary does not have, with
  /// its place; words that it does not have are kUnknown.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 SourceLoc loc = SourceLoc::current()) const;
  /// Numbers as text: bytes as they were, words with spaces between them and without padding.
  /// Errors: ArgumentError for a number without a word.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> numbers,
                                   SourceLoc loc = SourceLoc::current()) const;

  /// Writes it to a file, for a program that uses a trained model. The first line has a checksum of
  /// the rest. Errors: FileError io_error.
  void save(const std::filesystem::path& file, SourceLoc loc = SourceLoc::current()) const;
  /// Files of before there was a checksum are read too.
  /// Errors: FileError: not_found, io_error; bad_format for what save() did not write, also for one
  /// byte that changed since.
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
