// A set of numbers that lie close together, for example those of the work in flight. Each number
// takes one bit. A value; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace hearth::sim {

class NumberSet final {
 public:
  [[nodiscard]] bool contains(std::uint64_t number) const noexcept {
    const std::uint64_t word = number / kBits;
    return word >= first_word_ && word - first_word_ < words_.size() &&
           (words_[word - first_word_] >> (number % kBits) & 1U) != 0;
  }
  void insert(std::uint64_t number) {
    reach(number / kBits, number / kBits + 1);
    words_[number / kBits - first_word_] |= std::uint64_t{1} << (number % kBits);
  }
  /// Adds the numbers of `others`; may leave out those below `least`.
  void insert_from(const NumberSet& others, std::uint64_t least) {
    const std::uint64_t begin = std::max(others.first_word_, least / kBits);
    const std::uint64_t end = others.first_word_ + others.words_.size();
    if (begin >= end) {
      return;
    }
    reach(begin, end);
    for (std::uint64_t word = begin; word < end; ++word) {
      words_[word - first_word_] |= others.words_[word - others.first_word_];
    }
  }

 private:
  static constexpr std::uint64_t kBits = 64;

  /// Extends the storage to the words from `begin` to `end`.
  void reach(std::uint64_t begin, std::uint64_t end) {
    if (words_.empty()) {
      first_word_ = begin;
    }
    if (begin < first_word_) {
      words_.insert(words_.begin(), first_word_ - begin, 0);
      first_word_ = begin;
    }
    words_.resize(std::max<std::uint64_t>(words_.size(), end - first_word_));
  }

  std::uint64_t first_word_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace hearth::sim
