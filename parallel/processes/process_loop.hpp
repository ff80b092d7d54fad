// ProcessLoop: the thread of a ProcessGroup. It makes every call of the message layer, runs the
// operations of each channel one after the other, and exchanges signs of life. Private to parallel.
// Owned by the thread; the desk is shared with the group. Threads: the group's own; ProcessDesk:
// any.
// Invariants: (1) each operation ends exactly once; (2) after the first failure the message layer
// is not called any more, so it touches no memory of operations that have ended.
#pragma once

#include "process_transfers.hpp"

#include <hearth/parallel/process_group.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/pending.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hearth::detail {

struct SubmittedOperation {
  ProcessChannel channel = ProcessChannel::calls;
  ProcessOperation operation;
};

struct ProcessDesk {
  Mailbox<SubmittedOperation> operations;
};

/// A sign of life, or the last one. One message of fixed size.
struct ProcessPulse {
  enum class Kind : std::uint32_t { alive, left, broken };

  Kind kind = Kind::alive;
  std::array<std::uint64_t, 2> done_counts{};  ///< Operations that the sender has made, by channel.
  std::array<char, 480> text{};                ///< The sender's name, or the reason of `broken`.
};

class ProcessLoop final {
 public:
  /// The place and number of this process.
  struct Place {
    int rank = 0;
    int size = 1;
  };

  ProcessLoop(std::shared_ptr<ProcessDesk> desk, ProcessGroupOptions options, std::string name);

  /// Opens the message layer, fulfils `opened`, and runs until the desk is closed and the processes
  /// have left.
  void run(OpenTransport open, Promise<Place> opened);

 private:
  struct Channel {
    std::deque<ProcessOperation> queue;
    std::optional<ProcessOperation> current;
    std::optional<ProcessTransfers> transfers;
    Deadline limit = Deadline::never();
    std::uint64_t done_count = 0;
  };
  struct Peer {
    std::string name;
    Deadline alive_until = Deadline::never();
    bool is_overdue = false;  ///< At the last turn.
    bool has_left = false;
    std::array<std::uint64_t, 2> done_counts{};
    std::array<std::byte, sizeof(ProcessPulse)> received{};
    std::array<std::byte, sizeof(ProcessPulse)> sent{};
    std::optional<ProcessTransport::Transfer> receiving;
    std::optional<ProcessTransport::Transfer> sending;
  };

  void turn();
  /// Takes new operations; waits for the first one up to the pause.
  void take_operations();
  [[nodiscard]] std::chrono::nanoseconds pause() const;
  [[nodiscard]] bool is_busy() const;
  [[nodiscard]] std::string names_of(const std::vector<int>& processes) const;
  /// Returns whether something happened.
  [[nodiscard]] bool advance(Channel& channel, ProcessChannel which);
  void check_leavers(const Channel& channel, std::size_t index);
  void receive_pulses();
  void read_pulse(int process);
  void send_pulses();
  /// Returns false while the last pulse is still being sent.
  [[nodiscard]] bool send_pulse(int to, ProcessPulse::Kind kind, const std::string& text);
  [[nodiscard]] bool is_sending_over(Peer& peer);
  /// Sends a pulse to every other process. Returns whether all were sent in time.
  [[nodiscard]] bool tell(ProcessPulse::Kind kind,
                          const std::string& text,
                          std::chrono::nanoseconds limit);
  /// Ends everything: the group is of no use any more.
  void break_group(Error error);
  void end_all(const ErrorRef& error);
  void leave();
  /// Ends operations with `error` until the desk is closed.
  void refuse_all(const ErrorRef& error);

  const std::shared_ptr<ProcessDesk> desk_;
  const ProcessGroupOptions options_;
  const std::string name_;
  Log log_;
  std::unique_ptr<ProcessTransport> transport_;
  std::array<Channel, 2> channels_;
  std::vector<Peer> peers_;  ///< By process; this process's own is unused.
  Deadline next_beat_ = Deadline::in(std::chrono::nanoseconds::zero());
  Deadline next_listen_ = next_beat_;
  int quiet_turns_ = 0;  ///< Turns of a busy loop in which nothing happened.
  bool is_closed_ = false;
  ErrorRef broken_;  ///< Why the group is of no use; null: it is whole.
};

}  // namespace hearth::detail
