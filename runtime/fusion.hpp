// Fusion: whether a device runs the ops of its streams one by one or looks ahead to fuse
// neighbours, and why it stops looking. Values. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hearth {

enum class Fusion : std::uint8_t {
  off,  ///< Each op runs as soon as its turn comes.
  /// The device looks ahead but runs the ops one by one. For tests, and to find out whether looking
  /// ahead or a fused kernel causes a fault. Results have the same bits as with `off`.
  single,
  /// Elementwise ops and row ops run as one kernel with their neighbours, also as the epilogue of a
  /// product. Rows have up to 8,192 elements; a reduction of longer rows may end a kernel. Internal
  /// values never reach memory, and unneeded ones are never computed. Results have the same bits on
  /// cpu devices; f16 and bf16 only with `round_intermediates`.
  on,
};

/// Why a device stopped looking ahead in a stream. The values up to `full` are program boundaries,
/// which depend only on the order of the program; the others are cuts, which depend on timing.
enum class WindowEnd : std::uint8_t {
  read,
  sync,
  lend,
  publish,
  upload,
  adopt,
  group,        ///< An update group begins or ends.
  limit,        ///< The stream gets a deadline or a stop token.
  full,         ///< The window reached its limit of ops, records or bytes of attributes.
  foreign_use,  ///< Another stream needs the result of an op in the window.
  watched,      ///< Another stream waits until this one has reached this point.
  wait,         ///< The next op has to wait for another stream.
  failure,      ///< The next op has an input that carries an error.
  shortage,     ///< A stream waits for memory that the window may release.
  idle,         ///< No further op came for a moment. Never in a deterministic runtime.
  duty,         ///< The device received a question, restarts or stops.
  stream_end,   ///< The stream has ended.
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
