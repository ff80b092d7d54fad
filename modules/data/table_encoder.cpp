#include <hearth/modules/table_encoder.hpp>

#include "whole_file.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/json_fault.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/settings.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

namespace hearth {
namespace {

constexpr int kVersion = 2;
constexpr int kUncheckedVersion = 1;
constexpr const char* kChecksum = "xxh64";  // of the text without this member

[[noreturn]] void refuse_table(const std::string& text, SourceLoc loc) {
  throw_error(
      Error{.code = ErrorCode::invalid_argument, .text = "TableEncoder: " + text, .location = loc});
}

// An encoder has no runtime, so it logs to standard error.
void warn(std::string_view text) {
  const Result<detail::LogLevel> level = detail::log_level(detail::Settings::from_environment());
  detail::Log({.level = level.value()}).warn(text);  // an invalid level is an error
}

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool misses(const CsvColumn& column, std::int64_t row) {
  return column.is_missing[static_cast<std::size_t>(row)] != 0;
}

// The whole number in a numeric column, also if it is written as 1.0.
std::optional<std::int64_t> whole_number(const CsvColumn& column, std::int64_t row) {
  if (column.type == CsvType::integer) {
    return column.integers[static_cast<std::size_t>(row)];
  }
  constexpr double kLimit = 9007199254740992;  // 2^53: doubles beyond it skip whole numbers
  const double value = column.number(row);
  const bool is_whole = std::fabs(value) < kLimit && value == std::floor(value);
  return is_whole ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt;
}

// The distinct values, in the order of numbers or of bytes.
std::vector<std::string> distinct(const CsvColumn& column) {
  std::vector<std::string> texts;
  const auto count = static_cast<std::int64_t>(column.is_missing.size());
  if (column.type != CsvType::text) {
    std::vector<std::int64_t> values;
    for (std::int64_t row = 0; row < count; ++row) {
      if (!misses(column, row)) {
        values.push_back(whole_number(column, row).value());
      }
    }
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (const std::int64_t value : values) {
      texts.push_back(std::to_string(value));
    }
    return texts;
  }
  for (std::int64_t row = 0; row < count; ++row) {
    if (!misses(column, row)) {
      texts.push_back(column.texts[static_cast<std::size_t>(row)]);
    }
  }
  std::ranges::sort(texts);
  texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
  return texts;
}

// Sums, squares and differences of doubles stay in the range of this type.
using Wide = long double;

struct Moments {
  double mean = 0;
  double deviation = 1;
};

// Encodes a number of any table; the result must be finite in f32. Errors name position, column and
// value.
float coded(const CsvTable& table,
            const CsvColumn& column,
            std::int64_t row,
            const Moments& moments,
            SourceLoc loc) {
  const double value = column.number(row);
  const auto code =
      static_cast<float>((static_cast<Wide>(value) - moments.mean) / moments.deviation);
  if (!std::isfinite(value) || !std::isfinite(code)) {
    refuse_table(fmt::format("{}: column '{}' is {}, {}",
                             table.place_of(row),
                             column.name,
                             value,
                             std::isfinite(value) ? "which f32 cannot hold as it is encoded"
                                                  : "no finite number"),
                 loc);
  }
  return code;
}

// Checks that all numbers of a column can be encoded with these moments.
void require_coded(const CsvTable& table,
                   const CsvColumn& column,
                   const Moments& moments,
                   SourceLoc loc) {
  for (std::int64_t row = 0; row < table.row_count(); ++row) {
    if (!misses(column, row)) {
      static_cast<void>(coded(table, column, row, moments, loc));
    }
  }
}

// Moments of the values that are present; a constant column has deviation 1. Sums are of distances
// from the first value: a rounded mean would give a constant column a deviation.
Moments moments_of(const CsvTable& table, const CsvColumn& column, SourceLoc loc) {
  const auto count = static_cast<std::int64_t>(column.is_missing.size());
  std::optional<Wide> first;
  Wide sum = 0;
  Wide squares = 0;
  Wide there = 0;
  for (std::int64_t row = 0; row < count; ++row) {
    if (misses(column, row)) {
      continue;
    }
    const double value = column.number(row);
    static_cast<void>(std::isfinite(value) ? 0 : coded(table, column, row, {}, loc));  // throws
    first = first.value_or(value);
    sum += value - *first;
    there += 1;
  }
  if (!first) {
    return {};
  }
  const Wide shift = sum / there;
  for (std::int64_t row = 0; row < count; ++row) {
    if (!misses(column, row)) {
      const Wide distance = column.number(row) - *first - shift;
      squares += distance * distance;
    }
  }
  const auto deviation = static_cast<double>(std::sqrt(squares / there));
  return {static_cast<double>(*first + shift), deviation > 0 ? deviation : 1};
}

std::vector<std::int64_t> rows_without_gaps(const CsvTable& table,
                                            const std::vector<std::string>& names,
                                            SourceLoc loc) {
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < table.row_count(); ++row) {
    if (std::ranges::none_of(
            names, [&](const std::string& name) { return misses(table.column(name, loc), row); })) {
      rows.push_back(row);
    }
  }
  return rows;
}

// The first row for which `is` holds, else the first row with a value; none if all are missing.
template <class Is>
std::optional<std::int64_t> first_of(const CsvTable& table, const CsvColumn& column, const Is& is) {
  std::optional<std::int64_t> first;
  for (std::int64_t row = 0; row < table.row_count(); ++row) {
    if (misses(column, row)) {
      continue;
    }
    if (is(row)) {
      return row;
    }
    first = first.value_or(row);
  }
  return first;
}

// Value and position, for the end of an error.
std::string shown(const CsvTable& table, const CsvColumn& column, std::optional<std::int64_t> row) {
  return row ? fmt::format(": '{}', {}", column.text(*row), table.place_of(*row)) : "";
}

void require_number(const CsvTable& table, const CsvColumn& column, SourceLoc loc) {
  if (column.type == CsvType::text) {
    const auto first = first_of(
        table, column, [&](std::int64_t row) { return !detail::csv_number(column.text(row)); });
    refuse_table(fmt::format("column '{}' had numbers in the training rows, and has texts here{}",
                             column.name,
                             shown(table, column, first)),
                 loc);
  }
}

}  // namespace

