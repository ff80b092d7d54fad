// TableEncoder: encodes the columns of a table as numbers for a network. It learns means,
// deviations and categories from the training rows and applies them to any other table. Categories
// and classes are compared as they were written: "007" is not "7".
// A value that owns what it learned. Copies share one record of which warnings were logged.
// Threads: a value; const functions from any.
// Invariant: a loaded encoder encodes a table to the same numbers as the saved one.
#pragma once

#include <hearth/modules/array_dataset.hpp>
#include <hearth/modules/csv.hpp>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

enum class CategoryCode : std::uint8_t {
  /// One column of 0 and 1 per text. A text that was not in the training rows is 0 in all of them
  /// (UnknownCategory).
  one_hot,
  /// A separate i64 [n] array under the column's name, for an Embedding. Texts are numbered from 1;
  /// an unknown text is 0.
  index,
};
enum class MissingValue : std::uint8_t {
  mean,    ///< A missing number becomes the mean; a missing text is encoded like an unknown one.
  refuse,  ///< An error names the line of the file.
  drop,    ///< The row is dropped, and also excluded from training the encoder.
};
/// Treatment of a category that was not in the training rows.
enum class UnknownCategory : std::uint8_t {
  /// Encodes it as 0 in all columns, or as index 0, whatever MissingValue is. The log reports the
  /// first one of each column with its position, once for an encoder and its copies.
  warn,
  ignore,  ///< Encoded as with `warn`, without a log entry.
  refuse,  ///< An error names the line of the file.
};

struct TableOptions {
  std::string target = {};  ///< Column to predict; empty: none.
  /// Whether a target of whole numbers is a class. A target of texts always is.
  bool target_is_class = false;
  /// Feature columns; empty: all columns but the target and leave_out.
  std::vector<std::string> features = {};
  std::vector<std::string> leave_out = {};          ///< Columns that are no features.
  CategoryCode categories = CategoryCode::one_hot;  ///< Code of text columns.
  MissingValue missing = MissingValue::mean;        ///< Treatment of missing values.
  bool standardise = true;         ///< Whether numbers become (value - mean)/deviation.
  bool standardise_target = true;  ///< Whether a numeric target is standardised, too.
  /// Largest number of different texts in a column. More are an error: probably free text, or one
  /// malformed number.
  std::int64_t max_categories = 100;
  UnknownCategory unknown =
      UnknownCategory::warn;  ///< Treatment of a text that is not in the training rows.
};

class TableEncoder final {
 public:
  /// Learns from these rows.
  ///
  /// Errors: ArgumentError for an unknown column, no features, a column of more categories than
  /// max_categories, a number that encode() rejects, or when every row is dropped.
  explicit TableEncoder(const CsvTable& train,
                        const TableOptions& options,
                        SourceLoc loc = SourceLoc::current());

  /// Encodes a table as examples. Inputs are f32 [n, width()]: numbers first, in the order of the
  /// columns. Each column of CategoryCode::index is an array in Examples::more. Targets are f32 [n,
  /// 1], or classes, i64 [n]. Every number must be finite and fit f32 after encoding. A
  /// standardised column accepts each double of the training table.
  ///
  /// Errors: ArgumentError for an unknown column, texts in a column of numbers, an unknown class,
  /// an infinite number, or one beyond f32; ArgumentError for a missing value, unknown category or
  /// missing target that the options reject. The error names file and line (CsvTable::place_of),
  /// column and value.
  [[nodiscard]] ArrayDataset encode(const CsvTable& table,
                                    SourceLoc loc = SourceLoc::current()) const;
  /// Encodes a table without a target, for prediction. The table may lack the target column.
  ///
  /// Errors: as encode().
  [[nodiscard]] ArrayDataset encode_features(const CsvTable& table,
                                             SourceLoc loc = SourceLoc::current()) const;

  /// Counts the values in category columns that were not in the training rows, whatever
  /// UnknownCategory is. Missing values do not count.
  ///
  /// Errors: ArgumentError for an unknown column.
  [[nodiscard]] std::int64_t unknown_count(const CsvTable& table,
                                           SourceLoc loc = SourceLoc::current()) const;

  /// Numbers per example in inputs.
  [[nodiscard]] std::int64_t width() const noexcept;
  /// Names of the inputs: "median_income", "ocean_proximity=INLAND".
  [[nodiscard]] std::vector<std::string> input_names() const;
  /// The texts of a category column, in the order of their codes.
  ///
  /// Errors: ArgumentError for another column.
  [[nodiscard]] const std::vector<std::string>& categories(
      std::string_view column, SourceLoc loc = SourceLoc::current()) const;
  /// Names of the classes, if the target is a class.
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept { return classes_; }
  /// Converts a prediction to the units of the table: 0 becomes the mean of the target. Returns the
  /// prediction itself if the target is a class or not standardised. To convert a distance, such as
  /// mean_error_metric() returns, use target_value(distance) - target_value(0).
  [[nodiscard]] double target_value(double prediction) const noexcept {
    return prediction * target_.deviation + target_.mean;
  }

  /// Writes the encoder to a JSON file with a checksum, to be kept beside a model's weights.
  ///
  /// Errors: ArgumentError for texts that are not UTF-8; FileError io_error.
  void save(const std::filesystem::path& file, SourceLoc loc = SourceLoc::current()) const;
  /// Reads a file of save(). Older files without a checksum are accepted.
  ///
  /// Errors: FileError: not_found, io_error; bad_format for a file that save() did not write, or
  /// that changed since.
  [[nodiscard]] static TableEncoder load(const std::filesystem::path& file,
                                         SourceLoc loc = SourceLoc::current());

 private:
  struct Number {
    std::string column;
    double mean = 0;
    double deviation = 1;  // 0: not standardised; the mean only fills gaps
  };
  struct Category {
    std::string column;
    std::vector<std::string> texts;
    /// Whether the warning about an unknown text of this column was logged.
    std::shared_ptr<std::atomic<bool>> has_warned = std::make_shared<std::atomic<bool>>(false);
  };

  TableEncoder() = default;
  void learn_feature(const CsvTable& table,
                     const std::string& name,
                     const TableOptions& options,
                     SourceLoc loc);
  void learn_target(const CsvTable& table, const TableOptions& options, SourceLoc loc);
  [[nodiscard]] std::vector<std::int64_t> rows_of(const CsvTable& table,
                                                  bool has_target,
                                                  SourceLoc loc) const;
  [[nodiscard]] static std::int64_t code_in(const Category& category,
                                            const CsvColumn& column,
                                            std::int64_t row);
  /// The codes of these rows, from 0; -1 for missing and unknown texts.
  [[nodiscard]] std::vector<std::int64_t> codes_of(const Category& category,
                                                   const CsvTable& table,
                                                   const std::vector<std::int64_t>& rows,
                                                   SourceLoc loc) const;
  [[nodiscard]] Examples features_of(const CsvTable& table,
                                     const std::vector<std::int64_t>& rows,
                                     SourceLoc loc) const;
  [[nodiscard]] HostArray targets_of(const CsvTable& table,
                                     const std::vector<std::int64_t>& rows,
                                     SourceLoc loc) const;

  CategoryCode code_ = CategoryCode::one_hot;
  MissingValue missing_ = MissingValue::mean;
  UnknownCategory unknown_ = UnknownCategory::warn;
  std::vector<Number> numbers_;
  std::vector<Category> categories_;
  Number target_;                     // without a column: no target
  std::vector<std::string> classes_;  // of the target; empty: it is numeric
};

}  // namespace hearth
