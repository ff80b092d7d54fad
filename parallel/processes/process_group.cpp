#include <hearth/parallel/process_group.hpp>

#include "launch_environment.hpp"
#include "mpi_transport.hpp"
#include "process_loop.hpp"

#include <hearth/runtime/base/owned_thread.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

#include <fmt/format.h>

namespace hearth {

namespace detail {

struct ProcessGroupState {
  ProcessGroupOptions options;
  ProcessLoop::Place place;
  int local_rank = 0;
  std::vector<std::string> names;               ///< By process; empty until all have called.
  std::shared_ptr<ProcessDesk> desk = nullptr;  ///< Null for one process.
  std::unique_ptr<OwnedThread> thread = nullptr;

  ProcessGroupState() = default;
  ProcessGroupState(const ProcessGroupState&) = delete;
  ProcessGroupState& operator=(const ProcessGroupState&) = delete;
  ~ProcessGroupState() {
    if (desk) {
      desk->operations.close();
    }
  }
};

}  // namespace detail

namespace {

using detail::LaunchEnvironment;
using detail::ProcessLoop;

Error refused(ErrorCode code, std::string text, SourceLoc where) {
  return {.code = code,
          .text = "ProcessGroup: " + std::move(text),
          .op = "ProcessGroup",
          .location = where};
}

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? names.nodename : "an unknown host";
}

void require_sound(const ProcessGroupOptions& options, SourceLoc where) {
  const auto zero = std::chrono::nanoseconds::zero();
  if (options.deadline <= zero || options.start_limit <= zero || options.call_limit <= zero ||
      options.leave_limit <= zero) {
    throw_error(refused(ErrorCode::invalid_argument,
                        "deadline, start_limit, call_limit and leave_limit must be above 0",
                        where));
  }
}

/// Ends the name of an exchange, which precedes each text, so that processes which make different
/// calls notice it.
constexpr char kTagEnd = '\n';

// A row of the first exchange: the process's host, a newline, its name.
std::string host_of(const std::string& row) {
  return row.substr(0, row.find('\n'));
}

}  // namespace

ProcessGroup ProcessGroup::alone() {
  return ProcessGroup(std::make_shared<const detail::ProcessGroupState>());
}

ProcessGroup ProcessGroup::from_environment(const ProcessGroupOptions& options, SourceLoc where) {
  require_sound(options, where);
  const LaunchEnvironment launch = LaunchEnvironment::read();
  switch (launch.launcher) {
    case LaunchEnvironment::Launcher::none:
      return alone();
    case LaunchEnvironment::Launcher::mpich:
      throw_error(refused(ErrorCode::unsupported,
                          launch.describe() +
                              ": only OpenMPI is supported; start the program with its mpirun "
                              "(Debian: openmpi-bin), or with srun",
                          where));
    case LaunchEnvironment::Launcher::nccl:
      throw_error(
          refused(ErrorCode::unsupported,
                  launch.describe() +
                      " without MPI, which needs NCCL between the processes: that is not "
                      "supported yet; start the program with OpenMPI's mpirun, or with srun",
                  where));
    case LaunchEnvironment::Launcher::open_mpi:
    case LaunchEnvironment::Launcher::slurm:
      break;
  }
  // The group's thread sleeps between polls. With this variable, which mpirun sets where processes
  // outnumber cores, each poll would also give up a time slice.
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "0", 1);  // NOLINT(concurrency-mt-unsafe): see Threads
  return over(
      [launch, library = options.library] {
        return detail::open_mpi_transport(library, launch.size, launch.describe());
      },
      options,
      where);
}

// The thread shares what it uses, since it may be abandoned in a call of the message layer.
ProcessGroup ProcessGroup::over(detail::OpenTransport open,
                                const ProcessGroupOptions& options,
                                SourceLoc where) {
  require_sound(options, where);
  const auto state = std::make_shared<detail::ProcessGroupState>();
  state->options = options;
  state->desk = std::make_shared<detail::ProcessDesk>();
  const std::string host = host_name();
  Promise<ProcessLoop::Place> opened(
      PendingOptions{.subject = "the start of the other processes", .location = where});
  Pending<ProcessLoop::Place> place = opened.pending();
  const auto executor = std::make_shared<ThreadExecutor>();
  const std::string own = fmt::format("{} on {}", ::getpid(), host);
  const auto limit = detail::saturated_sum(options.leave_limit, options.deadline);
  state->thread = std::make_unique<detail::OwnedThread>(
      *executor,
      detail::ThreadOptions{.name = "processes"},
      detail::OwnedThreadOptions{.subject = "the thread of a ProcessGroup",
                                 .observe = [] { return std::string("its MPI keeps it"); },
                                 .limit = limit},
      [executor,
       loop = std::make_unique<ProcessLoop>(state->desk, options, own),
       open = std::move(open),
       opened = std::move(opened)]() mutable { loop->run(std::move(open), std::move(opened)); });
  const Status status = place.wait({.deadline = Deadline::in(options.start_limit)});
  if (!status.has_value()) {
    state->desk->operations.close();
    state->thread->end(Deadline::in(options.deadline));
    Error error = status.error();
    error.location = where;
    throw_error(std::move(error));
  }
  state->place = std::move(place).get();
  ProcessGroup group(state);
  const std::vector<std::string> rows =
      group.gather(host + '\n' + fmt::format("process {} ({})", state->place.rank, own),
                   "the start of the group",
                   where);
  const auto is_here = [&](const std::string& row) { return host_of(row) == host; };
  state->local_rank = static_cast<int>(std::ranges::count_if(
      std::span(rows).first(static_cast<std::size_t>(state->place.rank)), is_here));
  for (const std::string& row : rows) {
    state->names.push_back(row.substr(host_of(row).size() + 1));
  }
  return group;
}

