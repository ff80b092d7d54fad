// Real threads: hand-overs, drops that race uses, models trained side by side, runtimes that close
// with work in flight. STRESS_ROUNDS scales the long ones.
#include <atomic>
#include <cstdlib>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/crowd.hpp"

#include <hearth/modules/adam.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/sync.hpp>
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

double train(const Device& device, std::uint64_t seed, int steps) {
  Generator generator(seed);
  TwoLayers model(device, generator);
  Adam adam({.learning_rate = 1e-2});
  const Tensor x = random_normal(device, {12, 6}, generator);
  const Tensor y = cast(random_uniform(device, {12}, generator, 0, 3), DType::i64);
  double last = 0;
  for (int i = 0; i < steps; ++i) {
    auto [loss, gradients] = value_and_grad(
        model, [&](const TwoLayers& tracked) { return cross_entropy(tracked.forward(x), y); });
    const Pending<StepReport> report = adam.step(model, std::move(gradients));
    last = loss.item();
  }
  return last;
}

TEST(ManyThreads, TwoModelsTrainSideBySideAsAlone) {
  const Runtime runtime({.devices = crowded({{.name = "cpu:0"}})});
  const Device device = runtime.device("cpu:0");
  const int steps = 40;
  const double alone_a = train(device, 1, steps);
  const double alone_b = train(device, 2, steps);
  double a = 0;
  double b = 0;
  std::thread first([&] { a = train(device, 1, steps); });
  std::thread second([&] { b = train(device, 2, steps); });
  first.join();
  second.join();
  EXPECT_EQ(a, alone_a);
  EXPECT_EQ(b, alone_b);
  EXPECT_EQ(device.memory().live_tensor_count, 0);
}

