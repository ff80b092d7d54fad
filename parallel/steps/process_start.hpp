// The start of a training over several processes: equal settings, equal weights. Private to
// parallel. Stateless. Threads: the trainer's.
#pragma once

#include "step_agreement.hpp"

#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/rank_model.hpp>
#include <hearth/runtime/generator.hpp>

#include <filesystem>
#include <memory>
#include <vector>

namespace hearth::detail {

/// Compares the settings of all processes and counts their ranks; returns null for one process.
/// `has_weighted_loss`: whether the loss can have a weight, which all processes then exchange.
/// Then gives every process the weights of process 0.
///
/// Errors: ArgumentError that names the process and the setting that differ; collective_failed;
/// those of the reading and the upload of weights.
[[nodiscard]] std::shared_ptr<StepAgreement> start_processes(const DataParallelOptions& options,
                                                             const BucketPlan& plan,
                                                             RankModel& model,
                                                             bool has_weighted_loss,
                                                             SourceLoc where);

/// The generators of all ranks, given those of this process. Errors: collective_failed.
[[nodiscard]] std::vector<Generator> all_generators(const StepAgreement& agreement,
                                                    const std::vector<Generator>& own,
                                                    SourceLoc where);

/// Errors: ArgumentError that names the process whose file differs or is missing; FileError
/// not_found if it is missing in all.
void require_common_file(const StepAgreement& agreement,
                         const std::filesystem::path& file,
                         SourceLoc where);

}  // namespace hearth::detail
