// The bytes from which random programs are made: from a seed, from libFuzzer, or from a reduced
// failing program. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::testing {

using Bytes = std::vector<std::byte>;

/// Reads choices, one byte each.
class ByteReader final {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size(); }
  /// A number below `count` (at most 256); 0 once the bytes are used up.
  int pick(int count) noexcept {
    if (bytes_.empty()) {
      return 0;
    }
    const int byte = std::to_integer<int>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return byte % count;
  }
  [[nodiscard]] std::span<const std::byte> rest() const noexcept { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

/// Between `least` and `most` bytes that depend only on the seed.
[[nodiscard]] Bytes bytes_of_seed(std::uint64_t seed, std::size_t least, std::size_t most);

/// Reduces failing bytes by removing parts and then by zeroing; returns the smallest that still
/// fail. Calls `fails` at most `tries` times; `fails(bytes)` must be true.
[[nodiscard]] Bytes shrink(Bytes bytes,
                           const std::function<bool(std::span<const std::byte>)>& fails,
                           int tries = 600);

[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);
/// The bytes of a hexadecimal text. Errors: std::invalid_argument on other characters.
[[nodiscard]] Bytes from_hex(std::string_view text);

/// The number in a variable of the environment, or the fallback. Threads: before any other thread.
[[nodiscard]] std::uint64_t number_from(const char* variable, std::uint64_t fallback);

/// Runs one program from its bytes and returns its violations.
using JudgedProgram = std::function<std::vector<std::string>(std::span<const std::byte>)>;

struct SeededPrograms {
  const char* count_variable;  ///< Variable with the number of programs: "RANDOM_PROGRAMS".
  std::uint64_t count;
  std::size_t least_bytes;
  std::size_t most_bytes;
  std::uint64_t first = 1;  ///< The seed of the first program.
};

/// Runs a program for each seed from RANDOM_FIRST (default programs.first) on, or only the one
/// whose bytes RANDOM_BYTES holds in hexadecimal. The first failing program fails the test with its
/// seed, its violations and the bytes of its smallest failing reduction, which are returned.
Bytes run_seeded(const SeededPrograms& programs, const JudgedProgram& run);

}  // namespace hearth::testing
