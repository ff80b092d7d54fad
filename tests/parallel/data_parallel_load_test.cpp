// A state is loaded on all ranks or on none: each copy to each rank's device fails once.
#include <hearth/parallel/data_parallel.hpp>

#include <hearth/modules/training_state.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/backend_factory.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/faulty_sim.hpp"
#include "tests/support/forwarding_backend.hpp"
#include "training_support.hpp"

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;

/// Which copy fails on which device, and the number of copies since it was armed.
struct CopyFault {
  std::string device;
  std::atomic<int> at{0};  ///< 0: none.
  std::atomic<int> count{0};

  [[nodiscard]] bool hits(const std::string& name) {
    return at.load(std::memory_order_acquire) != 0 && name == device &&
           count.fetch_add(1, std::memory_order_acq_rel) + 1 == at.load(std::memory_order_acquire);
  }
  void plan(int number) {
    count.store(0, std::memory_order_release);
    at.store(number, std::memory_order_release);
  }
};

class FailingCopies final : public ForwardingBackend {
 public:
  FailingCopies(std::unique_ptr<Backend> sim, std::shared_ptr<CopyFault> fault)
      : ForwardingBackend(std::move(sim)), fault_(std::move(fault)) {}

  [[nodiscard]] Result<CopyPart> upload(std::byte* to,
                                        std::span<const std::byte> from,
                                        Points after) override {
    if (fault_->hits(info().name)) {
      return Error{.code = ErrorCode::kernel_failed, .text = "the cable was pulled"};
    }
    return ForwardingBackend::upload(to, from, after);
  }

 private:
  std::shared_ptr<CopyFault> fault_;
};

/// A training of a network that draws random numbers, on two sims.
struct LoadRun {
  explicit LoadRun(std::shared_ptr<CopyFault> fault = std::make_shared<CopyFault>())
      : runtime({.devices = {{.name = "sim:0"}, {.name = "sim:1"}},
                 .fusion = Fusion::off},  // with fusion, an oracle's rounding would depend on time
                {.make = [fault](const BackendRequest& request) -> std::unique_ptr<Backend> {
                  return request.name.starts_with("sim:")
                             ? std::make_unique<FailingCopies>(make_sim(request, {}), fault)
                             : nullptr;
                }}),
        trainer(runtime,
                model(),
                loss_in<TinyNet>(DType::f32),
                {.devices = runtime.devices(), .optimizer = Adam::Config{}, .seed = 7}) {}

  [[nodiscard]] TinyNet model() const {
    Generator generator(3);
    return TinyNet(runtime.device("sim:0"), generator, DType::f32, 0.3);
  }
  void step(std::uint64_t number) {
    trainer.step(divide(random_samples(4, TinyNet::kSide, number), 2));
  }
  [[nodiscard]] std::vector<std::vector<double>> weights() {
    return trainer.evaluate([](const TinyNet& model, WorkerContext&) { return weights_of(model); });
  }

  Runtime runtime;
  DataParallel<TinyNet, Samples> trainer;
};

// Weights are compared at once; optimizer, rate and generators by the result of the next step.
TEST(DataParallelLoad, AFailureOnAnyRankAtAnyPlaceChangesNoRank) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "state.safetensors";
  LoadRun saved;
  saved.step(1);
  saved.trainer.set_learning_rate(0.5);
  saved.trainer.save(file);
  LoadRun untouched;
  untouched.step(2);
  untouched.step(3);
  for (const char* const victim : {"sim:0", "sim:1"}) {
    const auto fault = std::make_shared<CopyFault>();
    fault->device = victim;
    LoadRun run(fault);
    run.step(2);
    const auto before = run.weights();
    for (int at = 1; at <= 10; ++at) {
      fault->plan(at);
      try {
        static_cast<void>(run.trainer.load(file));
        ADD_FAILURE() << victim << ", copy " << at;
      } catch (const Exception& error) {
        EXPECT_THAT(error.what(), HasSubstr("the cable was pulled"));
      }
      ASSERT_EQ(run.weights(), before) << victim << ", copy " << at;
    }
    fault->plan(0);
    run.step(3);
    EXPECT_EQ(run.weights(), untouched.weights()) << victim;
  }
}

TEST(DataParallelLoad, EveryRankTakesTheWholeState) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "state.safetensors";
  LoadRun saved;
  saved.step(1);
  saved.trainer.set_learning_rate(0.5);
  saved.trainer.save(file);
  saved.step(5);
  const auto fault = std::make_shared<CopyFault>();
  fault->device = "sim:1";
  LoadRun run(fault);
  run.step(2);
  const auto before = run.weights();
  int failures = 0;
  for (int at = 1;; ++at) {
    fault->plan(at);
    try {
      static_cast<void>(run.trainer.load(file));
      break;
    } catch (const Exception&) {
      ++failures;
      ASSERT_EQ(run.weights(), before) << "copy " << at;
    }
  }
  fault->plan(0);
  EXPECT_GT(failures, 10) << "weights, both moments and the count";
  run.step(5);
  EXPECT_EQ(run.weights(), saved.weights());
}

}  // namespace
}  // namespace hearth