TableEncoder::TableEncoder(const CsvTable& train, const TableOptions& options, SourceLoc loc)
    : code_(options.categories), missing_(options.missing), unknown_(options.unknown) {
  const detail::FloatEnvironment environment;
  for (const std::vector<std::string>* const names : {&options.features, &options.leave_out}) {
    for (const std::string& name : *names) {
      static_cast<void>(train.column(name, loc));
    }
  }
  std::vector<std::string> names;
  for (const CsvColumn& column : train.columns()) {
    const bool is_asked = options.features.empty() || is_among(options.features, column.name);
    if (is_asked && column.name != options.target && !is_among(options.leave_out, column.name)) {
      names.push_back(column.name);
    }
  }
  if (names.empty()) {
    refuse_table("there are no columns to learn from", loc);
  }
  std::optional<CsvTable> whole;  // dropped rows are not learned from
  if (missing_ == MissingValue::drop) {
    std::vector<std::string> needed = names;
    if (!options.target.empty()) {
      needed.push_back(options.target);
    }
    whole = train.rows(rows_without_gaps(train, needed, loc), loc);
    if (whole->row_count() == 0) {
      refuse_table("every row lacks a value, and such rows are dropped", loc);
    }
  }
  const CsvTable& from = whole ? *whole : train;
  for (const std::string& name : names) {
    learn_feature(from, name, options, loc);
  }
  if (!options.target.empty()) {
    learn_target(from, options, loc);
  }
}

void TableEncoder::learn_feature(const CsvTable& table,
                                 const std::string& name,
                                 const TableOptions& options,
                                 SourceLoc loc) {
  const CsvColumn& column = table.column(name, loc);
  if (column.type != CsvType::text) {
    const Moments moments = moments_of(table, column, loc);
    numbers_.push_back({.column = column.name,
                        .mean = moments.mean,
                        .deviation = options.standardise ? moments.deviation : 0});
    require_coded(table, column, options.standardise ? moments : Moments{}, loc);
    return;
  }
  Category category{.column = column.name, .texts = distinct(column)};
  if (static_cast<std::int64_t>(category.texts.size()) > options.max_categories) {
    refuse_table(fmt::format("column '{}' has {} different texts, '{}' and '{}' among them: leave "
                             "it out, read it as another type, or raise max_categories ({})",
                             column.name,
                             category.texts.size(),
                             category.texts.front(),
                             category.texts.back(),
                             options.max_categories),
                 loc);
  }
  categories_.push_back(std::move(category));
}

