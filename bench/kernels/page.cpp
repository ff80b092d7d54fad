#include "page.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <hearth/runtime/base/file.hpp>

namespace hearth::bench {
namespace {

using Json = nlohmann::ordered_json;
using Pair = std::pair<std::string_view, std::string_view>;

constexpr std::array<std::string_view, 6> kSections{
    "Training", "Serving", "Kernels", "GPUs", "Where time goes", "Changes"};
constexpr std::array<Pair, 12> kAbout{{{"machine", "Machine"},
                                       {"processor", "Processor"},
                                       {"cores", "Cores"},
                                       {"peak", "FMA peak"},
                                       {"gpu", "GPU"},
                                       {"driver", "Driver"},
                                       {"compiler", "Compiler"},
                                       {"peer", "Peer"},
                                       {"commit", "Commit"},
                                       {"before_commit", "Commit before"},
                                       {"method", "Method"},
                                       {"command", "Command"}}};
constexpr std::array<Pair, 18> kColumns{{{"name", "what"},
                                         {"benchmark", "benchmark"},
                                         {"case", "case"},
                                         {"shape", "shape"},
                                         {"dtype", "type"},
                                         {"unit", "unit"},
                                         {"before", "before"},
                                         {"predicted", "predicted"},
                                         {"change", "change"},
                                         {"ours", "ours"},
                                         {"peer", "peer"},
                                         {"against", "which peer"},
                                         {"ratio", "ratio"},
                                         {"bar", "bar"},
                                         {"efficiency", "efficiency"},
                                         {"p99_ms", "p99, ms"},
                                         {"peer_p99_ms", "peer's p99, ms"},
                                         {"note", "note"}}};
constexpr std::array<Pair, 4> kSpreads{{{"ours", "spread"},
                                        {"before", "before_spread"},
                                        {"peer", "peer_spread"},
                                        {"ratio", "ratio_spread"}}};
constexpr std::string_view kIntroduction = R"(# Results

`hearth-bench page` writes this page from the files of [results](results); edit those. Test
`Results.PageAgreesWithItsFiles` compares both. [PEERS.md](PEERS.md) has the peers' settings and the
commands, [MISSES.md](MISSES.md) the reasons of what is missed.

- A ratio is Hearth's time divided by the peer's, or the peer's rate divided by Hearth's. Below 1
  Hearth is faster. Both sides ran in turns in one session on one machine.
- An efficiency is the inverse: the peer's time divided by Hearth's.
- A range `a–b` holds the least and the largest of several runs. In brackets it is the spread.
- A bar limits the ratio of its row, or the column that it names. A range has missed its bar if one
  of its ends has.
)";

// Marks a number, whose digits the page keeps, among texts.
constexpr char kNumber = '\x01';

/// Builds a document whose numbers are texts: kNumber and the digits of the file.
class DigitKeeper final : public nlohmann::json_sax<Json> {
 public:
  explicit DigitKeeper(Json& document) : builder_(document, false) {}

  bool null() override { return builder_.null(); }
  bool boolean(bool value) override { return builder_.boolean(value); }
  bool number_integer(number_integer_t value) override { return number(fmt::format("{}", value)); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(fmt::format("{}", value));
  }
  bool number_float(number_float_t /*value*/, const string_t& token) override {
    return number(token);
  }
  bool string(string_t& value) override { return builder_.string(value); }
  bool binary(binary_t& value) override { return builder_.binary(value); }
  bool start_object(std::size_t count) override { return builder_.start_object(count); }
  bool key(string_t& value) override { return builder_.key(value); }
  bool end_object() override { return builder_.end_object(); }
  bool start_array(std::size_t count) override { return builder_.start_array(count); }
  bool end_array() override { return builder_.end_array(); }
  bool parse_error(std::size_t /*place*/,
                   const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    problem_ = error.what();
    return false;
  }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  bool number(const std::string& token) {
    std::string text = kNumber + token;
    return builder_.string(text);
  }

