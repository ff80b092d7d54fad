// The decisions of a ModelServer: batches, refusals, retries. Time is an argument.
#include <hearth/parallel/batcher.hpp>

#include <hearth/runtime/base/philox.hpp>

#include <algorithm>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::detail {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct Offer {
  std::int64_t rows = 1;
  std::chrono::nanoseconds deadline = std::chrono::nanoseconds::max();
  Priority priority = Priority::normal;
};

class Fixture {
 public:
  explicit Fixture(Batcher::Options options = {}) : batcher(with_devices(std::move(options))) {}

  RequestRef request(const Offer& offer) const {
    auto made = std::make_shared<ServerRequest>();
    made->rows = offer.rows;
    made->priority = offer.priority;
    made->arrival = now;
    made->deadline =
        offer.deadline == std::chrono::nanoseconds::max() ? TimePoint::max() : now + offer.deadline;
    return made;
  }
  /// Offers a request; null if it was refused.
  RequestRef offer(const Offer& offer = {}, const std::string& key = "a") {
    RequestRef made = request(offer);
    refusal = batcher.offer(made, key, now, false);
    return refusal ? nullptr : made;
  }
  /// Runs the next batch for `time`; returns its size, 0 if there is none.
  std::int64_t run(std::chrono::nanoseconds time = 1ms, std::size_t idle = 1) {
    const BatchRef batch = batcher.take(0, idle, now);
    if (!batch) {
      return 0;
    }
    now += time;
    finish(batch);
    return batch->rows;
  }
  void finish(const BatchRef& batch) {
    for (const RequestRef& each : batch->requests) {
      static_cast<void>(each->claim());
    }
    batcher.finish(batch,
                   {.rows_are_independent = batch->mode == BatchMode::proof
                                                ? std::optional<bool>(rows_are_independent)
                                                : std::nullopt,
                    .is_measured = batch->mode == BatchMode::whole},
                   now);
  }
  std::vector<ErrorCode> ended() {
    std::vector<ErrorCode> codes;
    for (EndedRequest& each : batcher.take_ended()) {
      if (each.request->claim()) {
        codes.push_back(each.error->code);
      }
    }
    return codes;
  }

  static Batcher::Options with_devices(Batcher::Options options) {
    if (options.devices.empty()) {
      options.devices = {"cpu:0"};
    }
    return options;
  }

  Batcher batcher;
  TimePoint now{};
  ErrorRef refusal;
  bool rows_are_independent = true;
};

TEST(Batcher, TheLadderDoublesUpToTheLargestBatch) {
  EXPECT_EQ(Fixture({.max_batch = 48}).batcher.ladder(),
            (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 48}));
  EXPECT_EQ(Fixture({.max_batch = 1}).batcher.ladder(), (std::vector<std::int64_t>{1}));
}

TEST(Batcher, AWorkerTakesItsShareOfWhatWaits) {
  Fixture fixture;
  for (int i = 0; i < 10; ++i) {
    EXPECT_NE(fixture.offer(), nullptr);
  }
  EXPECT_EQ(fixture.run(1ms, 3), 4);  // ceil(10 / 3)
  EXPECT_EQ(fixture.run(1ms, 2), 3);
  EXPECT_EQ(fixture.run(1ms, 1), 3);
  EXPECT_EQ(fixture.run(), 0);
}

TEST(Batcher, TheFirstBatchProvesItsSignatureAndOthersRunAloneMeanwhile) {
  Fixture fixture;
  for (int i = 0; i < 6; ++i) {
    fixture.offer();
  }
  const BatchRef first = fixture.batcher.take(0, 2, fixture.now);
  EXPECT_EQ(first->mode, BatchMode::proof);
  EXPECT_EQ(first->rows, 3);
  EXPECT_EQ(first->padded_rows, 4);
  const BatchRef second = fixture.batcher.take(0, 1, fixture.now);
  EXPECT_EQ(second->rows, 1);
  fixture.finish(first);
  fixture.finish(second);
  const BatchRef third = fixture.batcher.take(0, 1, fixture.now);
  EXPECT_EQ(third->mode, BatchMode::whole);
  EXPECT_EQ(third->rows, 2);
}

