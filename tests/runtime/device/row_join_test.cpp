// Matching products of several lanes run as one: each answer has the bits of a single product, and
// each failure affects only its own lane.
#include "tests/runtime/held_token.hpp"
#include "tests/runtime/throwing_strategy.hpp"
#include "tests/support/forwarding_backend.hpp"

#include "runtime/client/ask.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include <hearth/backends/reference/reference_backend.hpp>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::HeldToken;
using ::testing::IsEmpty;
using ::testing::Lt;
using testing::read_error;

constexpr const char* kName = "reference:0";
constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// The calls of the backend.
struct Calls {
  std::vector<std::int64_t> product_rows;     ///< rows of each product
  std::vector<std::int64_t> sizes;            ///< elements of each op's result
  std::int64_t refuse_rows = 0;               ///< a product with this number of rows fails
  std::function<void()> on_joinable = [] {};  ///< runs when the actor reaches an op that could join
  std::function<void()> on_open = [] {};      ///< runs when the backend is opened or reopened
};

/// The oracle, which joins up to four products.
class JoiningBackend final : public testing::ForwardingBackend {
 public:
  JoiningBackend(std::string name, Calls& calls)
      : ForwardingBackend(std::make_unique<reference::ReferenceBackend>(
            reference::ReferenceOptions{.name = std::move(name), .takes_groups = true})),
        calls_(calls) {}

  [[nodiscard]] std::int64_t joinable_calls(const KernelCall& call) const noexcept override {
    calls_.on_joinable();
    return 4 / call.inputs[0].shape()[0];
  }
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    const KernelCall& call = launch.call;
    calls_.sizes.push_back(call.outputs[0].element_count());
    if (call.op.kind() == OpKind::matmul) {
      const std::int64_t rows = call.outputs[0].shape()[0];
      calls_.product_rows.push_back(rows);
      if (rows == calls_.refuse_rows) {
        return refused({.code = ErrorCode::kernel_failed, .text = "too many rows"});
      }
    }
    return ForwardingBackend::submit_one(launch, after);
  }

 private:
  Calls& calls_;
};

class RowJoinTest : public ::testing::Test {
 protected:
  template <class Body>
  void run(Body body, const DeviceOptions& options = {.name = kName}, Fusion fusion = Fusion::off) {
    ManualExecutor executor(1, {.max_steps = 1'000'000});
    const detail::BackendFactory factory{.make = [&](const BackendRequest& request) {
      calls.on_open();
      return std::make_unique<JoiningBackend>(request.name, calls);
    }};
    executor.run([&] {
      const Runtime runtime({.devices = {options}, .fusion = fusion, .executor = &executor},
                            factory);
      const Device device = runtime.device(kName);
      body(device);
    });
  }

  Calls calls;
};

Tensor weights(const Device& device, float first = 1) {
  return Tensor::from(device, {first, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {3, 2});
}
Tensor row(const Device& device, float value) {
  return Tensor::from(device, {value, 1.0F, -1.0F}, {1, 3});
}

/// `count` streams that each queue `request(i)` while no thread runs the device.
template <class Request>
std::vector<Tensor> meet(const Device& device, std::vector<Stream>& streams, Request request) {
  std::vector<Tensor> results;
  const HeldToken held(device);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const StreamScope scope(streams[i]);
    results.push_back(request(i));
  }
  return results;
}

/// Streams that have each run a product: the join watches only those.
std::vector<Stream> streams_of(const Device& device, std::size_t count) {
  std::vector<Stream> streams;
  for (std::size_t i = 0; i < count; ++i) {
    streams.emplace_back(device);
    const StreamScope scope(streams.back());
    EXPECT_EQ(matmul(ones(device, {1, 1}), ones(device, {1, 1})).item(), 1);
  }
  return streams;
}

TEST_F(RowJoinTest, LikeProductsOfSeveralStreamsRunAsOneWithTheBitsTheyHaveAlone) {
  run([&](const Device& device) {
    const Tensor w = weights(device);
    w.publish();
    std::vector<std::vector<float>> alone;
    for (int i = 0; i < 4; ++i) {
      alone.push_back(matmul(row(device, static_cast<float>(i) / 3), w).to_vector<float>());
    }
    EXPECT_THAT(calls.product_rows, ElementsAre(1, 1, 1, 1));
    std::vector<Stream> streams = streams_of(device, 4);
    calls.product_rows.clear();
    const std::vector<Tensor> joined = meet(device, streams, [&](std::size_t i) {
      return matmul(row(device, static_cast<float>(i) / 3), w);
    });
    for (std::size_t i = 0; i < joined.size(); ++i) {
      EXPECT_EQ(joined[i].to_vector<float>(), alone[i]);
    }
    EXPECT_THAT(calls.product_rows, ElementsAre(4));
    EXPECT_EQ(device.statistics().joined_ops, 4U);
  });
}

