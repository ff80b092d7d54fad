// The figures of an evaluation over several processes. Public only because the Trainer's template
// needs it. Stateless. Threads: the Trainer's.
#pragma once

#include <hearth/parallel/process_group.hpp>
#include <hearth/parallel/trainer_loss.hpp>
#include <hearth/runtime/base/source_loc.hpp>

#include <functional>
#include <vector>

namespace hearth::detail {

/// The parts of all ranks of all processes, in the order of ranks. `own` evaluates those of this
/// process.
///
/// Errors: the exception of `own`; else that of the first process in which it failed;
/// collective_failed.
[[nodiscard]] std::vector<FigurePart> gathered_figures(
    const ProcessGroup& group,
    const std::function<std::vector<FigurePart>()>& own,
    SourceLoc where);

}  // namespace hearth::detail
