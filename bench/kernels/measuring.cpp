#include "measuring.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "check.hpp"

namespace hearth::bench {
namespace {

using detail::Candidate;
using detail::CandidateId;

Row row_of(const Problem& problem, Heat heat) {
  return {.name = problem.text,
          .problem = problem.text,
          .heat = std::string(name(heat)),
          .flops = problem.cost.flops,
          .bytes = problem.cost.bytes};
}

Row failed(Row row, const Error& error) {
  row.is_wrong = true;
  row.verdict_text = "FAILED";
  row.check = error.text;
  return row;
}

Row wrong(Row row, std::string text) {
  row.is_wrong = true;
  row.verdict_text = "WRONG";
  row.check = std::move(text);
  return row;
}

Side side_of(BenchDevice& device, const Operands& operands, CandidateId pick) {
  return [&device, &operands, pick](std::int32_t run_count) {
    return device.sample([&operands](std::size_t i) { return operands.call(i); },
                         pick,
                         run_count,
                         operands.rotated_bytes());
  };
}

/// The rule alone, of a backend that lists no candidates for this problem.
std::vector<Candidate> candidates_of(BenchDevice& device, const Operands& operands) {
  std::vector<Candidate> all = device.backend().kernels().candidates(operands.call(0));
  if (all.empty()) {
    all.push_back({.name = "rule"});
  }
  return all;
}

Result<std::unique_ptr<Operands>> checked_operands(BenchDevice& device,
                                                   const Problem& problem,
                                                   Heat heat) {
  HEARTH_TRY(std::unique_ptr<Operands> operands, Operands::make(device, problem, heat));
  const Support support = device.backend().supports(operands->call(0));
  if (!support.yes) {
    return Error{.code = ErrorCode::unsupported, .text = support.reason};
  }
  return operands;
}

void time_rule(BenchDevice& device,
               const Operands& operands,
               Row& row,
               const MeasureOptions& options) {
  const Side side = side_of(device, operands, detail::kRulePick);
  const Result<Contest> found = time_alone(side, options.contest);
  if (!found.has_value()) {
    row = failed(std::move(row), found.error());
    return;
  }
  const Contest& contest = found.value();
  std::vector<detail::Sample> samples = contest.incumbent_samples;
  samples.insert(
      samples.end(), contest.challenger_samples.begin(), contest.challenger_samples.end());
  set_figures(row, contest.incumbent, std::move(samples), options.roofs);
  row.verdict = contest.judgement.verdict;
  // Alone, a row has no opponent: its time is not known if its halves differ.
  if (row.verdict != detail::Verdict::same) {
    row.verdict = detail::Verdict::unclear;
    row.verdict_text = contest.judgement.verdict == detail::Verdict::unclear
                           ? describe(contest.judgement)
                           : "UNCLEAR: its halves differ";
  }
}

void time_against(const Side& incumbent,
                  const Side& challenger,
                  Row& incumbent_row,
                  Row& row,
                  const MeasureOptions& options) {
  const Result<Contest> found = contest(incumbent, challenger, options.contest);
  if (!found.has_value()) {
    row = failed(std::move(row), found.error());
    return;
  }
  if (!incumbent_row.time.is_known()) {
    set_figures(
        incumbent_row, found.value().incumbent, found.value().incumbent_samples, options.roofs);
  }
  set_figures(row, found.value().challenger, found.value().challenger_samples, options.roofs);
  set_verdict(row, found.value().judgement);
}

}  // namespace

std::string_view name(Heat heat) noexcept {
  return heat == Heat::hot ? "hot" : "rotated";
}

void set_figures(Row& row,
                 const Figure& time,
                 std::vector<detail::Sample> samples,
                 const Roofs& roofs) {
  row.time = time;
  row.samples = std::move(samples);
  // Hot operands come from a cache, which the roof of memory does not limit.
  const double bytes = row.heat == "hot" ? 0 : row.bytes;
  if (time.is_known()) {
    row.roof_share = roofs.least_time(row.flops, bytes) / time.lowest;
  }
}

void set_verdict(Row& row, const detail::Judgement& judgement) {
  row.against = judgement;
  row.verdict = judgement.verdict;
  row.verdict_text = describe(judgement);
}

Row measure_problem(BenchDevice& device, const Problem& problem, const MeasureOptions& options) {
  Row row = row_of(problem, options.heat);
  const Result<std::unique_ptr<Operands>> operands =
      checked_operands(device, problem, options.heat);
  if (!operands.has_value()) {
    return failed(std::move(row), operands.error());
  }
  const Candidate rule{};
  const Result<std::vector<Checked>> checked =
      check_candidates(device, *operands.value(), problem, {&rule, 1});
  if (!checked.has_value()) {
    return failed(std::move(row), checked.error());
  }
  row.check = checked.value()[0].text;
  if (!checked.value()[0].is_right) {
    return wrong(std::move(row), row.check);
  }
  time_rule(device, *operands.value(), row, options);
  return row;
}

std::vector<Row> measure_candidates(BenchDevice& device,
                                    const Problem& problem,
                                    const MeasureOptions& options) {
  const Result<std::unique_ptr<Operands>> made = checked_operands(device, problem, options.heat);
  if (!made.has_value()) {
    return {failed(row_of(problem, options.heat), made.error())};
  }
  Operands& operands = *made.value();
  const std::vector<Candidate> candidates = candidates_of(device, operands);
  const Result<std::vector<Checked>> checks =
      check_candidates(device, operands, problem, candidates);
  if (!checks.has_value()) {
    return {failed(row_of(problem, options.heat), checks.error())};
  }
  const Side rule = side_of(device, operands, candidates[0].id);
  std::vector<Row> rows;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& each = candidates[i];
    const Checked& check = checks.value()[i];
    Row row = row_of(problem, options.heat);
    row.version = fmt::format("{}{}", each.name, i == 0 ? " *" : "");
    row.bits = each.bits == candidates[0].bits ? "=" : "~";
    row.check = check.text;
    if (options.progress) {
      options.progress(row.version, i, candidates.size());
    }
    if (check.is_refused) {
      row.is_refused = true;
      row.verdict_text = "refused";
    } else if (!check.is_right) {
      row = wrong(std::move(row), check.text);
    } else if (i == 0) {
      time_rule(device, operands, row, options);
    } else {
      time_against(rule, side_of(device, operands, each.id), rows[0], row, options);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

/// Returns the first element that differs by more than the tolerance; empty if none does.
std::string difference(std::span<const std::byte> got,
                       std::span<const std::byte> expected,
                       DType dtype,
                       double tolerance) {
  const double limit = tolerance > 0 ? tolerance : 64 * testing::unit_roundoff(dtype);
  return visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto value = [](std::span<const std::byte> bytes, std::size_t i) {
      T element;
      std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
      if constexpr (requires { element.bits; }) {
        return static_cast<double>(static_cast<float>(element));
      } else {
        return static_cast<double>(element);
      }
    };
    for (std::size_t i = 0; i < got.size() / sizeof(T); ++i) {
      const double a = value(got, i);
      const double b = value(expected, i);
      const bool are_same = a == b || (std::isnan(a) && std::isnan(b));
      if (!are_same && !(std::fabs(a - b) <= limit * (1 + std::fabs(b)))) {
        return fmt::format("element {} is {:.7g}, the other version has {:.7g}", i, a, b);
      }
    }
    return std::string();
  });
}

/// Compares the results of both on three sets of data.
Result<Checked> compare_versions(BenchDevice& device,
                                 Operands& incumbent,
                                 Operands& challenger,
                                 const Versions& versions) {
  bool are_same_bits = true;
  for (const Data data : {Data::special, Data::one_hot, Data::uniform}) {
    std::array<Operands::Results, 2> results;
    for (std::size_t i = 0; i < 2; ++i) {
      Operands& each = i == 0 ? incumbent : challenger;
      HEARTH_TRY_STATUS(each.fill(data));
      HEARTH_TRY_STATUS(each.clear_results());
      HEARTH_TRY_STATUS(device.run(each.call(0), detail::kRulePick));
      HEARTH_TRY(results[i], each.results());
      if (results[i].has_broken_guard) {
        return Checked{
            .is_right = false,
            .text = fmt::format("{} writes out of the bounds of its result",
                                i == 0 ? versions.incumbent_name : versions.challenger_name)};
      }
    }
    for (std::size_t i = 0; i < versions.incumbent.outputs.size(); ++i) {
      const DType dtype = versions.incumbent.outputs[i].dtype;
      const std::span<const std::byte> expected = incumbent.output(results[0], i);
      const std::span<const std::byte> got = challenger.output(results[1], i);
      are_same_bits = are_same_bits && are_equal(got, expected, dtype);
      // Versions may treat what overflows in different ways, but not what is finite.
      const std::string text = data == Data::special && !are_same_bits
                                   ? std::string()
                                   : difference(got, expected, dtype, versions.tolerance);
      if (!text.empty()) {
        return Checked{.is_right = false, .text = text};
      }
    }
  }
  return Checked{.text = are_same_bits ? "equal bytes, 3 sets" : "equal within the tolerance"};
}

}  // namespace