void TableEncoder::learn_target(const CsvTable& table, const TableOptions& options, SourceLoc loc) {
  const CsvColumn& column = table.column(options.target, loc);
  target_ = {.column = options.target};
  if (column.type == CsvType::text || options.target_is_class) {
    const auto first = first_of(
        table, column, [&](std::int64_t row) { return !whole_number(column, row).has_value(); });
    if (column.type == CsvType::real && (!first || !whole_number(column, *first))) {
      refuse_table(fmt::format("the classes in column '{}' are no whole numbers below 2^53{}",
                               column.name,
                               shown(table, column, first)),
                   loc);
    }
    classes_ = distinct(column);
    return;
  }
  if (options.standardise_target) {
    const Moments moments = moments_of(table, column, loc);
    target_.mean = moments.mean;
    target_.deviation = moments.deviation;
  }
  require_coded(table, column, {target_.mean, target_.deviation}, loc);
}

ArrayDataset TableEncoder::encode(const CsvTable& table, SourceLoc loc) const {
  const detail::FloatEnvironment environment;
  if (target_.column.empty()) {
    return encode_features(table, loc);
  }
  const std::vector<std::int64_t> rows = rows_of(table, true, loc);
  Examples examples = features_of(table, rows, loc);
  examples.targets = targets_of(table, rows, loc);
  return ArrayDataset(std::move(examples), loc);
}

ArrayDataset TableEncoder::encode_features(const CsvTable& table, SourceLoc loc) const {
  const detail::FloatEnvironment environment;
  const std::vector<std::int64_t> rows = rows_of(table, false, loc);
  Examples examples = features_of(table, rows, loc);
  // A data set has a target for each row: 0.
  examples.targets = HostArray(DType::f32, {static_cast<std::int64_t>(rows.size()), 1}, loc);
  return ArrayDataset(std::move(examples), loc);
}

// Rows that are not dropped. Errors: a missing value that the options reject.
std::vector<std::int64_t> TableEncoder::rows_of(const CsvTable& table,
                                                bool has_target,
                                                SourceLoc loc) const {
  std::vector<const CsvColumn*> columns;
  for (const Number& number : numbers_) {
    columns.push_back(&table.column(number.column, loc));
    require_number(table, *columns.back(), loc);
  }
  for (const Category& category : categories_) {
    columns.push_back(&table.column(category.column, loc));
  }
  const CsvColumn* const target = has_target ? &table.column(target_.column, loc) : nullptr;
  std::vector<std::int64_t> rows;
  for (std::int64_t row = 0; row < table.row_count(); ++row) {
    const bool lacks_target = target != nullptr && misses(*target, row);
    const auto gap = std::ranges::find_if(
        columns, [&](const CsvColumn* column) { return misses(*column, row); });
    if (missing_ == MissingValue::drop && (lacks_target || gap != columns.end())) {
      continue;
    }
    if (lacks_target || (missing_ == MissingValue::refuse && gap != columns.end())) {
      refuse_table(fmt::format("{}: no value in column '{}'",
                               table.place_of(row),
                               lacks_target ? target->name : (*gap)->name),
                   loc);
    }
    rows.push_back(row);
  }
  return rows;
}

// The code of a category in this row, from 0; -1 for a missing or unknown text.
std::int64_t TableEncoder::code_in(const Category& category,
                                   const CsvColumn& column,
                                   std::int64_t row) {
  if (misses(column, row)) {
    return -1;
  }
  const std::string text = column.text(row);
  const auto found = std::ranges::lower_bound(category.texts, text);
  return found == category.texts.end() || *found != text ? -1 : found - category.texts.begin();
}

