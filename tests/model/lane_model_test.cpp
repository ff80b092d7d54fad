// Lane, doorbell and the actor's sleep, in every order of steps: one holder of the token at a time
// takes every record once and in order, and no thread sleeps while there is work.
#include "protocols.hpp"

#include <array>
#include <cstring>
#include <ostream>
#include <span>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::model {
namespace {

using ::testing::HasSubstr;

/// A small device; plain memory stands for the state that the token guards.
struct SmallDevice {
  // In the order of the atomics' numbers.
  ModelParker actor;                     // 0
  ModelParker producer;                  // 1
  SmallDoorbell doorbell;                // 2
  SmallLane lane{LaneId{1}};             // 3 tail, 4 head, 5 blob head, 6 rung, 7 waits, 8 awaited
                                         // blob head, 9 waiter
  std::array<std::uint32_t, 2> taken{};  // the last record of each lane
  std::uint32_t inbox = 0;
  bool is_orphan_seen = false;
  // Expected values at the end.
  std::array<std::uint32_t, 2> wanted{};
  std::uint32_t wanted_inbox = 0;
  bool wants_orphan = false;
  bool has_blobs = false;
  bool looks_ahead = false;    // a lane's records wait until the lane has been given back
  bool counts_rings = false;   // lanes without records: only the doorbell matters
  SmallLane other{LaneId{2}};  // 10 to 16

  SmallDevice() { SmallLanePolicy::producer() = &producer; }

  // ---- the producer's side, as in StreamState ----
  void ring(SmallLane& rung) {
    if (doorbell.ring(rung) == SmallDoorbell::Ring::wake) {
      actor.unpark();
    }
  }
  bool try_push(SmallLane& to, std::uint32_t tag) {
    OpRecord record = record_with(tag);
    const auto bytes = std::as_bytes(std::span(&tag, 1));
    if (!to.try_push(record, has_blobs ? bytes : std::span<const std::byte>())) {
      return false;
    }
    if (to.needs_ring()) {
      ring(to);
    }
    return true;
  }
  void push(SmallLane& to, std::uint32_t tag) {
    while (!try_push(to, tag)) {
      while (to.announce_waiting()) {
        if (doorbell.is_free()) {
          actor.unpark();
        }
        require(producer.park(Sleep::with_deadline), "the producer waited although there was room");
      }
    }
  }

