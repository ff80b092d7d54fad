// The outcome of something that each process of a group does by itself, outside of steps. Private
// to parallel. Stateless. Threads: the program's.
#pragma once

#include <hearth/parallel/process_group.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/source_loc.hpp>

#include <functional>
#include <string_view>
#include <utility>

namespace hearth::detail {

/// Throws the error, at `where` if it has no place of its own.
[[noreturn]] void throw_at(const ErrorRef& error, SourceLoc where);
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
/// Two flags, each true if it is set in any process.
///
/// Errors: collective_failed.
[[nodiscard]] std::pair<bool, bool> set_in_any(const ProcessGroup& group,
                                               std::pair<bool, bool> flags,
                                               std::string_view what,
                                               SourceLoc where);

}  // namespace hearth::detail