std::vector<std::int64_t> TableEncoder::codes_of(const Category& category,
                                                 const CsvTable& table,
                                                 const std::vector<std::int64_t>& rows,
                                                 SourceLoc loc) const {
  const CsvColumn& column = table.column(category.column, loc);
  std::vector<std::int64_t> codes;
  codes.reserve(rows.size());
  std::optional<std::int64_t> unknown;
  std::int64_t unknown_count = 0;
  for (const std::int64_t row : rows) {
    codes.push_back(code_in(category, column, row));
    if (codes.back() < 0 && !misses(column, row)) {
      unknown = unknown.value_or(row);
      ++unknown_count;
    }
  }
  if (!unknown || unknown_ == UnknownCategory::ignore) {
    return codes;
  }
  const std::string found = fmt::format("{}: '{}' in column '{}' was in no training row",
                                        table.place_of(*unknown),
                                        column.text(*unknown),
                                        column.name);
  if (unknown_ == UnknownCategory::refuse) {
    refuse_table(fmt::format("{}; there were {}", found, fmt::join(category.texts, ", ")), loc);
  }
  if (!category.has_warned->exchange(true, std::memory_order_acq_rel)) {  // partner: itself
    const std::string more =
        unknown_count == 1 ? ""
                           : fmt::format(", as the texts there of {} rows in all", unknown_count);
    warn(
        fmt::format("TableEncoder: {}{}: such a text is 0 in all columns, or the index 0 "
                    "(TableOptions::unknown)",
                    found,
                    more));
  }
  return codes;
}

std::int64_t TableEncoder::unknown_count(const CsvTable& table, SourceLoc loc) const {
  std::int64_t count = 0;
  for (const Category& category : categories_) {
    const CsvColumn& column = table.column(category.column, loc);
    for (std::int64_t row = 0; row < table.row_count(); ++row) {
      count += !misses(column, row) && code_in(category, column, row) < 0 ? 1 : 0;
    }
  }
  return count;
}

// Phases: numbers, then texts, column by column.
Examples TableEncoder::features_of(const CsvTable& table,
                                   const std::vector<std::int64_t>& rows,
                                   SourceLoc loc) const {
  const auto count = static_cast<std::int64_t>(rows.size());
  Examples examples;
  examples.inputs = HostArray(DType::f32, {count, width()}, loc);
  const std::span<float> inputs = examples.inputs.values<float>();
  const auto stride = static_cast<std::size_t>(width());
  std::size_t place = 0;
  for (const Number& number : numbers_) {
    const CsvColumn& column = table.column(number.column, loc);
    const bool standardises = number.deviation > 0;
    const Moments moments = standardises ? Moments{number.mean, number.deviation} : Moments{};
    const auto gap = static_cast<float>(standardises ? 0 : number.mean);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      inputs[i * stride + place] =
          misses(column, rows[i]) ? gap : coded(table, column, rows[i], moments, loc);
    }
    ++place;
  }
  for (const Category& category : categories_) {
    const std::vector<std::int64_t> codes = codes_of(category, table, rows, loc);
    if (code_ == CategoryCode::index) {
      HostArray from_one(DType::i64, {count}, loc);
      std::ranges::transform(codes, from_one.values<std::int64_t>().begin(), [](std::int64_t code) {
        return code + 1;
      });
      examples.more.push_back({category.column, std::move(from_one)});
      continue;
    }
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (codes[i] >= 0) {
        inputs[i * stride + place + static_cast<std::size_t>(codes[i])] = 1;
      }
    }
    place += category.texts.size();
  }
  return examples;
}

HostArray TableEncoder::targets_of(const CsvTable& table,
                                   const std::vector<std::int64_t>& rows,
                                   SourceLoc loc) const {
  const CsvColumn& column = table.column(target_.column, loc);
  const auto count = static_cast<std::int64_t>(rows.size());
  if (classes_.empty()) {
    require_number(table, column, loc);
    HostArray targets(DType::f32, {count, 1}, loc);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      targets.values<float>()[i] =
          coded(table, column, rows[i], {target_.mean, target_.deviation}, loc);
    }
    return targets;
  }
  HostArray targets(DType::i64, {count}, loc);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string text = column.text(rows[i]);
    auto found = std::ranges::find(classes_, text);
    if (found == classes_.end() && column.type != CsvType::text) {  // "07" and "7.0" are class 7
      const std::optional<std::int64_t> whole = whole_number(column, rows[i]);
      found = whole ? std::ranges::find(classes_, std::to_string(*whole)) : found;
    }
    if (found == classes_.end()) {
      refuse_table(
          fmt::format(
              "{}: the class '{}' in column '{}' is in no training row; the classes there are {}",
              table.place_of(rows[i]),
              text,
              column.name,
              fmt::join(classes_, ", ")),
          loc);
    }
    targets.values<std::int64_t>()[i] = found - classes_.begin();
  }
  return targets;
}

std::int64_t TableEncoder::width() const noexcept {
  std::size_t width = numbers_.size();
  for (const Category& category : categories_) {
    width += code_ == CategoryCode::one_hot ? category.texts.size() : 0;
  }
  return static_cast<std::int64_t>(width);
}

