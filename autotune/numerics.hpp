// Numerics: whether tuning may change the bits of results. Bits classes: which candidates compute
// equal bits. AutotuneLevel: how much tuning a program allows.
// Values. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace hearth {

/// Whether a tuned kernel may round differently from the backend's own choice.
enum class Numerics : std::uint8_t {
  /// Every pick computes the bits of the backend's rule. Tuning then changes no result, whatever
  /// the cache holds.
  same_bits,
  /// Picks may sum in another order. A training pins them at its first step.
  fast,
};

/// How much a runtime tunes.
enum class AutotuneLevel : std::uint8_t {
  off,          ///< The backend's rules decide; no cache is read.
  cached_only,  ///< Stored picks are used; no trial runs and no byte is written.
  minimal,      ///< Trials of the 2 most promising candidates of a call.
  balanced,     ///< Trials of the 4 most promising ones.
  full,         ///< Trials of all candidates.
};

namespace detail {

/// The sums that a candidate makes, as a number of its backend. Candidates of one call with equal
/// numbers compute equal bits; tests compare their bytes.
using BitsClass = std::uint32_t;

/// Names of the levels, in the order of AutotuneLevel: values of HEARTH_AUTOTUNE.
inline constexpr std::array<std::string_view, 5> kAutotuneLevels{
    "off", "cached_only", "minimal", "balanced", "full"};

[[nodiscard]] constexpr std::string_view name(AutotuneLevel level) noexcept {
  return kAutotuneLevels[static_cast<std::size_t>(level)];
}
/// Returns the number of candidates that a level tries beside the rule; 0 for levels without
/// trials.
[[nodiscard]] constexpr std::size_t most_challengers(AutotuneLevel level) noexcept {
  constexpr std::array<std::size_t, 5> kMost{0, 0, 2, 4, 0xFFFF};
  return kMost[static_cast<std::size_t>(level)];
}

}  // namespace detail
}  // namespace hearth
