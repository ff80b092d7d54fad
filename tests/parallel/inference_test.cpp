// Frozen weights under many clients: every answer equals that of a client alone, whatever the other
// clients do.
#include <hearth/parallel/frozen.hpp>
#include <hearth/parallel/served_model.hpp>

#include "training_support.hpp"

#include <hearth/modules/optimizer.hpp>
#include <hearth/runtime/stream.hpp>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;

struct Net {
  Linear first, second;

  Net(const Device& device, Generator& generator)
      : first({.in = 40, .out = 96}, device, generator),
        second({.in = 96, .out = 10}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return second.forward(relu(first.forward(x)));
  }
  HEARTH_MODULE(Net, first, second)
};

struct Bench {
  Runtime runtime{cpu_devices(1)};
  Device device = runtime.device("cpu:0");

  [[nodiscard]] Net net(std::uint64_t seed) const {
    Generator generator(seed);
    return Net(device, generator);
  }
};

std::vector<float> input(int number) {
  std::vector<float> values(40);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((static_cast<int>(i) * 7 + number * 13) % 29) / 29;
  }
  return values;
}

std::vector<float> answer(const Net& net, const Device& device, int number) {
  return net.forward(Tensor::from(device, input(number), {1, 40})).to_vector<float>();
}

constexpr int kInputs = 8;

/// The answer to each input without other clients.
std::vector<std::vector<float>> answers_alone(const Net& net, const Device& device) {
  std::vector<std::vector<float>> answers;
  for (int number = 0; number < kInputs; ++number) {
    answers.push_back(answer(net, device, number));
  }
  return answers;
}

/// Opens when `count` threads have arrived.
class Gate {
 public:
  explicit Gate(int count) : missing_(count) {}
  void arrive() {
    --missing_;
    missing_.notify_all();
  }
  void wait() const {
    for (int left = missing_; left > 0; left = missing_) {
      missing_.wait(left);
    }
  }

 private:
  std::atomic<int> missing_;
};

/// Runs `client(index)` on `count` threads at once, each with its own stream.
void run_clients(const Device& device, int count, const std::function<void(int)>& client) {
  Gate start(count);
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      Stream stream(device);
      const StreamScope scope(stream);
      start.arrive();
      start.wait();
      client(i);
    });
  }
}

