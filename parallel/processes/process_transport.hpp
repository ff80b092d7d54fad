// ProcessTransport: the interface of message layers between the processes of a group, such as MPI.
// Messages of one sender on one channel arrive in the order in which they were sent.
// Owned by a ProcessGroup's thread. Threads: that thread only; no call blocks.
// Invariants: (1) a transfer is over when is_done() has returned true or an error; its bytes stay
// valid until then; (2) after close() no function is called.
#pragma once

#include <hearth/runtime/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth {

/// An independent sequence of messages between two processes.
enum class ProcessChannel : std::uint8_t {
  calls,   ///< Exchanges that the program's calls make.
  steps,   ///< Buckets and decisions of steps.
  pulses,  ///< Signs of life.
};

class ProcessTransport {
 public:
  using Transfer = std::uint64_t;

  ProcessTransport() = default;
  ProcessTransport(const ProcessTransport&) = delete;
  ProcessTransport& operator=(const ProcessTransport&) = delete;
  virtual ~ProcessTransport() = default;

  /// Number of this process, from 0.
  [[nodiscard]] virtual int rank() const noexcept = 0;
  /// Number of processes.
  [[nodiscard]] virtual int size() const noexcept = 0;
  /// Starts to send 1 byte or more, at most kMostBytes.
  [[nodiscard]] virtual Result<Transfer> send(int to,
                                              ProcessChannel channel,
                                              std::span<const std::byte> bytes) = 0;
  /// Starts to receive a message of exactly this size.
  [[nodiscard]] virtual Result<Transfer> receive(int from,
                                                 ProcessChannel channel,
                                                 std::span<std::byte> bytes) = 0;
  /// Returns whether the transfer is over. Not called again after it has returned true.
  [[nodiscard]] virtual Result<bool> is_done(Transfer transfer) = 0;
  /// The last call. `is_whole`: every process has left, so the layer may wait for the others' ends.
  virtual void close(bool is_whole) = 0;

  /// Largest message; larger ones are sent in pieces.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 28;
};

}  // namespace hearth
