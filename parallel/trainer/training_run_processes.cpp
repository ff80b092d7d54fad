// A run over several processes: their common settings, and the tasks of process 0.
#include <hearth/parallel/training_run.hpp>

#include "parallel/processes/common_outcome.hpp"
#include "parallel/processes/common_settings.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace hearth {

// The other processes print nothing.
ConsoleOptions TrainingRun::console_of(const TrainerOptions& options, const TrainingPorts& ports) {
  ConsoleOptions console = options.console;
  if (!ports.processes.is_first()) {
    console.style = ConsoleStyle::silent;
  }
  return console;
}

void TrainingRun::require_common_run(bool has_state) const {
  if (ports_.processes.size() == 1) {
    return;
  }
  Words words = settings();
  for (const auto& [note, value] : run_notes()) {
    words.emplace_back(note, value);
  }
  words.emplace_back(
      "validation examples",
      ports_.data.validation_count ? std::to_string(*ports_.data.validation_count) : "unknown");
  words.emplace_back("validation", ports_.validate ? "on" : "off");
  words.emplace_back("watch", options_.watch);
  for (const EvaluationMetric& metric : options_.metrics) {
    words.emplace_back("metric", metric.name);
  }
  words.emplace_back("drop_last", options_.drop_last ? "on" : "off");
  words.emplace_back("save_every", std::to_string(options_.save_every));
  words.emplace_back("keep_epochs", std::to_string(options_.keep_epochs));
  words.emplace_back("early stopping",
                     options_.early_stopping ? fmt::format("after {} epochs without a change of {}",
                                                           options_.early_stopping->patience,
                                                           options_.early_stopping->min_change)
                                             : "off");
  words.emplace_back("folder", options_.folder.string());
  words.emplace_back("resume", options_.resume ? "on" : "off");
  words.emplace_back("saved state", has_state ? "in the folder" : "not in the folder");
  detail::require_common(ports_.processes, words, "Trainer", where_);
}

void TrainingRun::on_first(const std::function<void()>& fn, std::string_view what) const {
  detail::run_on_first(ports_.processes, fn, what, where_);
}

bool TrainingRun::join_ends(bool is_interrupted) {
  const auto [interrupted, stop] = detail::set_in_any(
      ports_.processes, {is_interrupted, control_.stop}, "the end of a step", where_);
  control_.stop = stop;
  return interrupted;
}

}  // namespace hearth
