// DataParallel over several processes, which threads play here.
#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/data_parallel.hpp>

#include "fake_network.hpp"
#include "tests/base/temporary_folder.hpp"
#include "training_support.hpp"

#include <hearth/modules/optimizer.hpp>
#include <hearth/runtime/base/mailbox.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::AllOf;
using testing::as_processes;
using testing::cut;
using ::testing::Each;
using testing::FakeNetwork;
using ::testing::HasSubstr;
using testing::Samples;
using testing::TinyNet;

constexpr double kDrop = 0.25;  // ranks draw random numbers of their own
constexpr int kSteps = 10;

using TinyParallel = DataParallel<TinyNet, Samples>;

TinyNet tiny_net(const Runtime& runtime, std::uint64_t seed = 3) {
  Generator generator(seed);
  return {runtime.device("cpu:0"), generator, DType::f32, kDrop};
}

DataParallelOptions options_of(const Runtime& runtime, ProcessGroup group) {
  return {.devices = runtime.devices(),
          .optimizer = Sgd::Config{.learning_rate = 0.1, .momentum = 0.9},
          .bucket_bytes = 256,  // several buckets
          .seed = 5,
          .processes = std::move(group)};
}

// The shards of these ranks of step `step`, whose batch has 24 samples.
std::vector<Samples> shards_of(const std::vector<std::int64_t>& sizes, RankRange ranks, int step) {
  const Samples batch =
      testing::random_samples(24, TinyNet::kSide, static_cast<std::uint64_t>(step) + 100);
  std::vector<Samples> shards;
  std::int64_t begin = 0;
  for (int rank = 0; rank < ranks.world; ++rank) {
    const std::int64_t end = begin + sizes.at(static_cast<std::size_t>(rank));
    if (rank >= ranks.first && rank < ranks.first + ranks.count) {
      shards.push_back(cut(batch, begin, end));
    }
    begin = end;
  }
  return shards;
}

struct Trained {
  std::vector<double> weights;
  std::vector<double> losses;
  std::vector<std::int64_t> samples;
};

Trained train(TinyParallel& trainer, const std::vector<std::int64_t>& sizes) {
  Trained trained;
  for (int step = 0; step < kSteps; ++step) {
    const DataParallelReport report = trainer.step(shards_of(sizes, trainer.ranks(), step));
    trained.losses.push_back(report.loss);
    trained.samples.push_back(report.sample_count);
  }
  trained.weights = testing::weights_of(trainer.snapshot());
  return trained;
}

Trained in_one_process(int devices, const std::vector<std::int64_t>& sizes) {
  const Runtime runtime(testing::cpu_devices(devices));
  TinyParallel trainer(runtime,
                       tiny_net(runtime),
                       testing::loss_in<TinyNet>(DType::f32),
                       options_of(runtime, ProcessGroup::alone()));
  return train(trainer, sizes);
}

// Runs `body` with the trainer of each process of these device counts.
void with_trainers(const std::vector<int>& devices,
                   const std::function<void(TinyParallel&)>& body,
                   const std::function<Tensor(const TinyNet&, Samples&, WorkerContext&)>& loss =
                       testing::loss_in<TinyNet>(DType::f32),
                   const std::function<void(DataParallelOptions&)>& change = {}) {
  const int size = static_cast<int>(devices.size());
  FakeNetwork network(size);
  as_processes(network, size, [&](const ProcessGroup& group) {
    const Runtime runtime(testing::cpu_devices(devices[static_cast<std::size_t>(group.rank())]));
    DataParallelOptions options = options_of(runtime, group);
    if (change) {
      change(options);
    }
    TinyParallel trainer(
        runtime, tiny_net(runtime, static_cast<std::uint64_t>(group.rank()) + 3), loss, options);
    body(trainer);
  });
}

