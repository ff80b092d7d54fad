// A short data-parallel training on sims of which one rank, kVictim, meets a fault, and what came
// of it. Threads: the test's; those of a manual executor, or real ones.
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

/// What a rank does before its honest work, or instead of it: returns an empty tensor to go on.
using Prank = std::function<Tensor(const TinyNet&, Samples&, WorkerContext&, const Hall&)>;

/// What goes wrong, and when.
struct Fault {
  FaultPlan plan = {};         ///< Of the first generation of kVictim.
  std::uint64_t stuck_at = 0;  ///< The kernel of kVictim that does not come back.
  int call = 0;                ///< In this call of its loss function, each rank …
  Prank prank = {};            ///< … does this.
  /// Sees what kVictim is given.
  std::function<void(const Launch&)> watch = {};
};

struct TrainingOptions {
  DeviceLossPolicy policy = DeviceLossPolicy::stop;
  bool has_spare = false;
  double drop = 0;
  OptimizerConfig optimizer = Sgd::Config{.learning_rate = 0.05};
  std::chrono::nanoseconds deadline = std::chrono::seconds(5);
  /// Two asynchronous sims and a cpu, and a third one as the spare; else kWorld sims and one.
  bool is_mixed = false;

  [[nodiscard]] int world() const { return is_mixed ? 3 : kWorld; }
  /// Of a rank of the first trainer; the last is the spare.
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

/// What a fault costs.
enum class Cost : std::uint8_t {
  step,         ///< Its step fails, whatever the policy; the next one goes on.
  time,         ///< The rank is late and answers.
  device,       ///< It is lost.
  thread,       ///< The worker hangs, its device answers.
  both,         ///< The worker hangs, and its device does not answer.
  hung_device,  ///< The device hangs, and its worker waits for it.
};

/// What comes of a fault.
struct Outcome {
  bool throws = false;  ///< Its step.
  bool ends = false;    ///< No step begins any more.
  std::vector<std::string> devices = {};

  [[nodiscard]] bool is_as_if_nothing_had_been() const {
    return !throws && std::ranges::count(devices, kVictim) == 1;
  }
};
[[nodiscard]] Outcome outcome_of(const Policy& policy, Cost cost, const TrainingOptions& options);

/// All that a training needs, of which a thread that is left behind may outlive the trainer only.
class Hall {
 public:
  Hall(detail::Executor* executor, Fault fault, TrainingOptions training = {});
  Hall(const Hall&) = delete;
  Hall& operator=(const Hall&) = delete;
  ~Hall();  // whatever a test says, nobody hangs for ever

  [[nodiscard]] const Runtime& runtime() const { return *runtime_; }
  [[nodiscard]] Device device(int rank) const { return runtime_->device(options_.name_of(rank)); }
  [[nodiscard]] std::vector<Device> devices(int begin, int end) const;
  [[nodiscard]] TinyNet first_model(double drop = 0) const;
  /// On all devices but the last.
  [[nodiscard]] Trainer trainer(const TrainingOptions& options) const;
  [[nodiscard]] Trainer trainer_of(TinyNet model, int world, const TrainingOptions& options) const;
  /// For pranks: waits until let_go().
  void hang() const { static_cast<void>(released_->wait({.deadline = Deadline::never()})); }
  /// Whatever hangs comes back.
  void let_go();
  /// Whether the kernel that hangs, or the prank, has begun.
  [[nodiscard]] bool has_begun() const;
  /// No kernel hangs from here on.
  void disarm() { control_.stuck_at = 0; }

 private:
  [[nodiscard]] Trainer::LossFn loss() const;

  /// By the name of its device.
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
  /// The steps that happened, each with how many ranks it had.
  std::vector<std::pair<int, int>> happened = {};
  std::vector<ErrorRef> errors = {};      ///< Of the others.
  std::vector<std::string> devices = {};  ///< At the end.
  std::vector<double> weights = {};
  bool met_fault = false;
  bool refuses_steps = false;  ///< At the end.
};

/// kSteps steps; each is tried once. Expects of every step that it ends within 10 s, of the
/// replicas that they are equal, and that nothing is left in memory.
[[nodiscard]] Trained train_in(Hall& hall, const TrainingOptions& options);
/// The same under a manual executor, where each seed is another order of threads.
[[nodiscard]] Trained train(const Fault& fault,
                            const TrainingOptions& options,
                            std::uint64_t seed = 0);
/// Expects the steps, errors, which hold `text`, and devices of this outcome.
void expect_as_planned(const Trained& trained, const Outcome& outcome, const std::string& text);
/// The weights after these steps, by trainers that nothing happens to.
[[nodiscard]] std::vector<double> train_honestly(const std::vector<std::pair<int, int>>& steps,
                                                 const TrainingOptions& options);

}  // namespace hearth::testing
