// A step is prepared on every rank, decided once, and committed by all or none: a memory failure on
// one rank, in any phase of a step, changes no weight of any rank.
#include <hearth/parallel/data_parallel.hpp>

#include "training_support.hpp"

#include <hearth/runtime/base/manual_executor.hpp>

#include "tests/runtime/stepped_runtime.hpp"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words

// For devices with a page for each tensor, so that memory can fail at every allocation.
struct Heavy {
  Tensor a, b, c;
  explicit Heavy(const Device& device)
      : a(full(device, {300}, 0.5)), b(full(device, {90}, -1)), c(ones(device, {200})) {}
  HEARTH_MODULE(Heavy, a, b, c)
};

struct Pull {
  std::int64_t size = 1;
  double factor = 1;
};

struct Options {
  int world = 2;
  OptimizerConfig optimizer = Adam::Config{.learning_rate = 0.125};
  FaultPlan faults = {};  ///< Faults of the last rank's device.
};

constexpr int kCommitSteps = 3;

struct Committed {
  std::vector<std::vector<double>> weights;  ///< By rank, a few of each tensor; may be empty.
  std::vector<Error> failures;
};

class Training {
 public:
  Training(const Options& options, detail::Executor& executor)
      : factory_(faulty_sims({{name_of(options.world - 1), options.faults}})),
        runtime_(runtime_options(options.world, executor), factory_),
        trainer_(runtime_,
                 Heavy(runtime_.device(name_of(0))),
                 [this](const Heavy& model, Pull& pull, WorkerContext& context) {
                   return loss(model, pull, context);
                 },
                 {.devices = runtime_.devices(), .optimizer = options.optimizer}) {}

  [[nodiscard]] Committed run() {
    Committed result;
    try {
      result.weights = weights();
    } catch (const Exception&) {
      return result;  // the replica itself had no memory
    }
    for (int step = 0; step < kCommitSteps; ++step) {
      holds_ = step == 1;
      for (int attempt = 0; attempt < 20; ++attempt) {
        const Status status = trainer_.step_later(shards(step)).wait();
        if (status.has_value()) {
          break;
        }
        result.failures.push_back(status.error());
        EXPECT_EQ(weights(), result.weights) << "a failed step moved a weight";
      }
      result.weights = weights();
    }
    return result;
  }

  static std::string name_of(int rank) { return "sim:" + std::to_string(rank); }

 private:
  static RuntimeOptions runtime_options(int world, detail::Executor& executor) {
    RuntimeOptions options{.devices = {}, .executor = &executor};
    for (int rank = 0; rank < world; ++rank) {
      options.devices.push_back({.name = name_of(rank), .memory = MemoryPooling::exclusive});
    }
    return options;
  }
  // A second handle on the weights prevents the update in place: it then needs new memory.
  Tensor loss(const Heavy& model, const Pull& pull, const WorkerContext& context) {
    if (holds_) {
      model.visit("", [&](const std::string&, const Tensor& tensor) {
        held_[context.rank].push_back(tensor.detach());
      });
    }
    return (mean(square(model.a)) + mean(square(model.b)) + mean(square(model.c))) * pull.factor;
  }
  [[nodiscard]] std::vector<Pull> shards(int step) const {
    std::vector<Pull> all;
    for (int rank = 0; rank < trainer_.world(); ++rank) {
      all.push_back({.size = 1 + rank, .factor = 1.0 + step + 0.25 * rank});
    }
    return all;
  }
  // By index, because a sum would hide a poisoned tail.
  [[nodiscard]] std::vector<std::vector<double>> weights() {
    return trainer_.evaluate([](const Heavy& model, WorkerContext&) {
      std::vector<double> some;
      model.visit("", [&](const std::string&, const Tensor& tensor) {
        const std::vector<float> values = tensor.to_vector<float>();
        some.insert(some.end(), {values.front(), values[values.size() / 2], values.back()});
      });
      return some;
    });
  }

  const detail::BackendFactory factory_;
  const Runtime runtime_;
  bool holds_ = false;
  std::map<int, std::vector<Tensor>> held_;
  DataParallel<Heavy, Pull> trainer_;
};

Committed train(const Options& options) {
  Committed result;
  ManualExecutor executor;
  executor.run([&] { result = Training(options, executor).run(); });
  return result;
}

// Lets one page after another fail on the last rank, from `first` on. Returns the first op without
// memory for each page.
std::map<std::int64_t, std::string> expect_no_trace_of_failing_pages(Options options,
                                                                     std::int64_t first = 1) {
  const Committed undisturbed = train(options);
  EXPECT_TRUE(undisturbed.failures.empty());
  std::map<std::int64_t, std::string> failed;
  for (std::int64_t page = first;; ++page) {
    SCOPED_TRACE("page " + std::to_string(page) + " of " + std::to_string(options.world) +
                 " ranks");
    // Several failures in a row, because the pool retries with less, and after trimming.
    options.faults = {.failing_allocation = page, .failing_allocation_count = 8};
    const Committed trained = train(options);
    if (trained.weights.empty()) {
      continue;
    }
    if (trained.failures.empty()) {
      return failed;  // the run allocates fewer pages
    }
    for (const Error& error : trained.failures) {
      EXPECT_EQ(error.code, ErrorCode::out_of_memory) << error.to_string();
      EXPECT_EQ(error.device, Training::name_of(options.world - 1)) << error.to_string();
    }
    failed[page] = trained.failures.front().op;
    EXPECT_EQ(trained.weights, undisturbed.weights);
  }
}

TEST(DataParallelCommit, MemoryThatFailsOnOneRankMovesNoWeight) {
  const auto failed = expect_no_trace_of_failing_pages({.world = 2});
  std::set<std::string> ops;
  std::int64_t first_of_update = 0;
  for (const auto& [page, op] : failed) {
    ops.insert(op);
    if (first_of_update == 0 && op == "zeros") {
      first_of_update = page;
    }
  }
  // The forward pass, a bucket, the optimizer's state, the update itself.
  EXPECT_THAT(ops, ::testing::IsSupersetOf({"square", "concat", "zeros", "adam_step"}));
  for (const int world : {3, 4}) {
    expect_no_trace_of_failing_pages({.world = world}, first_of_update);
  }
}

TEST(DataParallelCommit, MemoryThatFailsOnOneRankMovesNoWeightWithMomentum) {
  const OptimizerConfig sgd = Sgd::Config{.learning_rate = 0.125, .momentum = 0.5};
  for (const int world : {2, 4}) {
    const auto failed = expect_no_trace_of_failing_pages({.world = world, .optimizer = sgd}, 4);
    EXPECT_THAT(failed, ::testing::Contains(::testing::Pair(::testing::_, "sgd_step")));
  }
}

}  // namespace
}  // namespace hearth
