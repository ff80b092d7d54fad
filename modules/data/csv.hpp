// Reads CSV files with typed columns, quotes and missing values.
// A CsvTable is a value that owns its columns. Threads: a value.
// Invariants: (1) every column has one entry per row; (2) a malformed file throws an error with the
// file and the line.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

enum class CsvType : std::uint8_t {
  integer,  ///< 64-bit integers.
  real,     ///< Floating-point numbers.
  text,     ///< Any other fields.
};

struct CsvColumn {
  std::string name;
  CsvType type = CsvType::text;
  std::vector<std::int64_t> integers = {};  ///< Values of type integer; 0 where missing.
  std::vector<double> reals = {};           ///< Values of type real; NaN where missing.
  /// Values of type text; empty where missing. Tables that were read also hold the texts of numeric
  /// columns.
  std::vector<std::string> texts = {};
  std::vector<std::uint8_t> is_missing = {};  ///< One per row.

  /// The number in a row, of type integer or real; NaN where missing.
  ///
  /// Errors: ArgumentError for a row out of range.
  [[nodiscard]] double number(std::int64_t row, SourceLoc loc = SourceLoc::current()) const;
  /// The text in a row as it was written ("007"), or else the printed number; empty where missing.
  ///
  /// Errors: as number().
  [[nodiscard]] std::string text(std::int64_t row, SourceLoc loc = SourceLoc::current()) const;
};

struct CsvOptions {
  char separator = ',';  ///< Separator of fields: no quote and no line end.
  /// Whether the first row holds the column names. Otherwise the names are "0", "1", …
  bool header = true;
  /// Fields that count as missing. A quoted field never does, except an empty one in a numeric
  /// column. Among numbers any spelling of NaN ("-nan") is missing, too.
  std::vector<std::string> missing = {"", "NA", "N/A", "NaN", "nan", "null", "NULL"};
  struct ColumnType {
    std::string column;
    CsvType type = CsvType::text;
  };
  /// Types of columns that should not get the first type that fits all their fields.
  std::vector<ColumnType> types = {};
};

/// Source of a table's rows, for errors about them.
struct CsvOrigin {
  std::string file = {};  ///< Name of the file in errors.
  /// Line on which each row begins, from 1; empty: not from a file.
  std::vector<std::int64_t> lines = {};
};

namespace detail {
/// Parses the whole text as a number, as in a column of reals. Ignores the locale. Accepts spaces
/// around the number and a plus sign. Returns the nearest double: "1e-400" is 0, "1e400" infinite.
[[nodiscard]] std::optional<double> csv_number(std::string_view text) noexcept;
}  // namespace detail

class CsvTable final {
 public:
  /// Makes a table of a program's columns.
  ///
  /// Errors: ArgumentError when they have different sizes, or two have one name.
  explicit CsvTable(std::vector<CsvColumn> columns, SourceLoc loc = SourceLoc::current());
  /// Makes a table of rows that came from a file.
  ///
  /// Errors: as above; ArgumentError when the number of lines differs from the number of rows.
  CsvTable(std::vector<CsvColumn> columns, CsvOrigin origin, SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t row_count() const noexcept { return row_count_; }
  [[nodiscard]] const std::vector<CsvColumn>& columns() const noexcept { return columns_; }
  [[nodiscard]] bool has_column(std::string_view name) const noexcept;
  /// Returns the column of this name.
  ///
  /// Errors: ArgumentError that lists the existing names.
  [[nodiscard]] const CsvColumn& column(std::string_view name,
                                        SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] const CsvOrigin& origin() const noexcept { return origin_; }
  /// Describes a row for an error: "flats.csv: line 12", or "row 3", from 0, if the table is not
  /// from a file.
  ///
  /// Errors: ArgumentError for a row out of range.
  [[nodiscard]] std::string place_of(std::int64_t row, SourceLoc loc = SourceLoc::current()) const;
  /// Gathers these rows, in this order, into a new table. Each row keeps its line in the file.
  ///
  /// Errors: ArgumentError for a row out of range.
  [[nodiscard]] CsvTable rows(std::span<const std::int64_t> numbers,
                              SourceLoc loc = SourceLoc::current()) const;
  /// Copies rows [begin, end) to a new table.
  ///
  /// Errors: ArgumentError for a range outside of the table.
  [[nodiscard]] CsvTable slice(std::int64_t begin,
                               std::int64_t end,
                               SourceLoc loc = SourceLoc::current()) const;

 private:
  void require_row(std::int64_t row, SourceLoc loc) const;

  std::vector<CsvColumn> columns_;
  CsvOrigin origin_;
  std::int64_t row_count_ = 0;
};

/// Reads a table by RFC 4180, with any separator and optional spaces around numbers. Line ends are
/// `\n`, `\r\n` or `\r`; empty lines are skipped. A column gets the first of the types integer,
/// real and text that fits all its fields. A column of missing values only is real. A real is the
/// nearest double: 0 below the smallest, infinite beyond the largest, as is "inf".
///
/// Units: errors count lines from 1.
/// Errors: FileError: not_found, io_error; bad_format for rows of different lengths, an
/// unterminated quote, no rows, two columns of one name, or a field that contradicts its requested
/// type; ArgumentError for a type of an unknown column or a separator that is a quote or a line
/// end; OutOfMemory.
[[nodiscard]] CsvTable read_csv(const std::filesystem::path& file,
                                const CsvOptions& options = {},
                                SourceLoc loc = SourceLoc::current());
/// Parses a table from text; errors call it `name`.
///
/// Errors: as read_csv(), but for not_found and io_error.
[[nodiscard]] CsvTable parse_csv(std::string_view text,
                                 const CsvOptions& options = {},
                                 std::string_view name = "text",
                                 SourceLoc loc = SourceLoc::current());

struct TableSplit {
  CsvTable train;
  CsvTable test;
};
/// Splits a table at random: `train_share` of the rows to train, the others to test. One seed
/// always gives the same split. Both parts keep the order of the table.
///
/// Errors: ArgumentError for a share outside [0, 1].
[[nodiscard]] TableSplit split_rows(const CsvTable& table,
                                    double train_share,
                                    std::uint64_t seed = 0,
                                    SourceLoc loc = SourceLoc::current());

}  // namespace hearth