std::vector<Trained> in_processes(const std::vector<int>& devices,
                                  const std::vector<std::int64_t>& sizes) {
  std::vector<Trained> all(devices.size());
  with_trainers(devices, [&](TinyParallel& trainer) {
    all[static_cast<std::size_t>(trainer.processes().rank())] = train(trainer, sizes);
  });
  return all;
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& exception) {
    return std::string(name(exception.code())) + ": " + exception.error().text;
  }
  return "no error";
}

// The models of the processes begin with different weights: those of process 0 hold.
TEST(DataParallelProcesses, HaveTheBitsOfOneProcess) {
  const std::vector<std::int64_t> sizes{12, 12};
  const Trained expected = in_one_process(2, sizes);
  for (const Trained& found : in_processes({1, 1}, sizes)) {
    EXPECT_EQ(found.weights, expected.weights);
    EXPECT_EQ(found.losses, expected.losses);
    EXPECT_THAT(found.samples, Each(24));
  }
}

TEST(DataParallelProcesses, OfDifferentSizesHaveTheBitsOfOneProcess) {
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{9, 0, 15}, {8, 7, 9}}) {
    const Trained expected = in_one_process(3, sizes);
    for (const Trained& found : in_processes({2, 1}, sizes)) {
      EXPECT_EQ(found.weights, expected.weights);
      EXPECT_EQ(found.losses, expected.losses);
    }
  }
}

// A loss with a weight: targets of class 0 do not count, and rank 0 has no others in its first
// step.
TEST(DataParallelProcesses, WithWeightedLossesHaveTheBitsOfOneProcess) {
  const auto loss = [is_first = true](
                        const TinyNet& model, Samples& shard, WorkerContext& context) mutable {
    if (std::exchange(is_first, false) && context.rank == 0) {
      std::ranges::fill(shard.classes, 0);
    }
    const Tensor pixels =
        Tensor::from(context.device, shard.pixels, {shard.size, 1, shard.side, shard.side})
            .to(DType::f32);
    return cross_entropy_sum(model.forward(pixels),
                             Tensor::from(context.device, shard.classes, {shard.size}),
                             {.ignore_index = 0});
  };
  const auto trained = [&](const Runtime& runtime, ProcessGroup group) {
    TinyParallel trainer(runtime, tiny_net(runtime), loss, options_of(runtime, std::move(group)));
    return train(trainer, {12, 12});
  };
  const Runtime both(testing::cpu_devices(2));
  const Trained expected = trained(both, ProcessGroup::alone());
  FakeNetwork network(2);
  as_processes(network, 2, [&](const ProcessGroup& group) {
    const Runtime runtime(testing::cpu_devices(1));
    const Trained found = trained(runtime, group);
    EXPECT_EQ(found.weights, expected.weights);
    EXPECT_EQ(found.losses, expected.losses);
  });
}

// Runs step 1 with `loss`, whose failure must reach both processes; then a step that succeeds.
void expect_common_failure(
    const std::function<Tensor(const TinyNet&, Samples&, WorkerContext&)>& loss,
    const std::string& text) {
  std::vector<std::vector<double>> weights(2);
  with_trainers(
      {1, 1},
      [&](TinyParallel& trainer) {
        const std::vector<double> before = testing::weights_of(trainer.snapshot());
        const std::string first = error_of([&] {
          static_cast<void>(trainer.step(shards_of({12, 12}, trainer.ranks(), 1)));
        });
        EXPECT_THAT(first, HasSubstr(text)) << "process " << trainer.processes().rank();
        EXPECT_EQ(testing::weights_of(trainer.snapshot()), before);
        static_cast<void>(trainer.step(shards_of({12, 12}, trainer.ranks(), 2)));
        EXPECT_EQ(trainer.statistics().failed_steps, 1);
        weights[static_cast<std::size_t>(trainer.processes().rank())] =
            testing::weights_of(trainer.snapshot());
      },
      loss);
  EXPECT_EQ(weights[0], weights[1]);
}

