// The settings of a run as text, for its report and for the comparison at a resume.
#include <hearth/parallel/training_run.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace hearth {
namespace {

using Words = std::vector<std::pair<std::string, std::string>>;

std::string number(double value) {
  return fmt::format("{}", value);
}

std::string with_warmup(std::string words, std::int64_t steps) {
  return steps == 0 ? words : fmt::format("{}, {} steps of warm-up", words, steps);
}
std::string words_of(const ConstantRate& schedule) {
  return with_warmup("constant", schedule.warmup_steps);
}
std::string words_of(const LinearRate& schedule) {
  return with_warmup("linear to " + number(schedule.end), schedule.warmup_steps);
}
std::string words_of(const CosineRate& schedule) {
  return with_warmup("cosine to " + number(schedule.end), schedule.warmup_steps);
}
std::string words_of(const OneCycleRate& schedule) {
  return with_warmup(fmt::format("one cycle from {} to {}, rising for {} of it",
                                 schedule.start,
                                 schedule.end,
                                 schedule.rising),
                     schedule.warmup_steps);
}
std::string words_of(const PlateauRate& schedule) {
  return with_warmup(
      fmt::format("times {} after {} epochs without progress of {}, to {} at the least",
                  schedule.factor,
                  schedule.patience,
                  schedule.min_change,
                  schedule.end),
      schedule.warmup_steps);
}
std::string words_of(const StepRate& schedule) {
  return with_warmup(fmt::format("times {} after each {} steps, to {} at the least",
                                 schedule.factor,
                                 schedule.every,
                                 schedule.end),
                     schedule.warmup_steps);
}
std::string words_of(const ExponentialRate& schedule) {
  return with_warmup(
      fmt::format("times {} after each step, to {} at the least", schedule.factor, schedule.end),
      schedule.warmup_steps);
}
std::string words_of(const FunctionRate& schedule) {
  return with_warmup(schedule.name, schedule.warmup_steps);
}
std::string words_of(const LearningRateSchedule& schedule) {
  return std::visit([](const auto& each) { return words_of(each); }, schedule);
}

std::string words_of(const GradientClip& clip) {
  std::string words;
  if (clip.max_norm) {
    words = "norm " + number(*clip.max_norm);
  }
  if (clip.max_value) {
    words += (words.empty() ? "" : ", ") + ("value " + number(*clip.max_value));
  }
  return words.empty() ? "none" : words;
}

std::string words_of(const std::optional<LossScaling>& scaling) {
  if (!scaling) {
    return "none";
  }
  return scaling->growth == 1 && scaling->backoff == 1
             ? number(scaling->initial)
             : fmt::format("from {}, times {} after {} steps, times {} after an overflow",
                           scaling->initial,
                           scaling->growth,
                           scaling->growth_interval,
                           scaling->backoff);
}

std::string words_of(const std::vector<ParameterGroup>& groups) {
  std::string words;
  for (const ParameterGroup& group : groups) {
    words += (words.empty() ? "" : "; ") + group.match;
    if (group.weight_decay) {
      words += ", weight decay " + number(*group.weight_decay);
    }
    if (group.rate_factor) {
      words += ", rate times " + number(*group.rate_factor);
    }
  }
  return words.empty() ? "none" : words;
}

Words settings_of(const Sgd::Config& config) {
  return {{"momentum", number(config.momentum)},
          {"dampening", number(config.dampening)},
          {"nesterov", config.nesterov ? "on" : "off"}};
}
Words settings_of(const RuleConfig& config) {
  Words words;
  for (const OptimizerSetting& setting : config.settings) {
    words.emplace_back(setting.name, number(setting.value));
  }
  return words;
}
template <class Config>  // Adam or AdamW
Words settings_of(const Config& config) {
  Words words{{"beta1", number(config.beta1)},
              {"beta2", number(config.beta2)},
              {"epsilon", number(config.epsilon)}};
  if constexpr (requires { config.decoupled; }) {
    words.emplace_back("decoupled", config.decoupled ? "on" : "off");
  }
  return words;
}
std::string name_of(const Sgd::Config& config) {
  return config.momentum == 0 ? "Sgd" : "Sgd with momentum " + number(config.momentum);
}
std::string name_of(const Adam::Config& /*config*/) {
  return "Adam";
}
std::string name_of(const AdamW::Config& /*config*/) {
  return "AdamW";
}
std::string name_of(const RuleConfig& config) {
  return config.name;
}

// Formats a count with commas: 12,000.
std::string counted(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3) {
    digits.insert(static_cast<std::size_t>(place), ",");
  }
  return digits;
}

}  // namespace

