// How a device takes its streams' ops: one by one, or by looking ahead, so that neighbours may
// become one kernel; and why it stops looking. Values. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hearth {

enum class Fusion : std::uint8_t {
  off,     ///< Each op runs as soon as its turn comes.
  single,  ///< The device looks ahead as it does to fuse, and runs the ops one by one: for tests,
           ///< and to tell whether looking ahead or a fused kernel is to blame. Results have the
           ///< bits that they have with `off`.
  on,      ///< Ops that work element by element or along rows (up to 8,192 elements; a reduction of
           ///< longer ones may end a kernel) run as one kernel with those around them, also behind
           ///< a product: what is between them never reaches memory, and what nobody needs is never
           ///< made. Results have the same bits on cpu devices; those of f16 and bf16 with
           ///< `round_intermediates`.
};

/// Why a device stopped looking ahead in a stream. Up to `full` these are program boundaries, which
/// depend on the order of the program alone; the others are cuts, which are a matter of time.
enum class WindowEnd : std::uint8_t {
  read,
  sync,
  lend,
  publish,
  upload,
  adopt,
  group,        ///< An update group begins or ends.
  limit,        ///< The stream gets a deadline or a stop token.
  full,         ///< So many ops, records or bytes of attributes.
  foreign_use,  ///< Another stream needs what an op of the window makes.
  watched,      ///< Another stream waits until this one has come this far.
  wait,         ///< The next op has to wait for another stream.
  failure,      ///< The next op has an input that carries an error.
  shortage,     ///< A stream waits for memory, which what the window holds up may release.
  idle,         ///< No further op came for a moment. Never where the runtime is deterministic.
  duty,         ///< The device is asked something, restarts or stops.
  stream_end,   ///< The stream is gone.
};
inline constexpr std::size_t kWindowEndCount = 17;

[[nodiscard]] constexpr bool is_program_boundary(WindowEnd end) noexcept {
  return end <= WindowEnd::full;
}

[[nodiscard]] constexpr std::string_view name_of(WindowEnd end) noexcept {
  constexpr std::array<std::string_view, kWindowEndCount> kNames = {"read",
                                                                    "sync",
                                                                    "lend",
                                                                    "publish",
                                                                    "upload",
                                                                    "adopt",
                                                                    "group",
                                                                    "limit",
                                                                    "full",
                                                                    "foreign_use",
                                                                    "watched",
                                                                    "wait",
                                                                    "failure",
                                                                    "shortage",
                                                                    "idle",
                                                                    "duty",
                                                                    "stream_end"};
  return kNames[static_cast<std::size_t>(end)];
}

}  // namespace hearth
