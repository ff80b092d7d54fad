// ServerDesk: the threads of a ModelServer around its Batcher. A seat is the right to run one batch
// on a device. A device that computes on the waiting thread has one seat. An asynchronous device
// has two, so that one batch uploads while the other computes. A worker thread waits at each seat.
// A keeper thread ends requests at their deadlines and detects hung batches. Shared by its threads,
// which may outlive the server if a kernel does not return. Threads: any. Invariants: (1) every
// accepted request is settled once; (2) a seat is used by its worker, or by one caller that found
// it idle; (3) no code of a program runs under the lock.
#pragma once

#include <hearth/parallel/batch_runner.hpp>
#include <hearth/parallel/batcher.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/owned_thread.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/runtime.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace hearth::detail {

/// Errors: always ArgumentError: the model's forward() does not take this number of tensors.
[[noreturn]] void throw_input_count(std::size_t given);

class ServerDesk final {
 public:
  /// Returns the forward pass of a new seat on a device.
  using MakeSeat = std::function<SeatModel(std::size_t device)>;

  /// Errors: ArgumentError for options that contradict one another or the devices.
  ServerDesk(const Runtime& runtime, const ServerOptions& options, const MakeSeat& make_seat);
  ServerDesk(const ServerDesk&) = delete;
  ServerDesk& operator=(const ServerDesk&) = delete;
  ~ServerDesk();

  /// Queues a request. A refusal is the error of the result.
  ///
  /// Errors: ArgumentError for inputs without rows, or more rows than a batch has.
  [[nodiscard]] Pending<Answer> ask(std::vector<RequestInput> inputs,
                                    const RequestOptions& options,
                                    SourceLoc loc);
  /// As ask(). Runs the request on the calling thread if a seat is idle and the caller may wait for
  /// a kernel.
  [[nodiscard]] Pending<Answer> ask_here(std::vector<RequestInput> inputs,
                                         const RequestOptions& options,
                                         SourceLoc loc);
  /// Accepts no further request, and waits until all are answered. Returns false at the deadline.
  bool drain(Deadline deadline);
  /// Brings a device back that was out of service.
  void restore(std::size_t device);
  [[nodiscard]] bool is_in_service(std::size_t device) const;
  [[nodiscard]] ServerStatistics statistics() const;

 private:
  enum class SeatState : std::uint8_t {
    idle,      ///< Its worker parks.
    woken,     ///< Its worker has been unparked and looks for work.
    busy,      ///< Its worker runs a batch.
    borrowed,  ///< A caller runs a batch, and the worker parks.
  };
  struct Seat {
    std::size_t device = 0;
    std::unique_ptr<BatchRunner> runner;
    SeatState state = SeatState::woken;
    IntrusivePtr<Parker> parker;  // of its worker; null before it starts
  };
  /// Counts answers, so that a reader waits as long as the server makes progress.
  struct Progress final : RefCounted<Progress> {
    std::atomic<std::uint64_t> finished{0};
  };

  /// State that the threads share; they keep it alive.
  struct Shared {
    explicit Shared(Batcher::Options options) : batcher(std::move(options)) {}

    mutable Mutex mutex;
    Batcher batcher HEARTH_GUARDED_BY(mutex);
    std::vector<Seat> seats HEARTH_GUARDED_BY(mutex);  // runners belong to those who hold the seats
    bool is_draining HEARTH_GUARDED_BY(mutex) = false;
    bool is_closed HEARTH_GUARDED_BY(mutex) = false;
    IntrusivePtr<Parker> keeper HEARTH_GUARDED_BY(mutex);
    TimePoint keeper_ran HEARTH_GUARDED_BY(mutex) = {};
    TimePoint keeper_wakes HEARTH_GUARDED_BY(mutex) = TimePoint::max();
    WaitList drainers HEARTH_GUARDED_BY(mutex);
    const IntrusivePtr<Progress> progress = make_intrusive<Progress>();
    std::atomic<std::uint64_t> failed{0};
    std::atomic<std::uint64_t> expired{0};
    Log* log = nullptr;
  };
  struct Settlement;

  static void work(const std::shared_ptr<Shared>& shared, std::size_t number);
  static void keep(const std::shared_ptr<Shared>& shared);
  static void finish(Shared& shared,
                     std::size_t number,
                     const BatchRef& batch,
                     const BatchOutcome& outcome);
  static void collect(Shared& shared, Settlement& into) HEARTH_REQUIRES(shared.mutex);
  static void wake_for_work(Shared& shared, Settlement& into) HEARTH_REQUIRES(shared.mutex);
  static void wake_keeper(Shared& shared, Settlement& into) HEARTH_REQUIRES(shared.mutex);
  [[nodiscard]] static std::size_t idle_seats(const Shared& shared) HEARTH_REQUIRES(shared.mutex);

  [[nodiscard]] RequestRef make_request(std::vector<RequestInput> inputs,
                                        const RequestOptions& options,
                                        SourceLoc loc) const;
  [[nodiscard]] PendingHelper wait_terms() const;

  const ServerOptions options_;
  const std::chrono::nanoseconds wait_limit_;
  const std::shared_ptr<Shared> shared_;
  std::vector<std::unique_ptr<OwnedThread>> threads_;
};

}  // namespace hearth::detail
