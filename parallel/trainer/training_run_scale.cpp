// The loss scale in a run: skipped steps, and the check of a resume.
#include <hearth/parallel/training_run.hpp>

#include "training_run_parts.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace hearth {

// A scale that has shrunk this often hides nothing: the loss or a gradient is not finite whatever
// the scale.
void TrainingRun::note_scale(const DataParallelReport& report) {
  constexpr std::int64_t kMostInARow = 50;
  skipped_in_a_row_ = report.scale.is_skipped ? skipped_in_a_row_ + 1 : 0;
  result_.skipped_steps += report.scale.is_skipped ? 1 : 0;
  if (skipped_in_a_row_ >= kMostInARow) {
    throw_error(Error{
        .code = ErrorCode::non_finite,
        .text = fmt::format("Trainer: {} steps in a row were skipped, the last one with a loss "
                            "of {} and a loss scale of {}: the loss or a gradient is NaN or "
                            "infinite; try .compute = DType::bf16, or lower the learning rate",
                            skipped_in_a_row_,
                            report.loss,
                            report.scale.loss_scale),
        .op = "Trainer",
        .location = where_});
  }
}

// The scale is part of the saved state. A state of an earlier build has none.
void TrainingRun::require_same_scaling() const {
  const bool scaled = saved_setting(kScaling).value_or("none") != "none";
  const bool scales = options_.precision.scaling().has_value();
  if (scaled != scales) {
    training::refuse(
        fmt::format("the run in {} {}, this one {}: resume it with the same precision.compute or "
                    "precision.loss_scaling, or begin a new one",
                    file(training::kStateFile).string(),
                    scaled ? "scaled its loss" : "did not scale its loss",
                    scales ? "does" : "does not"),
        where_);
  }
}

}  // namespace hearth
