// The lane and the doorbell between real threads. Every wait has a deadline, so a lost ring or wake
// is a failure instead of a hang. RING_STRESS_PUSHES=20000000 makes it longer.
#include <hearth/streams/doorbell.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/base/thread_context.hpp>

namespace hearth {
namespace {

constexpr std::chrono::nanoseconds kWait =
    std::chrono::seconds(60);  // of one wait; the whole test takes a second

std::uint32_t push_count() {
  const char* wanted = std::getenv("RING_STRESS_PUSHES");
  return wanted == nullptr ? 200'000 : static_cast<std::uint32_t>(std::stoul(wanted));
}

/// Pushes like a stream: waits while the lane is full. Returns false if no room appears in time.
bool push_waiting(Lane& lane, OpRecord& record, std::span<const std::byte> blob) {
  while (!lane.try_push(record, blob)) {
    while (lane.announce_waiting()) {
      if (detail::current_context().parker().park(Deadline::in(kWait)) == detail::Wake::deadline) {
        return false;
      }
    }
  }
  return true;
}

TEST(RingStress, RecordsCrossInOrderWithTheirBlobs) {
  const std::uint32_t count = push_count();
  Lane lane(LaneId{1});
  std::atomic<bool> gave_up{false};
  std::thread producer([&] {
    std::array<std::byte, 600> blob{};
    for (std::uint32_t i = 1; i <= count && !gave_up.load(std::memory_order_acquire); ++i) {
      OpRecord record;
      record.source = SourceId{i};
      const std::size_t size = i % 7 == 0 ? 4 + i % 590 : 0;
      std::memcpy(blob.data(), &i, sizeof i);
      if (!push_waiting(lane, record, std::span(blob).first(size))) {
        gave_up.store(true, std::memory_order_release);
      }
    }
  });
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 1; i <= count && !gave_up.load(std::memory_order_acquire);) {
    const OpRecord* record = lane.front();
    if (record == nullptr) {
      std::this_thread::yield();  // ends with the producer, whose waits have a deadline
      continue;
    }
    std::uint32_t in_blob = i;
    if (const std::byte* const blob = lane.front_blob()) {
      std::memcpy(&in_blob, blob, sizeof in_blob);
    }
    wrong += record->source.value != i || record->sequence != i || in_blob != i ? 1 : 0;
    lane.pop();
    ++i;
  }
  producer.join();
  EXPECT_FALSE(gave_up) << "the producer was not woken";
  EXPECT_EQ(wrong, 0U);
}

/// Four producers with a lane each; an actor's thread that naps or sleeps when no lane rings; and
/// optionally a borrower that takes the token whenever it is free: the protocol of device_actor.
class Ringing {
 public:
  enum class Borrower : std::uint8_t { none, greedy };

  explicit Ringing(Borrower borrower) : borrower_(borrower) {
    for (std::uint32_t i = 0; i < kProducers; ++i) {
      lanes_.push_back(std::make_unique<Lane>(LaneId{i + 1}));
    }
  }

  void run() {
    std::thread actor([this] { act(); });
    while (!is_actor_there_.load(std::memory_order_acquire)) {  // partner: act
      std::this_thread::yield();
    }
    std::vector<std::thread> others;
    if (borrower_ == Borrower::greedy) {
      others.emplace_back([this] { borrow(); });
    }
    for (const auto& lane : lanes_) {
      others.emplace_back([this, &lane] { produce(*lane); });
    }
    for (std::thread& other : others) {
      other.join();
    }
    actor.join();
  }

  [[nodiscard]] bool is_stuck() const { return is_stuck_.load(std::memory_order_acquire); }
  [[nodiscard]] std::uint64_t missing() const { return pushes_ - consumed_; }

 private:
  static constexpr std::uint64_t kProducers = 4;

