// Stored tuning results as text. Pure functions. Threads: any.
#pragma once

#include <hearth/autotune/tune_file.hpp>

#include <string>
#include <string_view>

namespace hearth::bench {

/// Returns "15 pairs, 0 % dirty, load 1.1, 11-28", doubts and quarantines.
[[nodiscard]] std::string evidence_of(const detail::TuneEntry& entry);
/// Returns one line for each entry whose label contains the filter: its pick, the gain over the
/// rule, the evidence, its quarantines. Then the keys that wait for a trial.
[[nodiscard]] std::string tune_table(const detail::TuneFile& file, std::string_view filter);
/// Returns the entries whose pick differs, and those that one file alone has. Empty: none.
[[nodiscard]] std::string tune_difference(const detail::TuneFile& before,
                                          const detail::TuneFile& after);

}  // namespace hearth::bench
