#include "value_judge.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <hearth/runtime/ops.hpp>

namespace hearth::testing {
namespace {

using Numbers = std::vector<double>;

Numbers numbers_of(const Tensor& tensor) {
  return cast(tensor, DType::f64).to_vector<double>();
}

Numbers numbers_of(const Observation& seen, const Tensor& like) {
  return numbers_of(Tensor::from_bytes(like.device(), seen.bytes, like.dtype(), like.shape()));
}

/// The oracle's values of one tensor, undisturbed and disturbed.
struct Oracle {
  Numbers want;
  std::vector<Numbers> disturbed;
  double slack;  ///< Relative to 1 + |want|.
};

std::string compare(const Numbers& got, const Oracle& oracle, ValueTally& tally) {
  for (std::size_t i = 0; i < oracle.want.size(); ++i) {
    const double want = oracle.want[i];
    double moved = 0;
    for (const Numbers& disturbed : oracle.disturbed) {
      const double distance = std::fabs(disturbed[i] - want);
      moved = moved <= distance || std::isnan(distance) ? distance : moved;
    }
    const double tolerance = oracle.slack * (1 + std::fabs(want));
    const bool is_compared =
        oracle.disturbed.empty() || (std::isfinite(want) && moved <= 20 * tolerance);
    ++(is_compared ? tally.compared : tally.skipped);
    if (is_compared && !(std::fabs(got[i] - want) <= tolerance + 16 * moved)) {
      return fmt::format("element {} is {}, not {}", i, got[i], want);
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> judge_values(const RandomProgram& program,
                                      Values values,
                                      const Device& reference,
                                      ValueTally& tally) {
  std::vector<std::string> wrong = program.wrong();
  const std::vector<std::size_t> updated = program.all_updated();
  const std::vector<Tensor> expected = program.expected(reference, updated);
  std::vector<std::vector<Tensor>> disturbed;
  if (values == Values::smooth) {
    constexpr double kFewUlp = 5e-7;
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      disturbed.push_back(program.expected(reference, updated, {.scale = kFewUlp, .seed = seed}));
    }
  }
  for (const Step& step : program.steps()) {
    if (step.error) {
      wrong.push_back("a step failed: " + step.error->to_string());
    }
  }
  for (const Observation& seen : program.observations()) {
    if (seen.error) {
      wrong.push_back(fmt::format("tensor {}: {}", seen.node, seen.error->to_string()));
      continue;
    }
    const Tensor& like = expected[seen.node];
    Oracle oracle{
        .want = numbers_of(like), .disturbed = {}, .slack = values == Values::smooth ? 2e-5 : 0};
    for (const std::vector<Tensor>& each : disturbed) {
      oracle.disturbed.push_back(numbers_of(each[seen.node]));
    }
    const std::string text = compare(numbers_of(seen, like), oracle, tally);
    if (!text.empty()) {
      wrong.push_back(fmt::format("tensor {}: {}", seen.node, text));
    }
  }
  return wrong;
}

}  // namespace hearth::testing
