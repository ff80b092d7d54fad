#include <hearth/modules/vocabulary.hpp>

#include "whole_file.hpp"

#include <hearth/runtime/base/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>

namespace hearth {
namespace {

// Followed by the checksum of all that comes after the first line.
constexpr std::string_view kBegin = "hearth vocabulary 2 xxh64 ";
constexpr std::string_view kUncheckedFirstLine = "hearth vocabulary 1";

[[noreturn]] void refuse_text(const std::string& text, SourceLoc loc) {
  throw_error(
      Error{.code = ErrorCode::invalid_argument, .text = "Vocabulary: " + text, .location = loc});
}

bool is_of_word(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '\'';
}

// Calls fn with each word, in order.
template <class Fn>
void for_each_word(std::string_view text, bool lower_case, const Fn& fn) {
  std::string word;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && is_of_word(text[i])) {
      const bool is_upper = text[i] >= 'A' && text[i] <= 'Z';
      word += lower_case && is_upper ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
    } else if (!word.empty()) {
      fn(word);
      word.clear();
    }
  }
}

std::vector<std::string> bytes_in(std::span<const std::string> texts, bool has_all) {
  std::array<bool, 256> is_there{};
  is_there.fill(has_all);
  for (const std::string& text : texts) {
    for (const char letter : text) {
      is_there[static_cast<unsigned char>(letter)] = true;
    }
  }
  std::vector<std::string> bytes;
  for (std::size_t byte = 0; byte < is_there.size(); ++byte) {
    if (is_there[byte]) {
      bytes.emplace_back(1, static_cast<char>(byte));
    }
  }
  return bytes;
}

std::vector<std::string> words_in(std::span<const std::string> texts,
                                  const VocabularyOptions& options) {
  std::map<std::string, std::int64_t> counts;
  for (const std::string& text : texts) {
    for_each_word(text, options.lower_case, [&](const std::string& word) { ++counts[word]; });
  }
  std::vector<std::pair<std::int64_t, std::string>> ranked;
  for (const auto& [word, count] : counts) {
    if (count >= options.min_count) {
      ranked.emplace_back(-count, word);
    }
  }
  std::ranges::sort(ranked);
  if (options.max_words > 0 && static_cast<std::int64_t>(ranked.size()) > options.max_words) {
    ranked.resize(static_cast<std::size_t>(options.max_words));
  }
  std::vector<std::string> words;
  words.reserve(ranked.size());
  for (auto& [count, word] : ranked) {
    words.push_back(std::move(word));
  }
  return words;
}

}  // namespace

std::string read_text(const std::filesystem::path& file, SourceLoc loc) {
  const std::vector<std::byte> bytes = detail::read_whole(file, loc);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Vocabulary::Vocabulary(std::span<const std::string> texts,
                       const VocabularyOptions& options,
                       SourceLoc loc)
    : unit_(options.unit), lower_case_(options.lower_case) {
  if (options.max_words < 0 || options.min_count < 0) {
    refuse_text(fmt::format("counts are 0 or more, got max_words {} and min_count {}",
                            options.max_words,
                            options.min_count),
                loc);
  }
  words_ = unit_ == TextUnit::bytes ? bytes_in(texts, options.all_bytes) : words_in(texts, options);
  if (words_.empty()) {
    refuse_text(fmt::format("the texts have no {}, or none often enough",
                            unit_ == TextUnit::bytes ? "bytes" : "words"),
                loc);
  }
  if (unit_ == TextUnit::words) {
    words_.insert(words_.begin(), {"<padding>", "<unknown>"});
  }
  number_words();
}
Vocabulary::Vocabulary(const std::string& text, const VocabularyOptions& options, SourceLoc loc)
    : Vocabulary(std::span<const std::string>(&text, 1), options, loc) {}

void Vocabulary::number_words() {
  for (std::size_t i = 0; i < words_.size(); ++i) {
    numbers_.emplace(words_[i], static_cast<std::int32_t>(i));
  }
}

const std::string& Vocabulary::word(std::int32_t number, SourceLoc loc) const {
  if (number < 0 || number >= size()) {
    refuse_text(fmt::format("there is no word {}; there are {}", number, size()), loc);
  }
  return words_[static_cast<std::size_t>(number)];
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view text, SourceLoc loc) const {
  std::vector<std::int32_t> numbers;
  if (unit_ == TextUnit::words) {
    for_each_word(text, lower_case_, [&](const std::string& word) {
      const auto known = numbers_.find(word);
      numbers.push_back(known == numbers_.end() ? kUnknown : known->second);
    });
    return numbers;
  }
  std::array<std::int32_t, 256> of_byte{};
  of_byte.fill(-1);
  for (std::size_t i = 0; i < words_.size(); ++i) {
    of_byte[static_cast<unsigned char>(words_[i].front())] = static_cast<std::int32_t>(i);
  }
  numbers.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (of_byte[byte] < 0) {
      refuse_text(fmt::format("byte {} of the text, 0x{:02x}, is not in it", i, byte), loc);
    }
    numbers.push_back(of_byte[byte]);
  }
  return numbers;
}