  /// The first producer sends bursts of 1 to 128 records and waits for each, like a caller of
  /// get(). No later push repeats a ring, so a ring lost with a burst's last record is detected.
  /// The other producers run ahead until their lanes are full.
  void produce(Lane& lane) {
    std::uint64_t burst = 0;
    for (std::uint64_t left = pushes_ / kProducers; left > 0 && !is_stuck();) {
      std::uint64_t in_burst = std::min(left, burst++ % 128 + 1);
      left -= in_burst;
      for (; in_burst > 0 && !is_stuck(); --in_burst) {
        OpRecord record;
        if (!push_waiting(lane, record, {})) {
          is_stuck_.store(true, std::memory_order_release);
        }
        if (lane.needs_ring() && doorbell_.ring(lane) == Doorbell::Ring::wake) {
          actor_parker_->unpark();
        }
      }
      if (&lane == lanes_.front().get()) {
        wait_until_consumed(lane);
      }
    }
  }
  void wait_until_consumed(const Lane& lane) {
    const Deadline until = Deadline::in(kWait);
    while (lane.consumed() < lane.pushed() && !is_stuck()) {
      std::this_thread::yield();
      if (until.has_passed()) {
        is_stuck_.store(true, std::memory_order_release);
      }
    }
  }
  /// The holder's loop, until no lane rings.
  void drain() {
    do {
      for (Lane* lane = doorbell_.take().lanes; lane != nullptr;) {
        Lane* next = lane->doorbell_next;
        do {
          while (lane->front() != nullptr) {
            lane->pop();
            ++consumed_;
          }
        } while (lane->finish_turn() == Lane::Turn::more);
        lane = next;
      }
    } while (!doorbell_.try_release());
    if (is_done()) {
      actor_parker_->unpark();
    }
  }
  [[nodiscard]] bool is_done() const {
    std::uint64_t all = 0;
    for (const auto& lane : lanes_) {
      all += lane->consumed();
    }
    return all == pushes_ || is_stuck();
  }
  void act() {
    actor_parker_ = IntrusivePtr<detail::Parker>(&detail::current_context().parker());
    is_actor_there_.store(true, std::memory_order_release);  // partner: run
    for (int round = 0; !is_done(); ++round) {
      if (doorbell_.try_claim()) {
        drain();
      }
      sleep(round % 2 == 0 ? Sleep::deep : Sleep::nap);
    }
  }
  enum class Sleep : std::uint8_t { nap, deep };
  void sleep(Sleep sleep) {
    const bool is_nap = sleep == Sleep::nap;
    if (is_done() || !doorbell_.set_timed(is_nap)) {
      return;
    }
    const Deadline until = Deadline::in(is_nap ? std::chrono::microseconds(100) : kWait);
    if (detail::current_context().parker().park(until) == detail::Wake::deadline && !is_nap &&
        !is_done()) {
      is_stuck_.store(true, std::memory_order_release);
    }
  }
  void borrow() {
    while (!is_done()) {
      if (doorbell_.try_claim()) {
        drain();
      }
      std::this_thread::yield();
    }
  }

  const Borrower borrower_;
  const std::uint64_t pushes_ = push_count() / 4 / kProducers * kProducers;
  Doorbell doorbell_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  IntrusivePtr<detail::Parker> actor_parker_;  // set before is_actor_there_
  std::atomic<bool> is_actor_there_{false};
  std::atomic<bool> is_stuck_{false};
  std::uint64_t consumed_ = 0;  // the holder's
};

TEST(RingStress, NoRingIsLostOnASleepingActor) {
  Ringing ringing(Ringing::Borrower::none);
  ringing.run();
  EXPECT_FALSE(ringing.is_stuck()) << "a ring was lost: somebody slept over it";
  EXPECT_EQ(ringing.missing(), 0U);
}

TEST(RingStress, NoRingIsLostBetweenTheActorAndABorrower) {
  Ringing ringing(Ringing::Borrower::greedy);
  ringing.run();
  EXPECT_FALSE(ringing.is_stuck()) << "a ring was lost: somebody slept over it";
  EXPECT_EQ(ringing.missing(), 0U);
}

}  // namespace
}  // namespace hearth
