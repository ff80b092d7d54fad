// TableEncoder: the columns of a table as numbers for a network. It learns means, deviations and
// categories from the rows that train, and does the same to every other table. Categories and
// classes are compared as they were written: "007" is not "7".
// A value that owns what it learned; copies share what of it the log was told. Threads: a value;
// const functions from any.
// Invariant: the same table gives the same numbers, in whatever program the encoder is loaded.
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
  one_hot,  ///< A column of 0 and 1 for each text; one that did not train is 0 in all
            ///< (UnknownCategory).
  index,    ///< An array of its own under the column's name, i64 [n], for an Embedding: 0 is a text
            ///< that did not train, the others are numbered from 1.
};
enum class MissingValue : std::uint8_t {
  mean,    ///< Numbers that are missing become the mean; texts, one that did not train.
  refuse,  ///< An error names the line of the file.
  drop,    ///< The row is left out, of what is learned too.
};
/// What becomes of a text in a column of categories that was in no row that trained.
enum class UnknownCategory : std::uint8_t {
  warn,  ///< It is 0 in all columns, or the index 0, whatever MissingValue says. The log names the
         ///< first of each column with its place, once for an encoder and its copies.
  ignore,  ///< The same without a word.
  refuse,  ///< An error names the line of the file.
};

struct TableOptions {
  std::string target = {};                  ///< The column to predict; empty: none.
  bool target_is_class = false;             ///< Of a column of whole numbers. Texts always are.
  std::vector<std::string> features = {};   ///< Empty: all columns but the target …
  std::vector<std::string> leave_out = {};  ///< … and these.
  CategoryCode categories = CategoryCode::one_hot;  ///< Code for texts.
  MissingValue missing = MissingValue::mean;        ///< Substitute for a missing number.
  bool standardise = true;                          ///< Numbers become (value - mean)/deviation.
  bool standardise_target = true;                   ///< A target that is a number, too.
  /// More different texts in a column are refused: it may be free text, or numbers with a bad one
  /// among them.
  std::int64_t max_categories = 100;
  UnknownCategory unknown =
      UnknownCategory::warn;  ///< Reaction to a text that the training data lack.
};

class TableEncoder final {
 public:
  /// Learns from these rows.
  ///
  /// Errors: ArgumentError for columns that are not there, no features, a column of more categories
  /// than max_categories, a number that encode() refuses, or when every row is dropped.
  explicit TableEncoder(const CsvTable& train,
                        const TableOptions& options,
                        SourceLoc loc = SourceLoc::current());

  /// A table as examples: inputs f32 [n, width()], numbers first, in the order of the columns; each
  /// column of CategoryCode::index in Examples::more. Targets are f32 [n, 1], or classes, i64 [n].
  /// A number, of the target too, is finite, and so is what it becomes in f32: standardised, each
  /// double of a table that trains fits, and as it is, what f32 holds.
  ///
  /// Errors: ArgumentError for a column that is not there, texts where numbers trained, a class
  /// that did not train, an infinite number or one that f32 cannot hold then, or a missing value,
  /// unknown category or target that may not be; it names the file and the line
  /// (CsvTable::place_of), the column and the value.
  [[nodiscard]] ArrayDataset encode(const CsvTable& table,
                                    SourceLoc loc = SourceLoc::current()) const;
  /// The same without a target, whose column need not be there: what a trained model is asked.
  [[nodiscard]] ArrayDataset encode_features(const CsvTable& table,
                                             SourceLoc loc = SourceLoc::current()) const;

  /// How many values of a table's columns of categories were in no row that trained, whatever
  /// UnknownCategory says; those that are missing do not count. Errors: ArgumentError for a column
  /// that is not there.
  [[nodiscard]] std::int64_t unknown_count(const CsvTable& table,
                                           SourceLoc loc = SourceLoc::current()) const;

  /// How many numbers an example has in inputs.
  [[nodiscard]] std::int64_t width() const noexcept;
  /// What they are: "median_income", "ocean_proximity=INLAND".
  [[nodiscard]] std::vector<std::string> input_names() const;
  /// The texts of a column, in the order of their codes. Errors: ArgumentError for another column.
  [[nodiscard]] const std::vector<std::string>& categories(
      std::string_view column, SourceLoc loc = SourceLoc::current()) const;
  /// The names of the classes, when the target is one.
  [[nodiscard]] const std::vector<std::string>& classes() const noexcept { return classes_; }
  /// What a prediction stands for, in the units of the table: 0 is the mean of the target. Of a
  /// target that is a class, or not standardised, it is the prediction itself; a class's name is in
  /// classes(). A distance, as mean_error_metric() gives, is in deviations of the target: it is
  /// target_value(distance) - target_value(0) in the units of the table.
  [[nodiscard]] double target_value(double prediction) const noexcept {
    return prediction * target_.deviation + target_.mean;
  }

  /// Writes it to a file, JSON with a checksum, to be kept beside a model's weights: all that was
  /// learned comes back. Errors: ArgumentError for texts that are not UTF-8; FileError io_error.
  void save(const std::filesystem::path& file, SourceLoc loc = SourceLoc::current()) const;
  /// Files of before there was a checksum are read too.
  /// Errors: FileError: not_found, io_error; bad_format for what save() did not write, also for a
  /// value that changed since.
  [[nodiscard]] static TableEncoder load(const std::filesystem::path& file,
                                         SourceLoc loc = SourceLoc::current());

 private:
  struct Number {
    std::string column;
    double mean = 0;
    double deviation = 1;  // 0: it is not standardised, and the mean only fills gaps
  };
  struct Category {
    std::string column;
    std::vector<std::string> texts;
    /// That one of another text was found.
    std::shared_ptr<std::atomic<bool>> has_told = std::make_shared<std::atomic<bool>>(false);
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
  /// Those of the rows, from 0; -1 for what is missing or did not train.
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
  Number target_;                     // without a column: there is none
  std::vector<std::string> classes_;  // of the target; empty: it is a number
};

}  // namespace hearth
