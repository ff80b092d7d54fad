// A short data-parallel training on sims, in which one rank, kVictim, meets a fault, and its
// result. Threads: the test's; those of a manual executor, or real ones.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hearth/backends/backend.hpp>
#include <hearth/runtime/base/fault_plan.hpp>

#include "tests/runtime/stepped_runtime.hpp"
#include "tests/runtime/stuck_backend.hpp"

#include "training_support.hpp"

namespace hearth::testing {

using Trainer = DataParallel<TinyNet, Samples>;

constexpr int kWorld = 4;
constexpr int kSteps = 4;
constexpr std::int64_t kBatch = 13;
inline const std::string kVictim = "sim:1";

inline std::string name_of(int rank) {
  return "sim:" + std::to_string(rank);
}
[[nodiscard]] Samples batch_of(int step);

class Hall;

/// Runs in a rank before its regular loss, or instead of it: an empty tensor means to continue.
using Prank = std::function<Tensor(const TinyNet&, Samples&, WorkerContext&, const Hall&)>;

/// A fault and its moment.
struct Fault {
  FaultPlan plan = {};         ///< For kVictim's first generation.
  std::uint64_t stuck_at = 0;  ///< The number of kVictim's kernel that hangs.
  int call = 0;                ///< In this call of its loss function, each rank …
  Prank prank = {};            ///< … does this.
  /// Observes the launches of kVictim.
  std::function<void(const Launch&)> watch = {};
};

struct TrainingOptions {
  DeviceLossPolicy policy = DeviceLossPolicy::stop;
  bool has_spare = false;
  double drop = 0;
  OptimizerConfig optimizer = Sgd::Config{.learning_rate = 0.05};
  std::chrono::nanoseconds deadline = std::chrono::seconds(5);
  /// Two asynchronous sims, a cpu, and a further device as the spare; otherwise kWorld sims and one
  /// spare.
  bool is_mixed = false;

  [[nodiscard]] int world() const { return is_mixed ? 3 : kWorld; }
  /// Name of a rank's device in the first trainer; the last one is the spare.
  [[nodiscard]] std::string name_of(int rank) const {
    return is_mixed && rank == 2 ? "cpu:0" : testing::name_of(rank);
  }
};

struct Policy {
  const char* name;
  DeviceLossPolicy on_loss;
  bool has_spare = false;
};
inline const std::vector<Policy> kPolicies{{"Stop", DeviceLossPolicy::stop},
                                           {"Shrink", DeviceLossPolicy::shrink},
                                           {"Spare", DeviceLossPolicy::replace, true},
                                           {"Restart", DeviceLossPolicy::replace}};

/// The damage of a fault.
enum class Cost : std::uint8_t {
  step,         ///< Its step fails under every policy; the next one works.
  time,         ///< The rank is late and answers.
  device,       ///< The device is lost.
  thread,       ///< The worker hangs, its device answers.
  both,         ///< The worker hangs, and its device does not answer.
  hung_device,  ///< The device hangs, and its worker waits for it.
};

/// The expected outcome of a fault.
struct Outcome {
  bool throws = false;  ///< The call of its step throws.
  bool ends = false;    ///< No later step begins.
  std::vector<std::string> devices = {};

  [[nodiscard]] bool is_as_if_nothing_had_been() const {
    return !throws && std::ranges::count(devices, kVictim) == 1;
  }
};
[[nodiscard]] Outcome outcome_of(const Policy& policy, Cost cost, const TrainingOptions& options);

/// State of a training. A thread that hangs may outlive the trainer, but not this object.
class Hall {
 public:
  Hall(detail::Executor* executor, Fault fault, TrainingOptions training = {});
  Hall(const Hall&) = delete;
  Hall& operator=(const Hall&) = delete;
  ~Hall();  // so that a failed test does not hang

  [[nodiscard]] const Runtime& runtime() const { return *runtime_; }
  [[nodiscard]] Device device(int rank) const { return runtime_->device(options_.name_of(rank)); }
  [[nodiscard]] std::vector<Device> devices(int begin, int end) const;
  [[nodiscard]] TinyNet first_model(double drop = 0) const;
  /// A trainer on all devices except the last.
  [[nodiscard]] Trainer trainer(const TrainingOptions& options) const;
  [[nodiscard]] Trainer trainer_of(TinyNet model, int world, const TrainingOptions& options) const;
  /// For pranks: waits until unblock().
  void hang() const { static_cast<void>(released_->wait({.deadline = Deadline::never()})); }
  /// Ends all hangs.
  void unblock();
  /// Whether the hung kernel, or the prank, has begun.
  [[nodiscard]] bool has_begun() const;
  /// Later kernels do not hang.
  void disarm() { control_.stuck_at = 0; }

 private:
  [[nodiscard]] Trainer::LossFn loss() const;

  /// The rank of a device, by its name.
  [[nodiscard]] std::size_t rank_of(const Device& device) const;

  const Fault fault_;
  const TrainingOptions options_;
  int opened_ = 0;
  StuckControl control_;
  Promise<void> release_;
  const std::shared_ptr<const Pending<void>> released_ =
      std::make_shared<const Pending<void>>(release_.pending());
  const std::shared_ptr<std::vector<int>> calls_;  ///< By device.
  detail::BackendFactory factory_;
  std::unique_ptr<Runtime> runtime_;
};

struct Trained {
  /// The steps that happened, each with its number of ranks.
  std::vector<std::pair<int, int>> happened = {};
  std::vector<ErrorRef> errors = {};      ///< The failed steps' errors.
  std::vector<std::string> devices = {};  ///< At the end.
  std::vector<double> weights = {};
  bool met_fault = false;
  bool refuses_steps = false;  ///< At the end.
};

/// Runs kSteps steps, each tried once. Expects that every step ends within 10 s, that the replicas
/// are equal, and that no tensor is left in memory.
[[nodiscard]] Trained train_in(Hall& hall, const TrainingOptions& options);
/// Runs train_in() under a manual executor, where each seed is another order of threads.
[[nodiscard]] Trained train(const Fault& fault,
                            const TrainingOptions& options,
                            std::uint64_t seed = 0);
/// Expects the steps, devices and errors of this outcome; the errors contain `text`.
void expect_as_planned(const Trained& trained, const Outcome& outcome, const std::string& text);
/// The weights after these steps, by trainers without faults.
[[nodiscard]] std::vector<double> train_honestly(const std::vector<std::pair<int, int>>& steps,
                                                 const TrainingOptions& options);

}  // namespace hearth::testing