TEST(Batcher, ARefutedSignatureGetsBatchesOfOneAndOthersDoNot) {
  Fixture fixture;
  fixture.rows_are_independent = false;
  for (int i = 0; i < 4; ++i) {
    fixture.offer({}, "a");
  }
  EXPECT_EQ(fixture.run(), 4);  // the proof of a
  fixture.rows_are_independent = true;
  for (int i = 0; i < 4; ++i) {
    fixture.offer({}, "b");
  }
  EXPECT_EQ(fixture.run(), 4);  // the proof of b
  for (int i = 0; i < 2; ++i) {
    fixture.offer({}, "a");
  }
  EXPECT_EQ(fixture.run(), 1);
  EXPECT_EQ(fixture.run(), 1);
  fixture.offer({}, "b");
  fixture.offer({}, "b");
  EXPECT_EQ(fixture.run(), 2);
}

TEST(Batcher, ExactRowsAreProvenSizeBySize) {
  Fixture fixture({.exact_rows = true});
  const auto take = [&](int count) {
    for (int i = 0; i < count; ++i) {
      fixture.offer();
    }
    return fixture.batcher.take(0, 1, fixture.now);
  };
  BatchRef batch = take(4);
  EXPECT_EQ(batch->mode, BatchMode::proof);
  fixture.finish(batch);
  batch = take(4);
  EXPECT_EQ(batch->mode, BatchMode::whole);
  fixture.finish(batch);
  fixture.rows_are_independent = false;
  batch = take(8);
  EXPECT_EQ(batch->mode, BatchMode::proof);
  fixture.finish(batch);
  batch = take(8);
  EXPECT_EQ(batch->rows, 4) << "a size that was refuted ran again";
  EXPECT_EQ(batch->mode, BatchMode::whole);
}

TEST(Batcher, APassThatDoesNotRunAgainGetsNoProofAndBatchesOfOne) {
  Fixture fixture({.repeatable = false});
  fixture.offer();
  fixture.offer();
  EXPECT_EQ(fixture.run(), 1);
  EXPECT_EQ(fixture.run(), 1);
  EXPECT_THAT(fixture.batcher.take_notes().at(0), HasSubstr("not repeatable"));
  Fixture trusted({.proof = RowProof::trusted, .repeatable = false});
  trusted.offer();
  trusted.offer();
  EXPECT_EQ(trusted.run(), 2);
}

TEST(Batcher, PrioritiesGoFirstAndNoneStarves) {
  Fixture fixture({.max_batch = 1});
  const RequestRef background = fixture.offer({.priority = Priority::background});
  const RequestRef normal = fixture.offer();
  const RequestRef latency = fixture.offer({.priority = Priority::latency});
  const auto next = [&] {
    const BatchRef batch = fixture.batcher.take(0, 1, fixture.now);
    fixture.finish(batch);
    return batch->requests.front();
  };
  EXPECT_EQ(next(), latency);
  EXPECT_EQ(next(), normal);
  fixture.now += 2s;
  static_cast<void>(fixture.offer({.priority = Priority::latency}));
  EXPECT_EQ(next(), background) << "a request waited 2 s behind new ones";
}

TEST(Batcher, MaxDelayWaitsForAFullBatch) {
  Fixture fixture({.max_batch = 4, .max_delay = 2ms});
  fixture.offer();
  EXPECT_EQ(fixture.run(), 0);
  EXPECT_EQ(fixture.batcher.next_take(), fixture.now + 2ms);
  for (int i = 0; i < 3; ++i) {
    fixture.offer();
  }
  EXPECT_EQ(fixture.run(), 4);
  fixture.offer();
  fixture.now += 2ms;
  EXPECT_EQ(fixture.run(), 1);
}

