// Marks a thread that runs the fibers of a server. A fiber that waited for a device would hold up
// all others, so such a wait is refused. Fibers share their thread's current stream and open tapes,
// so a fiber that awaits while it holds one is refused as well. Threads: each mark is its thread's.
#pragma once

#include <string_view>

namespace hearth::detail {

/// Marks the calling thread as running fibers while the mark lives.
class FiberMark final {
 public:
  FiberMark();
  FiberMark(const FiberMark&) = delete;
  FiberMark& operator=(const FiberMark&) = delete;
  ~FiberMark();
};

/// Throws ArgumentError stream_misuse if the calling thread runs fibers. `awaited` names what it
/// would wait for.
void require_no_fibers(std::string_view awaited);

/// Begins and ends a scope that changes what the ops of the calling thread do, such as a
/// StreamScope. `what` is a literal. Without a mark on the thread both have no effect.
void enter_thread_scope(const char* what);
void leave_thread_scope() noexcept;
/// Throws ArgumentError stream_misuse if the calling thread runs fibers and is in such a scope.
void require_no_thread_scope();

}  // namespace hearth::detail
