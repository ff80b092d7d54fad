// Marks a thread that runs the fibers of a server. A fiber that waited for a device would hold up
// all others, so such a wait is refused. Threads: each mark is its thread's.
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

}  // namespace hearth::detail