TEST(Batcher, RefusesWhatWouldMissItsDeadlineByTheMeasuredSpeed) {
  Fixture fixture({.max_batch = 4, .proof = RowProof::trusted});
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      fixture.offer();
    }
    EXPECT_EQ(fixture.run(10ms), 4);
  }
  EXPECT_NE(fixture.offer({.deadline = 11ms}), nullptr);
  EXPECT_EQ(fixture.offer({.deadline = 9ms}), nullptr);
  ASSERT_NE(fixture.refusal, nullptr);
  EXPECT_EQ(fixture.refusal->code, ErrorCode::overloaded);
  for (int i = 0; i < 7; ++i) {
    EXPECT_NE(fixture.offer({}), nullptr);
  }
  // Eight wait: two batches before it, and its own.
  EXPECT_EQ(fixture.offer({.deadline = 25ms}), nullptr);
  EXPECT_NE(fixture.offer({.deadline = 31ms}), nullptr);
  EXPECT_EQ(fixture.offer({.deadline = 0ms}), nullptr);
  ASSERT_NE(fixture.refusal, nullptr);
  EXPECT_EQ(fixture.refusal->code, ErrorCode::deadline_exceeded);
}

// Arrivals at three times the speed of a device. Between two batches the device does other work,
// which no measured time has; the answers that miss their deadlines must stay few all the same.
TEST(Batcher, UnderOverloadAcceptedRequestsMeetTheirDeadlines) {
  Fixture fixture({.max_batch = 8, .proof = RowProof::trusted});
  int in_time = 0;
  int late = 0;
  int refused = 0;
  for (int batch = 0; batch < 2000; ++batch) {
    const int arrivals = 24;
    for (int i = 0; i < arrivals; ++i) {
      refused += fixture.offer({.deadline = 20ms}) == nullptr ? 1 : 0;
    }
    fixture.now += 700us;  // other work
    const BatchRef next = fixture.batcher.take(0, 1, fixture.now);
    const auto expired = static_cast<int>(fixture.ended().size());
    late += batch < 200 ? 0 : expired;
    if (!next) {
      continue;
    }
    fixture.now += 1ms;
    for (const RequestRef& each : next->requests) {
      (fixture.now < each->deadline ? in_time : late) += batch < 200 ? 0 : 1;
    }
    fixture.finish(next);
  }
  EXPECT_GT(refused, 1800 * 12);
  EXPECT_LT(late, in_time / 20);
  EXPECT_GT(in_time, 1800 * 8 * 9 / 10);
}

TEST(Batcher, AnIdleServerMeasuresAnewAfterASlowTime) {
  Fixture fixture({.max_batch = 1});
  fixture.offer();
  fixture.run(10s);
  const RequestRef request = fixture.request({.deadline = 1ms});
  EXPECT_EQ(fixture.batcher.offer(request, "a", fixture.now, true), nullptr);
}

TEST(Batcher, TheQueueIsBounded) {
  Fixture fixture({.max_batch = 4, .max_waiting_rows = 8});
  for (int i = 0; i < 8; ++i) {
    EXPECT_NE(fixture.offer(), nullptr);
  }
  EXPECT_EQ(fixture.offer(), nullptr);
  ASSERT_NE(fixture.refusal, nullptr);
  EXPECT_EQ(fixture.refusal->code, ErrorCode::overloaded);
  EXPECT_THAT(fixture.refusal->text, HasSubstr("8 rows wait"));
}

TEST(Batcher, MemoryThatWasShortBoundsLaterBatches) {
  Fixture fixture({.proof = RowProof::trusted});
  for (int i = 0; i < 16; ++i) {
    fixture.offer();
  }
  const BatchRef batch = fixture.batcher.take(0, 1, fixture.now);
  EXPECT_EQ(batch->rows, 16);
  fixture.batcher.finish(batch, {.fitting_rows = 4}, fixture.now);
  for (int i = 0; i < 16; ++i) {
    fixture.offer();
  }
  EXPECT_EQ(fixture.run(), 4);
}