// A loss that fails on rank 1 in its first step.
auto failing_once(std::function<Tensor(Tensor loss)> failure) {
  return [failure = std::move(failure), is_first = true](
             const TinyNet& model, Samples& shard, WorkerContext& context) mutable {
    const Tensor loss = testing::mean_loss(model, shard, context.device, DType::f32);
    return std::exchange(is_first, false) && context.rank == 1 ? failure(loss) : loss;
  };
}

TEST(DataParallelProcesses, FailTogetherAfterAnExceptionInOne) {
  expect_common_failure(failing_once([](const Tensor&) -> Tensor {
                          throw std::runtime_error("the cat sat on rank 1");
                        }),
                        "worker_failed");
}

TEST(DataParallelProcesses, FailTogetherAfterALossThatIsNotFinite) {
  expect_common_failure(failing_once([](const Tensor& loss) {
                          return loss * std::numeric_limits<double>::quiet_NaN();
                        }),
                        "non_finite");
}

// The error of a class out of range is found on the device, after the loss function has returned.
TEST(DataParallelProcesses, FailTogetherAfterAPoisonedGradient) {
  expect_common_failure(
      [is_first = true](const TinyNet& model, Samples& shard, WorkerContext& context) mutable {
        if (std::exchange(is_first, false) && context.rank == 1) {
          shard.classes.front() = 99;
        }
        return testing::mean_loss(model, shard, context.device, DType::f32);
      },
      "out_of_range");
}

// The only rank of process 1 hangs in its loss function, and no other rank there waits for it.
TEST(DataParallelProcesses, EndAfterTheStepLimitOfAStepWhoseRankHangs) {
  detail::Mailbox<bool> has_ended;
  with_trainers(
      {1, 1},
      [&](TinyParallel& trainer) {
        const std::string error = error_of([&] {
          static_cast<void>(trainer.step(shards_of({12, 12}, trainer.ranks(), 1)));
        });
        EXPECT_THAT(error, HasSubstr("collective_failed"));
        if (trainer.processes().is_first()) {
          EXPECT_THAT(error, HasSubstr("did not take part within 900"));
          has_ended.push(true);
        }
      },
      [&](const TinyNet& model, Samples& shard, WorkerContext& context) {
        if (context.rank == 1) {
          EXPECT_TRUE(has_ended.pop(Deadline::in(std::chrono::seconds(30))).has_value());
        }
        return testing::mean_loss(model, shard, context.device, DType::f32);
      },
      [](DataParallelOptions& options) {
        options.step_limit = std::chrono::milliseconds(500);
        options.deadline = std::chrono::milliseconds(200);
      });
}

TEST(DataParallelProcesses, FailTogetherBeforeAStepThatOneCannotBegin) {
  with_trainers({1, 1}, [](TinyParallel& trainer) {
    const bool is_first = trainer.processes().is_first();
    const std::string error = error_of([&] {
      static_cast<void>(is_first ? trainer.step({})
                                 : trainer.step(shards_of({12, 12}, trainer.ranks(), 1)));
    });
    EXPECT_THAT(error, HasSubstr("0 shards for 1 devices"));
    EXPECT_NO_THROW(static_cast<void>(trainer.step(shards_of({12, 12}, trainer.ranks(), 2))));
  });
}

// A shard that throws when it is moved to its rank, if `breaks` is set.
struct FragileShard {
  explicit FragileShard(Samples all, bool does_break = false)
      : samples(std::move(all)), size(samples.size), breaks(does_break) {}
  FragileShard(FragileShard&& other)  // NOLINT(performance-noexcept-move-constructor)
      : samples(std::move(other.samples)), size(other.size), breaks(other.breaks) {
    if (breaks) {
      throw std::runtime_error("the shard broke");
    }
  }
  FragileShard& operator=(FragileShard&&) = default;
  FragileShard(const FragileShard&) = delete;
  FragileShard& operator=(const FragileShard&) = delete;
  ~FragileShard() = default;

  Samples samples;
  std::int64_t size;
  bool breaks;
};

