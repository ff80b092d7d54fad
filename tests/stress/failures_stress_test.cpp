// Real threads while work fails or is cancelled: cancels, deadlines, failures that several threads
// read, runtimes that close with unread failures. STRESS_ROUNDS scales them.
#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/modules/adam.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/parallel/frozen.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

namespace hearth::testing {
namespace {

int rounds(int usual) {
  const char* text =
      std::getenv("STRESS_ROUNDS");  // NOLINT(concurrency-mt-unsafe): before any thread
  return text == nullptr ? usual : std::stoi(text);
}

/// Runs fn(i) on `count` threads at once.
template <class Fn>
void on_threads(std::size_t count, const Fn& fn) {
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&fn, i] { fn(i); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

RuntimeOptions cpus(int count) {
  RuntimeOptions options{.devices = {}};
  for (int i = 0; i < count; ++i) {
    options.devices.push_back({.name = "cpu:" + std::to_string(i)});
  }
  return options;
}

/// A value that fails: there are only two classes.
Tensor failing(const Device& device) {
  return cross_entropy(zeros(device, {1, 2}),
                       Tensor::from(device, std::vector<std::int64_t>{7}, {1}));
}

/// The code of the error that a call throws; empty if it does not throw.
template <class Fn>
std::optional<ErrorCode> code_of(const Fn& fn) {
  try {
    fn();
  } catch (const Exception& error) {
    return error.code();
  }
  return std::nullopt;
}

// One thread keeps its lane full; a second one uses the results, while the first one's stream is
// cancelled repeatedly.
TEST(FailuresStress, AStreamIsCancelledWhileItsLaneIsFullAndAnotherUsesItsTensors) {
  const Runtime runtime(cpus(1));
  const Device device = runtime.device("cpu:0");
  {
    Stream stream(device);
    std::atomic<bool> is_over{false};
    std::thread canceller([&] {
      while (!is_over.load(std::memory_order_acquire)) {
        stream.cancel();
        std::this_thread::yield();
      }
    });
    on_threads(2, [&](std::size_t me) {
      if (me == 1) {
        for (int i = 0; i < rounds(40); ++i) {  // a stream that is not cancelled
          EXPECT_EQ(sum(full(device, {8}, 2)).item(), 16);
        }
        return;
      }
      const StreamScope scope(stream);
      for (int i = 0; i < rounds(40); ++i) {
        stream.set_limits({.deadline = i % 4 == 0 ? Deadline::in(std::chrono::microseconds(300))
                                                  : Deadline::never()});
        const auto code = code_of([&] {
          Tensor x = full(device, {4}, 1.0);
          for (int k = 0; k < 300; ++k) {  // more than a lane holds
            x = std::move(x) + 1.0;
          }
          x.publish();
          double seen = 0;
          std::optional<ErrorCode> elsewhere;
          std::thread([&] { elsewhere = code_of([&] { seen = sum(x).item(); }); }).join();
          if (!elsewhere) {
            EXPECT_EQ(seen, 4 * 301);
          }
          EXPECT_TRUE(!elsewhere || elsewhere == ErrorCode::cancelled ||
                      elsewhere == ErrorCode::deadline_exceeded)
              << name(*elsewhere);
        });
        EXPECT_TRUE(!code || code == ErrorCode::cancelled || code == ErrorCode::deadline_exceeded)
            << name(*code);
      }
      stream.set_limits({});
    });
    is_over.store(true, std::memory_order_release);
    canceller.join();
    const StreamScope scope(stream);
    EXPECT_EQ(sum(full(device, {8}, 1)).item(), 8);
  }
  device.sync();
  EXPECT_EQ(device.memory().live_tensor_count, 0);
}

// Each thread makes failures, reads its own and those of its neighbour, and drops some unread.
TEST(FailuresStress, SeveralThreadsReadTheSameFailuresWhileOthersComeUp) {
  constexpr std::size_t kThreads = 4;
  ::testing::internal::CaptureStderr();
  {
    const Runtime runtime(cpus(2));
    const std::array devices{runtime.device("cpu:0"), runtime.device("cpu:1")};
    const Tensor shared = failing(devices[0]);
    shared.publish();
    std::atomic<bool> is_over{false};
    std::thread counter([&] {
      while (!is_over.load(std::memory_order_acquire)) {
        EXPECT_LE(devices[1].failures().unread_count(), 100'000U);
        std::this_thread::yield();
      }
    });
    on_threads(kThreads, [&](std::size_t me) {
      const Device& device = devices[me % 2];
      for (int i = 0; i < rounds(60); ++i) {
        const Tensor mine = failing(device);
        const Tensor heir = shared.to(device) + mine;
        if (i % 3 != 0) {  // otherwise it is dropped unread
          EXPECT_EQ(code_of([&] { static_cast<void>(heir.item()); }), ErrorCode::out_of_range);
        }
        if (i % 5 == 0) {
          EXPECT_EQ(code_of([&] { static_cast<void>(shared.item()); }), ErrorCode::out_of_range);
          static_cast<void>(code_of([&] { device.sync(); }));
        }
        EXPECT_EQ((ones(device, {3}) * 2.0).to_vector<float>(), std::vector<float>(3, 2));
      }
    });
    is_over.store(true, std::memory_order_release);
    counter.join();
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("unread failure"));
}

// sync() throws the failure of the caller's own stream, once, whatever other threads do.
TEST(FailuresStress, SyncFromManyThreadsThrowsEachItsOwnFailureOnce) {
  const Runtime runtime(cpus(2));
  on_threads(6, [&](std::size_t me) {
    const Device device = runtime.device(me % 2 == 0 ? "cpu:0" : "cpu:1");
    Stream stream(device);
    const StreamScope scope(stream);
    for (int i = 0; i < rounds(60); ++i) {
      const bool fails = (static_cast<std::size_t>(i) + me) % 3 == 0;
      const Tensor made = fails ? failing(device) : ones(device, {4});
      const auto code = code_of([&] { device.sync(); });
      EXPECT_EQ(code, fails ? std::optional(ErrorCode::out_of_range) : std::nullopt);
      EXPECT_EQ(code_of([&] { device.sync(); }), std::nullopt) << "told once";
    }
  });
  for (const char* name : {"cpu:0", "cpu:1"}) {
    EXPECT_EQ(runtime.device(name).failures().unread_count(), 0U);
    EXPECT_EQ(runtime.device(name).memory().live_tensor_count, 0);
  }
}

struct TwoLayers {
  Linear inner, outer;
  TwoLayers(const Device& device, Generator& generator)
      : inner({.in = 6, .out = 16}, device, generator),
        outer({.in = 16, .out = 3}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return outer.forward(relu(inner.forward(x)));
  }
  HEARTH_MODULE(TwoLayers, inner, outer)
};

// Clients of one frozen model: some disconnect, some are late; every answer is right.
TEST(FailuresStress, AServedModelAnswersRightWhileRequestsAreGivenUp) {
  const Runtime runtime(cpus(1));
  const Device device = runtime.device("cpu:0");
  {
    Generator generator(2);
    const Frozen<TwoLayers> model = freeze(TwoLayers(device, generator));
    const std::vector<float> question(6, 0.25F);
    const std::vector<float> want =
        model->forward(Tensor::from(device, question, {1, 6})).to_vector<float>();
    std::atomic<int> answered{0};
    on_threads(6, [&](std::size_t me) {
      Stream stream(device);
      const StreamScope scope(stream);
      for (int i = 0; i < rounds(60); ++i) {
        std::stop_source client;
        const int kind = (i + static_cast<int>(me)) % 4;
        stream.set_limits(
            {.deadline = kind == 0 ? Deadline::in(std::chrono::microseconds(i)) : Deadline::never(),
             .stop = client.get_token()});
        const auto code = code_of([&] {
          const Tensor answer = model->forward(Tensor::from(device, question, {1, 6}));
          std::optional<std::thread> hangs_up;
          if (kind == 1) {
            hangs_up.emplace([&] { client.request_stop(); });
          }
          const auto read = code_of([&] { EXPECT_EQ(answer.to_vector<float>(), want); });
          if (hangs_up) {
            hangs_up->join();
          }
          if (read) {
            throw Exception(Error{.code = *read, .text = "read"});
          }
        });
        answered.fetch_add(code ? 0 : 1, std::memory_order_relaxed);
        EXPECT_TRUE(!code || (kind == 0 && code == ErrorCode::deadline_exceeded) ||
                    (kind == 1 && code == ErrorCode::cancelled))
            << name(*code);
      }
    });
    EXPECT_GE(answered.load(), 3 * rounds(60)) << "half of the requests have no limit";
  }
  device.sync();
  EXPECT_EQ(device.memory().live_tensor_count, 0);
}

// Three devices have unread failures; threads still produce more when the runtime closes.
TEST(FailuresStress, RuntimesEndWithUnreadFailuresOfSeveralDevices) {
  for (int round = 0; round < rounds(60) / 6; ++round) {
    std::vector<Tensor> left_over(3);
    ::testing::internal::CaptureStderr();
    {
      const Runtime runtime(cpus(3));
      on_threads(3, [&](std::size_t me) {
        const Device device = runtime.device("cpu:" + std::to_string(me));
        for (int i = 0; i < 4; ++i) {
          left_over[me] = failing(device) + 1.0;
        }
        if (round % 2 == 0) {
          static_cast<void>(device.catch_up_later().wait());
        }
      });
    }
    const std::string log = ::testing::internal::GetCapturedStderr();
    if (round % 2 == 0) {
      EXPECT_THAT(log, ::testing::HasSubstr("12 failures were never read"));
    }
    for (const Tensor& each : left_over) {
      EXPECT_NE(code_of([&] { static_cast<void>(each.item()); }), std::nullopt);
    }
  }
}

void train(TwoLayers& model, int steps) {
  const Tensor x = full(model.inner.weight.device(), {4, 6}, 0.5);
  Adam adam({.learning_rate = 1e-2});
  for (int i = 0; i < steps; ++i) {
    auto gradients = value_and_grad(model, [&](const TwoLayers& tracked) {
                       return mean(square(tracked.forward(x)));
                     }).gradients;
    adam.step(model, std::move(gradients)).get();
  }
}

std::vector<float> weights_of(const TwoLayers& model) {
  std::vector<float> all;
  model.visit("", [&](const std::string&, const Tensor& tensor) {
    const std::vector<float> some = tensor.to_vector<float>();
    all.insert(all.end(), some.begin(), some.end());
  });
  return all;
}

// Forks of a model train on workers and move among them, while the model itself trains here: all
// end with the bits of a model without forks.
TEST(FailuresStress, ForksMoveBetweenWorkersWhileTheirParentTrains) {
  constexpr int kSteps = 3;
  const Runtime runtime(cpus(2));
  const Device first = runtime.device("cpu:0");
  const Device second = runtime.device("cpu:1");
  Generator generator(4);
  const TwoLayers original(first, generator);
  TwoLayers alone = fork(original, first);
  train(alone, kSteps);
  train(alone, kSteps);
  const std::vector<float> want = weights_of(alone);
  const auto work = [](WorkerContext&, TwoLayers model) {
    train(model, kSteps);
    return model;
  };
  DeviceWorker here(runtime, first);
  DeviceWorker next(runtime, first);
  DeviceWorker there(runtime, second);
  for (int i = 0; i < rounds(60) / 6; ++i) {
    TwoLayers parent = fork(original, first);
    Pending<TwoLayers> moved = here.run(work, fork(parent, first));
    Pending<TwoLayers> copied = there.run(work, fork(parent, second));
    train(parent, kSteps);
    moved = next.run(work, std::move(moved).get());
    copied = there.run(work, std::move(copied).get());
    train(parent, kSteps);
    EXPECT_EQ(weights_of(parent), want);
    EXPECT_EQ(weights_of(std::move(moved).get()), want);
    EXPECT_EQ(weights_of(std::move(copied).get()), want);
  }
}

}  // namespace
}  // namespace hearth::testing