std::string Vocabulary::decode(std::span<const std::int32_t> numbers, SourceLoc loc) const {
  std::string text;
  for (const std::int32_t number : numbers) {
    const std::string& next = word(number, loc);
    if (unit_ == TextUnit::words) {
      if (number == kPadding) {
        continue;
      }
      text += text.empty() ? "" : " ";
    }
    text += next;
  }
  return text;
}

// Format: a line with the version and the checksum of the rest, a line with unit, case and size,
// then the words. Each word follows its length, because a word may hold any byte.
void Vocabulary::save(const std::filesystem::path& file, SourceLoc loc) const {
  std::string text = fmt::format("{} {} {}\n",
                                 unit_ == TextUnit::bytes ? "bytes" : "words",
                                 lower_case_ ? "lower" : "any",
                                 words_.size());
  for (const std::string& word : words_) {
    text += fmt::format("{} {}\n", word.size(), word);
  }
  detail::write_whole(file, fmt::format("{}{}\n", kBegin, detail::checksum_text(text)) + text, loc);
}

namespace {

// Parses the format of save() piece by piece. Returns nothing on a mismatch.
class WordReader final {
 public:
  explicit WordReader(std::string_view text) : text_(text) {}

  [[nodiscard]] std::optional<std::string_view> until(char end) {
    const std::size_t length = text_.find(end);
    if (length == std::string_view::npos) {
      return std::nullopt;
    }
    const std::string_view piece = text_.substr(0, length);
    text_.remove_prefix(length + 1);
    return piece;
  }
  [[nodiscard]] std::optional<std::size_t> number_until(char end) {
    const std::optional<std::string_view> digits = until(end);
    std::size_t value = 0;
    if (!digits || digits->empty() ||
        std::from_chars(digits->data(), digits->data() + digits->size(), value).ptr !=
            digits->data() + digits->size()) {
      return std::nullopt;
    }
    return value;
  }
  // Reads `count` bytes and a line end.
  [[nodiscard]] std::optional<std::string_view> bytes(std::size_t count) {
    if (count >= text_.size() || text_[count] != '\n') {
      return std::nullopt;
    }
    const std::string_view piece = text_.substr(0, count);
    text_.remove_prefix(count + 1);
    return piece;
  }
  [[nodiscard]] std::string_view rest() const noexcept { return text_; }

 private:
  std::string_view text_;
};

}  // namespace

Vocabulary Vocabulary::load(const std::filesystem::path& file, SourceLoc loc) {
  const std::string text = read_text(file, loc);
  const auto fail = [&](std::string_view what) {
    throw FileError(Error{.code = ErrorCode::bad_format,
                          .text = fmt::format("vocabulary: {}: {}", file.string(), what),
                          .location = loc});
  };
  WordReader reader(text);
  const std::string first = std::string(reader.until('\n').value_or(""));
  if (first != kUncheckedFirstLine) {
    if (!first.starts_with(kBegin)) {
      fail(fmt::format("the first line does not begin with '{}'", kBegin));
    }
    if (first.substr(kBegin.size()) != detail::checksum_text(reader.rest())) {
      fail("it is damaged: its checksum is wrong");
    }
  }
  Vocabulary read;
  const std::optional<std::string_view> unit = reader.until(' ');
  const std::optional<std::string_view> letters = reader.until(' ');
  const std::optional<std::size_t> count = reader.number_until('\n');
  if ((unit != "bytes" && unit != "words") || (letters != "lower" && letters != "any") || !count) {
    fail("the second line does not describe the contents");
  }
  read.unit_ = unit == "bytes" ? TextUnit::bytes : TextUnit::words;
  read.lower_case_ = letters == "lower";
  for (std::size_t i = 0; i < count.value_or(0); ++i) {
    const std::optional<std::size_t> length = reader.number_until(' ');
    const std::optional<std::string_view> word =
        length ? reader.bytes(*length) : std::optional<std::string_view>();
    if (!word || word->empty() || (read.unit_ == TextUnit::bytes && word->size() != 1)) {
      fail(fmt::format("word {} of {} is broken", i, *count));
    }
    read.words_.emplace_back(word.value_or(""));
  }
  read.number_words();
  if (!reader.rest().empty() || read.numbers_.size() != read.words_.size()) {
    fail("a word stands there twice, or something follows the last one");
  }
  return read;
}

}  // namespace hearth