int ProcessGroup::rank() const noexcept {
  return state_ ? state_->place.rank : 0;
}
int ProcessGroup::size() const noexcept {
  return state_ ? state_->place.size : 1;
}
int ProcessGroup::local_rank() const noexcept {
  return state_ ? state_->local_rank : 0;
}
const ProcessGroupOptions& ProcessGroup::options() const noexcept {
  static const ProcessGroupOptions kDefaults;
  return state_ ? state_->options : kDefaults;
}

std::string ProcessGroup::name_of(int process) const {
  const auto index = static_cast<std::size_t>(process);
  return state_ && index < state_->names.size() ? state_->names[index]
                                                : fmt::format("process {}", process);
}

void ProcessGroup::submit(ProcessChannel channel, detail::ProcessOperation operation) const {
  detail::SubmittedOperation submitted{channel, std::move(operation)};
  if (state_->desk->operations.try_push(std::move(submitted)) !=
      detail::MailboxPush::accepted) {  // the operation stays here
    // NOLINTNEXTLINE(bugprone-use-after-move): a refused message is not moved
    submitted.operation.end(Error{.code = ErrorCode::cancelled,
                                  .text = "ProcessGroup: the group has ended",
                                  .op = "ProcessGroup"});
  }
}

std::vector<std::string> ProcessGroup::gather(std::string own,
                                              std::string_view what,
                                              SourceLoc where) const {
  if (size() == 1) {
    return {std::move(own)};
  }
  const auto promise = std::make_shared<Promise<std::vector<std::string>>>(
      PendingOptions{.subject = std::string(what), .location = where});
  Pending<std::vector<std::string>> pending = promise->pending();
  detail::exchange(*this,
                   ProcessChannel::calls,
                   std::string(what),
                   options().call_limit,
                   std::move(own),
                   [promise](Result<std::vector<std::string>> rows) {
                     if (rows.has_value()) {
                       promise->set_value(std::move(rows).value());
                     } else {
                       promise->set_error(rows.shared_error());
                     }
                   });
  const Status status = pending.wait(
      {.deadline = Deadline::in(detail::saturated_sum(options().call_limit, kDefaultWait))});
  if (!status.has_value()) {
    Error error = status.error();
    error.location = where;
    throw_error(std::move(error));
  }
  return std::move(pending).get();
}

namespace detail {

void exchange(const ProcessGroup& group,
              ProcessChannel channel,
              std::string what,
              std::chrono::nanoseconds limit,
              std::string own,
              UniqueFunction<void(Result<std::vector<std::string>>)> end) {
  struct Rows {
    std::string own;
    std::uint64_t own_size = 0;
    std::vector<std::uint64_t> sizes;
    std::vector<std::string> texts;
    int phase = 0;
  };
  const auto rows = std::make_shared<Rows>();
  rows->own = what + kTagEnd + std::move(own);
  rows->own_size = rows->own.size();
  const auto at = [](int process) { return static_cast<std::size_t>(process); };
  // Phases: sizes and own text go out; the texts come; the end.
  auto advance = [rows, at](ProcessTransfers& transfers) {
    switch (rows->phase++) {
      case 0:
        rows->sizes.resize(at(transfers.size()));
        transfers.for_each_peer([&](int peer) {
          transfers.send(peer, std::as_bytes(std::span(&rows->own_size, 1)));
          transfers.send(peer, std::as_bytes(std::span(rows->own)));
          transfers.receive(peer, std::as_writable_bytes(std::span(&rows->sizes[at(peer)], 1)));
        });
        return false;
      case 1:
        rows->texts.resize(at(transfers.size()));
        transfers.for_each_peer([&](int peer) {
          std::string& text = rows->texts[at(peer)];
          text.resize(rows->sizes[at(peer)]);
          transfers.receive(peer, std::as_writable_bytes(std::span(text)));
        });
        return false;
      default:
        rows->texts[at(transfers.rank())] = std::move(rows->own);
        return true;
    }
  };
  auto finish = [rows, what, end = std::move(end)](const Status& status) mutable {
    if (!status.has_value()) {
      end(status);
      return;
    }
    for (std::size_t process = 0; process < rows->texts.size(); ++process) {
      std::string& text = rows->texts[process];
      const std::size_t tag_size = text.find(kTagEnd);
      if (text.compare(0, tag_size, what) != 0) {
        end(Error{.code = ErrorCode::collective_failed,
                  .text = fmt::format("ProcessGroup: process {} is at '{}', this process at '{}': "
                                      "the processes must make the same calls",
                                      process,
                                      text.substr(0, tag_size),
                                      what),
                  .op = "ProcessGroup"});
        return;
      }
      text.erase(0, tag_size + 1);
    }
    end(std::move(rows->texts));
  };
  group.submit(channel, {std::move(what), limit, std::move(advance), std::move(finish)});
}

void require_chosen(const ProcessGroup& group, std::string_view who, SourceLoc where) {
  if (group.is_chosen()) {
    return;
  }
  const LaunchEnvironment launch = LaunchEnvironment::read();
  if (launch.size > 1) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format(
            "{}: {}, but it was given no ProcessGroup, so each process would train alone: set "
            "DataParallelOptions::processes (a Trainer's TrainerOptions::parallel.processes) to "
            "ProcessGroup::from_environment(), or to ProcessGroup::alone() for separate trainings",
            who,
            launch.describe()),
        .op = std::string(who),
        .location = where});
  }
}

}  // namespace detail

}  // namespace hearth
