// ProcessTransfers: the open messages of one operation between processes; ProcessOperation: an
// operation that all processes make in one order. Private to parallel.
// Owned by the group's thread. Threads: that thread only.
#pragma once

#include <hearth/parallel/process_transport.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/unique_function.hpp>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace hearth::detail {

class ProcessTransfers final {
 public:
  ProcessTransfers(ProcessTransport& transport, ProcessChannel channel)
      : transport_(transport), channel_(channel) {}

  [[nodiscard]] int rank() const noexcept { return transport_.rank(); }
  [[nodiscard]] int size() const noexcept { return transport_.size(); }
  /// Starts to send the bytes, in pieces if there are many; both sides skip an empty message. The
  /// bytes stay valid until are_done().
  void send(int to, std::span<const std::byte> bytes);
  void receive(int from, std::span<std::byte> bytes);
  /// Calls fn(peer) for each other process, the next one first, so that they do not all send to
  /// process 0 at once.
  template <class Fn>
  void for_each_peer(Fn fn) const {
    for (int step = 1; step < size(); ++step) {
      fn((rank() + step) % size());
    }
  }
  /// Whether all transfers are over. Errors: that of the transport.
  [[nodiscard]] Result<bool> are_done();
  /// The processes whose messages are awaited, in order.
  [[nodiscard]] std::vector<int> awaited() const;

 private:
  struct Open {
    ProcessTransport::Transfer transfer = 0;
    int peer = 0;
  };
  void add(int peer, Result<ProcessTransport::Transfer> started);

  ProcessTransport& transport_;
  const ProcessChannel channel_;
  std::vector<Open> open_;
  Status failure_;
};

struct ProcessOperation {
  std::string what;                ///< For errors: "bucket 3 of step 7".
  std::chrono::nanoseconds limit;  ///< Limit of the whole operation, from its turn on.
  /// Starts the next transfers. Called at the beginning, and whenever all transfers are over.
  /// Returns whether the operation is complete.
  UniqueFunction<bool(ProcessTransfers&)> advance;
  /// Called exactly once. The memory of the transfers stays valid until then.
  UniqueFunction<void(const Status&)> end;
};

}  // namespace hearth::detail
