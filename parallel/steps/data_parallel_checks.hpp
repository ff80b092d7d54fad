// Checks of a trainer's options and batches, its errors, and its log lines. Private to parallel.
// Stateless. Threads: any.
#pragma once

#include <hearth/modules/tensor_ref.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/runtime.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

/// Errors: ArgumentError when there is no device or a setting makes no sense.
void require_sound(const DataParallelOptions& options, SourceLoc where);
/// Errors: ArgumentError when the Runtime of this device has ended; without a location (see
/// at_call).
void require_runtime(const Device& device);
[[noreturn]] void throw_no_replica();
/// Throws deadline_exceeded: a worker did not answer within `limit`.
[[noreturn]] void throw_hang(const DeviceWorker& worker, std::chrono::nanoseconds limit);
/// Sends a question to `device` on a stream of its own. Callers must wait with a limit.
[[nodiscard]] Pending<void> ask(const Device& device);
/// Logs that a worker counts as lost, and what happens to its rank.
void log_hang(Log& log,
              const DeviceWorker& worker,
              std::chrono::nanoseconds limit,
              std::string_view what);
/// Logs at debug level where the ranks are now. `devices`: at least one.
void log_recovery(const std::vector<Device>& devices);
/// Throws deadline_exceeded: a rank that should save did not complete `what`.
[[noreturn]] void throw_late_writer(const DeviceWorker& worker,
                                    std::chrono::nanoseconds limit,
                                    const char* what);
/// Errors: ArgumentError when a model has nothing to train.
void require_trainable(const std::vector<TensorRef>& parameters, SourceLoc where);
/// Errors: ArgumentError when a group of the optimizer matches none of these parameters.
void require_groups(const OptimizerConfig& config,
                    const std::vector<TensorRef>& parameters,
                    SourceLoc where);
/// Errors: ArgumentError unless there is one shard for each rank.
void require_shard_count(std::size_t shards, std::size_t ranks, SourceLoc where);
/// Returns count + size. Errors: ArgumentError when the shard's size is negative, or the sum
/// exceeds std::int64_t.
[[nodiscard]] std::int64_t with_samples(std::int64_t count, std::int64_t size, SourceLoc where);
/// Errors: ArgumentError when a batch is empty.
void require_samples(std::int64_t sample_count, SourceLoc where);
/// Names of the ranks on these devices for error texts. `first`: the first rank's number.
[[nodiscard]] std::vector<std::string> rank_names(const std::vector<Device>& devices,
                                                  std::size_t first = 0);
/// By rank, a function that returns the progress counter of its device.
[[nodiscard]] std::vector<RankProgress> rank_progress(const std::vector<Device>& devices);
[[nodiscard]] CoordinatorOptions coordinator_options(const Runtime& runtime,
                                                     const DataParallelOptions& options,
                                                     std::size_t bucket_count);

}  // namespace hearth::detail