// As in servers: each stream reads the result of its request, which ends its window.
TEST_F(RowJoinTest, ProductsOfStreamsThatAreLookedAheadInJoinAndWhatFollowsFuses) {
  run(
      [&](const Device& device) {
        const Tensor w = weights(device);
        w.publish();
        std::vector<Stream> streams = streams_of(device, 4);
        calls.product_rows.clear();
        calls.sizes.clear();
        std::vector<Pending<std::vector<std::byte>>> answers;
        {
          const HeldToken held(device);
          for (std::size_t i = 0; i < streams.size(); ++i) {
            const StreamScope scope(streams[i]);
            const Tensor product = matmul(row(device, static_cast<float>(i)), w);
            answers.push_back(relu(product * 2.0 + 1.0).read_bytes());
          }
        }
        for (std::size_t i = 0; i < answers.size(); ++i) {
          std::array<float, 2> values{};
          const std::vector<std::byte> bytes = answers[i].get();
          std::memcpy(values.data(), bytes.data(), bytes.size());
          const auto first = static_cast<float>(i);
          EXPECT_EQ(values[0], std::max(0.0F, 2 * (first + 3 - 5) + 1));
          EXPECT_EQ(values[1], std::max(0.0F, 2 * (2 * first + 4 - 6) + 1));
        }
        EXPECT_THAT(calls.product_rows, ElementsAre(4));
        EXPECT_EQ(device.statistics().joined_ops, 4U);
        EXPECT_EQ(device.statistics().fused_ops, 12U)
            << "the scale, the shift and the relu of each";
        EXPECT_EQ(calls.sizes.size(), 5U);
      },
      {.name = kName},
      Fusion::on);
}

// They could be a prologue of the product, but then each stream would need its own product.
TEST_F(RowJoinTest, OpsBeforeProductsDoNotKeepThemFromJoining) {
  run(
      [&](const Device& device) {
        const Tensor w = weights(device);
        w.publish();
        std::vector<Stream> streams = streams_of(device, 4);
        std::vector<Tensor> rows;
        for (std::size_t i = 0; i < streams.size(); ++i) {
          const StreamScope scope(streams[i]);
          rows.push_back(row(device, static_cast<float>(i)));
          device.sync();
        }
        calls.product_rows.clear();
        std::vector<Pending<std::vector<std::byte>>> answers;
        {
          const HeldToken held(device);
          for (std::size_t i = 0; i < streams.size(); ++i) {
            const StreamScope scope(streams[i]);
            answers.push_back(matmul(rows[i] * 2 + 1, w).read_bytes());
          }
        }
        for (Pending<std::vector<std::byte>>& answer : answers) {
          EXPECT_EQ(answer.get().size(), 2 * sizeof(float));
        }
        EXPECT_THAT(calls.product_rows, ElementsAre(4));
        EXPECT_EQ(device.statistics().joined_ops, 4U);
      },
      {.name = kName},
      Fusion::on);
}

TEST_F(RowJoinTest, NoMoreJoinThanTheBackendAllows) {
  run([&](const Device& device) {
    const Tensor w = weights(device);
    std::vector<Stream> streams = streams_of(device, 7);
    calls.product_rows.clear();
    for (const Tensor& y :
         meet(device, streams, [&](std::size_t) { return matmul(row(device, 1), w); })) {
      EXPECT_THAT(y.to_vector<float>(), ElementsAre(-1, 0));
    }
    EXPECT_THAT(calls.product_rows, ElementsAre(4, 3));
  });
}

TEST_F(RowJoinTest, TransposedWeightsAreAlikeAndABiasIsAddedToEachRow) {
  run([&](const Device& device) {
    const Tensor w = Tensor::from(device, {1.0F, 3.0F, 5.0F, 2.0F, 4.0F, 6.0F}, {2, 3});
    const Tensor bias = Tensor::from(device, {10.0F, 20.0F}, {2});
    std::vector<Stream> streams = streams_of(device, 3);
    calls.product_rows.clear();
    for (const Tensor& y : meet(device, streams, [&](std::size_t) {
           return matmul(row(device, 1), transpose(w), bias);
         })) {
      EXPECT_THAT(y.to_vector<float>(), ElementsAre(9, 20));
    }
    EXPECT_THAT(calls.product_rows, ElementsAre(3));
  });
}