TEST(Batcher, ALossRunsEachMemberOnceMoreAloneElsewhere) {
  Fixture fixture({.proof = RowProof::trusted, .devices = {"sim:0", "sim:1", "sim:2"}});
  fixture.offer();
  fixture.offer();
  const BatchRef lost = fixture.batcher.take(0, 1, fixture.now);
  EXPECT_EQ(lost->rows, 2);
  fixture.batcher.finish(lost, {.is_lost = true}, fixture.now);
  EXPECT_FALSE(fixture.batcher.is_in_service(0));
  EXPECT_EQ(fixture.batcher.take(0, 1, fixture.now), nullptr);
  const BatchRef first = fixture.batcher.take(1, 1, fixture.now);
  const BatchRef second = fixture.batcher.take(2, 1, fixture.now);
  EXPECT_EQ(first->rows, 1);
  EXPECT_EQ(first->mode, BatchMode::alone);
  fixture.finish(second);
  fixture.batcher.finish(first, {.is_lost = true}, fixture.now);
  EXPECT_EQ(fixture.ended(), std::vector<ErrorCode>{ErrorCode::device_lost});
  EXPECT_TRUE(fixture.batcher.is_empty());
}

TEST(Batcher, WithoutAnotherDeviceALossEndsAllRequests) {
  Fixture fixture({.max_batch = 2, .proof = RowProof::trusted});
  for (int i = 0; i < 3; ++i) {
    fixture.offer();
  }
  const BatchRef lost = fixture.batcher.take(0, 1, fixture.now);
  fixture.batcher.finish(lost, {.is_lost = true}, fixture.now);
  EXPECT_EQ(fixture.ended(), std::vector<ErrorCode>(3, ErrorCode::device_lost));
  EXPECT_EQ(fixture.offer(), nullptr);
  ASSERT_NE(fixture.refusal, nullptr);
  EXPECT_EQ(fixture.refusal->code, ErrorCode::device_lost);
  fixture.batcher.restore(0);
  EXPECT_NE(fixture.offer(), nullptr);
}

TEST(Batcher, AHungBatchIsRevokedAndItsDeviceReturnsWithIt) {
  Fixture fixture({.proof = RowProof::trusted, .hang_limit = 1s, .devices = {"sim:0", "sim:1"}});
  const RequestRef request = fixture.offer();
  const BatchRef hung = fixture.batcher.take(0, 1, fixture.now);
  EXPECT_EQ(fixture.batcher.next_expiry(), fixture.now + 1s);
  fixture.now += 1s;
  fixture.batcher.expire(fixture.now);
  EXPECT_FALSE(fixture.batcher.is_in_service(0));
  const BatchRef retry = fixture.batcher.take(1, 1, fixture.now);
  EXPECT_EQ(retry->requests.front(), request);
  fixture.finish(retry);
  fixture.finish(hung);
  EXPECT_TRUE(fixture.batcher.is_in_service(0));
  EXPECT_TRUE(fixture.ended().empty());
  EXPECT_TRUE(fixture.batcher.is_empty());
}

TEST(Batcher, APassThatDoesNotRunAgainIsNotRetried) {
  Fixture fixture({.repeatable = false, .devices = {"sim:0", "sim:1"}});
  fixture.offer();
  fixture.batcher.finish(fixture.batcher.take(0, 1, fixture.now), {.is_lost = true}, fixture.now);
  EXPECT_EQ(fixture.ended(), std::vector<ErrorCode>{ErrorCode::device_lost});
}

TEST(Batcher, DeadlinesEndRequestsThatWaitRunOrAreRetried) {
  Fixture fixture({.max_batch = 1, .devices = {"sim:0", "sim:1"}});
  fixture.offer({.deadline = 5ms});
  fixture.offer({.deadline = 6ms});
  fixture.offer({.deadline = 7ms});
  const BatchRef lost = fixture.batcher.take(0, 1, fixture.now);
  fixture.batcher.finish(lost, {.is_lost = true}, fixture.now);  // its request is retried
  const BatchRef retried = fixture.batcher.take(1, 1, fixture.now);
  EXPECT_EQ(retried->requests.front()->lost_on, 0U);
  EXPECT_EQ(fixture.batcher.next_expiry(), fixture.now + 5ms);
  fixture.now += 5ms;
  fixture.batcher.expire(fixture.now);
  EXPECT_EQ(fixture.ended().size(), 1U);
  EXPECT_EQ(fixture.batcher.next_expiry(), fixture.now + 1ms);
  fixture.now += 2ms;
  fixture.batcher.expire(fixture.now);
  EXPECT_EQ(fixture.ended(), std::vector<ErrorCode>(2, ErrorCode::deadline_exceeded));
  EXPECT_EQ(fixture.batcher.waiting_rows(), 0);
}

