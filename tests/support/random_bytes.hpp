// The bytes that random programs are made of: from a seed, from libFuzzer, or from a program that
// failed and was cut down. Threads: one at a time.
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

/// Choices, one byte each.
class ByteReader final {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size(); }
  /// Below `count`, which is 256 at most; 0 once the bytes are used up.
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

/// Between `least` and `most` bytes that depend on the seed alone.
[[nodiscard]] Bytes bytes_of_seed(std::uint64_t seed, std::size_t least, std::size_t most);

/// The smallest bytes found that still fail, by leaving parts out and then by zeros. `fails` is
/// asked `tries` times at most; it is true of `bytes`.
[[nodiscard]] Bytes shrink(Bytes bytes,
                           const std::function<bool(std::span<const std::byte>)>& fails,
                           int tries = 600);

[[nodiscard]] std::string to_hex(std::span<const std::byte> bytes);
/// Errors: std::invalid_argument on what is no hexadecimal digit.
[[nodiscard]] Bytes from_hex(std::string_view text);

/// The environment's number, else the fallback. Before any thread.
[[nodiscard]] std::uint64_t number_from(const char* variable, std::uint64_t fallback);

/// Runs one program from its bytes, and returns what is wrong with it.
using JudgedProgram = std::function<std::vector<std::string>(std::span<const std::byte>)>;

struct SeededPrograms {
  const char* count_variable;  ///< How many: "RANDOM_PROGRAMS".
  std::uint64_t count;
  std::size_t least_bytes;
  std::size_t most_bytes;
  std::uint64_t first = 1;  ///< The seed of the first one.
};

/// Runs a program for each seed from RANDOM_FIRST (programs.first) on, or the one whose bytes
/// RANDOM_BYTES has in hexadecimal. The first that fails is a test failure: with its seed, what is
/// wrong, and the bytes of the smallest program that fails too, which are returned.
Bytes run_seeded(const SeededPrograms& programs, const JudgedProgram& run);

}  // namespace hearth::testing