TEST_F(RowJoinTest, OtherWeightsOtherShapesAndStridedRowsDoNotJoin) {
  run([&](const Device& device) {
    const Tensor w = weights(device);
    const Tensor other = weights(device, 7);
    const Tensor strided =
        transpose(Tensor::from(device, {1.0F, 1.0F, -1.0F, 1.0F, 1.0F, -1.0F}, {3, 2}));
    std::vector<Stream> streams = streams_of(device, 4);
    calls.product_rows.clear();
    const std::vector<Tensor> results = meet(device, streams, [&](std::size_t i) {
      return i == 0   ? matmul(row(device, 1), w)
             : i == 1 ? matmul(row(device, 1), other)
             : i == 2 ? matmul(concat({row(device, 1), row(device, 1)}, 0), w)
                      : matmul(strided, w);
    });
    EXPECT_THAT(results[0].to_vector<float>(), ElementsAre(-1, 0));
    EXPECT_THAT(results[1].to_vector<float>(), ElementsAre(5, 0));
    EXPECT_THAT(results[2].to_vector<float>(), ElementsAre(-1, 0, -1, 0));
    EXPECT_THAT(results[3].to_vector<float>(), ElementsAre(3, 4, -1, 0));
    EXPECT_EQ(device.statistics().joined_ops, 0U);
  });
}

TEST_F(RowJoinTest, AFailedOperandFailsItsOwnStreamOnly) {
  run([&](const Device& device) {
    const Tensor w = weights(device);
    std::vector<Stream> streams = streams_of(device, 3);
    calls.product_rows.clear();
    const std::vector<Tensor> results = meet(device, streams, [&](std::size_t i) {
      Tensor x = row(device, 1);
      if (i == 1) {
        const Tensor logits = zeros(device, {1, 3});
        x = x + cross_entropy(logits, full(device, {1}, 9, DType::i64));
      }
      return matmul(x, w);
    });
    EXPECT_EQ(read_error(results[1]).code, ErrorCode::out_of_range);
    EXPECT_THAT(results[0].to_vector<float>(), ElementsAre(-1, 0));
    EXPECT_THAT(results[2].to_vector<float>(), ElementsAre(-1, 0));
    EXPECT_THAT(calls.product_rows, ElementsAre(2));
  });
}

TEST_F(RowJoinTest, WhenTheJoinedProductFailsEachRunsAlone) {
  run([&](const Device& device) {
    calls.refuse_rows = 3;
    const Tensor w = weights(device);
    std::vector<Stream> streams = streams_of(device, 3);
    calls.product_rows.clear();
    for (const Tensor& y :
         meet(device, streams, [&](std::size_t) { return matmul(row(device, 1), w); })) {
      EXPECT_THAT(y.to_vector<float>(), ElementsAre(-1, 0));
    }
    EXPECT_THAT(calls.product_rows, ElementsAre(3, 1, 1, 1));
    EXPECT_EQ(device.statistics().joined_ops, 0U);
  });
}

TEST_F(RowJoinTest, AStreamThatEndsInMidFlightLeavesTheOthersTheirAnswers) {
  run([&](const Device& device) {
    const Tensor w = weights(device);
    std::vector<Stream> streams = streams_of(device, 3);
    calls.product_rows.clear();
    std::vector<Tensor> results;
    {
      const HeldToken held(device);
      for (std::size_t i = 0; i < streams.size(); ++i) {
        const StreamScope scope(streams[i]);
        results.push_back(matmul(row(device, 1), w));
      }
      streams.erase(streams.begin() + 1);
    }
    for (const Tensor& y : results) {
      EXPECT_THAT(y.to_vector<float>(), ElementsAre(-1, 0));
    }
    results.clear();
    EXPECT_EQ(testing::live_tensors(device), 1) << "the weights";
  });
}

TEST_F(RowJoinTest, AStreamThatIsGivenUpLeavesTheOthersTheirAnswers) {
  run([&](const Device& device) {
    const Tensor w = weights(device);
    std::vector<Stream> streams = streams_of(device, 4);
    calls.product_rows.clear();
    std::vector<Tensor> results;
    {
      const HeldToken held(device);
      streams[2].set_limits({.deadline = Deadline::in(0ms)});
      for (Stream& stream : streams) {
        const StreamScope scope(stream);
        results.push_back(matmul(row(device, 1), w));
      }
      streams[1].cancel();
    }
    EXPECT_EQ(read_error(results[1]).code, ErrorCode::cancelled);
    EXPECT_EQ(read_error(results[2]).code, ErrorCode::deadline_exceeded);
    EXPECT_THAT(results[0].to_vector<float>(), ElementsAre(-1, 0));
    EXPECT_THAT(results[3].to_vector<float>(), ElementsAre(-1, 0));
    EXPECT_THAT(calls.product_rows, ElementsAre(2));
    EXPECT_EQ(device.statistics().joined_ops, 2U);
    EXPECT_EQ(device.statistics().given_up_ops, 4U) << "two uploads, two products";
  });
}

