#include <hearth/modules/csv.hpp>

#include "whole_file.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <type_traits>
#include <utility>

namespace hearth {
namespace {

// Larger than the number of digits of any text.
constexpr std::int64_t kHugeExponent = std::int64_t{1} << 62U;
constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

[[noreturn]] void refuse_call(const std::string& text,
                              SourceLoc loc,
                              const char* call = "CsvTable") {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("{}: {}", call, text),
                    .op = call,
                    .location = loc});
}

std::string names_of(const std::vector<CsvColumn>& columns) {
  std::vector<std::string> names;
  names.reserve(columns.size());
  for (const CsvColumn& column : columns) {
    names.push_back("'" + column.name + "'");
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

struct Field {
  std::string text;
  bool is_quoted = false;
};

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char letter) { return letter == ' ' || letter == '\t'; };
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

// Value of a decimal number beyond the range of double: ±0 or ±infinity.
double beyond_range(std::string_view text) {
  const std::size_t e = text.find_first_of("eE");
  const std::string_view digits = text.substr(0, e);
  const std::size_t first = digits.find_first_of("123456789");
  const std::size_t point = std::min(digits.find('.'), digits.size());
  // Number of digits before the point; if negative, number of zeros after it.
  std::int64_t magnitude =
      static_cast<std::int64_t>(point) - static_cast<std::int64_t>(std::min(first, digits.size()));
  if (e != text.npos) {
    std::string_view exponent = text.substr(e + 1);
    exponent.remove_prefix(exponent.starts_with('+') ? 1 : 0);
    std::int64_t value = 0;
    const auto [end, error] =
        std::from_chars(exponent.data(), exponent.data() + exponent.size(), value);
    const bool is_huge =
        error == std::errc::result_out_of_range || value > kHugeExponent || value < -kHugeExponent;
    magnitude = is_huge ? (exponent.front() == '-' ? -1 : 1) : magnitude + value;
  }
  const double size = magnitude > 0 ? std::numeric_limits<double>::infinity() : 0;
  return text.front() == '-' ? -size : size;
}

// Parses the whole text as a number, with optional spaces around it and a plus sign. Returns the
// nearest double: 0 for a number that is too small, infinite for one that is too large.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  Number value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if constexpr (std::is_floating_point_v<Number>) {
    if (error == std::errc::result_out_of_range) {
      value = beyond_range(text);
      error = {};
    }
  }
  return error == std::errc{} && end == text.data() + text.size() && !text.empty()
             ? std::optional(value)
             : std::nullopt;
}

// Whether the text is NaN in any spelling: "-nan", as C++ prints it.
bool is_nan(std::string_view text) {
  return text.find_first_of("nN") != text.npos && std::isnan(number_in<double>(text).value_or(0));
}

// Parses the text in one pass into fields, column by column.
class CsvReader final {
 public:
  CsvReader(std::string_view text, const CsvOptions& options, std::string_view name, SourceLoc loc)
      : text_(text), options_(options), name_(name), loc_(loc) {
    const char separator = options_.separator;
    if (separator == '"' || separator == '\n' || separator == '\r') {
      refuse_call(fmt::format("the separator is {}, which CSV uses for itself",
                              separator == '"' ? "a quote" : "a line end"),
                  loc_,
                  "read_csv");
    }
    if (text_.substr(0, 3) == "\xef\xbb\xbf") {
      at_ = 3;
    }
  }