Words TrainingRun::settings() const {
  Words all{{"epochs", std::to_string(options_.epochs)}, {"learning rate", number(base_rate_)}};
  all.emplace_back("schedule", words_of(options_.schedule));
  std::visit(
      [&](const auto& config) {
        all.emplace_back("weight decay", number(config.weight_decay));
        for (auto& setting : settings_of(config)) {
          all.push_back(std::move(setting));
        }
        all.emplace_back("parameter groups", words_of(config.groups));
      },
      options_.optimizer);
  all.emplace_back("clip", words_of(options_.clip));
  all.emplace_back("average_decay", number(options_.average_decay));
  all.emplace_back("compute", name(options_.precision.compute));
  all.emplace_back("exchange of gradients", name(options_.precision.gradients));
  all.emplace_back(kScaling, words_of(options_.precision.scaling()));
  all.emplace_back(kBatches, std::to_string(ports_.batch_count));
  if (ports_.data.train_count) {
    all.emplace_back(kExamples, std::to_string(*ports_.data.train_count));
  }
  return all;
}

std::string TrainingRun::changes_since(const Words& saved) const {
  std::string changes;
  for (const auto& [name, now] : settings()) {
    const auto was = std::ranges::find(saved, name, &Words::value_type::first);
    if (was != saved.end() && was->second != now) {
      changes += fmt::format("; {} {} instead of the saved run's {}", name, now, was->second);
    }
  }
  return changes;
}

Words TrainingRun::facts() const {
  Words facts{{"state", std::string(is_finished_ ? name(result_.reason) : "under way")},
              {"epochs", fmt::format("{} of {}", history_.epochs.size(), options_.epochs)}};
  if (best_epoch_) {
    facts.emplace_back("best epoch", fmt::format("{}, {}", *best_epoch_, best_text()));
  }
  const std::string optimizer =
      std::visit([](const auto& config) { return name_of(config); }, options_.optimizer);
  facts.emplace_back("optimizer",
                     fmt::format("{}, learning rate {}", optimizer, number(base_rate_)));
  if (!std::holds_alternative<ConstantRate>(options_.schedule) ||
      words_of(options_.schedule) != words_of(ConstantRate{})) {
    facts.emplace_back("schedule", words_of(options_.schedule));
  }
  if (options_.clip.max_norm || options_.clip.max_value) {
    facts.emplace_back("gradient clipping", words_of(options_.clip));
  }
  if (options_.precision.is_mixed() || options_.precision.scaling()) {
    facts.emplace_back("precision", describe(options_.precision));
  }
  if (options_.average_decay != 0) {
    facts.emplace_back("weight averaging", number(options_.average_decay));
  }
  std::string devices;
  for (const Device& device : options_.devices) {
    devices += (devices.empty() ? "" : ", ") + device.name();
  }
  facts.emplace_back(options_.devices.size() == 1 ? "device" : "devices", devices);
  if (ports_.processes.size() > 1) {
    facts.emplace_back("processes",
                       fmt::format("{}, with {} devices", ports_.processes.size(), ports_.world()));
  }
  const auto batch = ports_.data.notes.find("batch_size");
  if (batch != ports_.data.notes.end()) {
    facts.emplace_back("batch size", batch->second);
  }
  if (options_.accumulate > 1) {
    facts.emplace_back("batches per step", std::to_string(options_.accumulate));
  }
  facts.emplace_back("training data",
                     ports_.data.train_count
                         ? fmt::format("{} examples", counted(*ports_.data.train_count))
                         : fmt::format("{} batches per epoch", counted(ports_.batch_count)));
  if (ports_.data.validation_count) {
    facts.emplace_back("validation data",
                       fmt::format("{} examples", counted(*ports_.data.validation_count)));
  }
  facts.emplace_back("seed", std::to_string(options_.seed));
  facts.insert(facts.end(), options_.notes.begin(), options_.notes.end());
  return facts;
}

}  // namespace hearth