  // ---- the holder's side, as in DeviceActor ----
  void consume(SmallLane& from) {
    std::uint32_t& last = taken.at(from.id().value - 1);
    while (const OpRecord* record = from.front()) {
      Atomics::record_write(&last);
      require(record->source.value == last + 1, "a record came out of order");
      if (has_blobs) {
        std::uint32_t in_blob = 0;
        if (const std::byte* blob = from.front_blob()) {
          std::memcpy(&in_blob, blob, sizeof in_blob);
        }
        require(in_blob == record->source.value, "a record came with another one's blob");
      }
      last = record->source.value;
      from.pop();
    }
  }
  void take_turns(SmallLane& lane_in_hand) {
    auto turn = SmallLane::Turn::more;
    while (turn == SmallLane::Turn::more) {
      std::uint64_t looked = 0;
      if (looks_ahead) {
        while (lane_in_hand.peek(looked) != nullptr) {
          ++looked;
        }
      } else {
        consume(lane_in_hand);
      }
      turn = lane_in_hand.finish_turn(looked);
      if (turn == SmallLane::Turn::empty && looked > 0) {
        if (!lane_in_hand.reclaim()) {
          return;  // the doorbell has it, or soon will
        }
        consume(lane_in_hand);
        turn = SmallLane::Turn::more;
      }
    }
    if (turn == SmallLane::Turn::empty && lane_in_hand.is_orphaned()) {
      Atomics::record_write(&is_orphan_seen);
      require(!is_orphan_seen, "an orphan was closed twice");
      is_orphan_seen = true;
    }
  }
  /// Runs with the token. Returns true when all work is done, with the token still held; false
  /// after releasing it.
  bool run() {
    for (;;) {
      const SmallDoorbell::Rung rung = doorbell.take();
      if (rung.inbox) {
        Atomics::record_write(&inbox);
        ++inbox;
      }
      for (SmallLane* ready = rung.lanes; ready != nullptr;) {
        SmallLane* const next = ready->doorbell_next;
        if (counts_rings) {
          std::uint32_t& count = taken.at(ready->id().value - 1);
          Atomics::record_write(&count);
          ++count;
        } else {
          take_turns(*ready);
        }
        ready = next;
      }
      if (is_done()) {
        return true;
      }
      if (doorbell.try_release()) {
        return false;
      }
    }
  }
  /// The actor's thread, from the point where it has found no work and releases the token.
  void actor_main() {
    if (doorbell.try_release() || !run()) {
      sleep_until_done();
    }
  }
  void sleep_until_done() {
    for (;;) {
      if (doorbell.set_timed(false) && !actor.park(Sleep::with_deadline)) {
        require(is_done(), "the actor sleeps, and there is work");
        return;
      }
      if (doorbell.try_claim() && run()) {
        return;
      }
    }
  }
  [[nodiscard]] bool is_done() const {
    return taken == wanted && inbox >= wanted_inbox && (is_orphan_seen || !wants_orphan);
  }
};

/// A device whose actor holds the token.
std::shared_ptr<SmallDevice> make_device(std::array<std::uint32_t, 2> wanted) {
  auto device = std::make_shared<SmallDevice>();
  device->wanted = wanted;
  require(device->doorbell.try_claim(), "a new device's token is free");
  return device;
}

// The actor goes to sleep while a record arrives.
Program wake_the_actor() {
  const auto device = make_device({1, 0});
  return {.threads = {[=] { device->actor_main(); },
                      [=] { require(device->try_push(device->lane, 1), "no room"); }}};
}

// The holder has an empty lane while two records arrive: it takes them, or their producer must
// ring.
Program end_a_turn() {
  const auto device = make_device({2, 0});
  const auto is_rung = std::make_shared<bool>(false);
  require(device->lane.needs_ring(), "a new lane is not rung");
  return {
      .threads = {[=] { device->take_turns(device->lane); },
                  [=] {
                    for (const std::uint32_t tag : {1U, 2U}) {
                      OpRecord record = record_with(tag);
                      require(device->lane.try_push(record, {}), "no room");
                      *is_rung = device->lane.needs_ring() || *is_rung;
                    }
                  }},
      .at_end = [=] { require(device->is_done() || *is_rung, "a record waits and nobody knows"); }};
}

// A lane with one record lingers and is cut, while its producer pushes another record and ends its
// stream.
Program linger() {
  const auto device = make_device({2, 0});
  const auto is_rung = std::make_shared<bool>(false);
  device->looks_ahead = true;
  device->wants_orphan = true;
  OpRecord first = record_with(1);
  require(device->lane.try_push(first, {}) && device->lane.needs_ring(), "a new lane is not rung");
  return {.threads = {[=] { device->take_turns(device->lane); },
                      [=] {
                        OpRecord record = record_with(2);
                        require(device->lane.try_push(record, {}), "no room");
                        const bool by_push = device->lane.needs_ring();
                        *is_rung = device->lane.orphan() || by_push;
                      }},
          .at_end = [=] { require(device->is_done() || *is_rung, "nobody learns of the rest"); }};
}

// The holder has a full lane, and its producer has one more record.
Program fill_the_lane() {
  const auto device = make_device({3, 0});
  for (const std::uint32_t tag : {1U, 2U}) {
    OpRecord record = record_with(tag);
    require(device->lane.try_push(record, {}), "no room");
  }
  require(device->lane.needs_ring(), "a new lane is not rung");
  return {.threads = {[=] { device->take_turns(device->lane); },
                      [=] { device->push(device->lane, 3); }}};
}

// The actor takes one record of a full lane, and then serves other lanes for long.
Program leave_the_lane() {
  const auto device = make_device({2, 0});
  for (const std::uint32_t tag : {1U, 2U}) {
    OpRecord record = record_with(tag);
    require(device->lane.try_push(record, {}), "no room");
  }
  require(device->lane.needs_ring(), "a new lane is not rung");
  return {.threads = {[=] {
                        require(device->lane.front() != nullptr, "a record is lost");
                        device->lane.pop();
                        device->lane.look_for_producer();
                      },
                      [=] { device->push(device->lane, 3); }}};
}

// The holder has one record with its blob, and the producer has another: the records would fit, the
// blobs do not.
Program fill_the_blobs() {
  const auto device = make_device({2, 0});
  device->has_blobs = true;
  require(device->try_push(device->lane, 1), "no room");
  require(device->doorbell.take().lanes == &device->lane, "a push rings");
  return {.threads = {[=] { device->take_turns(device->lane); },
                      [=] { device->push(device->lane, 2); }}};
}

// The stream ends while the holder has the lane.
Program orphan() {
  const auto device = make_device({1, 0});
  const auto is_rung = std::make_shared<bool>(false);
  device->wants_orphan = true;
  require(device->lane.needs_ring(), "a new lane is not rung");
  return {.threads = {[=] { device->take_turns(device->lane); },
                      [=] {
                        OpRecord record = record_with(1);
                        require(device->lane.try_push(record, {}), "no room");
                        const bool first = device->lane.needs_ring();
                        *is_rung = device->lane.orphan() || first;
                      }},
          .at_end = [=] { require(device->is_done() || *is_rung, "nobody learns of the orphan"); }};
}

std::shared_ptr<SmallDevice> make_bell(std::array<std::uint32_t, 2> wanted) {
  auto device = make_device(wanted);
  device->counts_rings = true;
  return device;
}

// Two producers ring while the holder takes the rung lanes.
Program two_rings() {
  const auto device = make_bell({1, 1});
  const auto count = [=](const SmallDoorbell::Rung& rung) {
    for (SmallLane* ready = rung.lanes; ready != nullptr; ready = ready->doorbell_next) {
      ++device->taken.at(ready->id().value - 1);
    }
  };
  return {.threads = {[=] {
                        count(device->doorbell.take());
                        count(device->doorbell.take());
                      },
                      [=] { device->ring(device->lane); },
                      [=] { device->ring(device->other); }},
          .at_end = [=] {
            count(device->doorbell.stop());
            require(device->is_done(), "a lane was lost, or came twice");
          }};
}

// Two producers ring for a sleeping actor: one of them wakes it, and it finds both lanes.
Program two_rings_in_the_night() {
  const auto device = make_bell({1, 1});
  require(device->doorbell.try_release() && device->doorbell.set_timed(false), "nothing was rung");
  return {.threads = {[=] {
                        require(device->actor.park(Sleep::with_deadline), "nobody woke the actor");
                        require(device->doorbell.try_claim(), "nobody else claims");
                        device->run();
                      },
                      [=] { device->ring(device->lane); },
                      [=] { device->ring(device->other); }},
          .at_end = [=] {
            // Before it sleeps again the actor checks once more.
            require(device->is_done() || device->actor.has_token() ||
                        !device->doorbell.set_timed(false),
                    "the second is not told of");
          }};
}

// The ringing thread takes the token itself, like a reader.
Program borrow_the_token() {
  const auto device = make_bell({1, 0});
  return {.threads = {[=] { device->actor_main(); },
                      [=] {
                        device->ring(device->lane);
                        if (device->doorbell.try_claim()) {
                          device->run();
                        }
                      }}};
}

// A borrower releases the token while the actor is in deep sleep and a lane is rung.
Program give_the_token_back() {
  const auto device = make_bell({1, 0});
  return {.threads = {[=] { device->run(); }, [=] { device->ring(device->lane); }}, .at_end = [=] {
            require(device->is_done() || device->actor.has_token(), "nobody is told of the lane");
          }};
}

// A message and a lane arrive.
Program ring_the_inbox() {
  const auto device = make_bell({1, 0});
  device->wanted_inbox = 1;
  return {.threads = {[=] { device->actor_main(); },
                      [=] {
                        if (device->doorbell.ring_inbox()) {
                          device->actor.unpark();
                        }
                        device->ring(device->lane);
                      }}};
}

// The device closes while records arrive: the actor or the producer takes each record, once.
Program stop() {
  const auto device = make_device({2, 0});
  const auto reject = [=](SmallLane& lane) {
    do {
      device->consume(lane);
    } while (lane.finish_turn() == SmallLane::Turn::more);
  };
  return {.threads = {[=] {
                        const SmallDoorbell::Rung rung = device->doorbell.stop();
                        if (rung.lanes != nullptr) {
                          reject(*rung.lanes);
                        }
                      },
                      [=] {
                        for (std::uint32_t tag = 1; tag <= 2; ++tag) {
                          OpRecord record = record_with(tag);
                          require(device->lane.try_push(record, {}), "no room");
                          if (device->lane.needs_ring() &&
                              device->doorbell.ring(device->lane) == SmallDoorbell::Ring::stopped) {
                            reject(device->lane);
                          }
                        }
                      }},
          .at_end = [=] { require(device->is_done(), "a record was left in a stopped device"); }};
}

struct Scenario {
  std::string name;
  Program (*make)();