  [[nodiscard]] CsvTable table() {
    std::vector<Field> row;
    while (next_row(row)) {
      if (columns_.empty()) {
        begin(row);
        if (options_.header) {
          continue;
        }
      }
      if (row.size() != columns_.size()) {
        fail(fmt::format("the row has {} fields, expected {}", row.size(), columns_.size()));
      }
      for (std::size_t i = 0; i < row.size(); ++i) {
        fields_[i].push_back(std::move(row[i]));
      }
      lines_.push_back(row_line_);
    }
    if (lines_.empty()) {
      fail("there are no rows");
    }
    require_known_types();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      fill(columns_[i], fields_[i]);
      fields_[i] = {};
    }
    return CsvTable(std::move(columns_), {std::string(name_), std::move(lines_)}, loc_);
  }

 private:
  [[noreturn]] void fail_at(std::int64_t line, const std::string& text) const {
    throw FileError(Error{.code = ErrorCode::bad_format,
                          .text = fmt::format("csv: {}: line {}: {}", name_, line, text),
                          .location = loc_});
  }
  [[noreturn]] void fail(const std::string& text) const { fail_at(row_line_, text); }

  // ---- rows ----

  [[nodiscard]] bool is_line_end() const { return text_[at_] == '\n' || text_[at_] == '\r'; }
  void pass_line_end() {
    const bool is_return = text_[at_++] == '\r';
    at_ += is_return && at_ < text_.size() && text_[at_] == '\n' ? 1U : 0U;
    ++line_;
  }

  // Reads the next row. Returns false at the end of the text.
  [[nodiscard]] bool next_row(std::vector<Field>& row) {
    row.clear();
    while (at_ < text_.size() && is_line_end()) {
      pass_line_end();
    }
    row_line_ = line_;
    if (at_ >= text_.size()) {
      return false;
    }
    while (true) {
      row.push_back(next_field());
      if (at_ >= text_.size()) {
        return true;
      }
      if (is_line_end()) {
        pass_line_end();
        return true;
      }
      ++at_;  // separator
    }
  }

  [[nodiscard]] Field next_field() {
    Field field;
    if (at_ < text_.size() && text_[at_] == '"') {
      ++at_;
      field.is_quoted = true;
      field.text = quoted();
      if (at_ < text_.size() && text_[at_] != options_.separator && !is_line_end()) {
        fail("something follows the quote that ends a field");
      }
      return field;
    }
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != options_.separator && !is_line_end()) {
      ++at_;
    }
    field.text = text_.substr(begin, at_ - begin);
    return field;
  }

  // Reads up to the closing quote. Two quotes in a row stand for one.
  [[nodiscard]] std::string quoted() {
    std::string text;
    while (at_ < text_.size()) {
      const char letter = text_[at_++];
      if (letter == '"') {
        if (at_ >= text_.size() || text_[at_] != '"') {
          return text;
        }
        ++at_;
      }
      line_ += letter == '\n' ? 1 : 0;
      text += letter;
    }
    fail("a quote that begins here does not end");
  }

  // ---- columns ----

  void begin(const std::vector<Field>& row) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string written(row[i].is_quoted ? row[i].text : trimmed(row[i].text));
      const std::string name = options_.header ? written : std::to_string(i);
      for (const CsvColumn& other : columns_) {
        if (other.name == name) {
          fail(fmt::format("two columns are called '{}'", name));
        }
      }
      columns_.push_back({.name = name});
    }
    fields_.resize(row.size());
  }

  void require_known_types() const {
    for (const CsvOptions::ColumnType& asked : options_.types) {
      if (std::ranges::none_of(
              columns_, [&](const CsvColumn& column) { return column.name == asked.column; })) {
        refuse_call(fmt::format("a type is given for '{}', but the columns of {} are {}",
                                asked.column,
                                name_,
                                names_of(columns_)),
                    loc_);
      }
    }
  }

  [[nodiscard]] bool is_missing(const Field& field, CsvType type) const {
    if (type != CsvType::text && is_nan(field.text)) {
      return true;
    }
    if (field.is_quoted) {
      return type != CsvType::text && trimmed(field.text).empty();
    }
    return std::ranges::find(options_.missing, trimmed(field.text)) != options_.missing.end();
  }

  [[nodiscard]] bool fits(const Field& field, CsvType type) const {
    return type == CsvType::text || is_missing(field, type) ||
           (type == CsvType::integer ? number_in<std::int64_t>(field.text).has_value()
                                     : number_in<double>(field.text).has_value());
  }

  [[nodiscard]] CsvType type_of(const CsvColumn& column, const std::vector<Field>& fields) const {
    for (const CsvOptions::ColumnType& asked : options_.types) {
      if (asked.column != column.name) {
        continue;
      }
      for (std::size_t row = 0; row < fields.size(); ++row) {
        if (!fits(fields[row], asked.type)) {
          fail_at(lines_[row],
                  fmt::format("'{}' in column '{}' is no {}",
                              fields[row].text,
                              column.name,
                              asked.type == CsvType::integer ? "whole number" : "number"));
        }
      }
      return asked.type;
    }
    const auto all_fit = [&](CsvType type) {
      return std::ranges::all_of(fields, [&](const Field& field) { return fits(field, type); });
    };
    const bool has_values = std::ranges::any_of(
        fields, [&](const Field& field) { return !is_missing(field, CsvType::real); });
    if (has_values && all_fit(CsvType::integer)) {
      return CsvType::integer;
    }
    return all_fit(CsvType::real) ? CsvType::real : CsvType::text;
  }

  void fill(CsvColumn& column, std::vector<Field>& fields) const {
    column.type = type_of(column, fields);
    for (Field& field : fields) {
      const bool misses = is_missing(field, column.type);
      column.is_missing.push_back(misses ? 1 : 0);
      if (column.type == CsvType::integer) {
        column.integers.push_back(misses ? 0 : number_in<std::int64_t>(field.text).value_or(0));
      } else if (column.type == CsvType::real) {
        column.reals.push_back(misses ? kNoNumber
                                      : number_in<double>(field.text).value_or(kNoNumber));
      }
      column.texts.push_back(misses ? std::string() : std::move(field.text));
    }
  }

  const std::string_view text_;
  const CsvOptions& options_;
  const std::string_view name_;
  const SourceLoc loc_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::int64_t row_line_ = 1;  // line on which the current row begins
  std::vector<CsvColumn> columns_;
  std::vector<std::vector<Field>> fields_;  // by column
  std::vector<std::int64_t> lines_;         // by row
};