std::vector<Row> measure_versions(BenchDevice& device,
                                  const Versions& versions,
                                  const MeasureOptions& options) {
  Row first = row_of(versions.incumbent, options.heat);
  first.version = versions.incumbent_name;
  first.bits = "=";
  Row second = row_of(versions.challenger, options.heat);
  second.version = versions.challenger_name;
  const auto incumbent = checked_operands(device, versions.incumbent, options.heat);
  const auto challenger = checked_operands(device, versions.challenger, options.heat);
  if (!incumbent.has_value()) {
    return {failed(std::move(first), incumbent.error())};
  }
  if (!challenger.has_value()) {
    return {failed(std::move(second), challenger.error())};
  }
  const Result<Checked> checked =
      compare_versions(device, *incumbent.value(), *challenger.value(), versions);
  if (!checked.has_value()) {
    return {failed(std::move(second), checked.error())};
  }
  second.check = checked.value().text;
  second.bits = second.check.starts_with("equal bytes") ? "=" : "~";
  if (!checked.value().is_right) {
    second = wrong(std::move(second), checked.value().text);
  } else {
    time_against(side_of(device, *incumbent.value(), detail::kRulePick),
                 side_of(device, *challenger.value(), detail::kRulePick),
                 first,
                 second,
                 options);
  }
  return {std::move(first), std::move(second)};
}

}  // namespace hearth::bench
