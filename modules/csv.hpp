// Reads CSV files: columns with names and types, quotes, missing values.
// A CsvTable is a value that owns its columns. Threads: a value.
// Invariants: (1) every column has one entry a row; (2) a file that is no table throws, and names
// the file and the line.
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
  integer,  ///< Whole numbers of 64 bits.
  real,     ///< Numbers.
  text,     ///< All else.
};

struct CsvColumn {
  std::string name;
  CsvType type = CsvType::text;
  std::vector<std::int64_t> integers = {};    ///< Of type integer; 0 where it is missing.
  std::vector<double> reals = {};             ///< Of type real; NaN where it is missing.
  std::vector<std::string> texts = {};        ///< Of type text; empty where it is missing. A table
                                              ///< that was read has those of numbers too.
  std::vector<std::uint8_t> is_missing = {};  ///< One a row.

  /// The number in that row, of type integer or real; NaN where it is missing. Errors:
  /// ArgumentError for a row that is not there.
  [[nodiscard]] double number(std::int64_t row, SourceLoc loc = SourceLoc::current()) const;
  /// The value in that row as it was written ("007"), or else printed; empty where it is missing.
  /// Errors: as number().
  [[nodiscard]] std::string text(std::int64_t row, SourceLoc loc = SourceLoc::current()) const;
};

struct CsvOptions {
  char separator = ',';  ///< Between two fields.
  /// Whether the first row holds the names; else they are "0", "1", …
  bool header = true;
  /// What stands for a missing value. A field in quotes is never one, unless it is an empty field
  /// of a column of numbers. Among numbers each text that reads as NaN is missing, too ("-nan").
  std::vector<std::string> missing = {"", "NA", "N/A", "NaN", "nan", "null", "NULL"};
  struct ColumnType {
    std::string column;
    CsvType type = CsvType::text;
  };
  /// Of columns that are not to have the first type that fits all their fields.
  std::vector<ColumnType> types = {};
};

/// Where the rows of a table were read, for errors about them.
struct CsvOrigin {
  std::string file = {};                 ///< As errors call it.
  std::vector<std::int64_t> lines = {};  ///< On which each row begins, from 1; empty: of no file.
};

namespace detail {
/// The whole text as a number, as it is read in a column of floats: by no locale; with spaces
/// around it and a plus sign. The nearest double: "1e-400" is 0, "1e400" infinite.
[[nodiscard]] std::optional<double> csv_number(std::string_view text) noexcept;
}  // namespace detail

class CsvTable final {
 public:
  /// A table of columns that a program makes.
  /// Errors: ArgumentError when they have different sizes, or two have one name.
  explicit CsvTable(std::vector<CsvColumn> columns, SourceLoc loc = SourceLoc::current());
  /// The same of rows that stand in a file. Errors: ArgumentError when there are not as many lines.
  CsvTable(std::vector<CsvColumn> columns, CsvOrigin origin, SourceLoc loc = SourceLoc::current());

  [[nodiscard]] std::int64_t row_count() const noexcept { return row_count_; }
  [[nodiscard]] const std::vector<CsvColumn>& columns() const noexcept { return columns_; }
  [[nodiscard]] bool has_column(std::string_view name) const noexcept;
  /// Errors: ArgumentError with the names that there are.
  [[nodiscard]] const CsvColumn& column(std::string_view name,
                                        SourceLoc loc = SourceLoc::current()) const;
  [[nodiscard]] const CsvOrigin& origin() const noexcept { return origin_; }
  /// The row in an error's words: "flats.csv: line 12", or "row 3", from 0, of a table of no file.
  /// Errors: ArgumentError for a row that is not there.
  [[nodiscard]] std::string place_of(std::int64_t row, SourceLoc loc = SourceLoc::current()) const;
  /// Those rows, in that order, numbered anew; each knows its line still.
  /// Errors: ArgumentError for a row that is not there.
  [[nodiscard]] CsvTable rows(std::span<const std::int64_t> numbers,
                              SourceLoc loc = SourceLoc::current()) const;
  /// Rows from `begin` up to `end`. Errors: ArgumentError when these are no range of rows.
  [[nodiscard]] CsvTable slice(std::int64_t begin,
                               std::int64_t end,
                               SourceLoc loc = SourceLoc::current()) const;

 private:
  void require_row(std::int64_t row, SourceLoc loc) const;

  std::vector<CsvColumn> columns_;
  CsvOrigin origin_;
  std::int64_t row_count_ = 0;
};

/// Reads a table: RFC 4180, with any separator, and spaces around numbers. Line ends are `\n`,
/// `\r\n` or `\r`; empty lines are passed by. A column has the first of the types integer, real and
/// text that fits all its fields; one of missing values alone is of type real. A real is the double
/// next to what is written: 0 below the smallest, infinite beyond the largest, as is "inf".
///
/// Units: errors count lines from 1.
/// Errors: FileError: not_found, io_error; bad_format for rows of another length, a quote that does
/// not end, no rows, two columns of one name, or a field that is not of the type asked for;
/// ArgumentError for a type of a column that is not there; OutOfMemory.
[[nodiscard]] CsvTable read_csv(const std::filesystem::path& file,
                                const CsvOptions& options = {},
                                SourceLoc loc = SourceLoc::current());
/// The same from text; errors call it `name`.
[[nodiscard]] CsvTable parse_csv(std::string_view text,
                                 const CsvOptions& options = {},
                                 std::string_view name = "text",
                                 SourceLoc loc = SourceLoc::current());

struct TableSplit {
  CsvTable train;
  CsvTable test;
};
/// Rows drawn at random, `train_share` of them to train, and all others to test; the same for the
/// same seed. Each keeps the order of the table.
///
/// Errors: ArgumentError for a share outside of 0 to 1.
[[nodiscard]] TableSplit split_rows(const CsvTable& table,
                                    double train_share,
                                    std::uint64_t seed = 0,
                                    SourceLoc loc = SourceLoc::current());

}  // namespace hearth
