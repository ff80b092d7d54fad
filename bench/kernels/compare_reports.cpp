#include "compare_reports.hpp"

#include <algorithm>
#include <utility>

namespace hearth::bench {

detail::Judgement judge_figures(const Figure& before,
                                const Figure& now,
                                double least_gain) noexcept {
  detail::Judgement judgement{.verdict = detail::Verdict::unclear,
                              .doubt = detail::Doubt::few_pairs};
  if (before.count < 6 || now.count < 6) {
    return judgement;
  }
  const detail::RatioInterval ratio{.low = now.from / before.to,
                                    .median = now.median / before.median,
                                    .high = now.to / before.from};
  judgement.ratio = ratio;
  judgement.low_ratio = now.lowest / before.lowest;
  judgement.pair_count = std::min(before.count, now.count);
  judgement.sample_count = now.count + now.dirty_count;
  judgement.dirty_count = now.dirty_count;
  const double win = 1 - least_gain;
  judgement.doubt = detail::Doubt::none;
  if (ratio.median <= win && ratio.high < 1 && judgement.low_ratio <= win) {
    judgement.verdict = detail::Verdict::faster;
  } else if (ratio.median >= 1 / win && ratio.low > 1 && judgement.low_ratio >= 1 / win) {
    judgement.verdict = detail::Verdict::slower;
  } else if (ratio.low > win && ratio.high < 1 / win) {
    judgement.verdict = detail::Verdict::same;
  } else {
    judgement.doubt = detail::Doubt::noise;
  }
  return judgement;
}

Result<Report> compare_reports(const CommandLine& line, const std::string& command) {
  HEARTH_TRY(const double least_gain, line.number("--least-gain"));
  HEARTH_TRY(const Report before, read_report(line.names()[0]));
  HEARTH_TRY(Report now, read_report(line.names()[1]));
  std::vector<Row> rows;
  for (Row& row : now.rows) {
    const auto old = std::ranges::find_if(before.rows, [&](const Row& each) {
      return each.label() == row.label() && each.problem == row.problem &&
             each.version == row.version && each.heat == row.heat;
    });
    if (old == before.rows.end()) {
      continue;
    }
    if (!row.is_wrong && !row.is_refused) {
      const detail::Judgement judgement = judge_figures(old->time, row.time, least_gain);
      row.against = judgement;
      row.verdict = judgement.verdict;
      row.verdict_text = describe(judgement);
    }
    rows.push_back(std::move(row));
  }
  now.command = command;
  now.rows = std::move(rows);
  return now;
}

}  // namespace hearth::bench