// Requests of four streams, while another thread stops some, cancels others, and deadlines pass:
// every answer is right.
TEST(ManyThreads, RequestsAreGivenUpByOthersAtAnyTime) {
  constexpr std::size_t kClients = 4;
  const Runtime runtime({.devices = crowded({{.name = "cpu:0"}})});
  const Device device = runtime.device("cpu:0");
  const int requests = rounds(200);
  {
    const Tensor weights = full(device, {8, 8}, 0.5);
    weights.publish();
    std::vector<Stream> streams;
    std::vector<std::stop_source> stops(kClients);
    detail::Mutex mutex;  // guards the stops, which clients replace
    std::vector<std::thread> threads;
    std::atomic<std::size_t> left{kClients};
    for (std::size_t me = 0; me < kClients; ++me) {
      streams.emplace_back(device);
    }
    for (std::size_t me = 0; me < kClients; ++me) {
      threads.emplace_back([&, me] {
        const StreamScope scope(streams[me]);
        for (int i = 0; i < requests; ++i) {
          StreamLimits limits;
          if (i % 3 == 0) {
            limits.deadline = Deadline::in(std::chrono::microseconds(i % 50));
          } else {
            const detail::MutexLock lock(mutex);
            stops[me] = std::stop_source();
            limits.stop = stops[me].get_token();
          }
          streams[me].set_limits(limits);
          try {
            Tensor x = full(device, {1, 8}, 1.0);
            for (int layer = 0; layer < 5; ++layer) {
              x = matmul(std::move(x), weights) * 0.25;
            }
            EXPECT_EQ(x.to_vector<float>(), std::vector<float>(8, 1.0F));
          } catch (const Exception& error) {
            EXPECT_TRUE(error.code() == ErrorCode::cancelled ||
                        error.code() == ErrorCode::deadline_exceeded)
                << error.what();
          }
        }
        left.fetch_sub(1, std::memory_order_acq_rel);
      });
    }
    for (std::size_t turn = 0; left.load(std::memory_order_acquire) > 0; ++turn) {
      const std::size_t victim = turn % kClients;
      if (turn % 2 == 0) {
        const detail::MutexLock lock(mutex);
        stops[victim].request_stop();
      } else {
        streams[victim].cancel();
      }
      EXPECT_EQ(weights.element_count(), 64);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (Stream& stream : streams) {  // it works after any number of cancels
      stream.set_limits({});
      const StreamScope scope(stream);
      EXPECT_EQ(full(device, {1}, 3).item(), 3);
    }
  }
  device.sync();
  EXPECT_EQ(device.memory().live_tensor_count, 0);
}

// Four threads pass tensors around a ring; each adds one, keeps copies for a while and drops them
// while other threads still use them.
TEST(ManyThreads, TensorsGoRoundAmongFourThreadsWithDropsRacingUses) {
  constexpr int kThreads = 4;
  const Runtime runtime({.devices = crowded({{.name = "cpu:0"}})});
  const Device device = runtime.device("cpu:0");
  const int turns = rounds(300);
  {
    std::vector<detail::Mailbox<Tensor>> boxes(kThreads);
    std::vector<double> sums(kThreads, 0);
    std::vector<std::thread> threads;
    for (std::size_t me = 0; me < kThreads; ++me) {
      threads.emplace_back([&, me] {
        std::vector<Tensor> kept;
        static_cast<void>(
            boxes[(me + 1) % kThreads].push(full(device, {33}, 0), Deadline::never()));
        for (int i = 0; i < turns; ++i) {
          auto taken = boxes[me].pop(Deadline::in(kDefaultWait));
          ASSERT_TRUE(taken.has_value());
          Tensor tensor = std::move(*taken);
          if (i % 3 == 0) {
            tensor.adopt();
          }
          kept.push_back(tensor);
          Tensor next = i % 2 == 0 ? std::move(tensor) + 1.0 : tensor + 1.0;
          if (i % 5 == 0) {
            next.publish();
          }
          if (kept.size() > 7) {
            kept.erase(kept.begin(), kept.begin() + 4);
          }
          if (i + 1 == turns) {
            sums[me] = mean(next).item();
          } else {
            static_cast<void>(boxes[(me + 1) % kThreads].push(std::move(next), Deadline::never()));
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const double sum : sums) {
      EXPECT_EQ(sum, turns);
    }
  }
  EXPECT_EQ(device.memory().live_tensor_count, 0);
}

// More threads than a tensor tracks use one weight; the owner drops it while their uses are queued.
TEST(ManyThreads, AWeightUsedByEightThreadsOutlivesTheirUses) {
  const Runtime runtime({.devices = crowded({{.name = "cpu:0"}})});
  const Device device = runtime.device("cpu:0");
  for (int round = 0; round < rounds(300) / 10; ++round) {
    Tensor weight = full(device, {64}, 3);
    weight.publish();
    std::vector<double> results(8, 0);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < results.size(); ++t) {
      threads.emplace_back([&results, t, weight] {
        Tensor sum = weight * 1.0;
        for (int i = 0; i < 5; ++i) {
          sum = std::move(sum) + weight;
        }
        results[t] = mean(sum).item();
      });
    }
    weight = Tensor();
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const double result : results) {
      ASSERT_EQ(result, 18);
    }
  }
  EXPECT_EQ(device.memory().live_tensor_count, 0);
}

TEST(ManyThreads, RuntimesEndWithWorkInFlight) {
  const int count = rounds(300);
  for (int i = 0; i < count; ++i) {
    Tensor left_over;
    Pending<double> answer;
    {
      const Runtime runtime({.devices = {{.name = "cpu:0"}, {.name = "reference:0"}}});
      const Device device = runtime.device(i % 2 == 0 ? "cpu:0" : "reference:0");
      std::thread other([device, i] {
        Tensor x = ones(device, {16});
        for (int k = 0; k < i % 50; ++k) {
          x = std::move(x) + 1.0;
        }
      });
      left_over = ones(device, {32, 32});
      for (int k = 0; k < 20; ++k) {
        left_over = matmul(left_over, left_over) * 0.01;
      }
      answer = sum(left_over).item_later();
      other.join();
    }
    const Status status = answer.wait();
    ASSERT_TRUE(status.has_value() || status.error().code == ErrorCode::device_closed)
        << status.error().to_string();
    EXPECT_THROW(static_cast<void>(left_over + 1.0), Exception);
  }
}

TEST(ManyThreads, ShortThreadsMakeAndEndStreams) {
  const Runtime runtime({.devices = crowded({{.name = "cpu:0"}})});
  const Device device = runtime.device("cpu:0");
  const Tensor base = full(device, {8}, 2);
  base.publish();
  const int count = rounds(300);
  for (int i = 0; i < count; ++i) {
    std::thread([&] {
      Stream stream(device);
      const StreamScope scope(stream);
      const Tensor doubled = base * 2;
      if (i % 2 == 0) {
        ASSERT_EQ(mean(doubled).item(), 4);
      }
    }).join();
  }
  device.sync();
}

// Through OpenBLAS where the cpu device uses it: sixteen concurrent callers, against the oracle.
TEST(ManyThreads, SixteenThreadsMultiplyAtOnce) {
  const Runtime runtime(
      {.devices = {{.name = "cpu:0"}, {.name = "cpu:1"}, {.name = "reference:0"}}});
  const Device reference = runtime.device("reference:0");
  Generator generator(5);
  const Tensor a = random_normal(reference, {61, 83}, generator);
  const Tensor b = random_normal(reference, {83, 47}, generator);
  const std::vector<float> want = matmul(a, b).to_vector<float>();
  const std::vector<float> values_a = a.to_vector<float>();
  const std::vector<float> values_b = b.to_vector<float>();
  std::vector<std::thread> threads;
  std::vector<float> worst(16, 0);
  for (std::size_t t = 0; t < worst.size(); ++t) {
    threads.emplace_back([&, t] {
      const Device device = runtime.device(t % 2 == 0 ? "cpu:0" : "cpu:1");
      const Tensor x = Tensor::from(device, values_a, {61, 83});
      const Tensor y = Tensor::from(device, values_b, {83, 47});
      for (int i = 0; i < 20; ++i) {
        const std::vector<float> got = matmul(x, y).to_vector<float>();
        for (std::size_t k = 0; k < want.size(); ++k) {
          worst[t] = std::max(worst[t], std::abs(got[k] - want[k]));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const float difference : worst) {
    EXPECT_LE(difference, 83 * 1e-6F * 4);
  }
}

}  // namespace
}  // namespace hearth::testing
