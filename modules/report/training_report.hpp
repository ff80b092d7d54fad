// TrainingReport: the curves and figures of a run as one HTML file without external references.
// Plain data. Threads: values. Invariant: the file is also well-formed XML.
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
  /// Names and values shown at the top.
  std::vector<std::pair<std::string, std::string>> facts = {};
  TrainingHistory history = {};
  std::optional<std::int64_t> best_epoch = std::nullopt;  ///< Highlighted in the table.
  std::optional<ConfusionMatrix> confusion = std::nullopt;
  std::string model = {};  ///< Text table of the model: ModelSummary::to_string().
};

[[nodiscard]] std::string html_of(const TrainingReport& report);

}  // namespace hearth
