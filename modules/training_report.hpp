// TrainingReport: a run for people to look at: its curves and figures as one HTML file, which needs
// no other file and no network.
// Plain data. Threads: values. Invariant: the file is well-formed XML too.
#pragma once

#include <hearth/modules/confusion_matrix.hpp>
#include <hearth/modules/training_history.hpp>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

struct TrainingReport {
  std::string title = "Training";
  /// What the reader is to know first: names and values.
  std::vector<std::pair<std::string, std::string>> facts = {};
  TrainingHistory history = {};
  std::optional<std::int64_t> best_epoch = std::nullopt;  ///< Set off in the table.
  std::optional<ConfusionMatrix> confusion = std::nullopt;
  std::string model = {};  ///< A table of text: ModelSummary::to_string().
};

[[nodiscard]] std::string html_of(const TrainingReport& report);

}  // namespace hearth
