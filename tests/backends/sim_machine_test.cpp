#include <hearth/backends/sim/sim_machine.hpp>

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::sim {
namespace {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;

SimCommand writing(std::string& log, char letter, int engine, std::int64_t cost) {
  return {.engine = engine, .cost = nanoseconds(cost), .effect = [&log, letter] { log += letter; }};
}
SimCommand after(SimCommand command, std::vector<std::uint64_t> numbers) {
  command.after = std::move(numbers);
  return command;
}

TEST(SimMachine, AnEngineRunsOneCommandAtATime) {
  std::string log;
  SimMachine machine;
  machine.submit(writing(log, 'a', 0, 10));
  machine.submit(writing(log, 'b', 0, 5));
  machine.advance(nanoseconds(10));
  EXPECT_EQ(log, "a");
  machine.advance(nanoseconds(4));
  EXPECT_EQ(log, "a");
  machine.advance(nanoseconds(1));
  EXPECT_EQ(log, "ab");
}

TEST(SimMachine, EnginesRunSideBySide) {
  std::string log;
  SimMachine machine({.queues = 2, .copy_engines = 1});
  machine.submit(writing(log, 'a', 0, 10));
  machine.submit(writing(log, 'b', 1, 5));
  machine.submit(writing(log, 'c', 2, 7));
  machine.advance(nanoseconds(10));
  EXPECT_EQ(log, "bca");
}

TEST(SimMachine, ACommandWaitsForAnotherEngine) {
  std::string log;
  SimMachine machine({.queues = 2});
  const std::uint64_t first = machine.submit(writing(log, 'a', 0, 10));
  const std::uint64_t second = machine.submit(after(writing(log, 'b', 1, 5), {first}));
  EXPECT_TRUE(machine.run_next());
  EXPECT_TRUE(machine.has_ended(first));
  EXPECT_FALSE(machine.has_ended(second));
  EXPECT_TRUE(machine.run_next());
  EXPECT_FALSE(machine.run_next()) << "nothing is left";
  EXPECT_EQ(machine.now(), nanoseconds(15));
  EXPECT_EQ(log, "ab");
}

TEST(SimMachine, AnEngineInOrderWaitsWithItsFirst) {
  std::string log;
  SimMachine machine({.queues = 2});
  const std::uint64_t first = machine.submit(writing(log, 'a', 0, 10));
  machine.submit(after(writing(log, 'b', 1, 1), {first}));
  machine.submit(writing(log, 'c', 1, 1));
  machine.advance(nanoseconds(20));
  EXPECT_EQ(log, "abc");
}

TEST(SimMachine, UnorderedWorkRunsInAnyOrderAndOrderedWorkDoesNot) {
  std::set<std::string> logs;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::string log;
    std::string again;
    for (std::string* each : {&log, &again}) {
      SimMachine machine({.reorder_seed = seed});
      const std::uint64_t a = machine.submit(writing(*each, 'a', 0, 1));
      const std::uint64_t b = machine.submit(writing(*each, 'b', 0, 1));
      const std::uint64_t c = machine.submit(writing(*each, 'c', 0, 1));
      machine.submit(after(writing(*each, 'd', 0, 1), {a, b, c}));
      machine.advance(nanoseconds(4));
    }
    EXPECT_EQ(log, again) << "seed " << seed;
    logs.insert(log);
  }
  // The first command begins at its submit, when it is alone.
  EXPECT_THAT(logs, ElementsAre("abcd", "acbd"));
}

TEST(SimMachine, WhatHangsStopsWhatWaitsForItAlone) {
  std::string log;
  SimMachine machine({.queues = 2});
  SimCommand hanging = writing(log, 'a', 0, 1);
  hanging.hangs = true;
  const std::uint64_t a = machine.submit(std::move(hanging));
  const std::uint64_t b = machine.submit(writing(log, 'b', 0, 1));
  const std::uint64_t c = machine.submit(writing(log, 'c', 1, 1));
  const std::uint64_t d = machine.submit(after(writing(log, 'd', 1, 1), {b}));
  machine.advance(std::chrono::hours(1));
  EXPECT_EQ(log, "c");
  EXPECT_TRUE(machine.has_ended(c));
  EXPECT_FALSE(machine.has_ended(a) || machine.has_ended(b) || machine.has_ended(d));
  EXPECT_FALSE(machine.run_next());
}

TEST(SimMachine, AWaitEndsAtItsLimit) {
  std::string log;
  SimMachine machine;
  const std::uint64_t a = machine.submit(writing(log, 'a', 0, 100));
  EXPECT_FALSE(machine.run_next(nanoseconds(99)));
  EXPECT_FALSE(machine.has_ended(a));
  EXPECT_EQ(machine.now(), nanoseconds(0));
  EXPECT_TRUE(machine.run_next(nanoseconds(100)));
  EXPECT_EQ(log, "a");
}

TEST(SimMachine, WorkGoesWhereTheLeastIs) {
  std::string log;
  SimMachine machine({.queues = 2, .copy_engines = 2});
  EXPECT_EQ(machine.least_busy_queue(), 0);
  machine.submit(writing(log, 'a', 0, 1));
  EXPECT_EQ(machine.least_busy_queue(), 1);
  machine.submit(writing(log, 'b', 1, 1));
  machine.submit(writing(log, 'c', 1, 1));
  EXPECT_EQ(machine.least_busy_queue(), 0);
}

}  // namespace
}  // namespace hearth::sim