// Every stream queues a product among small ops; result sizes identify the streams.
TEST_F(RowJoinTest, BetweenTwoTurnsOfAStreamEveryOtherHasAtMostOne) {
  run([&](const Device& device) {
    constexpr std::size_t kStreams = 3;
    const Tensor w = weights(device);
    std::vector<Stream> streams = streams_of(device, kStreams);
    calls.product_rows.clear();
    std::vector<Tensor> x;
    for (std::size_t i = 0; i < kStreams; ++i) {
      x.push_back(ones(device, {static_cast<std::int64_t>(i) + 10}));
    }
    device.sync();
    calls.sizes.clear();
    const std::vector<Tensor> kept = meet(device, streams, [&](std::size_t i) {
      Tensor last;
      for (int round = 0; round < 6; ++round) {
        for (int op = 0; op < 10; ++op) {
          last = x[i] + 1;
        }
        last = matmul(row(device, 1), w);
      }
      return last;
    });
    for (const Tensor& y : kept) {
      EXPECT_THAT(y.to_vector<float>(), ElementsAre(-1, 0));
    }
    EXPECT_EQ(device.statistics().joined_ops, kStreams * 6);
    // Turns are runs of one stream's sums. Between two turns of a stream, no other stream has two.
    std::vector<std::size_t> turns;
    for (const std::int64_t size : calls.sizes) {
      if (size >= 10 && size < 10 + static_cast<std::int64_t>(kStreams) &&
          (turns.empty() || turns.back() != static_cast<std::size_t>(size - 10))) {
        turns.push_back(static_cast<std::size_t>(size - 10));
      }
    }
    ASSERT_GE(turns.size(), kStreams * 6);
    for (std::size_t at = 0; at + 2 * kStreams <= turns.size(); ++at) {
      std::array<int, kStreams> between{};
      for (std::size_t next = at + 1; next < turns.size() && turns[next] != turns[at]; ++next) {
        ++between[turns[next]];
      }
      EXPECT_THAT(between, Each(Lt(2))) << "after turn " << at;
    }
  });
}

TEST_F(RowJoinTest, WithoutMemoryForTheJoinedRowsEachRunsAlone) {
  run(
      [&](const Device& device) {
        constexpr std::int64_t kDepth = 4096;
        const Tensor w = ones(device, {kDepth, 1});
        std::vector<Tensor> rows;
        for (int i = 0; i < 4; ++i) {
          rows.push_back(ones(device, {1, kDepth}));
        }
        device.sync();
        // The rest of the budget fits the answers, but not four more rows.
        const MemoryStatistics memory = device.memory();
        const Tensor filler =
            ones(device, {(memory.budget_bytes - memory.live_bytes) / 4 - 2 * kDepth});
        device.sync();
        ASSERT_GT(device.memory().live_bytes, memory.live_bytes);
        std::vector<Stream> streams = streams_of(device, 4);
        calls.product_rows.clear();
        for (const Tensor& y :
             meet(device, streams, [&](std::size_t i) { return matmul(rows[i], w); })) {
          EXPECT_THAT(y.to_vector<float>(), ElementsAre(static_cast<float>(kDepth)));
        }
        EXPECT_THAT(calls.product_rows, ElementsAre(1, 1, 1, 1));
        EXPECT_EQ(device.memory_report().rungs.refuse_count, 0U);
      },
      {.name = kName, .memory_budget_bytes = kMiB});
}

TEST_F(RowJoinTest, WhatFindsNoMemoryForItsResultRunsAloneAndIsNotCountedAsRefused) {
  run(
      [&](const Device& device) {
        constexpr std::int64_t kWidth = kMiB / 8;  // half a MiB
        const Tensor w = ones(device, {1, kWidth});
        w.publish();
        std::vector<Stream> streams = streams_of(device, 4);
        calls.product_rows.clear();
        for (const Tensor& y : meet(device, streams, [&](std::size_t) {
               return matmul(ones(device, {1, 1}), w);
             })) {
          EXPECT_EQ(mean(y).item(), 1);
        }
        EXPECT_GT(device.statistics().joined_ops, 0U);
        EXPECT_LT(device.statistics().joined_ops, 4U);
        EXPECT_EQ(device.memory_report().rungs.refuse_count, 0U);
      },
      {.name = kName, .memory_budget_bytes = 4 * kMiB});
}

