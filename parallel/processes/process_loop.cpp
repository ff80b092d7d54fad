#include "process_loop.hpp"

#include <hearth/runtime/base/thread_context.hpp>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace hearth::detail {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A busy loop polls without a pause for a short time, because small exchanges take microseconds.
// Then it sleeps, and longer the longer it waits: OpenMPI itself would spin.
constexpr int kSpins = 20;
constexpr nanoseconds kShortPause = microseconds(20);
constexpr nanoseconds kLongPause = microseconds(500);
constexpr nanoseconds kIdlePause = milliseconds(20);
/// Time between two looks for signs of life while operations are under way.
constexpr nanoseconds kListenPause = milliseconds(5);
/// Signs of life per deadline.
constexpr int kBeats = 10;
/// Limit for the last messages of a group that has failed.
constexpr nanoseconds kFarewell = milliseconds(200);

Error failed(std::string text) {
  return {.code = ErrorCode::collective_failed,
          .text = "ProcessGroup: " + std::move(text),
          .op = "ProcessGroup"};
}

std::string text_of(const ProcessPulse& pulse) {
  return {pulse.text.begin(), std::ranges::find(pulse.text, '\0')};
}

milliseconds in_milliseconds(nanoseconds time) {
  return std::chrono::duration_cast<milliseconds>(time);
}

}  // namespace

ProcessLoop::ProcessLoop(std::shared_ptr<ProcessDesk> desk,
                         ProcessGroupOptions options,
                         std::string name)
    : desk_(std::move(desk)), options_(std::move(options)), name_(std::move(name)) {}

void ProcessLoop::run(OpenTransport open, Promise<Place> opened) {
  Result<std::unique_ptr<ProcessTransport>> made = open();
  if (!made.has_value()) {
    opened.set_error(made.shared_error());
    refuse_all(made.shared_error());
    return;
  }
  transport_ = std::move(made).value();
  peers_.resize(static_cast<std::size_t>(transport_->size()));
  for (Peer& peer : peers_) {
    peer.alive_until = Deadline::in(options_.start_limit);
  }
  for (std::size_t process = 0; process < peers_.size(); ++process) {
    peers_[process].name = fmt::format("process {}", process);
  }
  opened.set_value(Place{.rank = transport_->rank(), .size = transport_->size()});
  while (!broken_ && !(is_closed_ && !is_busy())) {
    turn();
  }
  if (broken_) {
    refuse_all(broken_);
  } else {
    leave();
  }
}

void ProcessLoop::turn() {
  take_operations();
  bool has_progress = false;
  for (std::size_t index = 0; index < channels_.size() && !broken_; ++index) {
    has_progress |= advance(channels_[index], static_cast<ProcessChannel>(index));
    if (!broken_) {
      check_leavers(channels_[index], index);
    }
  }
  quiet_turns_ = has_progress ? 0 : quiet_turns_ + 1;
  if (!broken_ && (!is_busy() || next_listen_.has_passed())) {
    next_listen_ = Deadline::in(kListenPause);
    receive_pulses();
  }
  if (!broken_) {
    send_pulses();
  }
}

bool ProcessLoop::is_busy() const {
  return std::ranges::any_of(channels_, [](const Channel& channel) {
    return channel.current.has_value() || !channel.queue.empty();
  });
}

nanoseconds ProcessLoop::pause() const {
  if (!is_busy()) {
    return kIdlePause;
  }
  if (quiet_turns_ < kSpins) {
    return nanoseconds::zero();
  }
  return std::min<nanoseconds>(kShortPause * (quiet_turns_ / kSpins), kLongPause);
}

void ProcessLoop::take_operations() {
  const auto queue = [this](SubmittedOperation submitted) {
    channels_.at(static_cast<std::size_t>(submitted.channel))
        .queue.push_back(std::move(submitted.operation));
    quiet_turns_ = 0;
  };
  const nanoseconds time = pause();
  if (time > nanoseconds::zero()) {
    if (std::optional<SubmittedOperation> first = desk_->operations.pop(Deadline::in(time))) {
      queue(*std::move(first));
    }
  }
  while (std::optional<SubmittedOperation> next = desk_->operations.try_pop()) {
    queue(*std::move(next));
  }
  is_closed_ = desk_->operations.is_closed();
}

