// A candidate: one of the kernels that a backend offers for a call.
// Values. Threads: any.
// Invariants of a list of candidates: (1) the first one is the backend's rule, with id kRulePick;
// (2) ids do not repeat, and the row that the rule chooses appears only as the first one; (3) the
// list is a pure function of the call's sizes, strides, types and alignment.
#pragma once

#include <hearth/autotune/numerics.hpp>
#include <hearth/autotune/sample.hpp>

#include <cstdint>
#include <span>
#include <string_view>

namespace hearth::detail {

/// Number of a row in the backend's table of choices. Stored: a row keeps its number as long as its
/// text.
using CandidateId = std::uint16_t;
/// The backend's own rule.
inline constexpr CandidateId kRulePick = 0;

struct Candidate {
  CandidateId id = kRulePick;
  BitsClass bits = 0;
  RunTime predicted = {};          ///< Time by the backend's model; 0: no prediction.
  std::int64_t scratch_bytes = 0;  ///< Scratch memory while it runs.
  std::uint64_t text_hash = 0;     ///< Hash of the kernel's source, compiler and flags.
  std::string_view name = {};      ///< "swapped/read-a"; lives as long as the backend.
};

/// Returns the candidate of this id, or nullptr.
[[nodiscard]] constexpr const Candidate* find_candidate(std::span<const Candidate> candidates,
                                                        CandidateId id) noexcept {
  for (const Candidate& each : candidates) {
    if (each.id == id) {
      return &each;
    }
  }
  return nullptr;
}

/// Returns whether a program of these numerics may run `candidate` in place of `rule`.
[[nodiscard]] constexpr bool may_replace(const Candidate& candidate,
                                         const Candidate& rule,
                                         Numerics numerics) noexcept {
  return numerics == Numerics::fast || candidate.bits == rule.bits;
}

}  // namespace hearth::detail
