// Vocabularies of bytes and words, and their files.
#include <hearth/modules/vocabulary.hpp>

#include <hearth/runtime/base/error.hpp>

#include "tests/base/temporary_folder.hpp"

#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Vocabulary, OfBytesKeepsATextAsItIs) {
  const std::string text = "b\na\xff z";
  const Vocabulary bytes(text, {.unit = TextUnit::bytes});
  EXPECT_EQ(bytes.size(), 6);
  EXPECT_THAT(bytes.encode("ab\n"), ElementsAre(2, 3, 0));
  EXPECT_EQ(bytes.decode(bytes.encode(text)), text);
  try {
    (void)bytes.encode("abq");
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.error().text, "Vocabulary: byte 2 of the text, 0x71, is not in it");
  }
}

TEST(Vocabulary, OfAllBytesEncodesWhatTheTextDoesNotHave) {
  const Vocabulary bytes("abc", {.unit = TextUnit::bytes, .all_bytes = true});
  EXPECT_EQ(bytes.size(), 256);
  const std::string text = "\xff z\n";
  EXPECT_EQ(bytes.decode(bytes.encode(text)), text);
  EXPECT_EQ(bytes.encode("a").at(0), 'a');
}

TEST(Vocabulary, OfWordsPutsTheMostFrequentFirst) {
  const std::vector<std::string> texts{"The dog's dog.", "A cat, the cat-dog", "n\xc3\xa9"};
  const Vocabulary words(texts);
  EXPECT_EQ(words.size(), 2 + 6);
  EXPECT_EQ(words.word(2), "cat");
  EXPECT_EQ(words.word(3), "dog");
  EXPECT_EQ(words.word(4), "the");
  EXPECT_EQ(words.word(7), "n\xc3\xa9");
  EXPECT_THAT(words.encode("THE cat; zebra"), ElementsAre(4, 2, Vocabulary::kUnknown));
  EXPECT_EQ(words.decode(std::vector<std::int32_t>{4, 1, 2, 0, 0}), "the <unknown> cat");
  EXPECT_EQ(Vocabulary(texts, {.max_words = 2}).size(), 4);
  EXPECT_EQ(Vocabulary(texts, {.min_count = 2}).size(), 5);
  EXPECT_EQ(Vocabulary(texts, {.lower_case = false}).encode("THE")[0], Vocabulary::kUnknown);
}

TEST(Vocabulary, RefusesWhatHasNoWord) {
  EXPECT_THROW(Vocabulary(std::string("...")), ArgumentError);
  EXPECT_THROW(Vocabulary(std::string(), {.unit = TextUnit::bytes}), ArgumentError);
  EXPECT_THROW(Vocabulary(std::string("a"), {.min_count = 2}), ArgumentError);
  EXPECT_THROW(Vocabulary(std::string("a"), {.max_words = -1}), ArgumentError);
  const Vocabulary one(std::string("a"));
  EXPECT_THROW((void)one.word(3), ArgumentError);
  EXPECT_THROW((void)one.decode(std::vector<std::int32_t>{-1}), ArgumentError);
}

TEST(Vocabulary, ComesBackFromAFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "words";
  for (const TextUnit unit : {TextUnit::bytes, TextUnit::words}) {
    const std::string text = "One two\n two \xfe 3 4\t5";
    const Vocabulary made(text, {.unit = unit, .lower_case = false});
    made.save(file);
    const Vocabulary read = Vocabulary::load(file);
    EXPECT_EQ(read.size(), made.size());
    EXPECT_EQ(read.unit(), unit);
    EXPECT_EQ(read.encode(text), made.encode(text));
  }
}

TEST(Vocabulary, ReadsAFileOfBeforeThereWasAChecksum) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "words";
  std::ofstream(file) << "hearth vocabulary 1\nwords lower 4\n9 <padding>\n9 <unknown>\n1 b\n1 a\n";
  EXPECT_EQ(Vocabulary::load(file).encode("a b c"), (std::vector<std::int32_t>{3, 2, 1}));
}

TEST(Vocabulary, AFlippedBitAnywhereIsFound) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "words";
  for (const TextUnit unit : {TextUnit::bytes, TextUnit::words}) {
    Vocabulary(std::string("one two three three"), {.unit = unit}).save(file);
    const std::string whole = read_text(file);
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string bad = whole;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      std::filesystem::remove(file);  // otherwise the file system waits for its disk
      std::ofstream(file, std::ios::binary) << bad;
      EXPECT_THROW((void)Vocabulary::load(file), FileError) << bit;
    }
  }
}

TEST(Vocabulary, RefusesFilesThatItDidNotWrite) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "words";
  Vocabulary(std::string("a b")).save(file);
  const std::string whole = read_text(file);
  const auto refusal = [&](const std::string& text) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
    try {
      (void)Vocabulary::load(file);
    } catch (const FileError& error) {
      return error.error().text;
    }
    return std::string("nothing thrown");
  };
  EXPECT_THAT(refusal("hello\n"), HasSubstr("the first line does not begin with 'hearth vocab"));
  EXPECT_THAT(refusal(whole + "x"), HasSubstr("it is damaged: its checksum is wrong"));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(refusal(whole.substr(0, length)), HasSubstr("vocabulary: ")) << length;
  }
  const std::string old = "hearth vocabulary 1\n" + whole.substr(whole.find('\n') + 1);
  EXPECT_EQ(refusal(old), "nothing thrown");
  EXPECT_THAT(refusal(old + "x"), HasSubstr("something follows the last one"));
  EXPECT_THROW((void)Vocabulary::load(folder.path() / "none"), FileError);
}

}  // namespace
}  // namespace hearth
