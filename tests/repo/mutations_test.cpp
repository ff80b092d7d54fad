// The mistakes of tests/mutations: each changes a text that occurs once in its file, so a change of
// that file must also update its mistakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "source_tree.hpp"

namespace hearth::repo {
namespace {

struct Mutation {
  std::string name;
  std::string file;
  std::string right;
  std::string wrong;
};

// Reads the tuples of a Python list: strings in double quotes, adjacent or separated by commas. The
// programs after four strings are skipped.
class TupleReader {
 public:
  explicit TupleReader(std::string_view text) : text_(text) {}

  /// Returns false at the end of the list.
  [[nodiscard]] bool read(Mutation& mutation) {
    while (next() != '(') {
      if (at_ == text_.size()) {
        return false;
      }
      pass();
    }
    ++at_;
    for (std::string* part : {&mutation.name, &mutation.file, &mutation.right, &mutation.wrong}) {
      *part = strings();
    }
    while (at_ < text_.size() && next() != ')') {
      pass();
    }
    return true;
  }

 private:
  [[nodiscard]] char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  // Skips one character or a whole string.
  void pass() {
    if (next() == '"') {
      static_cast<void>(string());
    } else {
      ++at_;
    }
  }
  // Reads adjacent strings and the comma after them.
  [[nodiscard]] std::string strings() {
    std::string all;
    while (next() == ' ' || next() == '\n' || next() == '"') {
      if (next() == '"') {
        all += string();
      } else {
        ++at_;
      }
    }
    EXPECT_EQ(next(), ',') << "behind: " << all;
    ++at_;
    return all;
  }
  [[nodiscard]] std::string string() {
    std::string value;
    for (++at_; at_ < text_.size() && next() != '"'; ++at_) {
      if (next() != '\\') {
        value += next();
        continue;
      }
      ++at_;
      EXPECT_TRUE(next() == 'n' || next() == '\\' || next() == '"') << "an escape that is not read";
      value += next() == 'n' ? '\n' : next();
    }
    ++at_;
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string text_of(const SourceFile& file) {
  std::string text;
  for (const std::string& line : file.lines) {
    text += line + '\n';
  }
  return text;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + part.size())) {
    ++count;
  }
  return count;
}

TEST(Mutations, TheTextOfEachStandsOnceInItsFile) {
  const std::vector<SourceFile> tree = load_source_tree();
  std::set<std::string> names;
  for (const SourceFile& list : tree) {
    if (!list.is_in("tests/mutations") || !list.name().ends_with("_mutations.py") ||
        list.name() == "try_mutations.py") {
      continue;
    }
    const std::string text = text_of(list);
    TupleReader reader(text);
    for (Mutation mutation; reader.read(mutation);) {
      SCOPED_TRACE(list.name() + ": " + mutation.name);
      EXPECT_TRUE(names.insert(mutation.name).second) << "two of one name";
      EXPECT_NE(mutation.right, mutation.wrong);
      const auto file = std::ranges::find(tree, mutation.file, &SourceFile::path);
      if (file == tree.end() || mutation.right.empty()) {
        ADD_FAILURE() << mutation.file << ": there is no such file, or nothing to change";
        continue;
      }
      EXPECT_EQ(count_of(text_of(*file), mutation.right), 1U) << mutation.file << "\n"
                                                              << mutation.right;
    }
  }
  EXPECT_GT(names.size(), 200U) << "the lists are not read";
}

}  // namespace
}  // namespace hearth::repo
