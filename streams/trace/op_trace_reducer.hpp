// Cuts a failing op trace down to a small one that still fails: its beginning goes, then chunks of
// its ops (delta debugging), then zeros are put in the place of results. Pure functions but for the
// caller's question. Threads: any. Invariant: every trace that the question gets is valid if the
// first one was.
#pragma once

#include <functional>
#include <vector>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/streams/trace/op_trace.hpp>

namespace hearth {

/// The trace of the ops whose place in `keep` is true, without those whose inputs are gone then,
/// and with tables of what it needs. An update group whose begin or end goes is no group any more:
/// its steps stand alone.
[[nodiscard]] OpTrace select_ops(const OpTrace& trace, const std::vector<bool>& keep);

/// Whether a trace still fails in the way that is being looked for.
using TraceQuestion = std::function<bool(const OpTrace& trace)>;

struct TraceReduceOptions {
  int max_runs = 2000;                 ///< How often the question is asked.
  Deadline until = Deadline::never();  ///< When it is not asked any more.
};

/// A smaller trace that still fails, as small as the options let it become; the trace itself where
/// none was found. Requires one that fails. Cost: about 2·n·log n questions for n ops that all
/// matter, a few dozen when a handful do; never more than max_runs. Paper: Zeller, Hildebrandt,
/// Simplifying and isolating failure-inducing input, IEEE TSE 28 (2002).
[[nodiscard]] OpTrace reduce_trace(const OpTrace& trace,
                                   const TraceQuestion& still_fails,
                                   const TraceReduceOptions& options = {});

}  // namespace hearth
