// Compares the rows of two reports, which are of two sittings. Pure but for reading the files.
#pragma once

#include <hearth/autotune/judge.hpp>

#include <string>

#include <hearth/runtime/base/result.hpp>

#include "command_line.hpp"
#include "report.hpp"

namespace hearth::bench {

/// Reads both reports and compares the rows that they share.
///
/// Errors: those of read_report(); invalid_argument for an option.
[[nodiscard]] Result<Report> compare_reports(const CommandLine& line, const std::string& command);
/// Judges two figures of different sittings: the interval of the ratio spans the worst cases of
/// both intervals.
[[nodiscard]] detail::Judgement judge_figures(const Figure& before,
                                              const Figure& now,
                                              double least_gain) noexcept;

}  // namespace hearth::bench
