// The outcome of something that each process of a group does by itself, outside of steps. Private to
// parallel. Stateless. Threads: the program's.
#pragma once

#include <hearth/parallel/process_group.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/source_loc.hpp>

#include <functional>
#include <string_view>

namespace hearth::detail {

/// Returns if every process succeeded in `what`.
///
/// Errors: `failure`, of this process; else that of the first process that failed;
/// collective_failed.
void settle(const ProcessGroup& group,
            const ErrorRef& failure,
            std::string_view what,
            SourceLoc where);
/// Runs fn on process 0 while the others wait for it. All processes throw its exception.
void run_on_first(const ProcessGroup& group,
                  const std::function<void()>& fn,
                  std::string_view what,
                  SourceLoc where);
/// Whether a flag is set in any process.
///
/// Errors: collective_failed.
[[nodiscard]] bool is_set_in_any(const ProcessGroup& group,
                                 bool is_set,
                                 std::string_view what,
                                 SourceLoc where);

}  // namespace hearth::detail
