// Devices, and loans of their tensors, for tests of engines and of the coordinator.
// Threads: the test's.
#pragma once

#include "training_support.hpp"

#include <hearth/parallel/collective.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/runtime.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hearth::testing {

class LoanDesk {
 public:
  explicit LoanDesk(int devices, detail::Executor* executor = nullptr)
      : runtime_(std::in_place, cpu_devices(devices, executor)) {}

  [[nodiscard]] const Runtime& runtime() const { return runtime_.value(); }
  [[nodiscard]] Device device(int rank) const {
    return runtime_->device("cpu:" + std::to_string(rank));
  }
  /// Closes the devices; loans remain out.
  void end() { runtime_.reset(); }
  /// Lends one tensor a rank; `results[r]` holds its later value.
  std::vector<LentRegion> borrow(std::vector<Tensor> tensors,
                                 std::vector<Tensor>& results,
                                 Deadline deadline = Deadline::in(kDefaultWait)) const {
    struct Arrival {
      std::size_t rank;
      Result<LentRegion> region;
    };
    const auto arrivals = std::make_shared<detail::Mailbox<Arrival>>();
    results.clear();
    for (std::size_t rank = 0; rank < tensors.size(); ++rank) {
      results.push_back(lend(
          std::move(tensors[rank]),
          [arrivals, rank](Result<LentRegion> region) {
            arrivals->try_push({rank, std::move(region)});
          },
          deadline));
    }
    std::vector<LentRegion> regions(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::optional<Arrival> arrival = arrivals->pop(Deadline::in(kDefaultWait));
      regions[arrival.value().rank] = std::move(arrival->region).value();
    }
    return regions;
  }

 private:
  std::optional<Runtime> runtime_;
};

/// Waits for a collective.
class Outcome {
 public:
  [[nodiscard]] Collective::Finished finished() {
    return [promise = promise_](const Status& status) {
      if (status.has_value()) {
        promise->set_value();
      } else {
        promise->set_error(status.shared_error());
      }
    };
  }
  [[nodiscard]] Status wait() { return pending_.wait(); }

 private:
  std::shared_ptr<Promise<void>> promise_ = std::make_shared<Promise<void>>();
  Pending<void> pending_ = promise_->pending();
};

}  // namespace hearth::testing
