#include <hearth/modules/training_state.hpp>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace hearth::detail {
namespace {

// Followed by a parameter's path; the value counts steps.
constexpr std::string_view kSkipped = "skipped.";

// Reads the numbers in a file's metadata, or throws an error that names the invalid one.
class Numbers {
 public:
  Numbers(const std::filesystem::path& file, const Metadata& metadata, SourceLoc loc)
      : file_(file), metadata_(metadata), loc_(loc) {}

  template <class Number>
  [[nodiscard]] Number read(const std::string& name) const {
    const auto found = metadata_.find(std::string(kOwnNames) + name);
    if (found == metadata_.end()) {
      fail(fmt::format("'{}{}' is missing: expected the state of a training run", kOwnNames, name));
    }
    const std::string& text = found->second;
    const char* const end = text.data() + text.size();
    Number number{};
    const std::from_chars_result result = std::from_chars(text.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end) {
      fail(fmt::format("'{}{}' is '{}': expected a number", kOwnNames, name, text));
    }
    return number;
  }
  /// Reads a number that must be finite and not negative.
  template <class Number>
  [[nodiscard]] Number read_count(const std::string& name) const {
    const auto number = read<Number>(name);
    if (!(number >= 0 && number <= std::numeric_limits<Number>::max())) {
      fail(fmt::format("'{}{}' is {}: expected 0 or more", kOwnNames, name, number));
    }
    return number;
  }

  [[noreturn]] void fail(const std::string& text) const {
    throw FileError(Error{.code = ErrorCode::bad_format,
                          .text = fmt::format("file {}: {}", file_.string(), text),
                          .location = loc_});
  }

 private:
  const std::filesystem::path& file_;
  const Metadata& metadata_;
  SourceLoc loc_;
};

SkippedSteps read_skipped(const Numbers& numbers,
                          const Metadata& metadata,
                          const std::vector<TensorRef>& parameters,
                          std::int64_t step_count) {
  const std::string before = std::string(kOwnNames) + std::string(kSkipped);
  SkippedSteps skipped;
  for (const auto& [name, text] : metadata) {
    if (!name.starts_with(before)) {
      continue;
    }
    const std::string path = name.substr(before.size());
    const auto count = numbers.read_count<std::int64_t>(name.substr(kOwnNames.size()));
    const bool is_trained =
        std::ranges::find(parameters, path, &TensorRef::path) != parameters.end();
    if (!is_trained || count > step_count) {
      numbers.fail(
          fmt::format("'{}' is {}: expected a parameter of the model, and no more than the "
                      "{} steps",
                      name,
                      count,
                      step_count));
    }
    skipped[path] = count;
  }
  return skipped;
}

void require_full(const TrainingParts& parts, std::string_view caller, SourceLoc loc) {
  for (const TensorRef& ref : parts.model) {
    require_tensor(caller, ref.path, *ref.tensor, loc);
  }
}

// All tensors of a run under their paths, in the order of its file.
std::vector<TensorRef> refs_of(const TrainingParts& parts, SourceLoc loc) {
  parts.optimizer.prepare(parts.parameters, loc);
  std::vector<TensorRef> all = parts.model;
  for (TensorRef& ref : tensor_refs(parts.optimizer)) {
    all.push_back(std::move(ref));
  }
  if (parts.average != nullptr) {
    parts.average->prepare(parts.parameters, loc);
    for (TensorRef& ref : tensor_refs(*parts.average)) {
      all.push_back(std::move(ref));
    }
  }
  if (parts.scaler != nullptr) {
    for (TensorRef& ref : tensor_refs(*parts.scaler)) {
      all.push_back(std::move(ref));
    }
  }
  return all;
}

// Two kinds may keep tensors of equal names. Files of version 0.1.0 do not name the kind.
void require_same_optimizer(const TrainingParts& parts,
                            const std::filesystem::path& file,
                            const Metadata& metadata,
                            SourceLoc loc) {
  const auto saved = metadata.find(std::string(kOwnNames) + "optimizer");
  if (saved != metadata.end() && saved->second != parts.optimizer.kind()) {
    throw FileError(Error{.code = ErrorCode::bad_format,
                          .text = fmt::format("file {}: the state of a training by {}, this one "
                                              "is by {}",
                                              file.string(),
                                              saved->second,
                                              parts.optimizer.kind()),
                          .location = loc});
  }
}

}  // namespace

std::vector<NamedTensor> training_tensors(const TrainingParts& parts, SourceLoc loc) {
  const std::vector<TensorRef> refs = refs_of(parts, loc);
  const std::size_t averages = parts.average != nullptr ? tensor_refs(*parts.average).size() : 0;
  const std::size_t scales = parts.scaler != nullptr ? tensor_refs(*parts.scaler).size() : 0;
  const std::size_t first_average = refs.size() - scales - averages;
  std::vector<NamedTensor> all;
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const char* const prefix = i < parts.model.size()     ? "model"
                               : i < first_average        ? "optimizer"
                               : i < refs.size() - scales ? "average"
                                                          : "loss_scale";
    all.push_back({join_path(prefix, refs[i].path), *refs[i].tensor});
  }
  return all;
}

