// Reduces a failing op trace to a small one that still fails. Removes its beginning, then chunks of
// its ops (delta debugging), then replaces results by zeros. Pure functions except for the caller's
// predicate. Threads: any. Invariant: if the first trace is valid, every trace passed to the
// predicate is.
#pragma once

#include <functional>
#include <vector>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/streams/trace/op_trace.hpp>

namespace hearth {

/// Returns the trace of the ops whose entry in `keep` is true, without ops that lost an input. Its
/// tables hold the required entries only. An update group that lost its begin or end is dissolved:
/// its steps stand alone.
[[nodiscard]] OpTrace select_ops(const OpTrace& trace, const std::vector<bool>& keep);

/// Returns whether a trace still fails in the way that is searched for.
using TraceQuestion = std::function<bool(const OpTrace& trace)>;

struct TraceReduceOptions {
  int max_runs = 2000;                 ///< Limit of calls of the predicate.
  Deadline until = Deadline::never();  ///< Time after which the predicate is not called any more.
};

/// Returns a smaller trace that still fails, as small as the options permit, or the trace itself if
/// none was found. Requires a failing trace.
///
/// Cost: about 2·n·log n calls of the predicate for n ops that all matter, a few dozen if a handful
/// do; never more than max_runs.
/// Paper: Zeller, Hildebrandt, Simplifying and isolating failure-inducing input, IEEE TSE 28
/// (2002).
[[nodiscard]] OpTrace reduce_trace(const OpTrace& trace,
                                   const TraceQuestion& still_fails,
                                   const TraceReduceOptions& options = {});

}  // namespace hearth