std::size_t size_of(const CsvColumn& column) {
  switch (column.type) {
    case CsvType::integer:
      return column.integers.size();
    case CsvType::real:
      return column.reals.size();
    case CsvType::text:
      break;
  }
  return column.texts.size();
}

template <class T>
std::vector<T> chosen(const std::vector<T>& from, std::span<const std::int64_t> rows) {
  std::vector<T> values;
  if (!from.empty()) {
    values.reserve(rows.size());
    for (const std::int64_t row : rows) {
      values.push_back(from[static_cast<std::size_t>(row)]);
    }
  }
  return values;
}

// Checks the index: a program may fill the vectors of a column with different sizes.
template <class T>
const T& element(const std::vector<T>& values,
                 std::int64_t row,
                 const std::string& column,
                 SourceLoc loc) {
  if (row < 0 || row >= static_cast<std::int64_t>(values.size())) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("CsvColumn: '{}' has no row {}: there are {}, counted "
                                          "from 0",
                                          column,
                                          row,
                                          values.size()),
                      .op = "CsvColumn",
                      .location = loc});
  }
  return values[static_cast<std::size_t>(row)];
}

}  // namespace

double CsvColumn::number(std::int64_t row, SourceLoc loc) const {
  const bool is_absent = element(is_missing, row, name, loc) != 0;
  if (type == CsvType::text || is_absent) {
    return kNoNumber;
  }
  return type == CsvType::integer ? static_cast<double>(element(integers, row, name, loc))
                                  : element(reals, row, name, loc);
}

std::string CsvColumn::text(std::int64_t row, SourceLoc loc) const {
  if (element(is_missing, row, name, loc) != 0) {
    return {};
  }
  if (type == CsvType::text || !texts.empty()) {
    return element(texts, row, name, loc);
  }
  return type == CsvType::integer ? std::to_string(element(integers, row, name, loc))
                                  : fmt::format("{}", element(reals, row, name, loc));
}

std::optional<double> detail::csv_number(std::string_view text) noexcept {
  return number_in<double>(text);
}

CsvTable::CsvTable(std::vector<CsvColumn> columns, SourceLoc loc) : columns_(std::move(columns)) {
  row_count_ = columns_.empty() ? 0 : static_cast<std::int64_t>(size_of(columns_.front()));
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    CsvColumn& column = columns_[i];
    const auto count = static_cast<std::int64_t>(size_of(column));
    if (column.is_missing.empty()) {
      column.is_missing.resize(static_cast<std::size_t>(count), 0);
    }
    const bool has_all_texts =
        column.texts.empty() || static_cast<std::int64_t>(column.texts.size()) == count;
    if (count != row_count_ || static_cast<std::int64_t>(column.is_missing.size()) != count ||
        !has_all_texts) {
      refuse_call(fmt::format("column '{}' has {} rows, '{}' has {}",
                              columns_.front().name,
                              row_count_,
                              column.name,
                              count),
                  loc);
    }
    for (std::size_t other = 0; other < i; ++other) {
      if (columns_[other].name == column.name) {
        refuse_call(fmt::format("two columns are called '{}'", column.name), loc);
      }
    }
  }
}