void save_parts(const TrainingParts& parts,
                const std::filesystem::path& file,
                const TrainingProgress& progress,
                SourceLoc loc) {
  require_own_names(progress.notes, "save_training", loc);
  require_full(parts, "save_training", loc);
  const std::vector<NamedTensor> tensors = training_tensors(parts, loc);
  Optimizer& optimizer = parts.optimizer;
  Metadata metadata = progress.notes;
  const auto set = [&](const std::string& name, const auto& value) {
    // Floats round-trip exactly.
    metadata[std::string(kOwnNames) + name] = fmt::format("{}", value);
  };
  set("optimizer", optimizer.kind());
  set("step_count", optimizer.step_count());
  set("learning_rate", optimizer.learning_rate());
  set("epoch", progress.cursor.epoch);
  set("batch", progress.cursor.batch);
  for (const auto& [path, count] : optimizer.skipped_steps()) {
    set(std::string(kSkipped) + path, count);
  }
  if (parts.average != nullptr) {
    set("average_updates", parts.average->update_count());
  }
  set("generators", progress.generators.size());
  for (std::size_t i = 0; i < progress.generators.size(); ++i) {
    set(fmt::format("generator.{}.seed", i), progress.generators[i].seed());
    set(fmt::format("generator.{}.counter", i), progress.generators[i].counter());
  }
  if (file.has_parent_path()) {
    const Status made = make_folder(file.parent_path());
    if (!made.has_value()) {
      throw_file_error(made.error(), loc);
    }
  }
  write_safetensors(file, tensors, metadata, loc);
}

// Reads the first element of each tensor, which fails if the tensor is poisoned.
void require_values(std::span<const Tensor> tensors, SourceLoc loc) {
  std::vector<Pending<std::vector<std::byte>>> first_values;
  for (const Tensor& tensor : tensors) {
    const std::int64_t count = tensor.shape().element_count();
    if (count > 0) {
      first_values.push_back(
          slice(Arg(reshape(Arg(tensor, loc), {count}), loc), 0, {.start = 0, .stop = 1})
              .read_bytes(loc));
    }
  }
  for (Pending<std::vector<std::byte>>& each : first_values) {
    static_cast<void>(each.get());
  }
}

LoadedTraining read_parts(const TrainingParts& parts,
                          const std::filesystem::path& file,
                          SourceLoc loc) {
  require_full(parts, "load_training", loc);
  for (const TensorRef& ref : parts.model) {
    require_untracked("load_training", ref.path, *ref.tensor, loc);
  }
  const std::vector<NamedTensor> expected = training_tensors(parts, loc);
  const SafetensorsFile content = SafetensorsFile::read(file, loc);
  if (!content.is_verified()) {
    throw FileError(Error{
        .code = ErrorCode::bad_format,
        .text = fmt::format("file {}: not as save_training() writes it: its {} is missing, or "
                            "another program has saved it anew",
                            file.string(),
                            kChecksumName),
        .location = loc});
  }
  require_same_optimizer(parts, file, content.metadata(), loc);
  content.require_exactly(expected, loc);
  const Numbers numbers(file, content.metadata(), loc);
  LoadedTraining loaded;
  loaded.step_count = numbers.read_count<std::int64_t>("step_count");
  loaded.learning_rate = numbers.read_count<double>("learning_rate");
  loaded.skipped = read_skipped(numbers, content.metadata(), parts.parameters, loaded.step_count);
  if (parts.average != nullptr) {
    loaded.average_updates = numbers.read_count<std::int64_t>("average_updates");
  }
  loaded.progress.cursor = {.epoch = numbers.read_count<std::int64_t>("epoch"),
                            .batch = numbers.read_count<std::int64_t>("batch")};
  const auto count = numbers.read_count<std::int64_t>("generators");
  for (std::int64_t i = 0; i < count; ++i) {
    loaded.progress.generators.emplace_back(
        numbers.read<std::uint64_t>(fmt::format("generator.{}.seed", i)),
        numbers.read<std::uint64_t>(fmt::format("generator.{}.counter", i)));
  }
  for (const auto& [name, text] : content.metadata()) {
    if (!name.starts_with(kOwnNames)) {
      loaded.progress.notes[name] = text;
    }
  }
  for (const NamedTensor& named : expected) {
    const WeightScope weights(named.tensor.device());
    // The conversion widens the state of an older file.
    loaded.tensors.push_back(
        content.tensor(named.name, named.tensor.device(), loc).to(named.tensor.dtype(), loc));
  }
  require_values(loaded.tensors, loc);
  if (!expected.empty()) {
    content.record_load(expected.front().tensor.device());
  }
  return loaded;
}

TrainingProgress place_parts(const TrainingParts& parts, LoadedTraining loaded, SourceLoc loc) {
  const std::vector<TensorRef> refs = refs_of(parts, loc);
  for (std::size_t i = 0; i < refs.size(); ++i) {
    loaded.tensors[i].set_path(refs[i].path);
  }
  parts.optimizer.set_learning_rate(loaded.learning_rate, loc);
  parts.optimizer.set_step_count(loaded.step_count, loaded.skipped, loc);
  if (parts.average != nullptr) {
    parts.average->set_update_count(loaded.average_updates, loc);
  }
  for (std::size_t i = 0; i < refs.size(); ++i) {
    const SoleName sole(refs[i]);
    *refs[i].tensor = std::move(loaded.tensors[i]);
  }
  return std::move(loaded.progress);
}

}  // namespace hearth::detail