TEST(DataParallelProcesses, FailTogetherBeforeAStepWhoseShardCannotBeHandedOver) {
  FakeNetwork network(2);
  as_processes(network, 2, [&](const ProcessGroup& group) {
    const Runtime runtime(testing::cpu_devices(1));
    DataParallel<TinyNet, FragileShard> trainer(
        runtime,
        tiny_net(runtime),
        [](const TinyNet& model, FragileShard& shard, WorkerContext& context) {
          return testing::mean_loss(model, shard.samples, context.device, DType::f32);
        },
        options_of(runtime, group));
    const auto shards = [&](bool breaks) {
      std::vector<FragileShard> all;
      all.emplace_back(std::move(shards_of({12, 12}, trainer.ranks(), 1).front()), breaks);
      return all;
    };
    EXPECT_THAT(error_of([&] { static_cast<void>(trainer.step(shards(!group.is_first()))); }),
                HasSubstr("the shard broke"));
    EXPECT_NO_THROW(static_cast<void>(trainer.step(shards(false))));
    EXPECT_EQ(trainer.statistics().steps, 1);
  });
}

// After it the processes differ, until all of them load a state.
TEST(DataParallelProcesses, AChangeThatFailsInOneIsToldByAllAndEndsTheSteps) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "state.safetensors";
  std::vector<std::vector<double>> weights(2);
  with_trainers({1, 1}, [&](TinyParallel& trainer) {
    const auto step = [&] {
      static_cast<void>(trainer.step(shards_of({12, 12}, trainer.ranks(), 1)));
    };
    const bool is_first = trainer.processes().is_first();
    const auto change = [&](bool fails) {
      trainer.update_replicas([fails](TinyNet& model, Optimizer&) {
        if (fails) {
          throw std::runtime_error("no such file");
        }
        model.second.bias = zeros_like(model.second.bias.value());
      });
    };
    trainer.save(file);
    EXPECT_NO_THROW(change(false));
    EXPECT_NO_THROW(step());
    EXPECT_THAT(error_of([&] { change(true); }), HasSubstr("its function threw"));
    EXPECT_NO_THROW(step()) << "nothing has changed in either";
    EXPECT_THAT(error_of([&] { change(!is_first); }),
                HasSubstr("worker 1 on cpu:0: its function threw"));
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(error_of(step), HasSubstr("so the models differ: load() a saved state"));
    }
    static_cast<void>(trainer.load(file));
    EXPECT_NO_THROW(step());
    weights[is_first ? 0 : 1] = testing::weights_of(trainer.snapshot());
  });
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(DataParallelProcesses, ARateThatOneRejectsEndsTheSteps) {
  with_trainers({1, 1}, [](TinyParallel& trainer) {
    const auto step = [&] {
      static_cast<void>(trainer.step(shards_of({12, 12}, trainer.ranks(), 1)));
    };
    EXPECT_THAT(error_of([&] { trainer.set_learning_rate(-1); }), HasSubstr("invalid_argument"));
    EXPECT_NO_THROW(step()) << "nothing has changed in either";
    static_cast<void>(
        error_of([&] { trainer.set_learning_rate(trainer.processes().is_first() ? 0.2 : -1); }));
    EXPECT_THAT(error_of(step), HasSubstr("so the models differ"));
  });
}