  friend void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }
};

const std::vector<Scenario>& scenarios() {
  static const std::vector<Scenario> all{
      {"end_a_turn", &end_a_turn},
      {"linger", &linger},
      {"fill_the_lane", &fill_the_lane},
      {"leave_the_lane", &leave_the_lane},
      {"fill_the_blobs", &fill_the_blobs},
      {"orphan", &orphan},
      {"stop", &stop},
      {"two_rings", &two_rings},
      {"two_rings_in_the_night", &two_rings_in_the_night},
      {"borrow_the_token", &borrow_the_token},
      {"give_the_token_back", &give_the_token_back},
      {"ring_the_inbox", &ring_the_inbox},
      {"wake_the_actor", &wake_the_actor},
  };
  return all;
}

class LaneModel : public ::testing::TestWithParam<Scenario> {};

TEST_P(LaneModel, EveryOrderOfStepsIsRight) {
  const CheckResult result = check(GetParam().make);
  EXPECT_TRUE(result.is_complete) << result.executions << " executions: "
                                  << result.counterexample.value_or("not complete");
  std::printf("%s: %lu executions, %lu of them redundant, %lu steps\n",
              GetParam().name.c_str(),
              result.executions,
              result.redundant,
              result.steps);
}

INSTANTIATE_TEST_SUITE_P(Scenarios,
                         LaneModel,
                         ::testing::ValuesIn(scenarios()),
                         [](const auto& scenario) { return scenario.param.name; });