TEST_F(RowJoinTest, WhenAMemoryStrategyThrowsEachRunsAlone) {
  int throws_at = 0;
  run(
      [&](const Device& device) {
        const Tensor w = weights(device);
        w.publish();
        std::vector<Stream> streams = streams_of(device, 3);
        std::vector<Tensor> rows;
        for (Stream& stream : streams) {
          const StreamScope scope(stream);
          rows.push_back(row(device, 1));
          device.sync();
        }
        calls.product_rows.clear();
        throws_at = 1;
        for (const Tensor& y :
             meet(device, streams, [&](std::size_t i) { return matmul(rows[i], w); })) {
          EXPECT_THAT(y.to_vector<float>(), ElementsAre(-1, 0));
        }
        EXPECT_THAT(calls.product_rows, ElementsAre(1, 1, 1));
      },
      {.name = kName, .make_memory = testing::throwing_memory(throws_at)});
}

// Two streams are held with a product each, and release memory after it.
TEST_F(RowJoinTest, AStreamWithoutMemoryWaitsForThoseThatAreHeld) {
  for (const bool could_join : {false, true}) {
    run(
        [&](const Device& device) {
          const Tensor w = weights(device);
          w.publish();
          std::vector<Stream> streams = streams_of(device, 3);
          Stream urgent(device, {.priority = Priority::latency});
          std::array<Tensor, 2> large;
          std::array<Tensor, 2> products;
          for (std::size_t i = 0; i < 2; ++i) {
            const StreamScope scope(streams[i]);
            large[i] = ones(device, {5 * kMiB / 8});
            device.sync();
          }
          const StreamScope scope(could_join ? streams[2] : urgent);
          Tensor wanted;
          {
            const HeldToken held(device);
            for (std::size_t i = 0; i < 2; ++i) {
              const StreamScope inner(streams[i]);
              products[i] = matmul(row(device, 1), w);
              large[i] = Tensor();
            }
            wanted = zeros(device, {8 * kMiB / 8});
          }
          EXPECT_EQ(sum(wanted).item(), 0);
          EXPECT_THAT(products[1].to_vector<float>(), ElementsAre(-1, 0));
          EXPECT_EQ(device.statistics().joined_ops, 2U);
          EXPECT_EQ(device.memory_report().rungs.refuse_count, 0U);
        },
        {.name = kName, .memory_budget_bytes = 8 * kMiB});
  }
}

// A device that is never idle answers after 1,000 turns: that number of lanes have turns while two
// are held, after which their products have no layout any more.
TEST_F(RowJoinTest, StreamsThatAreHeldWhileTheDeviceIsRestartedFailAlone) {
  constexpr std::size_t kStreams = 1100;
  run([&](const Device& device) {
    const Tensor w = weights(device);
    w.publish();
    std::vector<Stream> streams = streams_of(device, kStreams);
    std::optional<Pending<void>> restart;
    Pending<double> first_answer;
    calls.on_joinable = [&, met = 0]() mutable {
      if (++met == 2) {
        restart =
            ask_later<RestartDevice>(device.endpoint(),
                                     SourceLoc::current(),
                                     std::make_shared<const Error>(Error{
                                         .code = ErrorCode::device_lost, .text = "restarted"}));
      }
    };
    bool was_held = false;
    calls.on_open = [&] { was_held = !first_answer.is_ready(); };
    std::vector<Tensor> rows;
    for (Stream& stream : streams) {
      const StreamScope scope(stream);
      rows.push_back(row(device, 1));
      device.sync();
    }
    const std::vector<Tensor> results = meet(device, streams, [&](std::size_t i) {
      Tensor result = matmul(rows[i], w);
      if (i == 0) {
        first_answer = sum(result).item_later();
      }
      return result;
    });
    ASSERT_FALSE(results.empty());
    EXPECT_EQ(read_error(results[1]).code, ErrorCode::device_lost);
    ASSERT_TRUE(restart);
    restart->get();
    EXPECT_TRUE(was_held) << "the restart came before or after the hold: nothing was tried";
    EXPECT_THROW(first_answer.get(), DeviceError);
    EXPECT_EQ(read_error(results.back()).code, ErrorCode::device_lost);
  });
}

}  // namespace
}  // namespace hearth