// The loss of rank 1 overflows in the second step.
TEST(DataParallelProcesses, SkipAStepThatOverflowsInOne) {
  const auto loss = [calls = 0](
                        const TinyNet& model, Samples& shard, WorkerContext& context) mutable {
    const double factor = ++calls == 2 && context.rank == 1 ? 1e38 : 1;
    const Tensor pixels =
        Tensor::from(context.device, shard.pixels, {shard.size, 1, shard.side, shard.side})
            .to(DType::f16);
    return cross_entropy(model.forward(pixels).to(DType::f32),
                         Tensor::from(context.device, shard.classes, {shard.size})) *
           factor;
  };
  std::vector<std::vector<double>> weights(2);
  with_trainers(
      {1, 1},
      [&](TinyParallel& trainer) {
        const auto step = [&](int number) {
          return trainer.step(shards_of({12, 12}, trainer.ranks(), number)).scale;
        };
        const StepScale first = step(1);
        EXPECT_FALSE(first.is_skipped);
        EXPECT_EQ(first.loss_scale, 65536);
        const std::vector<double> before = testing::weights_of(trainer.snapshot());
        const StepScale second = step(2);
        EXPECT_TRUE(second.is_skipped);
        EXPECT_EQ(second.loss_scale, 65536);
        EXPECT_EQ(testing::weights_of(trainer.snapshot()), before);
        const StepScale third = step(3);
        EXPECT_FALSE(third.is_skipped);
        EXPECT_EQ(third.loss_scale, 32768);
        weights[trainer.processes().is_first() ? 0 : 1] = testing::weights_of(trainer.snapshot());
        EXPECT_NE(weights[trainer.processes().is_first() ? 0 : 1], before);
      },
      loss,
      [](DataParallelOptions& options) { options.precision.compute = DType::f16; });
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(DataParallelProcesses, ExchangeGradientsOf16BitsWithTheBitsOfOneProcess) {
  const std::vector<std::int64_t> sizes{12, 12};
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Runtime both(testing::cpu_devices(2));
    DataParallelOptions options = options_of(both, ProcessGroup::alone());
    options.precision.gradients = dtype;
    TinyParallel alone(both, tiny_net(both), testing::loss_in<TinyNet>(DType::f32), options);
    const Trained expected = train(alone, sizes);
    EXPECT_NE(expected.weights, in_one_process(2, sizes).weights) << "rounded";
    with_trainers(
        {1, 1},
        [&](TinyParallel& trainer) {
          const Trained found = train(trainer, sizes);
          EXPECT_EQ(found.weights, expected.weights);
          EXPECT_EQ(found.losses, expected.losses);
          std::uint64_t elements = 0;
          for (const GradientBucket& bucket : trainer.buckets().buckets()) {
            EXPECT_EQ(bucket.dtype, dtype);
            elements += static_cast<std::uint64_t>(bucket.element_count);
          }
          EXPECT_EQ(trainer.statistics().bytes, 2 * elements * kSteps);
        },
        testing::loss_in<TinyNet>(DType::f32),
        [dtype](DataParallelOptions& own) { own.precision.gradients = dtype; });
  }
}

TEST(DataParallelProcesses, WithDifferentSettingsAreRejected) {
  struct Case {
    std::function<void(DataParallelOptions&)> change;  // in process 1
    std::string first;
    std::string second;
  };
  const Adam::Config adam{.learning_rate = 0.1};
  const std::vector<Case> cases{
      {[](DataParallelOptions& options) { options.seed = 8; }, "seed 5", "seed 8"},
      {[](DataParallelOptions& options) { options.precision.compute = DType::bf16; },
       "precision.compute f32",
       "precision.compute bf16"},
      {[](DataParallelOptions& options) { options.precision.gradients = DType::bf16; },
       "precision.gradients f32",
       "precision.gradients bf16"},
      {[&](DataParallelOptions& options) {
         Adam::Config other = adam;
         other.beta1 = 0.8;
         options.optimizer = other;
       },
       "beta1 0.9",
       "beta1 0.8"},
      {[&](DataParallelOptions& options) { options.optimizer = Sgd::Config{.momentum = 0.9}; },
       "optimizer Adam",
       "optimizer Sgd"},
      {[](DataParallelOptions& options) { options.step_limit = std::chrono::seconds(7); },
       "step_limit 60000 ms",
       "step_limit 7000 ms"},
      {[](DataParallelOptions& options) { options.deadline = std::chrono::seconds(4); },
       "deadline 5000 ms",
       "deadline 4000 ms"},
  };
  for (const Case& each : cases) {
    FakeNetwork network(2);
    as_processes(network, 2, [&](const ProcessGroup& group) {
      const Runtime runtime(testing::cpu_devices(1));
      DataParallelOptions options = options_of(runtime, group);
      options.optimizer = adam;
      if (!group.is_first()) {
        each.change(options);
      }
      EXPECT_THAT(error_of([&] {
                    const TinyParallel trainer(
                        runtime, tiny_net(runtime), testing::loss_in<TinyNet>(DType::f32), options);
                  }),
                  AllOf(HasSubstr("the processes differ: process 1"),
                        HasSubstr("has " + each.second + ", process 0"),
                        HasSubstr("has " + each.first)))
          << "process " << group.rank();
    });
  }
}

