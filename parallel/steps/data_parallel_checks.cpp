#include "data_parallel_checks.hpp"

#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/weight_average.hpp>
#include <hearth/runtime/mistake_name.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void throw_argument(std::string text, SourceLoc where = {}) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "DataParallel: " + std::move(text),
                    .op = "DataParallel",
                    .location = where});
}

}  // namespace

namespace detail {

void require_sound(const DataParallelOptions& options, SourceLoc where) {
  require_sound(options.clip, "DataParallel", where);
  require_sound(options.precision, "DataParallel", where);
  if (options.average_decay != 0) {
    const auto make = [&] { return WeightAverage(options.average_decay, where); };
    static_cast<void>(mistakes_named("DataParallel", make));  // rejects an invalid decay
  }
  require_chosen(options.processes, "DataParallel", where);
  if (options.processes.size() > 1 && options.engine != nullptr) {
    throw_argument("an engine of the program's own cannot sum over several processes", where);
  }
  if (options.processes.size() > 1 && options.on_loss != DeviceLossPolicy::stop) {
    throw_argument(
        "with several processes on_loss must be DeviceLossPolicy::stop: a job that has lost a "
        "device or a process ends, and its next start resumes from the last saved state",
        where);
  }
  if (options.devices.empty()) {
    throw_argument("there are no devices", where);
  }
  for (const Device& device : options.devices) {
    if (!device.is_valid()) {
      throw_argument("a device is empty", where);
    }
  }
  for (const Device& device : options.spares) {
    if (!device.is_valid() || std::ranges::find(options.devices, device) != options.devices.end()) {
      throw_argument("a spare device is empty, or trains already", where);
    }
  }
  if (!options.spares.empty() && options.on_loss != DeviceLossPolicy::replace) {
    throw_argument("there are spare devices, but on_loss is not DeviceLossPolicy::replace", where);
  }
  if (options.on_loss > DeviceLossPolicy::replace) {
    throw_argument(fmt::format("on_loss is {}, which is no DeviceLossPolicy",
                               static_cast<int>(options.on_loss)),
                   where);
  }
  if (options.bucket_bytes < 1) {
    throw_argument(fmt::format("bucket_bytes is {}, but must be 1 or more", options.bucket_bytes),
                   where);
  }
  if (options.deadline <= std::chrono::nanoseconds::zero() ||
      options.step_limit <= std::chrono::nanoseconds::zero() ||
      options.save_limit <= std::chrono::nanoseconds::zero()) {
    throw_argument("deadline, step_limit and save_limit must be above 0", where);
  }
  if (options.hang_limit <= std::chrono::nanoseconds::zero() ||
      options.shutdown_limit < std::chrono::nanoseconds::zero()) {
    throw_argument("hang_limit must be above 0, and shutdown_limit 0 or more", where);
  }
}

void require_runtime(const Device& device) {
  if (device.is_closed()) {
    throw_argument("its Runtime has ended, and must outlive it");
  }
}

Pending<void> ask(const Device& device) {
  Stream stream(device);  // the thread's own stream may be full of records that no device takes
  const StreamScope scope(stream);
  return device.catch_up_later();
}

void log_hang(Log& log,
              const DeviceWorker& worker,
              std::chrono::nanoseconds limit,
              std::string_view what) {
  log.warn(fmt::format(
      "DataParallel: rank {} on {} hangs, it did not answer for {} after its deadline; {}",
      worker.rank(),
      worker.device().name(),
      std::chrono::duration_cast<std::chrono::milliseconds>(limit),
      what));
}

void throw_late_writer(const DeviceWorker& worker,
                       std::chrono::nanoseconds limit,
                       const char* what) {
  throw_error(
      Error{.code = ErrorCode::deadline_exceeded,
            .text = fmt::format("DataParallel: rank {} on {} did not {} within {}",
                                worker.rank(),
                                worker.device().name(),
                                what,
                                std::chrono::duration_cast<std::chrono::milliseconds>(limit)),
            .op = "DataParallel",
            .device = worker.device().name()});
}

void throw_no_replica() {
  throw_error(Error{.code = ErrorCode::device_lost,
                    .text = "DataParallel: no rank is left that has the model",
                    .op = "DataParallel"});
}

void throw_hang(const DeviceWorker& worker, std::chrono::nanoseconds limit) {
  throw_error(
      Error{.code = ErrorCode::deadline_exceeded,
            .text = fmt::format("DataParallel: rank {} on {} hangs, it did not answer for {}",
                                worker.rank(),
                                worker.device().name(),
                                std::chrono::duration_cast<std::chrono::milliseconds>(limit)),
            .op = "DataParallel",
            .device = worker.device().name()});
}

void log_recovery(const std::vector<Device>& devices) {
  devices.front().log().debug([&] {
    return fmt::format("DataParallel: recovered: {}", fmt::join(rank_names(devices), ", "));
  });
}

void require_trainable(const std::vector<TensorRef>& parameters, SourceLoc where) {
  const auto is_float_ref = [](const TensorRef& ref) { return is_float(ref.tensor->dtype()); };
  if (std::ranges::none_of(parameters, is_float_ref)) {
    throw_argument("the model has no float parameter", where);
  }
  if (std::ranges::none_of(parameters, &TensorRef::is_trained)) {
    throw_argument(
        "all parameters of the model are frozen: unfreeze_weights() those that are to be "
        "trained",
        where);
  }
}

void require_groups(const OptimizerConfig& config,
                    const std::vector<TensorRef>& parameters,
                    SourceLoc where) {
  std::vector<std::string> paths;
  for (const TensorRef& parameter : parameters) {
    if (is_float(parameter.tensor->dtype())) {
      paths.push_back(parameter.path);
    }
  }
  std::visit(
      [&](const auto& chosen) {
        static_cast<void>(settings_for(chosen.groups, paths, "DataParallel", where));
      },
      config);
}

void require_shard_count(std::size_t shards, std::size_t ranks, SourceLoc where) {
  if (shards != ranks) {
    throw_argument(fmt::format("{} shards for {} devices", shards, ranks), where);
  }
}

std::int64_t with_samples(std::int64_t count, std::int64_t size, SourceLoc where) {
  if (size < 0) {
    throw_argument(fmt::format("a shard has {} samples", size), where);
  }
  if (size > std::numeric_limits<std::int64_t>::max() - count) {
    throw_argument(fmt::format("the shards have more than {} samples together: {} and {} more",
                               std::numeric_limits<std::int64_t>::max(),
                               count,
                               size),
                   where);
  }
  return count + size;
}

void require_samples(std::int64_t sample_count, SourceLoc where) {
  if (sample_count == 0) {
    throw_argument("the batch is empty", where);
  }
}

std::vector<std::string> rank_names(const std::vector<Device>& devices, std::size_t first) {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    names.push_back(fmt::format("rank {} on {}", first + rank, devices[rank].name()));
  }
  return names;
}

std::vector<RankProgress> rank_progress(const std::vector<Device>& devices) {
  std::vector<RankProgress> all;
  for (const Device& device : devices) {
    all.emplace_back([device] {
      const PendingHelper terms = device.wait_terms();
      const std::uint64_t progress = terms.progress(terms.object);
      terms.release(terms.object);
      return progress;
    });
  }
  return all;
}

CoordinatorOptions coordinator_options(const Runtime& runtime,
                                       const DataParallelOptions& options,
                                       std::size_t bucket_count) {
  return {.ranks = rank_names(options.devices),
          .bucket_count = bucket_count,
          .skips_overflows = options.precision.scaling().has_value(),
          .progress = rank_progress(options.devices),
          .deadline = options.deadline,
          .wait_limit = runtime.wait_limit(),
          .watchdog = IntrusivePtr<Watchdog>(&runtime.watchdog()),
          .step_limit = options.step_limit,
          .mends_hangs = options.on_loss != DeviceLossPolicy::stop,
          .shutdown_limit = options.shutdown_limit,
          .log = &runtime.log()};
}

}  // namespace detail

}  // namespace hearth