TEST(Frozen, SixteenClientsGetTheAnswersTheyGetAloneWithoutForeignCuts) {
  const Bench bench;
  const Frozen<Net> net = freeze(bench.net(1));
  const auto alone = answers_alone(*net, bench.device);
  const MemoryStatistics memory = bench.device.memory();
  const std::uint64_t foreign = bench.device.statistics().foreign_uses;
  std::atomic<int> wrong = 0;
  run_clients(bench.device, 16, [&](int client) {
    for (int i = 0; i < 100; ++i) {
      const int number = (client + i) % kInputs;
      wrong +=
          answer(*net, bench.device, number) == alone[static_cast<std::size_t>(number)] ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(bench.device.statistics().foreign_uses, foreign);
  EXPECT_EQ(bench.device.memory().live_bytes, memory.live_bytes);
  EXPECT_EQ(bench.device.memory().live_tensor_count, memory.live_tensor_count);
}

TEST(Frozen, ClientsOfTwoDevicesGetTheAnswersOfOne) {
  const Runtime runtime(cpu_devices(2));
  Generator generator(1);
  const Net net(runtime.device("cpu:0"), generator);
  const std::array<Frozen<Net>, 2> replicas{freeze(net),
                                            freeze(fork(net, runtime.device("cpu:1")))};
  const auto alone = answers_alone(net, runtime.device("cpu:0"));
  std::atomic<int> wrong = 0;
  run_clients(runtime.device("cpu:0"), 16, [&](int client) {
    const Frozen<Net>& replica = replicas[static_cast<std::size_t>(client) % 2];
    Stream stream(replica.device());
    const StreamScope scope(stream);
    for (int i = 0; i < 50; ++i) {
      const int number = (client + i) % kInputs;
      const bool is_right =
          answer(*replica, replica.device(), number) == alone[static_cast<std::size_t>(number)];
      wrong += is_right ? 0 : 1;
    }
  });
  EXPECT_EQ(wrong, 0);
}

// A client has one request in flight, so it needs the memory of one request, however long it runs.
TEST(Frozen, MemoryGrowsWithTheClientsNotWithTheirRequests) {
  const Bench bench;
  const Frozen<Net> net = freeze(bench.net(1));
  static_cast<void>(answers_alone(*net, bench.device));
  const std::int64_t weights = bench.device.memory().live_bytes;
  constexpr int kClients = 16;
  run_clients(bench.device, kClients, [&](int client) {
    for (int i = 0; i < 200; ++i) {
      static_cast<void>(answer(*net, bench.device, (client + i) % kInputs));
    }
  });
  // Input, hidden values before and after relu, answer; doubled if the rows of all clients are
  // joined.
  constexpr std::int64_t kRequest = 4 * (40 + 96 + 96 + 10);
  EXPECT_LE(bench.device.memory().peak_live_bytes, weights + 2 * kClients * kRequest);
}

TEST(Frozen, SharesTheWeightsAndKeepsThemWhenTheModelIsTrainedOn) {
  const Bench bench;
  Net net = bench.net(1);
  bench.device.sync();
  const std::int64_t before = bench.device.memory().live_bytes;
  const Frozen<Net> frozen = freeze(net);
  EXPECT_EQ(bench.device.memory().live_bytes, before);
  const auto alone = answers_alone(*frozen, bench.device);
  Sgd sgd({.learning_rate = 0.5});
  for (int step = 0; step < 3; ++step) {
    auto result = value_and_grad(net, [&](const Net& tracked) {
      return mean(square(tracked.forward(ones(bench.device, {4, 40}))));
    });
    sgd.step(net, std::move(result.gradients)).get();
  }
  EXPECT_EQ(answers_alone(*frozen, bench.device), alone);
  EXPECT_NE(answers_alone(net, bench.device), alone);
}

TEST(Frozen, ItsMemoryIsNeverReusedInPlaceAndIsFreedWithTheLastCopy) {
  const Bench bench;
  bench.device.sync();
  const std::int64_t before = bench.device.memory().live_tensor_count;
  {
    auto frozen = std::make_optional(freeze(bench.net(1)));
    Net copy = **frozen;
    frozen.reset();
    const auto alone = answers_alone(copy, bench.device);
    const Tensor weight = copy.second.weight;
    const std::vector<float> values = weight.to_vector<float>();
    copy.second.weight = std::move(copy.second.weight) + 1;
    EXPECT_EQ(weight.to_vector<float>(), values);
    EXPECT_NE(answers_alone(copy, bench.device), alone);
  }
  bench.device.sync();
  EXPECT_EQ(bench.device.memory().live_tensor_count, before);
}

TEST(Frozen, RefusesWhatCannotBeServed) {
  const Runtime runtime(cpu_devices(2));
  Generator generator(1);
  Net net(runtime.device("cpu:0"), generator);
  Net split = net;
  split.second = fork(net.second, runtime.device("cpu:1"));
  try {
    static_cast<void>(freeze(split));
    ADD_FAILURE() << "weights on two devices were frozen";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_mismatch);
    EXPECT_THAT(error.what(), HasSubstr("freeze: second.weight is on cpu:1"));
  }
  Net empty = net;
  empty.first.weight = Tensor();
  EXPECT_THROW(static_cast<void>(freeze(empty)), ArgumentError);
  Net failed = net;
  const Device device = runtime.device("cpu:0");
  failed.first.weight =
      failed.first.weight + cross_entropy(zeros(device, {1, 3}), full(device, {1}, 9, DType::i64));
  try {
    static_cast<void>(freeze(failed));
    ADD_FAILURE() << "poisoned weights were frozen";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_range);
  }
}

// One client's requests all fail, one is cancelled, one stops waiting, one drops its stream in
// mid-flight; the other clients are not affected.
TEST(Frozen, AClientThatFailsIsCancelledOrLeavesHarmsNoOther) {
  const Bench bench;
  const Frozen<Net> net = freeze(bench.net(1));
  const auto alone = answers_alone(*net, bench.device);
  const std::int64_t before = bench.device.memory().live_tensor_count;
  std::atomic<int> wrong = 0;
  std::atomic<int> failures = 0;
  std::atomic<int> others_errors = 0;
  constexpr int kRequests = 60;
  run_clients(bench.device, 8, [&](int client) {
    for (int i = 0; i < kRequests; ++i) {
      const int number = (client + i) % kInputs;
      const Tensor x = Tensor::from(bench.device, input(number), {1, 40});
      if (client == 0) {
        const Tensor poison =
            cross_entropy(zeros(bench.device, {1, 3}), full(bench.device, {1}, 9, DType::i64));
        try {
          static_cast<void>(net->forward(x + poison).to_vector<float>());
        } catch (const DeviceError&) {
          ++failures;
        }
      } else if (client == 1) {
        const auto given_up = net->forward(x).read_bytes();
      } else if (client == 2) {
        std::stop_source source;
        auto asked = net->forward(x).read_bytes();
        source.request_stop();
        try {
          static_cast<void>(asked.get({.stop = source.get_token()}));
        } catch (const DeviceError& error) {
          others_errors += error.code() == ErrorCode::cancelled ? 0 : 1;
        }
      } else if (client == 3) {
        Stream brief(bench.device);
        const StreamScope scope(brief);
        const Tensor y = net->forward(x);
      } else {
        wrong +=
            net->forward(x).to_vector<float>() == alone[static_cast<std::size_t>(number)] ? 0 : 1;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(failures, kRequests);
  EXPECT_EQ(others_errors, 0);
  bench.device.sync();
  EXPECT_EQ(bench.device.memory().live_tensor_count, before);
}

TEST(ServedModel, ARequestSeesTheOldWeightsOrTheNewOnesNeverSomeOfEach) {
  const Bench bench;
  const Net even = bench.net(1);
  const Net odd = bench.net(2);
  const std::vector<std::vector<std::vector<float>>> alone{answers_alone(even, bench.device),
                                                           answers_alone(odd, bench.device)};
  bench.device.sync();
  const std::int64_t before = bench.device.memory().live_tensor_count;
  {
    ServedModel<Net> served(freeze(even));
    std::atomic<int> wrong = 0;
    Gate readers(6);
    std::atomic<bool> is_over = false;
    std::jthread publisher([&] {
      readers.wait();
      for (int swap = 0; swap < 50; ++swap) {
        // New weights each time: the old ones must be released while requests use them.
        served.publish(freeze(fork(swap % 2 == 0 ? odd : even, bench.device)));
      }
      is_over = true;
    });
    run_clients(bench.device, 6, [&](int client) {
      ServedModel<Net>::Reader reader(served);
      std::uint64_t last = reader.version();
      EXPECT_EQ(last, 1U);
      readers.arrive();
      for (int i = 0; i < 50 || !is_over; ++i) {
        const Frozen<Net>& net = reader.current();
        EXPECT_GE(reader.version(), last);
        last = reader.version();
        const int number = (client + i) % kInputs;
        const auto expected = alone[(last - 1) % 2][static_cast<std::size_t>(number)];
        wrong += answer(*net, bench.device, number) == expected ? 0 : 1;
      }
      static_cast<void>(reader.current());
      EXPECT_EQ(reader.version(), 51U);
    });
    publisher.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(served.version(), 51U);
  }
  bench.device.sync();
  EXPECT_EQ(bench.device.memory().live_tensor_count, before);
}

struct Layers {
  std::vector<Linear> all;
  HEARTH_MODULE(Layers, all)
};

TEST(ServedModel, RefusesAModelThatIsNotLikeTheOneItServes) {
  const Bench bench;
  Generator generator(1);
  const auto model = [&](const std::vector<std::int64_t>& widths) {
    Layers layers;
    for (const std::int64_t out : widths) {
      layers.all.emplace_back(
          Linear::Config{.in = 2, .out = out, .bias = false}, bench.device, generator);
    }
    return layers;
  };
  ServedModel<Layers> served(freeze(model({3, 4})));
  ServedModel<Layers>::Reader reader(served);
  std::uint32_t line = 0;
  const auto refused = [&](const Layers& next) -> std::string {
    const Frozen<Layers> frozen = freeze(next);
    try {
      line = __LINE__ + 1;
      served.publish(frozen);
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.error().location.line, line);
      return error.error().text;
    }
    return "nothing";
  };
  EXPECT_EQ(refused(model({3, 5})),
            "ServedModel::publish: tensor 'all.1.weight' is f32[5, 2]: expected f32[4, 2], as "
            "served until now");
  EXPECT_EQ(refused(to_dtype(model({3, 4}), DType::f16)),
            "ServedModel::publish: tensor 'all.0.weight' is f16[3, 2]: expected f32[3, 2], as "
            "served until now");
  EXPECT_EQ(refused(model({3})),
            "ServedModel::publish: tensor 'all.1.weight' is missing: expected f32[4, 2]");
  EXPECT_EQ(refused(model({3, 4, 7})),
            "ServedModel::publish: tensor 'all.2.weight' (f32[7, 2]) belongs to no parameter of "
            "the model that is served");
  EXPECT_EQ(served.version(), 1U);
  EXPECT_EQ(reader.current()->all[1].weight.shape(), (Shape{4, 2})) << "that goes on";
  EXPECT_EQ(refused(model({3, 4})), "nothing");
  EXPECT_EQ(served.version(), 2U);
}

}  // namespace
}  // namespace hearth
