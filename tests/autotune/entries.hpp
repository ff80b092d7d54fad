// Entries with all fields set, for tests of files and stores. Pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <hearth/autotune/tune_entry.hpp>

namespace hearth::testing {

inline constexpr std::chrono::sys_seconds kTuned{std::chrono::seconds(1'900'000'000)};

/// Returns the entry number `number`: keys of different numbers differ.
[[nodiscard]] inline detail::TuneEntry full_entry(std::int64_t number) {
  const auto text = static_cast<std::uint64_t>(number);
  return {.key = {.sizes = {number, 4096}, .kind = detail::kind_number("matmul"), .cores = 2},
          .label = "matmul f32 " + std::to_string(number),
          .ladder = {{.id = 3,
                      .text_hash = 103,
                      .low = detail::RunTime(80.5),
                      .median = detail::RunTime(81)},
                     {.id = 0,
                      .text_hash = 100,
                      .low = detail::RunTime(100),
                      .median = detail::RunTime(101.25)}},
          .evidence = {.ratio_low = 0.79,
                       .ratio = 0.8,
                       .ratio_high = 0.81,
                       .spread = detail::RunTime(1.5),
                       .pair_count = 13,
                       .dirty_share = 0.25F,
                       .clock_mhz = 3000,
                       .load = 1.5F,
                       .doubt = detail::Doubt::none},
          .verified = {{.id = 3, .how = detail::VerifiedBy::same_bytes, .text_hash = 103},
                       {.id = 4, .how = detail::VerifiedBy::reference, .text_hash = text}},
          .quarantined = {{.id = 5, .text_hash = 105, .reason = "byte 7 of output 0"}},
          .tuned_at = kTuned,
          .slow_sittings = 1};
}

}  // namespace hearth::testing