CsvTable::CsvTable(std::vector<CsvColumn> columns, CsvOrigin origin, SourceLoc loc)
    : CsvTable(std::move(columns), loc) {
  origin_ = std::move(origin);
  if (const std::size_t count = origin_.lines.size();
      count != 0 && static_cast<std::int64_t>(count) != row_count_) {
    refuse_call(fmt::format("the origin has {} lines, the table {} rows", count, row_count_), loc);
  }
}

bool CsvTable::has_column(std::string_view name) const noexcept {
  return std::ranges::any_of(columns_,
                             [&](const CsvColumn& column) { return column.name == name; });
}

const CsvColumn& CsvTable::column(std::string_view name, SourceLoc loc) const {
  const auto found =
      std::ranges::find_if(columns_, [&](const CsvColumn& column) { return column.name == name; });
  if (found == columns_.end()) {
    refuse_call(fmt::format("there is no column '{}'; there are {}", name, names_of(columns_)),
                loc);
  }
  return *found;
}

void CsvTable::require_row(std::int64_t row, SourceLoc loc) const {
  if (row < 0 || row >= row_count_) {
    refuse_call(fmt::format("there is no row {}; there are {}", row, row_count_), loc);
  }
}

std::string CsvTable::place_of(std::int64_t row, SourceLoc loc) const {
  require_row(row, loc);
  if (origin_.lines.empty()) {
    return fmt::format("row {}", row);
  }
  return fmt::format("{}{}line {}",
                     origin_.file,
                     origin_.file.empty() ? "" : ": ",
                     origin_.lines[static_cast<std::size_t>(row)]);
}

CsvTable CsvTable::rows(std::span<const std::int64_t> numbers, SourceLoc loc) const {
  for (const std::int64_t row : numbers) {
    require_row(row, loc);
  }
  std::vector<CsvColumn> columns;
  for (const CsvColumn& column : columns_) {
    columns.push_back({.name = column.name,
                       .type = column.type,
                       .integers = chosen(column.integers, numbers),
                       .reals = chosen(column.reals, numbers),
                       .texts = chosen(column.texts, numbers),
                       .is_missing = chosen(column.is_missing, numbers)});
  }
  return CsvTable(std::move(columns), {origin_.file, chosen(origin_.lines, numbers)}, loc);
}

CsvTable CsvTable::slice(std::int64_t begin, std::int64_t end, SourceLoc loc) const {
  if (begin < 0 || begin > end || end > row_count_) {
    refuse_call(fmt::format("rows {} to {} are no range of {} rows", begin, end, row_count_), loc);
  }
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(end - begin));
  std::iota(numbers.begin(), numbers.end(), begin);
  return rows(numbers, loc);
}

CsvTable read_csv(const std::filesystem::path& file, const CsvOptions& options, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const std::vector<std::byte> bytes = detail::read_whole(file, loc);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return parse_csv(text, options, file.string(), loc);
}

CsvTable parse_csv(std::string_view text,
                   const CsvOptions& options,
                   std::string_view name,
                   SourceLoc loc) {
  const detail::FloatEnvironment environment;
  return CsvReader(text, options, name, loc).table();
}

TableSplit split_rows(const CsvTable& table,
                      double train_share,
                      std::uint64_t seed,
                      SourceLoc loc) {
  if (!(train_share >= 0 && train_share <= 1)) {
    refuse_call(fmt::format("the train_share {} is not in 0 to 1", train_share), loc, "split_rows");
  }
  const std::int64_t count = table.row_count();
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  // Not std::shuffle, whose results differ between standard libraries.
  std::mt19937_64 random(seed);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[random() % left]);
  }
  const auto train_count =
      static_cast<std::ptrdiff_t>(std::llround(train_share * static_cast<double>(count)));
  const auto cut = order.begin() + train_count;
  std::sort(order.begin(), cut);
  std::sort(cut, order.end());
  const std::span<const std::int64_t> all(order);
  const auto first = static_cast<std::size_t>(train_count);
  return {table.rows(all.first(first), loc), table.rows(all.subspan(first), loc)};
}

}  // namespace hearth