// Random programs: whatever happens, each accepted request ends exactly once, with a value or an
// error, and the batcher is empty at the end.
// NOLINTNEXTLINE(readability-function-cognitive-complexity): a choice at each line
TEST(Batcher, RandomProgramsLoseAndDoubleNothing) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::uint64_t step = 0;
    const auto pick = [&](std::uint64_t bound) { return philox::block(seed, step++)[0] % bound; };
    Fixture fixture({.max_batch = static_cast<std::int64_t>(1 + pick(9)),
                     .max_delay = std::chrono::milliseconds(pick(3)),
                     .max_waiting_rows = 30,
                     .exact_rows = pick(3) == 0,
                     .hang_limit = 20ms,
                     .devices = {"sim:0", "sim:1", "sim:2"}});
    fixture.rows_are_independent = pick(4) != 0;
    std::map<RequestRef, int> ends;
    std::vector<BatchRef> running;
    const auto note_ended = [&] {
      for (EndedRequest& each : fixture.batcher.take_ended()) {
        if (each.request->claim()) {
          ++ends.at(each.request);
        }
      }
    };
    const auto finish = [&](std::size_t index, bool is_lost) {
      const BatchRef batch = running[index];
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(index));
      for (const RequestRef& each : batch->requests) {
        if (!is_lost && each->claim()) {
          ++ends.at(each);
        }
      }
      fixture.batcher.finish(
          batch,
          {.is_lost = is_lost,
           .rows_are_independent = batch->mode == BatchMode::proof && !is_lost
                                       ? std::optional<bool>(fixture.rows_are_independent)
                                       : std::nullopt,
           .is_measured = !is_lost},
          fixture.now);
      note_ended();
    };
    for (int i = 0; i < 200; ++i) {
      fixture.now += std::chrono::microseconds(pick(2000));
      switch (pick(8)) {
        case 0:
        case 1:
        case 2:
          if (RequestRef made = fixture.offer(
                  {.rows = static_cast<std::int64_t>(
                       1 + pick(static_cast<std::uint64_t>(fixture.batcher.ladder().back()))),
                   .deadline = pick(2) == 0 ? std::chrono::nanoseconds::max()
                                            : std::chrono::milliseconds(1 + pick(30)),
                   .priority = static_cast<Priority>(pick(3))},
                  std::string(1, static_cast<char>('a' + pick(3))))) {
            ends[made] = 0;
          }
          break;
        case 3:
        case 4:
          if (BatchRef batch = fixture.batcher.take(pick(3), 1 + pick(3), fixture.now)) {
            std::int64_t rows = 0;
            for (const RequestRef& each : batch->requests) {
              rows += each->rows;
            }
            ASSERT_EQ(rows, batch->rows);
            ASSERT_LE(batch->rows, fixture.batcher.ladder().back()) << "seed " << seed;
            ASSERT_LE(batch->rows, batch->padded_rows);
            running.push_back(batch);
          }
          note_ended();
          break;
        case 5:
          if (!running.empty()) {
            finish(pick(running.size()), pick(8) == 0);
          }
          break;
        case 6:
          fixture.batcher.expire(fixture.now);
          note_ended();
          break;
        default:
          fixture.batcher.restore(pick(3));
          break;
      }
    }
    while (!running.empty()) {
      finish(0, false);
    }
    for (std::size_t device = 0; device < 3; ++device) {
      fixture.batcher.restore(device);
    }
    fixture.now += 1s;
    for (std::size_t device = 0; device < 3; ++device) {
      while (BatchRef batch = fixture.batcher.take(device, 1, fixture.now)) {
        running.push_back(batch);
        note_ended();
        finish(0, false);
      }
      note_ended();
    }
    for (const auto& entry : ends) {
      ASSERT_EQ(entry.second, 1) << "seed " << seed;
    }
    ASSERT_TRUE(fixture.batcher.is_empty()) << "seed " << seed;
    ASSERT_EQ(fixture.batcher.waiting_rows(), 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hearth::detail