  nlohmann::detail::json_sax_dom_parser<Json> builder_;
  std::string problem_;
};

std::string title_of(std::span<const Pair> pairs, std::string_view key) {
  const auto found = std::ranges::find(pairs, key, &Pair::first);
  return found == pairs.end() ? std::string() : std::string(found->second);
}

struct Bar {
  std::string column;
  bool is_upper;
  std::string limit;
};

/// "ratio <= 0.96"; nothing for another text.
std::optional<Bar> bar_of(const std::string& text) {
  for (const std::string_view sign : {" <= ", " >= "}) {
    const std::size_t place = text.find(sign);
    if (place == std::string::npos || place == 0) {
      continue;
    }
    Bar bar{.column = text.substr(0, place),
            .is_upper = sign == " <= ",
            .limit = text.substr(place + sign.size())};
    const bool is_number = !bar.limit.empty() && std::ranges::all_of(bar.limit, [](char each) {
      return std::isdigit(static_cast<unsigned char>(each)) != 0 || each == '.';
    });
    const bool is_name = std::ranges::all_of(bar.column, [](char each) {
      return std::islower(static_cast<unsigned char>(each)) != 0 ||
             std::isdigit(static_cast<unsigned char>(each)) != 0 || each == '_';
    });
    return is_number && is_name ? std::optional(bar) : std::nullopt;
  }
  return {};
}

std::string figure(const Json& value) {
  if (value.is_array()) {
    std::string text;
    for (const Json& each : value) {
      text += (text.empty() ? "" : "–") + figure(each);
    }
    return text;
  }
  const std::string text = value.get<std::string>();
  return text.starts_with(kNumber) ? readable_number(text.substr(1)) : text;
}

double amount(const Json& value) {
  return std::strtod(value.get<std::string>().c_str() + 1, nullptr);
}

std::string bar_cell(const Json& row) {
  const Bar bar = *bar_of(row.at("bar").get<std::string>());
  const std::string mark = bar.is_upper ? "≤" : "≥";
  std::string text = bar.column == "ratio" ? fmt::format("{} {}", mark, bar.limit)
                                           : fmt::format("{} {} {}", bar.column, mark, bar.limit);
  if (!row.contains(bar.column)) {
    return text;
  }
  const Json& value = row.at(bar.column);
  const double limit = std::strtod(bar.limit.c_str(), nullptr);
  const auto misses = [&](const Json& each) {
    return bar.is_upper ? amount(each) > limit : amount(each) < limit;
  };
  const bool is_missed = value.is_array() ? std::ranges::any_of(value, misses) : misses(value);
  return is_missed ? text + ", **missed**" : text;
}

std::string cell(const Json& row, std::string_view column) {
  const std::string key(column);
  if (!row.contains(key)) {
    return {};
  }
  if (column == "bar") {
    return bar_cell(row);
  }
  if (column == "benchmark") {
    return fmt::format("`{}`", row.at(key).get<std::string>());
  }
  const std::string spread = title_of(kSpreads, column);
  return figure(row.at(key)) + (!spread.empty() && row.contains(spread)
                                    ? fmt::format(" ({})", figure(row.at(spread)))
                                    : "");
}

std::string table(const Json& rows) {
  std::vector<Pair> columns;
  for (const Pair& column : kColumns) {
    if (std::ranges::any_of(
            rows, [&](const Json& row) { return row.contains(std::string(column.first)); })) {
      columns.push_back(column);
    }
  }
  std::string text = "|";
  for (const Pair& column : columns) {
    text += fmt::format(" {} |", column.second);
  }
  text += "\n|";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    text += "---|";
  }
  text += "\n";
  for (const Json& row : rows) {
    text += "|";
    for (const Pair& column : columns) {
      text += fmt::format(" {} |", cell(row, column.first));
    }
    text += "\n";
  }
  return text;
}

/// Adds the columns of a row that the page does not know, and spreads without their figure.
void add_mistakes(const Json& row, std::set<std::string>& wrong) {
  for (const auto& [key, value] : row.items()) {
    const bool is_spread = std::ranges::find(kSpreads, key, &Pair::second) != kSpreads.end();
    if (!is_spread && title_of(kColumns, key).empty()) {
      wrong.insert(key);
    }
    if (value.is_boolean() || value.is_null() || value.is_object()) {
      wrong.insert(key);
    }
  }
  for (const Pair& each : kSpreads) {
    if (row.contains(std::string(each.second)) && !row.contains(std::string(each.first))) {
      wrong.insert(std::string(each.second));
    }
  }
  if (row.contains("bar") && !bar_of(row.at("bar").get<std::string>())) {
    wrong.insert(row.at("bar").get<std::string>());
  }
}