std::string ProcessLoop::names_of(const std::vector<int>& processes) const {
  std::string names;
  for (const int process : processes) {
    names += (names.empty() ? "" : ", ") + peers_[static_cast<std::size_t>(process)].name;
  }
  return names;
}

bool ProcessLoop::advance(Channel& channel, ProcessChannel which) {
  bool has_progress = false;
  while (true) {
    if (!channel.current) {
      if (channel.queue.empty()) {
        return has_progress;
      }
      channel.current = std::move(channel.queue.front());
      channel.queue.pop_front();
      channel.transfers.emplace(*transport_, which);
      channel.limit = Deadline::in(channel.current->limit);
    }
    const Result<bool> are_done = channel.transfers->are_done();
    if (!are_done.has_value()) {
      break_group(are_done.error());
      return true;
    }
    if (!are_done.value()) {
      if (channel.limit.has_passed()) {
        break_group(failed(fmt::format("{}: {} did not take part within {}",
                                       channel.current->what,
                                       names_of(channel.transfers->awaited()),
                                       in_milliseconds(channel.current->limit))));
        return true;
      }
      return has_progress;
    }
    has_progress = true;
    try {
      if (channel.current->advance(*channel.transfers)) {
        ++channel.done_count;
        ProcessOperation over = *std::exchange(channel.current, std::nullopt);
        over.end(Status());
      }
    } catch (...) {  // out of memory
      break_group(Error{.code = ErrorCode::collective_failed,
                        .text = "ProcessGroup: an exchange between processes threw",
                        .op = "ProcessGroup",
                        .cause = error_of_current_exception()});
      return true;
    }
  }
}

// A process that has left made all operations up to its counts.
void ProcessLoop::check_leavers(const Channel& channel, std::size_t index) {
  if (!channel.current) {
    return;
  }
  for (const Peer& peer : peers_) {
    if (peer.has_left && channel.done_count >= peer.done_counts[index]) {
      break_group(failed(fmt::format("{}: {} has left the group: its program has ended, or failed",
                                     channel.current->what,
                                     peer.name)));
      return;
    }
  }
}

void ProcessLoop::receive_pulses() {
  for (int process = 0; process < transport_->size(); ++process) {
    Peer& peer = peers_[static_cast<std::size_t>(process)];
    while (process != transport_->rank() && !peer.has_left && !broken_) {
      if (!peer.receiving) {
        const auto started = transport_->receive(process, ProcessChannel::pulses, peer.received);
        if (!started.has_value()) {
          break_group(started.error());
          return;
        }
        peer.receiving = started.value();
      }
      const Result<bool> is_here = transport_->is_done(*peer.receiving);
      if (!is_here.has_value()) {
        break_group(is_here.error());
        return;
      }
      if (!is_here.value()) {
        // One more turn: the layer may have messages that it has not passed on.
        if (std::exchange(peer.is_overdue, peer.alive_until.has_passed()) && peer.is_overdue) {
          break_group(failed(fmt::format("{} gave no sign of life for {}: it died, or was stopped",
                                         peer.name,
                                         in_milliseconds(options_.deadline))));
        }
        break;
      }
      peer.receiving.reset();
      read_pulse(process);
    }
  }
}

void ProcessLoop::read_pulse(int process) {
  Peer& peer = peers_[static_cast<std::size_t>(process)];
  ProcessPulse pulse;
  std::memcpy(&pulse, peer.received.data(), sizeof pulse);
  peer.alive_until = Deadline::in(options_.deadline);
  switch (pulse.kind) {
    case ProcessPulse::Kind::alive:
      peer.name = fmt::format("process {} ({})", process, text_of(pulse));
      break;
    case ProcessPulse::Kind::left:
      peer.has_left = true;
      peer.done_counts = pulse.done_counts;
      break;
    case ProcessPulse::Kind::broken:
      break_group(
          {.code = ErrorCode::collective_failed, .text = text_of(pulse), .op = "ProcessGroup"});
      break;
  }
}

void ProcessLoop::send_pulses() {
  if (!next_beat_.has_passed()) {
    return;
  }
  next_beat_ = Deadline::in(options_.deadline / kBeats);
  for (int process = 0; process < transport_->size() && !broken_; ++process) {
    if (process != transport_->rank()) {
      static_cast<void>(send_pulse(process, ProcessPulse::Kind::alive, name_));
    }
  }
}

