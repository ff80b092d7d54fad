#include "faulty_training.hpp"

#include <hearth/parallel/coordinator.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/faulty_sim.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kMostOfAStep = 10s;

/// Reports its launches.
class WatchedSim final : public ForwardingBackend {
 public:
  WatchedSim(std::unique_ptr<Backend> sim, std::function<void(const Launch&)> watch)
      : ForwardingBackend(std::move(sim)), watch_(std::move(watch)) {}

 private:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    watch_(launch);
    return ForwardingBackend::submit_one(launch, after);
  }

  std::function<void(const Launch&)> watch_;
};

/// Expects that only tensors of a lost device are left.
void expect_no_leak(const Hall& hall) {
  pass(1s);
  for (const Device& device : hall.runtime().devices()) {
    if (!device.is_lost()) {
      static_cast<void>(device.catch_up_later().wait());
      EXPECT_EQ(device.memory().live_tensor_count, 0) << device.name();
    }
  }
}

/// Reads the weights. The read may meet the fault, so it comes only at the end.
void look(Trainer& trainer, bool is_mixed, Trained& result) {
  if (!result.refuses_steps && !is_mixed) {  // mixed devices round in different places
    EXPECT_TRUE(has_equal_replicas(trainer));
  }
  result.weights = weights_of(trainer.snapshot());
}

}  // namespace

Outcome outcome_of(const Policy& policy, Cost cost, const TrainingOptions& options) {
  Outcome outcome;
  for (int rank = 0; rank < options.world(); ++rank) {
    outcome.devices.push_back(options.name_of(rank));
  }
  if (policy.on_loss == DeviceLossPolicy::stop || cost == Cost::step) {
    outcome.throws = true;
    outcome.ends = cost == Cost::device || cost == Cost::hung_device;
    return outcome;
  }
  if (cost == Cost::time) {
    return outcome;
  }
  if (policy.has_spare) {
    outcome.devices[1] = options.name_of(options.world());
    return outcome;
  }
  if (policy.on_loss != DeviceLossPolicy::replace || cost == Cost::both ||
      cost == Cost::hung_device) {
    outcome.devices.erase(outcome.devices.begin() + 1);
  }
  return outcome;
}

Samples batch_of(int step) {
  return random_samples(kBatch, TinyNet::kSide, static_cast<std::uint64_t>(step));
}

Hall::Hall(detail::Executor* executor, Fault fault, TrainingOptions training)
    : fault_(std::move(fault)),
      options_(std::move(training)),
      control_(fault_.stuck_at),
      calls_(std::make_shared<std::vector<int>>(kWorld + 1)),
      factory_{.make = [this](const BackendRequest& request) -> std::unique_ptr<Backend> {
        if (request.name != kVictim) {
          return nullptr;
        }
        if (fault_.stuck_at != 0) {
          return std::make_unique<StuckBackend>(request.name, &control_);
        }
        auto sim = testing::make_sim(request, ++opened_ == 1 ? fault_.plan : FaultPlan{});
        return fault_.watch ? std::make_unique<WatchedSim>(std::move(sim), fault_.watch)
                            : std::move(sim);
      }} {
  // A fault is identified by the number of a submit.
  RuntimeOptions options{.devices = {}, .fusion = Fusion::off, .executor = executor};
  for (int i = 0; i < options_.world() + 1; ++i) {
    options.devices.push_back({.name = options_.name_of(i)});
    if (options_.is_mixed && options.devices.back().name.starts_with("sim:")) {
      options.devices.back().sim_schedule = SimSchedule{.queues = 2, .cost_seed = 5};
    }
  }
  runtime_ = std::make_unique<Runtime>(std::move(options), factory_);
}

Hall::~Hall() {
  unblock();
}

void Hall::unblock() {
  if (!released_->is_ready()) {
    release_.set_value();
    control_.release.set_value();
    if (fault_.plan.hanging_submit != 0) {
      device(1).restart();  // only a restart ends the waits for the hung op
    }
    pass(1s);
  }
}

bool Hall::has_begun() const {
  return control_.is_in.is_ready() || (fault_.call != 0 && (*calls_)[1] >= fault_.call);
}

std::size_t Hall::rank_of(const Device& device) const {
  int rank = 0;
  while (options_.name_of(rank) != device.name()) {
    ++rank;
  }
  return static_cast<std::size_t>(rank);
}

std::vector<Device> Hall::devices(int begin, int end) const {
  std::vector<Device> all;
  for (int i = begin; i < end; ++i) {
    all.push_back(device(i));
  }
  return all;
}

TinyNet Hall::first_model(double drop) const {
  Generator generator(3);
  return TinyNet(device(0), generator, DType::f32, drop);
}

Trainer::LossFn Hall::loss() const {
  return [this, calls = calls_](const TinyNet& model, Samples& shard, WorkerContext& context) {
    const int call = ++(*calls)[rank_of(context.device)];
    if (call == fault_.call) {
      Tensor other = fault_.prank(model, shard, context, *this);
      if (other.is_valid()) {
        return other;
      }
    }
    return mean_loss(model, shard, context.device, DType::f32);
  };
}

