#include "page.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace hearth::docs {
namespace {

constexpr std::string_view kFence = "```";
constexpr std::string_view kHidden = "<!-- test";
constexpr std::string_view kHiddenEnd = "-->";

// The first and last line of a block on a Doxygen page.
struct DoxygenBlock {
  std::string_view begin;
  std::string_view end;
  std::string_view language;
};
constexpr std::array<DoxygenBlock, 2> kDoxygenBlocks{
    {{"\\code", "\\endcode", "cpp"}, {"\\verbatim", "\\endverbatim", "text"}}};

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream stream{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

}  // namespace

bool Block::has_word(std::string_view word) const {
  return std::ranges::find(words, word) != words.end();
}

std::string Block::text() const {
  std::string all;
  for (const std::string& each : lines) {
    all += each + "\n";
  }
  return all;
}

const Block* output_of(const Page& page, std::size_t index) {
  if (index + 1 == page.blocks.size()) {
    return nullptr;
  }
  const Block& block = page.blocks[index];
  const Block& next = page.blocks[index + 1];
  // The fence that ends this block, an empty line, and the fence that begins the next block.
  const int last = block.line + static_cast<int>(block.lines.size()) + 3;
  return next.language == "text" && next.line <= last ? &next : nullptr;
}

Page parse_page(std::string name, std::string_view text) {
  Page page{.name = std::move(name), .blocks = {}};
  std::istringstream stream{std::string(text)};
  std::string_view end;  // of the open block; empty: none is open
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (!end.empty()) {
      if (line == end) {
        end = {};
      } else {
        page.blocks.back().lines.push_back(line);
      }
      continue;
    }
    const auto* const marks = std::ranges::find(kDoxygenBlocks, line, &DoxygenBlock::begin);
    if (marks != kDoxygenBlocks.end()) {
      page.blocks.push_back({.language = std::string(marks->language), .line = number + 1});
      end = marks->end;
      continue;
    }
    if (line.starts_with(kFence)) {
      Block block{.line = number + 1};
      block.words = words_of(std::string_view(line).substr(kFence.size()));
      if (!block.words.empty()) {
        block.language = block.words.front();
        block.words.erase(block.words.begin());
      }
      page.blocks.push_back(std::move(block));
      end = kFence;
    } else if (line.starts_with(kHidden)) {
      Block block{.language = "cpp", .line = number + 1, .hidden = true};
      const std::size_t close = line.find(kHiddenEnd);
      std::string_view rest = std::string_view(line).substr(kHidden.size());
      if (close != std::string::npos) {
        rest = rest.substr(0, close - kHidden.size());
      }
      block.words = words_of(rest);
      page.blocks.push_back(std::move(block));
      end = close == std::string::npos ? kHiddenEnd : std::string_view();
    }
  }
  if (!end.empty()) {
    throw std::runtime_error(page.name + ":" + std::to_string(page.blocks.back().line - 1) +
                             ": the block does not end");
  }
  return page;
}

}  // namespace hearth::docs
