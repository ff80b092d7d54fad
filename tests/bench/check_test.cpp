// Wrong kernels are reported as wrong, and never timed.
#include "bench/kernels/check.hpp"

#include "bench/kernels/measuring.hpp"
#include "tests/support/forwarding_backend.hpp"

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/runtime/base/cores.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::bench {
namespace {

using detail::Candidate;
using ::testing::HasSubstr;

enum Pick : detail::CandidateId {
  kRule,
  kGood,
  kWrong,
  kOtherClass,
  kOtherWrong,
  kOutside,
  kRefused
};

/// A CPU device with candidates that are right or wrong in a known way.
class PlantedBackend final : public testing::ForwardingBackend {
 public:
  PlantedBackend()
      : ForwardingBackend(std::make_unique<cpu::CpuBackend>(
            cpu::CpuOptions{.cores = {available_cores().front()}, .serial = true})) {}

  bool is_rule_wrong = false;

  [[nodiscard]] std::vector<Candidate> candidates(const KernelCall&) const override {
    return {{.id = kRule, .bits = 1, .name = "rule"},
            {.id = kGood, .bits = 1, .name = "good"},
            {.id = kWrong, .bits = 1, .name = "wrong"},
            {.id = kOtherClass, .bits = 2, .name = "other class"},
            {.id = kOtherWrong, .bits = 2, .name = "other class, wrong"},
            {.id = kOutside, .bits = 1, .name = "outside"},
            {.id = kRefused, .bits = 1, .name = "refused"}};
  }

 protected:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    if (launch.pick == kRefused) {
      return refused({.code = ErrorCode::unsupported, .text = "not for this call"});
    }
    Launch rule = launch;
    rule.pick = detail::kRulePick;
    Issue issue = ForwardingBackend::submit_one(rule, after);
    float* const result = launch.call.outputs[0].as<float>();
    const std::int64_t count = launch.call.outputs[0].element_count();
    switch (launch.pick) {
      case kRule:
        result[0] += is_rule_wrong ? 1.0F : 0.0F;
        break;
      case kWrong:
      case kOtherWrong:
        result[count - 1] += 0.01F;
        break;
      case kOtherClass:
        result[1] += 1e-6F;
        break;
      case kOutside:
        result[count] = 0;
        break;
      default:
        break;
    }
    return issue;
  }
};

class PlantedCandidates : public ::testing::Test {
 protected:
  [[nodiscard]] std::vector<Row> rows() {
    return measure_candidates(device_, problem_, {.contest = {.patience = {}, .sleep = {}}});
  }

  PlantedBackend* planted_ = new PlantedBackend;  // NOLINT: the device owns it
  BenchDevice device_{std::unique_ptr<Backend>(planted_), detail::SampleSource::host_thread};
  Problem problem_ = parse_problems("matmul m=17 n=33 k=40").value()[0];
};

TEST_F(PlantedCandidates, EachMistakeIsNamedAndHasNoTime) {
  const std::vector<Row> found = rows();
  ASSERT_EQ(found.size(), 7U);
  EXPECT_THAT(found[kRule].check, HasSubstr("reference"));
  EXPECT_THAT(found[kGood].check, HasSubstr("equal bytes"));
  EXPECT_EQ(found[kWrong].check, "other bytes than the rule");
  EXPECT_THAT(found[kOtherClass].check, HasSubstr("reference"));
  EXPECT_THAT(found[kOtherWrong].check, HasSubstr("element 560 is"));
  EXPECT_EQ(found[kOutside].check, "writes out of the bounds of its result");
  for (const Pick wrong : {kWrong, kOtherWrong, kOutside}) {
    EXPECT_TRUE(found[wrong].is_wrong);
    EXPECT_EQ(found[wrong].verdict_text, "WRONG");
    EXPECT_FALSE(found[wrong].time.is_known());
  }
  for (const Pick right : {kRule, kGood, kOtherClass}) {
    EXPECT_FALSE(found[right].is_wrong);
  }
  EXPECT_TRUE(found[kRefused].is_refused);
  EXPECT_FALSE(found[kRefused].is_wrong);
  EXPECT_EQ(exit_of({.rows = found}, true), Exit::wrong);
}

TEST_F(PlantedCandidates, BitsClassesAreMarked) {
  const std::vector<Row> found = rows();
  EXPECT_EQ(found[kGood].bits, "=");
  EXPECT_EQ(found[kOtherClass].bits, "~");
}

TEST_F(PlantedCandidates, AWrongRuleIsWrong) {
  planted_->is_rule_wrong = true;
  const Row row = measure_problem(device_, problem_, {});
  EXPECT_TRUE(row.is_wrong);
  EXPECT_THAT(row.check, HasSubstr("element 0 is"));
  EXPECT_FALSE(row.time.is_known());
}

// The reference computes a part of large calls; its last row counts.
TEST_F(PlantedCandidates, AMistakeInTheLastElementOfALargeCallIsFound) {
  problem_ = parse_problems("matmul m=1500 n=300 k=400").value()[0];
  const std::vector<Row> found = rows();
  EXPECT_THAT(found[kRule].check, HasSubstr("reference, "));
  EXPECT_TRUE(found[kOtherWrong].is_wrong);
}

/// Two problems that differ in their expression.
std::vector<Row> compared(const std::string& incumbent, const std::string& challenger) {
  const auto device = BenchDevice::open("cpu:0", 1).value();
  const std::string form = "expression shape=8x300 text=";
  return measure_versions(*device,
                          {.incumbent = parse_problems(form + incumbent).value()[0],
                           .challenger = parse_problems(form + challenger).value()[0],
                           .incumbent_name = "old",
                           .challenger_name = "new"},
                          {});
}

TEST(Versions, AWrongOneIsNeverFast) {
  const std::vector<Row> rows = compared("tanh(tanh(tanh(x)))", "x*0.5");
  EXPECT_TRUE(rows[1].is_wrong);
  EXPECT_FALSE(rows[1].time.is_known());
  EXPECT_THAT(rows[1].check, HasSubstr("the other version has"));
}

TEST(Versions, EqualAndNearlyEqualOnesAreTimed) {
  EXPECT_EQ(compared("x*0.5", "x*0.5")[1].check, "equal bytes, 3 sets");
  EXPECT_EQ(compared("x/3", "x*0.33333334")[1].check, "equal within the tolerance");
}

}  // namespace
}  // namespace hearth::bench