std::set<std::string> mistakes_of(const Json& run) {
  std::set<std::string> wrong;
  for (const std::string_view key : {"section", "title", "rows"}) {
    if (!run.contains(std::string(key))) {
      wrong.insert(std::string(key));
    }
  }
  for (const auto& [key, value] : run.items()) {
    const bool is_known =
        key == "section" || key == "title" || key == "rows" || !title_of(kAbout, key).empty();
    if (!is_known) {
      wrong.insert(key);
    }
  }
  if (run.contains("section")) {
    const std::string section = run.at("section").get<std::string>();
    if (std::ranges::find(kSections, section) == kSections.end()) {
      wrong.insert(section);
    }
  }
  if (run.contains("rows")) {
    for (const Json& row : run.at("rows")) {
      add_mistakes(row, wrong);
    }
  }
  return wrong;
}

Result<Json> load(const std::filesystem::path& path) {
  HEARTH_TRY(const std::vector<std::byte> bytes, read_file(path));
  const std::string name = path.filename().string();
  Json run;
  DigitKeeper keeper(run);
  const auto* const begin = reinterpret_cast<const char*>(bytes.data());
  if (!Json::sax_parse(begin, begin + bytes.size(), &keeper)) {
    return Error{.code = ErrorCode::bad_format, .text = name + ": " + keeper.problem()};
  }
  std::set<std::string> wrong;
  try {
    wrong = mistakes_of(run);
  } catch (const nlohmann::json::exception& error) {
    return Error{.code = ErrorCode::bad_format, .text = name + ": " + error.what()};
  }
  if (!wrong.empty()) {
    return Error{.code = ErrorCode::bad_format,
                 .text = fmt::format("{}: missing, unknown, or a spread without its figure: {}",
                                     name,
                                     fmt::join(wrong, ", "))};
  }
  return run;
}

std::string part(const std::string& name, const Json& run) {
  std::string about;
  for (const Pair& each : kAbout) {
    const std::string key(each.first);
    if (run.contains(key)) {
      about += fmt::format("{}: {}. ", each.second, figure(run.at(key)));
    }
  }
  return fmt::format("\n### {}\n\n{}\n\n{}",
                     run.at("title").get<std::string>(),
                     wrapped_text(fmt::format("{}File: `{}`.", about, name)),
                     table(run.at("rows")));
}

/// The number of characters of UTF-8.
std::size_t width_of(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char each) { return (static_cast<unsigned char>(each) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string readable_number(std::string token) {
  std::ranges::transform(token, token.begin(), [](char each) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  });
  const bool is_negative = token.starts_with('-');
  if (is_negative) {
    token.erase(0, 1);
  }
  const std::size_t end = std::min(token.find_first_not_of("0123456789"), token.size());
  for (std::size_t place = end; place > 3; place -= 3) {
    token.insert(place - 3, ",");
  }
  return (is_negative ? "−" : "") + token;
}

std::string wrapped_text(const std::string& text) {
  constexpr std::size_t kColumnLimit = 100;
  std::string out;
  std::size_t width = 0;
  std::size_t begin = 0;
  bool is_code = false;
  const auto add = [&](std::string_view word) {
    const std::size_t own = width_of(word);
    if (width > 0 && width + 1 + own > kColumnLimit) {
      out += '\n';
      width = 0;
    } else if (width > 0) {
      out += ' ';
      ++width;
    }
    out += word;
    width += own;
  };
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (text[i] == ' ' && !is_code)) {
      if (i > begin) {
        add(std::string_view(text).substr(begin, i - begin));
      }
      begin = i + 1;
    } else if (text[i] == '`') {
      is_code = !is_code;
    }
  }
  return out;
}

Result<std::string> results_page(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code problem;
  for (const auto& each : std::filesystem::directory_iterator(folder, problem)) {
    if (each.path().extension() == ".json") {
      paths.push_back(each.path());
    }
  }
  if (problem) {
    return Error{.code = ErrorCode::io_error, .text = folder.string() + ": " + problem.message()};
  }
  std::ranges::sort(paths);
  std::vector<std::pair<std::string, Json>> runs;
  for (const std::filesystem::path& path : paths) {
    HEARTH_TRY(Json run, load(path));
    runs.emplace_back(path.filename().string(), std::move(run));
  }
  std::string text(kIntroduction);
  for (const std::string_view section : kSections) {
    text += fmt::format("\n## {}\n", section);
    for (const auto& [name, run] : runs) {
      if (run.at("section").get<std::string>() == section) {
        text += part(name, run);
      }
    }
  }
  return text;
}

}  // namespace hearth::bench
