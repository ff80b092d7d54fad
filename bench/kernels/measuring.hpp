// Measures problems: checks each version, then times it by a contest. Shared by op, run, kernel.
// Threads: that of the device.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>

#include "bench_device.hpp"
#include "contest.hpp"
#include "operands.hpp"
#include "problem.hpp"
#include "report.hpp"
#include "roofs.hpp"

namespace hearth::bench {

struct MeasureOptions {
  ContestOptions contest = {};
  Heat heat = Heat::rotated;
  Roofs roofs = {};
  /// Called before each version: its name, and its place among all.
  std::function<void(const std::string& name, std::size_t place, std::size_t count)> progress = {};
};

/// Times the rule's kernel of a problem, checked against the reference.
///
/// Errors: none; a failure is a row that is wrong, with the reason.
[[nodiscard]] Row measure_problem(BenchDevice& device,
                                  const Problem& problem,
                                  const MeasureOptions& options);
/// Times all candidates of a problem: the rule first, each other one against it. Wrong candidates
/// are not timed.
///
/// Errors: none, as above.
[[nodiscard]] std::vector<Row> measure_candidates(BenchDevice& device,
                                                  const Problem& problem,
                                                  const MeasureOptions& options);

/// Two versions of a kernel on equal data. Their problems differ in their code alone.
struct Versions {
  Problem incumbent;
  Problem challenger;
  std::string incumbent_name;
  std::string challenger_name;
  double tolerance = 0;  ///< Largest |a - b| / (1 + |b|); 0: by element type.
};
/// Times both, the challenger against the incumbent, whose results it must have on three sets of
/// data within the tolerance.
///
/// Errors: none, as above.
[[nodiscard]] std::vector<Row> measure_versions(BenchDevice& device,
                                                const Versions& versions,
                                                const MeasureOptions& options);

/// Fills in a row's figures from a contest.
void set_figures(Row& row,
                 const Figure& time,
                 std::vector<detail::Sample> samples,
                 const Roofs& roofs);
void set_verdict(Row& row, const detail::Judgement& judgement);

[[nodiscard]] std::string_view name(Heat heat) noexcept;

}  // namespace hearth::bench