bool ProcessLoop::is_sending_over(Peer& peer) {
  if (peer.sending) {
    const Result<bool> is_over = transport_->is_done(*peer.sending);
    if (is_over.has_value() && !is_over.value()) {
      return false;
    }
    peer.sending.reset();  // a pulse that cannot be sent is of no use: its receiver is lost
  }
  return true;
}

bool ProcessLoop::send_pulse(int to, ProcessPulse::Kind kind, const std::string& text) {
  Peer& peer = peers_[static_cast<std::size_t>(to)];
  if (!is_sending_over(peer)) {
    return false;
  }
  ProcessPulse pulse{.kind = kind};
  for (std::size_t index = 0; index < channels_.size(); ++index) {
    pulse.done_counts[index] = channels_[index].done_count;
  }
  std::copy_n(text.begin(), std::min(text.size(), pulse.text.size() - 1), pulse.text.begin());
  std::memcpy(peer.sent.data(), &pulse, sizeof pulse);
  const auto started = transport_->send(to, ProcessChannel::pulses, peer.sent);
  if (started.has_value()) {
    peer.sending = started.value();
  } else if (!broken_) {
    break_group(started.error());
  }
  return true;
}

bool ProcessLoop::tell(ProcessPulse::Kind kind, const std::string& text, nanoseconds limit) {
  const Deadline end = Deadline::in(limit);
  std::vector<int> unsent;
  std::vector<int> open;
  for (int process = 0; process < transport_->size(); ++process) {
    if (process != transport_->rank()) {  // also those that have left, which wait for this one
      unsent.push_back(process);
    }
  }
  while (true) {
    std::erase_if(unsent, [&](int process) {
      const bool is_sent = send_pulse(process, kind, text);
      if (is_sent) {
        open.push_back(process);
      }
      return is_sent;
    });
    std::erase_if(open, [&](int process) {
      return is_sending_over(peers_[static_cast<std::size_t>(process)]);
    });
    if ((unsent.empty() && open.empty()) || end.has_passed()) {
      return unsent.empty() && open.empty();
    }
    static_cast<void>(current_context().parker().park(Deadline::in(kShortPause)));
  }
}

// The other processes get the reason before this one ends its operations. Until then the memory of
// the operations is valid; afterwards the message layer is not called again.
void ProcessLoop::break_group(Error error) {
  if (broken_) {
    return;
  }
  broken_ = std::make_shared<const Error>(std::move(error));
  static_cast<void>(tell(ProcessPulse::Kind::broken, broken_->text, kFarewell));
  end_all(broken_);
}

void ProcessLoop::end_all(const ErrorRef& error) {
  for (Channel& channel : channels_) {
    if (channel.current) {
      ProcessOperation over = *std::exchange(channel.current, std::nullopt);
      over.end(error);
    }
    for (ProcessOperation& operation : std::exchange(channel.queue, {})) {
      operation.end(error);
    }
  }
}

void ProcessLoop::refuse_all(const ErrorRef& error) {
  while (std::optional<SubmittedOperation> next = desk_->operations.pop(Deadline::never())) {
    next->operation.end(error);
  }
}

void ProcessLoop::leave() {
  const Deadline end = Deadline::in(options_.leave_limit);
  bool is_told = tell(ProcessPulse::Kind::left, name_, options_.deadline);
  const auto has_left = [](const Peer& peer) { return peer.has_left; };
  peers_[static_cast<std::size_t>(transport_->rank())].has_left = true;
  while (!broken_ && is_told && !std::ranges::all_of(peers_, has_left)) {
    receive_pulses();
    static_cast<void>(current_context().parker().park(Deadline::in(kLongPause)));
    if (end.has_passed()) {
      is_told = false;
      log_.write(LogLevel::warn,
                 fmt::format("ProcessGroup: the other processes have not left within {} "
                             "(ProcessGroupOptions::leave_limit)",
                             in_milliseconds(options_.leave_limit)));
    }
  }
  if (!broken_) {
    transport_->close(is_told);
  }
}

}  // namespace hearth::detail