// The purpose of each memory order: with a weaker one the checker finds the error.
struct Weak {
  std::string name;
  Program (*make)();
  CheckOptions::At at;
  std::string text;

  friend void PrintTo(const Weak& weak, std::ostream* out) { *out << weak.name; }
};

constexpr model::Location kActor = 0;
constexpr model::Location kProducer = 1;
constexpr model::Location kDoorbell = 2;
constexpr model::Location kTail = 3;
constexpr model::Location kHead = 4;
constexpr model::Location kBlobHead = 5;
constexpr model::Location kRung = 6;
constexpr model::Location kWaits = 7;

const std::vector<Weak>& weak_ones() {
  static const std::vector<Weak> all{
      {"tail_release", &end_a_turn, {kTail, Weakening::no_release}, "a data race"},
      {"tail_acquire", &end_a_turn, {kTail, Weakening::no_acquire}, "a data race"},
      {"rung_exchange", &end_a_turn, {kRung, Weakening::split}, "nobody knows"},
      {"rung_release", &end_a_turn, {kRung, Weakening::no_release}, "nobody knows"},
      {"rung_acquire", &end_a_turn, {kRung, Weakening::no_acquire}, "nobody knows"},
      {"orphan_exchange", &orphan, {kRung, Weakening::split}, ""},
      {"take_back_exchange", &linger, {kRung, Weakening::split}, ""},
      {"head_release", &fill_the_lane, {kHead, Weakening::no_release}, "a data race"},
      {"head_acquire", &fill_the_lane, {kHead, Weakening::no_acquire}, "a data race"},
      {"blob_release", &fill_the_blobs, {kBlobHead, Weakening::no_release}, "a data race"},
      {"blob_acquire", &fill_the_blobs, {kBlobHead, Weakening::no_acquire}, "a data race"},
      {"waits_exchange", &fill_the_lane, {kWaits, Weakening::split}, "although there was room"},
      {"waits_release", &fill_the_lane, {kWaits, Weakening::no_release}, "although there was room"},
      {"waits_acquire", &fill_the_lane, {kWaits, Weakening::no_acquire}, "although there was room"},
      {"producer_exchange",
       &fill_the_lane,
       {kProducer, Weakening::split},
       "although there was room"},
      {"doorbell_release", &two_rings, {kDoorbell, Weakening::no_release}, "a data race"},
      {"doorbell_acquire", &two_rings, {kDoorbell, Weakening::no_acquire}, "a data race"},
      {"token_release", &borrow_the_token, {kDoorbell, Weakening::no_release}, "a data race"},
      {"token_acquire", &borrow_the_token, {kDoorbell, Weakening::no_acquire}, "a data race"},
      {"actor_exchange", &wake_the_actor, {kActor, Weakening::split}, "and there is work"},
      {"stop_acquire", &stop, {kDoorbell, Weakening::no_acquire}, "a data race"},
  };
  return all;
}

class WeakLaneModel : public ::testing::TestWithParam<Weak> {};

TEST_P(WeakLaneModel, HasACounterexample) {
  const CheckResult result = check(GetParam().make, {.weakened = {GetParam().at}});
  ASSERT_TRUE(result.counterexample.has_value()) << result.executions << " executions";
  EXPECT_THAT(*result.counterexample, HasSubstr(GetParam().text));
}

INSTANTIATE_TEST_SUITE_P(Orders,
                         WeakLaneModel,
                         ::testing::ValuesIn(weak_ones()),
                         [](const auto& weak) { return weak.param.name; });

}  // namespace
}  // namespace hearth::model
