// BatchRunner: runs batches on one device: one upload, one forward pass and one readback each. If a
// batch fails, it finds the guilty requests, and all others get their answers.
// Owned by a seat of a ServerDesk. Threads: the one that holds the seat.
// Invariants: (1) each request of a batch is settled when run() returns, unless the device was lost
// or closed; (2) all passes of a batch use one version of the weights.
#pragma once

#include <hearth/parallel/batcher.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/stream.hpp>

#include <functional>
#include <span>
#include <vector>

namespace hearth::detail {

/// A model's forward pass on one device, with the weights that renew() chose last.
struct SeatModel {
  std::function<std::uint64_t()> renew;  ///< Takes the newest weights; returns their version.
  std::function<std::vector<Tensor>(std::span<const Tensor>)> forward;
};

class BatchRunner final {
 public:
  struct Options {
    bool exact_rows = false;
    bool repeatable = true;
    std::vector<std::int64_t> ladder = {};
  };
  BatchRunner(const Device& device, SeatModel model, Options options);

  [[nodiscard]] BatchOutcome run(RunningBatch& batch);

  [[nodiscard]] const Device& device() const noexcept { return device_; }
  /// Requests that got a value, and an error, since the start. Threads: any.
  [[nodiscard]] std::uint64_t answered() const noexcept {
    return answered_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t failed() const noexcept {
    return failed_.load(std::memory_order_relaxed);
  }

 private:
  using Outputs = std::vector<HostRows>;

  /// Runs the requests in one forward pass.
  [[nodiscard]] Result<Outputs> pass(std::span<const RequestRef> requests,
                                     std::int64_t padded_rows);
  /// Runs one request by itself; if rows are exact, each row by itself.
  [[nodiscard]] Result<Outputs> pass_alone(const RequestRef& request);
  void run_whole(std::span<const RequestRef> requests, std::int64_t padded_rows);
  void run_proof(std::span<const RequestRef> requests, std::int64_t padded_rows);
  /// Returns whether each request got an answer.
  bool run_alone(std::span<const RequestRef> requests);
  void run_halves(std::span<const RequestRef> requests);
  /// Handles a failed pass. Returns whether the requests may be tried in smaller parts.
  [[nodiscard]] bool may_divide(std::span<const RequestRef> requests, const ErrorRef& error);
  void refute(std::string_view why);
  void answer(ServerRequest& request, Outputs outputs);
  void fail(ServerRequest& request, const ErrorRef& error);
  [[nodiscard]] std::int64_t padded(std::int64_t rows) const noexcept;

  const Device device_;
  const SeatModel model_;
  const Options options_;
  Stream stream_;
  std::uint64_t version_ = 0;
  const RunningBatch* batch_ = nullptr;
  BatchOutcome outcome_;
  std::atomic<std::uint64_t> answered_{0};
  std::atomic<std::uint64_t> failed_{0};
};

}  // namespace hearth::detail
