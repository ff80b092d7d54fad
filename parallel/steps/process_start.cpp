#include "process_start.hpp"

#include "parallel/processes/common_outcome.hpp"
#include "parallel/processes/common_settings.hpp"
#include "parallel/processes/process_row.hpp"

#include <hearth/modules/tensor_ref.hpp>
#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/file.hpp>

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace hearth::detail {
namespace {

std::string number(double value) {
  return fmt::format("{}", value);
}

void add_rules(SettingWords& words, const Sgd::Config& config) {
  words.emplace_back("optimizer", "Sgd");
  words.emplace_back("momentum", number(config.momentum));
  words.emplace_back("dampening", number(config.dampening));
  words.emplace_back("nesterov", config.nesterov ? "on" : "off");
}
void add_rules(SettingWords& words, const RuleConfig& config) {
  words.emplace_back("optimizer", config.name);
  for (const OptimizerSetting& setting : config.settings) {
    words.emplace_back(setting.name, number(setting.value));
  }
}
template <class Config>  // Adam or AdamW
void add_rules(SettingWords& words, const Config& config) {
  words.emplace_back("optimizer", std::is_same_v<Config, AdamW::Config> ? "AdamW" : "Adam");
  words.emplace_back("beta1", number(config.beta1));
  words.emplace_back("beta2", number(config.beta2));
  words.emplace_back("epsilon", number(config.epsilon));
  if constexpr (requires { config.decoupled; }) {
    words.emplace_back("decoupled", config.decoupled ? "on" : "off");
  }
}

void add_groups(SettingWords& words, const std::vector<ParameterGroup>& groups) {
  for (const ParameterGroup& group : groups) {
    words.emplace_back("parameter group",
                       fmt::format("'{}', weight decay {}, rate times {}",
                                   group.match,
                                   group.weight_decay ? number(*group.weight_decay) : "unchanged",
                                   group.rate_factor ? number(*group.rate_factor) : "unchanged"));
  }
}

std::string milliseconds(std::chrono::nanoseconds time) {
  return fmt::format("{} ms", std::chrono::duration<double, std::milli>(time).count());
}

SettingWords settings_of(const DataParallelOptions& options,
                         RankModel& model,
                         bool has_weighted_loss) {
  SettingWords words{{"version", HEARTH_VERSION}};
  std::visit(
      [&](const auto& config) {
        add_rules(words, config);
        words.emplace_back("learning rate", number(config.learning_rate));
        words.emplace_back("weight decay", number(config.weight_decay));
        add_groups(words, config.groups);
      },
      options.optimizer);
  words.emplace_back("clip.max_norm",
                     options.clip.max_norm ? number(*options.clip.max_norm) : "none");
  words.emplace_back("clip.max_value",
                     options.clip.max_value ? number(*options.clip.max_value) : "none");
  words.emplace_back("average_decay", number(options.average_decay));
  words.emplace_back("precision.compute", std::string(name(options.precision.compute)));
  words.emplace_back("precision.gradients", std::string(name(options.precision.gradients)));
  const std::optional<LossScaling> scaling = options.precision.scaling();
  words.emplace_back("precision.loss_scaling",
                     scaling ? fmt::format("from {}, times {} after {} steps, times {}",
                                           scaling->initial,
                                           scaling->growth,
                                           scaling->growth_interval,
                                           scaling->backoff)
                             : "none");
  words.emplace_back("bucket_bytes", std::to_string(options.bucket_bytes));
  words.emplace_back("seed", std::to_string(options.seed));
  words.emplace_back("deadline", milliseconds(options.deadline));
  words.emplace_back("step_limit", milliseconds(options.step_limit));
  words.emplace_back("weight of the loss", has_weighted_loss ? "possible" : "none");
  for (const TensorRef& ref : model.tensors()) {
    words.emplace_back("tensor '" + ref.path + "'",
                       fmt::format("{}{}",
                                   describe(ref.tensor->dtype(), ref.tensor->shape()),
                                   ref.is_frozen() ? ", frozen" : ""));
  }
  return words;
}

// Process 0 reads; the others replace their tensors. All of them take part if one fails.
void share_weights(const StepAgreement& agreement, RankModel& model, SourceLoc where) {
  const std::vector<TensorRef> refs = model.tensors();
  std::string bytes;
  ErrorRef failure;
  if (agreement.group().is_first()) {
    try {
      for (const TensorRef& ref : refs) {
        const std::vector<std::byte> values = ref.tensor->detach().read_bytes().get();
        bytes.append(reinterpret_cast<const char*>(values.data()), values.size());
      }
    } catch (...) {
      failure = error_of_current_exception();
    }
  }
  const std::string all = std::move(agreement.group().gather(
      failure ? std::string() : std::move(bytes), "the weights", where)[0]);
  if (!agreement.group().is_first() && !all.empty()) {
    try {
      std::span<const std::byte> left = std::as_bytes(std::span(all));
      for (const TensorRef& ref : refs) {
        const auto size = static_cast<std::size_t>(ref.tensor->shape().element_count() *
                                                   size_bytes(ref.tensor->dtype()));
        Tensor received = Tensor::from_bytes(ref.tensor->device(),
                                             left.first(size),
                                             ref.tensor->dtype(),
                                             ref.tensor->shape(),
                                             where);
        received.set_path(ref.path);
        left = left.subspan(size);
        const SoleName sole(ref);
        *ref.tensor = std::move(received);
      }
    } catch (...) {
      failure = error_of_current_exception();
    }
  }
  settle(agreement.group(), failure, "the weights of all processes", where);
}

}  // namespace

std::shared_ptr<StepAgreement> start_processes(const DataParallelOptions& options,
                                               const BucketPlan& plan,
                                               RankModel& model,
                                               bool has_weighted_loss,
                                               SourceLoc where) {
  const ProcessGroup& group = options.processes;
  if (group.size() == 1) {
    return nullptr;
  }
  require_common(group, settings_of(options, model, has_weighted_loss), "DataParallel", where);
  auto agreement = std::make_shared<StepAgreement>(
      group,
      options.devices.size(),
      std::vector<GradientBucket>(plan.buckets().begin(), plan.buckets().end()),
      saturated_sum(options.step_limit, saturated_sum(options.deadline, options.deadline)),
      where);
  share_weights(*agreement, model, where);
  return agreement;
}

std::vector<Generator> all_generators(const StepAgreement& agreement,
                                      const std::vector<Generator>& own,
                                      SourceLoc where) {
  ProcessRow row;
  for (const Generator& each : own) {
    row.add(each.seed()).add(each.counter());
  }
  const std::vector<std::string> rows =
      agreement.group().gather(row.take(), "the generators of all ranks", where);
  std::vector<Generator> all;
  for (std::size_t process = 0; process < rows.size(); ++process) {
    ProcessRow theirs(rows[process]);
    for (std::size_t left = agreement.ranks().counts[process]; left > 0; --left) {
      const auto seed = theirs.read<std::uint64_t>();
      all.emplace_back(seed, theirs.read<std::uint64_t>());
    }
  }
  return all;
}

void require_common_file(const StepAgreement& agreement,
                         const std::filesystem::path& file,
                         SourceLoc where) {
  std::string words = "missing";
  const Result<std::vector<std::byte>> bytes = read_file(file);
  if (bytes.has_value()) {
    words = fmt::format("{} bytes, xxh64 {:016x}", bytes.value().size(), xxh64(bytes.value(), 0));
  }
  require_common(agreement.group(), {{file.string(), words}}, "DataParallel", where);
}

}  // namespace hearth::detail
