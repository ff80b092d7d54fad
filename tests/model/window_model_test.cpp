// The window's rules in every order of steps, and the errors without each rule. Searches are
// exhaustive for their programs. WINDOW_PROGRAMS sets the number of generated programs, WINDOW_SEED
// their seed.
#include "window_family.hpp"
#include "window_search.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <iostream>

namespace hearth::model {
namespace {

using ::testing::StartsWith;

std::uint64_t setting(const char* name, std::uint64_t fallback) {
  const char* const text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(WindowModel, EveryOrderOfEachChosenProgramIsRight) {
  std::uint64_t states = 0;
  for (const WindowProgram& program : chosen_programs()) {
    const WindowSearch result = search(program);
    EXPECT_FALSE(result.counterexample.has_value()) << result.counterexample.value_or("");
    EXPECT_GT(result.ends, 0U) << program.name;
    states += result.states;
  }
  EXPECT_GT(states, 500'000U);  // fewer: some step is never taken any more
}

TEST(WindowModel, EveryOrderOfEachGeneratedProgramIsRight) {
  const std::uint64_t seed = setting("WINDOW_SEED", 1);
  const std::uint64_t count = setting("WINDOW_PROGRAMS", 30);
  std::uint64_t states = 0;
  for (const WindowProgram& program : generated_programs(seed, count, 4)) {
    const WindowSearch result = search(program);
    ASSERT_FALSE(result.counterexample.has_value()) << *result.counterexample;
    states += result.states;
  }
  std::cout << count << " programs of seed " << seed << ": " << states << " states\n";
}

// ---- the error without each rule ----

struct Without {
  const char* name;
  bool WindowRules::*rule;
  const char* program;
  const char* seen;

  friend std::ostream& operator<<(std::ostream& out, const Without& without) {
    return out << without.name;
  }
};

class WindowWithout : public ::testing::TestWithParam<Without> {};

TEST_P(WindowWithout, HasACounterexample) {
  WindowRules rules;
  rules.*GetParam().rule = false;
  const WindowProgram program = chosen_program(GetParam().program);
  const WindowSearch result = search(program, rules);
  ASSERT_TRUE(result.counterexample.has_value()) << result.states << " states, all right";
  std::cout << *result.counterexample;
  EXPECT_THAT(*result.counterexample, StartsWith(GetParam().seen));
}

using Rules = WindowRules;
INSTANTIATE_TEST_SUITE_P(
    ,
    WindowWithout,
    ::testing::Values(
        Without{"ParkEndsWindow",
                &Rules::park_ends_window,
                "a wait that is given up",
                "lane 0's record 1 \"x=A!\" fails for want of what lane 0's record 2 \"z=x!y\""},
        Without{"CutsMakeNoPlan",
                &Rules::cuts_make_no_plan,
                "a window left alone",
                "lane 0 plans records 1 to 1, which is no window of program order"},
        Without{"NoPlanAfterCut",
                &Rules::no_plan_after_cut,
                "a window left alone",
                "lane 0 plans records 2 to 2, which is no window of program order"},
        Without{"CountGoesOn",
                &Rules::count_goes_on,
                "two windows and a sync",
                "lane 0 plans records 4 to 4, which is no window of program order"},
        Without{"FailureCuts",
                &Rules::failure_cuts,
                "poison at the beginning of a window",
                "lane 0 plans records 4 to 4, which is no window of program order"},
        Without{"ForeignUseCuts",
                &Rules::foreign_use_cuts,
                "foreign uses of what is pending",
                "lane 1 waits for the linger of lane 0"},
        Without{"ShortageCuts",
                &Rules::shortage_cuts,
                "memory that a window holds back",
                "a lane without memory waits for the linger of lane 0"},
        Without{"IdleCuts",
                &Rules::idle_cuts,
                "a window left alone",
                "steps go on for ever and lead to no end"},
        Without{"PlannerCopies",
                &Rules::planner_copies,
                "two windows and a sync",
                "the planner reads a record of lane 0 that has left the ring"},
        Without{"RecordsEndWindow",
                &Rules::records_end_window,
                "a ring full of drops",
                "a producer without room waits for the linger of lane 0"},
        Without{"DropsCount",
                &Rules::drops_count,
                "a ring full of drops",
                "a producer without room waits for the linger of lane 0"},
        Without{"PopLooksWhenCrossed",
                &Rules::pop_looks_when_crossed,
                "a producer whose next record frees memory",
                "lane 0 fails for want of memory while a producer waits for room that is there"},
        Without{"WindowsAreWork",
                &Rules::windows_are_work,
                "memory that a window holds back",
                "lane 1 fails for want of memory while a window is open"},
        Without{"ShortageAsksAgain",
                &Rules::shortage_asks_again,
                "a lane that is chosen to fail",
                "lane 1 fails for want of memory while a window is open"},
        Without{"LeavingWakes",
                &Rules::leaving_wakes,
                "a reader of the other lane's window",
                "records of lane 0 wait for ever"},
        Without{"ActorHasTimer",
                &Rules::actor_has_timer,
                "a window left alone",
                "records of lane 1 wait for ever"},
        Without{"DutiesCloseWindows",
                &Rules::duties_close_windows,
                "a restart beside windows",
                "a duty waits for the linger of lane 0"},
        Without{"StopClosesWindows",
                &Rules::duties_close_windows,
                "a shutdown with a lane that lingers",
                "a duty waits for the linger of lane 0"},
        Without{"OrphansIssue",
                &Rules::orphans_issue,
                "a shutdown with windows open",
                "lane 0 ends with records that nobody ran"},
        Without{"WatchingCuts",
                &Rules::watching_cuts,
                "an adoption behind a window",
                "a watcher waits for the linger of lane 0"},
        Without{"CutComesFirst",
                &Rules::cut_comes_first,
                "an adoption behind a window",
                "the thread of lane 1 waits for ever"},
        Without{"WatchedJoinCuts",
                &Rules::watched_join_cuts,
                "an adoption behind a window",
                "a watcher waits for the linger of lane 0"},
        Without{"AwaitedJoinCuts",
                &Rules::watched_join_cuts,
                "foreign uses of what is pending",
                "lane 1 waits for the linger of lane 0"},
        Without{"LingerGivesLaneBack",
                &Rules::linger_gives_lane_back,
                "a window left alone",
                "a record waits for the linger of lane 0"},
        Without{"TakesLaneBack",
                &Rules::takes_lane_back,
                "two windows and a sync",
                "lane 0 is linked into the doorbell twice"},
        Without{"DropsAreEvents",
                &Rules::drops_are_events,
                "a drop beside a window",
                "A is dropped before lane 0 has used it"},
        Without{"VirtualNeedsNoUses",
                &Rules::virtual_needs_no_uses,
                "a drop of a pending tensor with a foreign use",
                "the kernel of lane 1's record 1 \"v=x\" reads something else than x"},
        Without{"PoisonStaysOut",
                &Rules::poison_stays_out,
                "a kernel that fails",
                "the kernel of lane 1's record 1 \"v=x\" reads something else than x"},
        Without{"InPlaceAsks",
                &Rules::in_place_asks,
                "an adoption on queues of their own",
                "the kernel of lane 0's record 3 \"v=x\" reads something else than x"},
        Without{"ShownAreDone",
                &Rules::shown_are_done,
                "a restart beside a view",
                "a record of lane 0 ends twice"},
        Without{"ShowingWakes",
                &Rules::showing_wakes,
                "a view that another lane waits for",
                "the thread of lane 1 waits for ever"},
        Without{"LastUsesShowNot",
                &Rules::last_uses_show_not,
                "a view that ends its tensor",
                "A is dropped before lane 0 has used it"},
        Without{"ViewsShare",
                &Rules::views_share,
                "a view and its tensor's last use",
                "the kernel of lane 0's record 3 \"y=v\" reads something else than v"},
        Without{"FlightIsWork",
                &Rules::flight_is_work,
                "memory in flight",
                "lane 0 fails for want of memory while a batch is in flight"},
        Without{"QuestionsAwaitFlight",
                &Rules::flight_is_work,
                "a question with work in flight",
                "a question is answered while a batch is in flight"},
        Without{"FlightHoldsBlocks",
                &Rules::flight_holds_blocks,
                "foreign uses on queues of their own",
                "the kernel of lane 0's record 3 \"y=x\" reads something else than x"},
        Without{"BatchesWait",
                &Rules::batches_wait,
                "foreign uses on queues of their own",
                "the kernel of lane 1's record 1 \"v=x\" reads something else than x"}),
    [](const auto& without) { return without.param.name; });

// ---- rules that only save time ----

// The rule is for pushes that pop() does not see yet, but here a push is one step.
TEST(WindowModel, TheEndOfATurnNeedNotLookForAProducerWherePopSeesWhatItCrosses) {
  for (const char* name :
       {"a producer that waits at a full ring", "a producer whose next record frees memory"}) {
    const WindowSearch result = search(chosen_program(name), {.turn_end_looks = false});
    EXPECT_FALSE(result.counterexample.has_value()) << result.counterexample.value_or("");
  }
}

// The last lane to wait checks again when the device is idle, so a wake at each point only saves
// time.
TEST(WindowModel, NobodyWaitsForEverWhereAPointWakesNoLaneThatIsShortOfMemory) {
  for (const char* name : {"memory in flight", "an update group short of memory"}) {
    const WindowSearch result = search(chosen_program(name), {.retiring_wakes = false});
    EXPECT_FALSE(result.counterexample.has_value()) << result.counterexample.value_or("");
  }
}

// ---- the checker ----

TEST(WindowSearch, ACounterexampleIsAStoryOfTheFewestSteps) {
  const WindowProgram program{.name = "one op", .text = {"x=A", ""}, .threads_stay = true};
  const WindowSearch result = search(program, {.actor_has_timer = false});
  ASSERT_TRUE(result.counterexample.has_value());
  EXPECT_EQ(*result.counterexample,
            "records of lane 0 wait for ever\n"
            "  one op\n"
            "  lane 0: x=A\n"
            "  lane 1: \n"
            "  - lane 0's record 1 \"x=A\" is pushed\n"
            "  - the actor takes the token\n"
            "  - lane 0's record 1 \"x=A\" has its turn\n"
            "    lane 0's record 1 \"x=A\" joins the window\n"
            "    lane 0 lingers with its window open\n"
            "  - the actor gives the token back\n"
            "  - the linger of lane 0 passes\n"
            "  - the actor sleeps until it is woken\n");
}

TEST(WindowSearch, AProgramOfTooManyStatesIsRefused) {
  EXPECT_THROW(static_cast<void>(search(chosen_program("memory in flight"), {}, 1000)),
               std::length_error);
}

TEST(WindowPlan, WindowsEndByProgramOrderAlone) {
  const WindowPlan plan({.text = {"x=A ~A y=x | z=y", "v=B w=v u=w >u"}, .ring = 6});
  using Range = WindowPlan::Range;
  EXPECT_THAT(plan.windows[0], ::testing::ElementsAre(Range{0, 3}));
  EXPECT_THAT(plan.windows[1], ::testing::ElementsAre(Range{0, 2}, Range{2, 3}));
}

TEST(WindowPlan, TextThatIsNoProgramIsRefused) {
  EXPECT_THROW(WindowPlan({.text = {"x", ""}}), std::invalid_argument);
  EXPECT_THROW(WindowPlan({.text = {"| | | | | | | |", ""}}), std::invalid_argument);
}

TEST(GeneratedPrograms, DifferInMoreThanTheOrderOfTheirLanes) {
  const std::vector<WindowProgram> programs = generated_programs(5, 50, 4);
  for (const WindowProgram& a : programs) {
    for (const WindowProgram& b : programs) {
      const bool is_twin = a.text[0] == b.text[1] && a.text[1] == b.text[0] && &a != &b;
      EXPECT_FALSE(is_twin && a.is_host == b.is_host && a.has_plans == b.has_plans &&
                   a.threads_stay == b.threads_stay && a.can_stop == b.can_stop &&
                   a.can_ask == b.can_ask && a.can_restart == b.can_restart &&
                   a.has_deadlines == b.has_deadlines && a.blocks == b.blocks && a.ring == b.ring)
          << a.name << " and " << b.name;
    }
  }
}

}  // namespace
}  // namespace hearth::model
