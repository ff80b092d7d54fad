#include <hearth/autotune/tune_entry.hpp>

#include <array>
#include <chrono>
#include <string>

#include <gtest/gtest.h>

namespace hearth::detail {
namespace {

using std::chrono::sys_seconds;

constexpr sys_seconds kNow{std::chrono::seconds(1'900'000'000)};

// The rule, two candidates of its class, one of another class.
constexpr std::array<Candidate, 4> kCandidates{{{.id = 0, .bits = 1, .text_hash = 100},
                                                {.id = 5, .bits = 1, .text_hash = 105},
                                                {.id = 6, .bits = 1, .text_hash = 106},
                                                {.id = 7, .bits = 2, .text_hash = 107}}};

TuneEntry entry_with(std::vector<CandidateId> ids) {
  TuneEntry entry{.tuned_at = kNow};
  for (const CandidateId id : ids) {
    entry.ladder.push_back(
        {.id = id, .text_hash = 100U + id, .low = RunTime(9), .median = RunTime(10)});
  }
  return entry;
}

TEST(PickFrom, TakesTheFirstRung) {
  EXPECT_EQ(pick_from(entry_with({5, 6, 0}), kCandidates, Numerics::same_bits), 5);
}

TEST(PickFrom, NeverLeavesTheBitsClassOfTheRule) {
  const TuneEntry entry = entry_with({7, 6, 0});
  EXPECT_EQ(pick_from(entry, kCandidates, Numerics::same_bits), 6);
  EXPECT_EQ(pick_from(entry, kCandidates, Numerics::fast), 7);
}

TEST(PickFrom, SkipsWhatTheCallDoesNotList) {
  EXPECT_EQ(pick_from(entry_with({9, 6, 0}), kCandidates, Numerics::same_bits), 6);
}

TEST(PickFrom, SkipsAKernelOfAnotherText) {
  TuneEntry entry = entry_with({5, 6, 0});
  entry.ladder[0].text_hash = 1;
  EXPECT_EQ(pick_from(entry, kCandidates, Numerics::same_bits), 6);
}

TEST(PickFrom, TrustsNothingWhenTheRuleHasAnotherText) {
  TuneEntry entry = entry_with({5, 6, 0});
  entry.ladder.back().text_hash = 1;
  EXPECT_EQ(pick_from(entry, kCandidates, Numerics::same_bits), kRulePick);
}

TEST(PickFrom, StopsAtTheRule) {
  EXPECT_EQ(pick_from(entry_with({0}), kCandidates, Numerics::same_bits), kRulePick);
  EXPECT_EQ(pick_from(entry_with({}), kCandidates, Numerics::same_bits), kRulePick);
  EXPECT_EQ(pick_from(entry_with({5, 6}), kCandidates, Numerics::same_bits), kRulePick)
      << "a ladder without the rule is damaged";
}

TEST(PickFrom, NeverTakesAQuarantinedCandidate) {
  TuneEntry entry = entry_with({5, 6, 0});
  entry.quarantined.push_back({.id = 5, .text_hash = 105, .reason = "wrong values"});
  EXPECT_EQ(pick_from(entry, kCandidates, Numerics::same_bits), 6);
}

TEST(Quarantine, RemovesTheRungAndHoldsForOneText) {
  TuneEntry entry = entry_with({5, 6, 0});
  quarantine(entry, 5, 105, "guard line of output 0");
  ASSERT_EQ(entry.ladder.size(), 2U);
  EXPECT_EQ(entry.ladder[0].id, 6);
  EXPECT_TRUE(is_quarantined(entry, kCandidates[1]));
  Candidate mended = kCandidates[1];
  mended.text_hash = 205;
  EXPECT_FALSE(is_quarantined(entry, mended));
}

TEST(Quarantine, IsBoundedAndStatedOnce) {
  TuneEntry entry;
  quarantine(entry, 5, 105, std::string(1000, 'x'));
  quarantine(entry, 5, 105, "again");
  ASSERT_EQ(entry.quarantined.size(), 1U);
  EXPECT_EQ(entry.quarantined[0].reason, std::string(TuneEntry::kMostText, 'x'));
  for (std::uint64_t text = 0; text < 100; ++text) {
    quarantine(entry, 6, text, "wrong");
  }
  EXPECT_EQ(entry.quarantined.size(), TuneEntry::kMostRemarks);
  EXPECT_EQ(entry.quarantined.back().text_hash, 99U);
}

TEST(DropRung, KeepsTheRule) {
  TuneEntry entry = entry_with({5, 0});
  drop_rung(entry, 5);
  drop_rung(entry, 0);
  ASSERT_EQ(entry.ladder.size(), 1U);
  EXPECT_EQ(entry.ladder[0].id, kRulePick);
}

TEST(IsStale, AfterNinetyDaysOrTwoSlowSittingsOrDoubt) {
  TuneEntry entry = entry_with({5, 0});
  EXPECT_FALSE(is_stale(entry, kNow + std::chrono::days(90)));
  EXPECT_TRUE(is_stale(entry, kNow + std::chrono::days(91)));
  note_sitting(entry, RunTime(12));
  EXPECT_FALSE(is_stale(entry, kNow));
  note_sitting(entry, RunTime(10.5));  // as fast as before
  note_sitting(entry, RunTime(12));
  EXPECT_FALSE(is_stale(entry, kNow));
  note_sitting(entry, RunTime(12));
  EXPECT_TRUE(is_stale(entry, kNow));
  entry = entry_with({5, 0});
  entry.evidence.doubt = Doubt::humps;
  EXPECT_TRUE(is_stale(entry, kNow));
  EXPECT_TRUE(is_stale(entry_with({}), kNow));
}

TEST(IsStale, IfTheRuleOrTheWinnerHasAnotherText) {
  const TuneEntry entry = entry_with({5, 6, 0});
  const auto candidates = [](std::uint64_t rule, std::uint64_t winner, std::uint64_t second) {
    return std::vector<Candidate>{{.id = kRulePick, .text_hash = rule},
                                  {.id = 5, .text_hash = winner},
                                  {.id = 6, .text_hash = second}};
  };
  EXPECT_FALSE(is_stale(entry, candidates(100, 105, 0), kNow));
  EXPECT_TRUE(is_stale(entry, candidates(0, 105, 106), kNow));
  EXPECT_TRUE(is_stale(entry, candidates(100, 0, 106), kNow));
  EXPECT_TRUE(is_stale(entry_with({}), candidates(100, 105, 106), kNow));
}

TEST(Merged, TheLaterLadderCounts) {
  TuneEntry later = entry_with({6, 0});
  later.tuned_at = kNow + std::chrono::seconds(1);
  EXPECT_EQ(merged(entry_with({5, 0}), later).ladder, later.ladder);
  EXPECT_EQ(merged(later, entry_with({5, 0})).ladder, later.ladder);
  TuneEntry empty = entry_with({});
  empty.tuned_at = kNow + std::chrono::seconds(2);
  EXPECT_EQ(merged(later, empty).ladder, later.ladder) << "no trial ended in the later one";
  EXPECT_EQ(merged(empty, later).ladder, later.ladder);
}

TEST(Merged, OfOneTimeTheFirstCounts) {
  TuneEntry dropped = entry_with({5, 0});
  drop_rung(dropped, 5);
  EXPECT_EQ(merged(dropped, entry_with({5, 0})).ladder.size(), 1U);
}

TEST(Merged, AQuarantineOfEitherHolds) {
  TuneEntry a = entry_with({5, 6, 0});
  TuneEntry b = entry_with({});
  quarantine(b, 5, 105, "crashed");
  b.verified.push_back({.id = 6, .how = VerifiedBy::same_bytes, .text_hash = 106});
  a.verified.push_back({.id = 5, .how = VerifiedBy::same_bytes, .text_hash = 105});
  for (const TuneEntry& each : {merged(a, b), merged(b, a)}) {
    ASSERT_EQ(each.ladder.size(), 2U);
    EXPECT_EQ(each.ladder[0].id, 6);
    EXPECT_EQ(each.quarantined.size(), 1U);
    EXPECT_EQ(each.verified.size(), 2U);
  }
}

}  // namespace
}  // namespace hearth::detail