std::vector<std::string> TableEncoder::input_names() const {
  std::vector<std::string> names;
  for (const Number& number : numbers_) {
    names.push_back(number.column);
  }
  for (const Category& category : categories_) {
    for (const std::string& text : category.texts) {
      if (code_ == CategoryCode::one_hot) {
        names.push_back(fmt::format("{}={}", category.column, text));
      }
    }
  }
  return names;
}

const std::vector<std::string>& TableEncoder::categories(std::string_view column,
                                                         SourceLoc loc) const {
  const auto found = std::ranges::find_if(
      categories_, [&](const Category& category) { return category.column == column; });
  if (found == categories_.end()) {
    refuse_table(fmt::format("column '{}' has no categories", column), loc);
  }
  return found->texts;
}

void TableEncoder::save(const std::filesystem::path& file, SourceLoc loc) const {
  nlohmann::ordered_json all{{"hearth_table_encoder", kVersion},
                             {"code", static_cast<int>(code_)},
                             {"missing", static_cast<int>(missing_)},
                             {"unknown", static_cast<int>(unknown_)},
                             {"numbers", nlohmann::json::array()},
                             {"categories", nlohmann::json::array()},
                             {"classes", classes_}};
  const auto as_json = [](const Number& number) {
    return nlohmann::ordered_json{
        {"column", number.column}, {"mean", number.mean}, {"deviation", number.deviation}};
  };
  all["target"] = as_json(target_);
  for (const Number& number : numbers_) {
    all["numbers"].push_back(as_json(number));
  }
  for (const Category& category : categories_) {
    all["categories"].push_back({{"column", category.column}, {"texts", category.texts}});
  }
  // Texts that are not UTF-8 would not round-trip, so they are rejected.
  std::string text;
  try {
    all[kChecksum] = detail::checksum_text(all.dump(1));
    text = all.dump(1) + "\n";
  } catch (const nlohmann::json::exception& error) {
    refuse_table(fmt::format("a text of the table cannot be written: {}", json_fault(error)), loc);
  }
  detail::write_whole(file, text, loc);
}

TableEncoder TableEncoder::load(const std::filesystem::path& file, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const std::vector<std::byte> bytes = detail::read_whole(file, loc);
  const auto fail = [&](std::string_view what) {
    std::string text = fmt::format("table encoder: {}: {}", file.string(), what);
    throw FileError({.code = ErrorCode::bad_format, .text = std::move(text), .location = loc});
  };
  TableEncoder read;
  try {
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    auto all = nlohmann::ordered_json::parse(text, text + bytes.size());
    const int version = all.at("hearth_table_encoder").get<int>();
    if (version != kVersion && version != kUncheckedVersion) {
      fail("another version wrote it");
    }
    if (version == kVersion) {
      const auto checksum = all.at(kChecksum).get<std::string>();
      all.erase(kChecksum);
      if (checksum != detail::checksum_text(all.dump(1))) {
        fail("it is damaged: its checksum is wrong");
      }
    }
    const int code = all.at("code").get<int>();
    const int missing = all.at("missing").get<int>();
    const int unknown = all.value("unknown", 0);  // absent in older files
    if (code < 0 || code > 1 || missing < 0 || missing > 2 || unknown < 0 || unknown > 2) {
      fail("this version does not support its settings");
    }
    read.code_ = static_cast<CategoryCode>(code);
    read.missing_ = static_cast<MissingValue>(missing);
    read.unknown_ = static_cast<UnknownCategory>(unknown);
    const auto number_in = [](const nlohmann::ordered_json& json) {
      return Number{.column = json.at("column").get<std::string>(),
                    .mean = json.at("mean").get<double>(),
                    .deviation = json.at("deviation").get<double>()};
    };
    read.target_ = number_in(all.at("target"));
    read.classes_ = all.at("classes").get<std::vector<std::string>>();
    for (const auto& number : all.at("numbers")) {
      read.numbers_.push_back(number_in(number));
    }
    for (const auto& category : all.at("categories")) {
      read.categories_.push_back({.column = category.at("column").get<std::string>(),
                                  .texts = category.at("texts").get<std::vector<std::string>>()});
    }
  } catch (const nlohmann::json::exception& error) {
    fail(json_fault(error));
  }
  return read;
}

}  // namespace hearth
