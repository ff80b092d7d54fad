// ProcessGroup: the processes that train one model together, started by mpirun or Slurm. Each
// process makes the same calls in the same order. A thread of the group makes all calls of the
// message layer and sends signs of life. So it finds a process that died or stopped within
// ProcessGroupOptions::deadline, whatever the others do meanwhile. A group that has lost a process
// never recovers: each later call throws collective_failed, and the launcher restarts the job.
// A value; copies share the group, and the last one leaves it. Threads: any; calls that exchange
// something come from one thread at a time, in the same order in all processes.
// Invariants: (1) an exchange ends on every process: with its result, or with collective_failed;
// (2) processes leave together: the last copy's destructor waits for the others, with a limit.
#pragma once

#include <hearth/parallel/process_transport.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/base/unique_function.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

struct ProcessGroupOptions {
  /// A process that gives no sign of life for this time is lost. Signs come from a thread of their
  /// own, also while the program computes, loads or saves.
  std::chrono::nanoseconds deadline = std::chrono::seconds(5);
  /// Limit of the start: of MPI's initialisation, and for the last process.
  std::chrono::nanoseconds start_limit = kDefaultWait;
  /// Limit of a wait for processes that give signs of life, outside of steps: while one of them
  /// loads data or saves.
  std::chrono::nanoseconds call_limit = std::chrono::minutes(10);
  /// Limit of the last copy's destructor, which waits until the other processes leave too.
  std::chrono::nanoseconds leave_limit = std::chrono::minutes(10);
  /// OpenMPI's library: a name on the loader's path, or a path.
  std::string library = "libmpi.so.40";
};

namespace detail {
struct ProcessGroupState;
struct ProcessOperation;
/// Makes the message layer; called on the group's thread.
using OpenTransport = UniqueFunction<Result<std::unique_ptr<ProcessTransport>>()>;
}  // namespace detail

class ProcessGroup final {
 public:
  /// No choice: a trainer takes it as one process, and rejects it where a launcher has started
  /// several.
  ProcessGroup() noexcept = default;
  /// One process that trains by itself, also where a launcher has started several.
  [[nodiscard]] static ProcessGroup alone();
  /// The processes that mpirun or srun has started; one process if the program was started without
  /// them. Waits for all of them. OpenMPI's library is loaded only for several processes.
  ///
  /// Errors: ArgumentError for limits that are not above 0, and without OpenMPI; DeviceError
  /// unsupported for MPICH, for RANK and WORLD_SIZE, or if MPI finds another number of processes;
  /// DeadlineExceeded if MPI does not start within start_limit; collective_failed when a process is
  /// missing.
  /// Threads: while no other thread reads or changes the environment.
  [[nodiscard]] static ProcessGroup from_environment(const ProcessGroupOptions& options = {},
                                                     SourceLoc where = SourceLoc::current());

  /// Number of this process, from 0.
  [[nodiscard]] int rank() const noexcept;
  /// Number of processes.
  [[nodiscard]] int size() const noexcept;
  /// Whether this is process 0, which prints and writes.
  [[nodiscard]] bool is_first() const noexcept { return rank() == 0; }
  /// Number of this process among those on its host, from 0.
  [[nodiscard]] int local_rank() const noexcept;
  /// Whether the program chose the group, by alone() or from_environment().
  [[nodiscard]] bool is_chosen() const noexcept { return state_ != nullptr; }

  /// Gives every process the texts of all, by process. Texts may have any length and any bytes.
  /// `what` names the exchange in errors.
  ///
  /// Errors: collective_failed when a process died, stopped, left, or did not call in time.
  [[nodiscard]] std::vector<std::string> gather(std::string own,
                                                std::string_view what = "gather",
                                                SourceLoc where = SourceLoc::current()) const;

  /// Queues an operation on a channel; for the library.
  void submit(ProcessChannel channel, detail::ProcessOperation operation) const;
  /// Names a process in errors: "process 1 (12345 on node7)".
  [[nodiscard]] std::string name_of(int process) const;
  /// The options; for the library.
  [[nodiscard]] const ProcessGroupOptions& options() const noexcept;
  /// A group over another message layer; for tests.
  [[nodiscard]] static ProcessGroup over(detail::OpenTransport open,
                                         const ProcessGroupOptions& options,
                                         SourceLoc where = SourceLoc::current());

 private:
  explicit ProcessGroup(std::shared_ptr<const detail::ProcessGroupState> state) noexcept
      : state_(std::move(state)) {}

  std::shared_ptr<const detail::ProcessGroupState> state_;
};

namespace detail {
/// Queues an exchange of texts on a channel. `end` runs on the group's thread and must not block.
void exchange(const ProcessGroup& group,
              ProcessChannel channel,
              std::string what,
              std::chrono::nanoseconds limit,
              std::string own,
              UniqueFunction<void(Result<std::vector<std::string>>)> end);
/// Errors: ArgumentError when a launcher started several processes and the program has chosen no
/// group. `who`: "DataParallel".
void require_chosen(const ProcessGroup& group, std::string_view who, SourceLoc where);
}  // namespace detail

}  // namespace hearth