TEST(DataParallelProcesses, WithAWeightedLossInOneAreRejected) {
  FakeNetwork network(2);
  as_processes(network, 2, [&](const ProcessGroup& group) {
    const Runtime runtime(testing::cpu_devices(1));
    const auto weighted = [](const TinyNet& model, Samples& shard, WorkerContext& context) {
      return LossSum{.sum = testing::mean_loss(model, shard, context.device, DType::f32),
                     .weight = full(context.device, {1}, 1)};
    };
    EXPECT_THAT(error_of([&] {
                  const DataParallelOptions options = options_of(runtime, group);
                  if (group.is_first()) {
                    const TinyParallel trainer(
                        runtime, tiny_net(runtime), testing::loss_in<TinyNet>(DType::f32), options);
                  } else {
                    const TinyParallel trainer(runtime, tiny_net(runtime), weighted, options);
                  }
                }),
                AllOf(HasSubstr("has weight of the loss possible, process 0"),
                      HasSubstr("has weight of the loss none")))
        << "process " << group.rank();
  });
}

TEST(DataParallelProcesses, RejectAPolicyOrAnEngineOfOneProcess) {
  FakeNetwork network(2);
  as_processes(network, 2, [&](const ProcessGroup& group) {
    const Runtime runtime(testing::cpu_devices(1));
    DataParallelOptions options = options_of(runtime, group);
    options.on_loss = DeviceLossPolicy::shrink;
    EXPECT_THAT(error_of([&] {
                  const TinyParallel trainer(
                      runtime, tiny_net(runtime), testing::loss_in<TinyNet>(DType::f32), options);
                }),
                HasSubstr("on_loss must be DeviceLossPolicy::stop"));
  });
}

TEST(DataParallelProcesses, ResumeFromAFileWithTheirBits) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / "hearth_processes_resume";
  std::filesystem::create_directories(folder);
  const std::filesystem::path file = folder / "state.safetensors";
  const std::vector<std::int64_t> sizes{12, 12};
  std::vector<std::vector<double>> whole(2);
  std::vector<std::vector<double>> resumed(2);
  with_trainers({1, 1}, [&](TinyParallel& trainer) {
    for (int step = 0; step < 4; ++step) {
      if (step == 2) {
        trainer.save(file);
      }
      static_cast<void>(trainer.step(shards_of(sizes, trainer.ranks(), step)));
    }
    whole[static_cast<std::size_t>(trainer.processes().rank())] =
        testing::weights_of(trainer.snapshot());
  });
  with_trainers({1, 1}, [&](TinyParallel& trainer) {
    static_cast<void>(trainer.load(file));
    for (int step = 2; step < 4; ++step) {
      static_cast<void>(trainer.step(shards_of(sizes, trainer.ranks(), step)));
    }
    resumed[static_cast<std::size_t>(trainer.processes().rank())] =
        testing::weights_of(trainer.snapshot());
  });
  EXPECT_EQ(resumed, whole);
  EXPECT_EQ(whole[0], whole[1]);
  std::filesystem::remove_all(folder);
}

TEST(DataParallelProcesses, FailTogetherWhenTheFirstCannotWrite) {
  with_trainers({1, 1}, [&](TinyParallel& trainer) {
    EXPECT_THAT(error_of([&] { trainer.save("/proc/no_folder/state.safetensors"); }),
                HasSubstr("io_error"));
    EXPECT_NO_THROW(static_cast<void>(trainer.step(shards_of({12, 12}, trainer.ranks(), 1))));
  });
}

}  // namespace
}  // namespace hearth
