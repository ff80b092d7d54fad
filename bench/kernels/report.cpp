#include "report.hpp"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

namespace hearth::bench {
namespace {

using detail::Verdict;

struct Column {
  std::string_view title;
  bool is_right;  ///< Figures are aligned at their end.
  std::string (*cell)(const Row&);
};

std::string rate(double amount, const Row& row) {
  return row.time.is_known() && amount > 0 ? fmt::format("{:.4g}", amount / row.time.lowest.count())
                                           : std::string();
}

std::string time_cell(const Row& row, detail::RunTime time) {
  return row.time.is_known() ? readable_time(time) : std::string("-");
}

constexpr std::array kColumns = {
    Column{"row", false, [](const Row& r) { return r.label(); }},
    Column{"version", false, [](const Row& r) { return r.version; }},
    Column{"operands", false, [](const Row& r) { return r.heat; }},
    Column{"bits", false, [](const Row& r) { return r.bits; }},
    Column{"rule", false, [](const Row& r) { return r.rule; }},
    Column{"pick", false, [](const Row& r) { return r.pick; }},
    Column{"gain",
           true,
           [](const Row& r) { return r.gain > 0 ? fmt::format("{:.2f}", r.gain) : std::string(); }},
    Column{"low", true, [](const Row& r) { return time_cell(r, r.time.lowest); }},
    Column{"median", true, [](const Row& r) { return time_cell(r, r.time.median); }},
    Column{"96 %",
           true,
           [](const Row& r) {
             return r.time.count >= 6
                        ? fmt::format(
                              "{} .. {}", readable_time(r.time.from), readable_time(r.time.to))
                        : std::string();
           }},
    Column{"GFLOP/s", true, [](const Row& r) { return rate(r.flops, r); }},
    Column{"GB/s", true, [](const Row& r) { return rate(r.bytes, r); }},
    Column{"% roof",
           true,
           [](const Row& r) {
             return r.roof_share > 0 && r.time.is_known()
                        ? fmt::format("{:.0f}", 100 * r.roof_share)
                        : std::string();
           }},
    Column{"verdict", false, [](const Row& r) { return r.verdict_text; }},
    Column{"checked", false, [](const Row& r) { return r.check; }},
};

/// The cells of all rows, with the titles first, in columns that some row fills.
std::vector<std::vector<std::string>> cells_of(std::span<const Row> rows,
                                               std::vector<bool>& are_right) {
  std::vector<std::vector<std::string>> lines(rows.size() + 1);
  for (const Column& column : kColumns) {
    std::vector<std::string> cells;
    for (const Row& row : rows) {
      cells.push_back(column.cell(row));
    }
    if (std::ranges::all_of(cells, [](const std::string& each) { return each.empty(); })) {
      continue;
    }
    are_right.push_back(column.is_right);
    lines[0].emplace_back(column.title);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      lines[i + 1].push_back(std::move(cells[i]));
    }
  }
  return lines;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) {
    return text;
  }
  std::string quoted = "\"";
  for (const char each : text) {
    quoted += each == '"' ? "\"\"" : std::string(1, each);
  }
  return quoted + "\"";
}

std::string table(const Report& report, TableForm form) {
  std::vector<bool> are_right;
  const auto lines = cells_of(report.rows, are_right);
  std::vector<std::size_t> widths(lines[0].size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      widths[i] = std::max(widths[i], line[i].size());
    }
  }
  std::string text;
  for (std::size_t number = 0; number < lines.size(); ++number) {
    std::string line;
    for (std::size_t i = 0; i < lines[number].size(); ++i) {
      const std::string& cell = lines[number][i];
      if (form == TableForm::csv) {
        line += (i == 0 ? "" : ",") + csv_cell(cell);
      } else if (form == TableForm::markdown) {
        line += "| " + cell + " ";
      } else {
        line += are_right[i] ? fmt::format("{:>{}}  ", cell, widths[i])
                             : fmt::format("{:<{}}  ", cell, widths[i]);
      }
    }
    if (form == TableForm::markdown) {
      line += "|";
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (form == TableForm::markdown && number == 0) {
      for (std::size_t i = 0; i < lines[0].size(); ++i) {
        text += are_right[i] ? "|--:" : "|---";
      }
      text += "|\n";
    }
  }
  return text;
}

std::string header(const Report& report, TableForm form) {
  const bool is_markdown = form == TableForm::markdown;
  std::string text = is_markdown ? fmt::format("`{}`\n\n", report.command) : "";
  const auto add = [&](std::string_view name, std::string_view value) {
    text += is_markdown ? fmt::format("- {}: {}\n", name, value)
                        : fmt::format("{:<11}{}\n", name, value);
  };
  add("device", report.device);
  for (const auto& [name, value] : report.facts) {
    add(name, value);
  }
  if (report.roofs.flops_per_second > 0 || report.roofs.bytes_per_second > 0) {
    add("roofs", report.roofs.to_string());
  }
  for (const std::string& each : report.warnings) {
    add("WARNING", each);
  }
  return text + "\n";
}

std::string summary(const Report& report) {
  std::array<int, 4> counts{};
  int wrong = 0;
  int refused = 0;
  int timed = 0;  // without an opponent
  for (const Row& row : report.rows) {
    if (row.is_wrong) {
      ++wrong;
    } else if (row.is_refused) {
      ++refused;
    } else if (row.verdict_text.empty()) {
      ++timed;
    } else {
      ++counts[static_cast<std::size_t>(row.verdict)];
    }
  }
  std::string text = fmt::format("{} rows:", report.rows.size());
  for (const Verdict verdict :
       {Verdict::faster, Verdict::same, Verdict::slower, Verdict::unclear}) {
    if (const int count = counts[static_cast<std::size_t>(verdict)]; count > 0) {
      text += fmt::format(" {} {}", count, word(verdict));
    }
  }
  text += timed > 0 ? fmt::format(" {} timed", timed) : "";
  text += wrong > 0 ? fmt::format(" {} WRONG", wrong) : "";
  text += refused > 0 ? fmt::format(" {} refused", refused) : "";
  return text + "\n";
}

}  // namespace

std::string to_text(const Report& report, TableForm form) {
  if (form == TableForm::csv) {
    return table(report, form);
  }
  const std::string end = form == TableForm::markdown ? "\n" : "";
  return header(report, form) + table(report, form) + end + summary(report);
}

Exit exit_of(const Report& report, bool counts_slower) {
  const auto any = [&](auto is) { return std::ranges::any_of(report.rows, is); };
  if (any([](const Row& row) { return row.is_wrong; })) {
    return Exit::wrong;
  }
  const auto is_judged = [](const Row& row, Verdict verdict) {
    return !row.is_refused && row.verdict == verdict;
  };
  if (counts_slower && any([&](const Row& row) { return is_judged(row, Verdict::slower); })) {
    return Exit::slower;
  }
  return any([&](const Row& row) { return is_judged(row, Verdict::unclear); }) ? Exit::unclear
                                                                               : Exit::fine;
}

std::string readable_time(detail::RunTime time) {
  const double ns = time.count();
  if (ns < 1e3) {
    return fmt::format("{:.4g} ns", ns);
  }
  if (ns < 1e6) {
    return fmt::format("{:.4g} us", ns / 1e3);
  }
  return ns < 1e9 ? fmt::format("{:.4g} ms", ns / 1e6) : fmt::format("{:.4g} s", ns / 1e9);
}

}  // namespace hearth::bench