Trainer Hall::trainer(const TrainingOptions& options) const {
  return trainer_of(first_model(options.drop), options.world(), options);
}

Trainer Hall::trainer_of(TinyNet model, int world, const TrainingOptions& options) const {
  return Trainer(*runtime_,
                 std::move(model),
                 loss(),
                 {.devices = devices(0, world),
                  .optimizer = options.optimizer,
                  .bucket_bytes = 256,
                  .deadline = options.deadline,
                  .seed = 5,
                  .on_loss = options.policy,
                  .spares = options.has_spare ? devices(options.world(), options.world() + 1)
                                              : std::vector<Device>{}});
}

Trained train_in(Hall& hall, const TrainingOptions& options) {
  Trained result;
  bool has_late_failure = false;
  bool loses_last = false;  // the last step happened, and a device was lost after it
  {
    Trainer trainer = hall.trainer(options);
    for (int step = 0; step < kSteps; ++step) {
      const detail::TimePoint start = detail::current_context().clock().now();
      int world = 0;
      try {
        const DataParallelReport report = trainer.step([&](const std::vector<Device>& ranks) {
          world = static_cast<int>(ranks.size());
          return divide(batch_of(step), world);
        });
        EXPECT_EQ(report.sample_count, kBatch);
        has_late_failure = has_late_failure || report.late_failure != nullptr;
        loses_last = report.late_failure != nullptr && detail::is_device_loss(*report.late_failure);
        result.happened.emplace_back(step, world);
      } catch (const Exception& error) {
        result.errors.push_back(error.shared_error());
      }
      EXPECT_LT(detail::current_context().clock().now() - start, kMostOfAStep) << "step " << step;
      if (!result.errors.empty() ||
          (has_late_failure && options.policy == DeviceLossPolicy::stop)) {
        hall.unblock();
      }
    }
    if (loses_last && options.policy == DeviceLossPolicy::stop) {  // reported by the next call
      try {
        static_cast<void>(trainer.step(divide(batch_of(0), trainer.world())));
        ADD_FAILURE() << "a step without a device that was lost";
      } catch (const Exception& error) {
        result.errors.push_back(error.shared_error());
      }
    }
    for (const Device& device : trainer.devices()) {
      result.devices.push_back(device.name());
    }
    const Device victim = hall.runtime().device(kVictim);
    result.met_fault = hall.has_begun() || has_late_failure || !result.errors.empty() ||
                       victim.is_lost() || victim.generation() > 0 ||
                       std::ranges::count(result.devices, kVictim) == 0;
    hall.disarm();
    if (result.met_fault) {
      const bool is_told =
          !result.errors.empty() && (detail::is_device_loss(*result.errors.back()) ||
                                     detail::is_device_hang(*result.errors.back()));
      result.refuses_steps =
          options.policy == DeviceLossPolicy::stop && (is_told || victim.generation() > 0);
      if (result.refuses_steps && victim.generation() > 0) {
        try {
          static_cast<void>(trainer.snapshot());
        } catch (const Exception& error) {  // unless a step has reported it already
          EXPECT_THAT(error.shared_error()->text, ::testing::HasSubstr("lost its replica"));
        }
      }
      look(trainer, options.is_mixed, result);
    }
  }
  hall.unblock();
  if (result.met_fault) {
    expect_no_leak(hall);
  }
  return result;
}

Trained train(const Fault& fault, const TrainingOptions& options, std::uint64_t seed) {
  Trained result;
  ManualExecutor executor(seed);
  executor.run([&] {
    Hall hall(&executor, fault, options);
    result = train_in(hall, options);
  });
  return result;
}

void expect_as_planned(const Trained& trained, const Outcome& outcome, const std::string& text) {
  EXPECT_EQ(trained.refuses_steps, outcome.ends);
  if (!outcome.throws) {
    EXPECT_EQ(trained.happened.size(), static_cast<std::size_t>(kSteps));
  } else if (!outcome.ends) {
    EXPECT_LE(trained.errors.size(), 1U);
  }
  for (const ErrorRef& error : trained.errors) {
    EXPECT_THAT(error->to_string(), ::testing::HasSubstr(text));
  }
  if (!outcome.ends) {
    EXPECT_EQ(trained.devices, outcome.devices);
  }
}

std::vector<double> train_honestly(const std::vector<std::pair<int, int>>& steps,
                                   const TrainingOptions& options) {
  std::vector<double> weights;
  ManualExecutor executor;
  executor.run([&] {
    const Hall hall(&executor, {}, options);
    TinyNet model = hall.first_model(options.drop);
    for (std::size_t i = 0; i < steps.size();) {
      const int world = steps[i].second;
      Trainer trainer = hall.trainer_of(std::move(model), world, options);
      for (; i < steps.size() && steps[i].second == world; ++i) {
        trainer.step(divide(batch_of(steps[i].first), world));
      }
      model = trainer.take_model();
    }
    weights = weights_of(model);
  });
  return weights;
}

}  // namespace hearth::testing
