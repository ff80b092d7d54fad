#include "random_bytes.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <random>
#include <stdexcept>

#include <gtest/gtest.h>

namespace hearth::testing {

Bytes bytes_of_seed(std::uint64_t seed, std::size_t least, std::size_t most) {
  std::mt19937_64 random(seed);
  Bytes bytes(least + random() % (most - least + 1));
  std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random() & 0xffU); });
  return bytes;
}

Bytes shrink(Bytes bytes, const std::function<bool(std::span<const std::byte>)>& fails, int tries) {
  const auto keep_if_it_fails = [&](Bytes smaller) {
    if (smaller != bytes && tries-- > 0 && fails(smaller)) {
      bytes = std::move(smaller);
      return true;
    }
    return false;
  };
  for (std::size_t part = std::max<std::size_t>(bytes.size() / 2, 1); tries > 0; part /= 2) {
    for (std::size_t at = 0; at < bytes.size() && tries > 0;) {
      Bytes smaller = bytes;
      const auto first = smaller.begin() + static_cast<std::ptrdiff_t>(at);
      smaller.erase(first, first + static_cast<std::ptrdiff_t>(std::min(part, bytes.size() - at)));
      at += keep_if_it_fails(std::move(smaller)) ? 0 : part;
    }
    if (part == 1) {
      break;
    }
  }
  for (std::size_t at = 0; at < bytes.size() && tries > 0; ++at) {
    Bytes simpler = bytes;
    simpler[at] = std::byte{0};
    keep_if_it_fails(std::move(simpler));
  }
  return bytes;
}

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    std::uint8_t value = 0;
    const char* end = text.data() + i + 2;
    if (std::from_chars(text.data() + i, end, value, 16).ptr != end) {
      throw std::invalid_argument("no hexadecimal bytes: " + std::string(text));
    }
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

std::uint64_t number_from(const char* variable, std::uint64_t fallback) {
  const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): before any thread
  return text == nullptr ? fallback : std::stoull(text);
}

Bytes run_seeded(const SeededPrograms& programs, const JudgedProgram& run) {
  const auto judge = [&](const std::string& name, const Bytes& bytes) -> Bytes {
    const std::vector<std::string> wrong = run(bytes);
    if (wrong.empty()) {
      return {};
    }
    for (const std::string& text : wrong) {
      ADD_FAILURE() << name << ": " << text;
    }
    Bytes smallest = shrink(bytes, [&](auto smaller) { return !run(smaller).empty(); });
    ADD_FAILURE() << name << ", cut down: RANDOM_BYTES=" << to_hex(smallest);
    return smallest;
  };
  // NOLINTNEXTLINE(concurrency-mt-unsafe): before any thread
  if (const char* bytes = std::getenv("RANDOM_BYTES"); bytes != nullptr) {
    return judge("RANDOM_BYTES", from_hex(bytes));
  }
  const std::uint64_t first = number_from("RANDOM_FIRST", programs.first);
  const std::uint64_t count = number_from(programs.count_variable, programs.count);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Bytes failed = judge("seed " + std::to_string(seed),
                         bytes_of_seed(seed, programs.least_bytes, programs.most_bytes));
    if (!failed.empty()) {
      return failed;
    }
  }
  return {};
}

}  // namespace hearth::testing
