// The result of a command that measures: rows of figures under a header of facts. Printed as a
// table, and written as JSON (schema hearth.bench/1, with all samples), CSV or Markdown.
// Values. Threads: any.
#pragma once

#include <hearth/autotune/judge.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>

#include "command_line.hpp"
#include "contest.hpp"
#include "machine.hpp"
#include "roofs.hpp"

namespace hearth::bench {

struct Row {
  std::string suite = {};
  std::string name = {};
  std::string problem = {};  ///< "matmul m=32 ..."
  std::string version = {};  ///< A candidate, a kernel's file, a program; empty: the rule.
  std::string heat = {};     ///< "rotated" or "hot".
  std::string bits = {};     ///< "=": the bits of the first version; "~": other ones.
  std::string rule = {};     ///< Name of the rule's kernel, where a pick was looked for.
  std::string pick = {};     ///< Name of the pick; "rule" if the rule stays.
  double gain = 0;           ///< Time of the rule / time of the pick; 0: unknown.
  Figure time = {};
  double flops = 0;
  double bytes = 0;
  double roof_share = 0;  ///< Shortest time by the roofs / the time; 0: unknown.
  /// Comparison with the first version; empty for rows that stand alone.
  std::optional<detail::Judgement> against = {};
  detail::Verdict verdict = detail::Verdict::same;
  std::string verdict_text = {};
  std::string check = {};
  bool is_wrong = false;    ///< Wrong results or a failure: the row has no time.
  bool is_refused = false;  ///< The call does not allow this version.
  std::vector<detail::Sample> samples = {};

  [[nodiscard]] std::string label() const { return suite.empty() ? name : suite + "/" + name; }
};

struct Report {
  std::string command = {};
  std::string device = {};
  Facts facts = {};
  std::vector<std::string> warnings = {};
  Roofs roofs = {};
  std::vector<Row> rows = {};
};

/// Form of a table.
enum class TableForm : std::uint8_t { text, csv, markdown };
[[nodiscard]] std::string to_text(const Report& report, TableForm form);
[[nodiscard]] std::string to_json(const Report& report);
/// Errors: bad_format.
[[nodiscard]] Result<Report> parse_report(const std::string& json);
/// Errors: io_error, not_found, bad_format.
[[nodiscard]] Result<Report> read_report(const std::filesystem::path& path);

/// Returns wrong before slower before unclear. `counts_slower`: false where a slower row is no
/// regression, as among candidates.
[[nodiscard]] Exit exit_of(const Report& report, bool counts_slower);

/// Returns "5,612 us", "1.27 ms", "31.2 ns": four digits.
[[nodiscard]] std::string readable_time(detail::RunTime time);

}  // namespace hearth::bench
