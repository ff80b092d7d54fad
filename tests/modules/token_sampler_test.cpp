#include <hearth/modules/token_sampler.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/ops.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::int32_t> draws(SamplerOptions options,
                                const std::vector<float>& logits,
                                int count) {
  TokenSampler sampler(options);
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(sampler.next(logits));
  }
  return tokens;
}

std::set<std::int32_t> drawn(const SamplerOptions& options, const std::vector<float>& logits) {
  const std::vector<std::int32_t> tokens = draws(options, logits, 2000);
  return {tokens.begin(), tokens.end()};
}

TEST(TokenSampler, DrawsByTheProbabilitiesOfTheLogitsOverTheTemperature) {
  const std::vector<float> logits{0, 1, 2, -kInfinity};
  for (const double temperature : {0.5, 1.0, 2.0}) {
    constexpr int kDraws = 20000;
    std::map<std::int32_t, double> share;
    for (const std::int32_t token :
         draws({.temperature = temperature, .seed = 3}, logits, kDraws)) {
      share[token] += 1.0 / kDraws;
    }
    double total = 0;
    for (int i = 0; i < 3; ++i) {
      total += std::exp(i / temperature);
    }
    EXPECT_EQ(share.count(3), 0U) << "an excluded token";
    for (std::int32_t i = 0; i < 3; ++i) {
      // Five deviations of a share of 20,000 draws.
      EXPECT_NEAR(share[i], std::exp(i / temperature) / total, 0.018) << temperature;
    }
  }
}

TEST(TokenSampler, IsGreedyAtTemperatureZeroAndTakesTheLowerOfEqualTokens) {
  EXPECT_THAT(draws({.temperature = 0}, {1, 5, 5, 2}, 2), ElementsAre(1, 1));
}

TEST(TokenSampler, KeepsOnlyTheTokensOfItsFilters) {
  const std::vector<float> logits{std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)};
  using Tokens = std::set<std::int32_t>;
  EXPECT_EQ(drawn({}, logits), (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(drawn({.top_k = 2}, logits), (Tokens{1, 3}));
  EXPECT_EQ(drawn({.top_k = 9}, logits), (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(drawn({.top_p = 0.69}, logits), (Tokens{1, 3}));
  EXPECT_EQ(drawn({.top_p = 0.71}, logits), (Tokens{1, 2, 3}));
  EXPECT_EQ(drawn({.top_p = 1e-9}, logits), (Tokens{1}));
  EXPECT_EQ(drawn({.min_p = 0.6}, logits), (Tokens{1, 3}));
  EXPECT_EQ(drawn({.min_p = 1}, logits), (Tokens{1}));
  // top_p counts the probabilities among the top_k: 0.4 / 0.9 and 0.3 / 0.9.
  EXPECT_EQ(drawn({.top_k = 3, .top_p = 0.75}, logits), (Tokens{1, 3}));
  // The temperature comes before the filters.
  EXPECT_EQ(drawn({.temperature = 0.1, .top_p = 0.9}, logits), (Tokens{1}));
}

TEST(TokenSampler, PenalisesTokensOfThePromptAndTheText) {
  const auto first = [](SamplerOptions options,
                        const std::vector<std::int32_t>& prompt,
                        const std::vector<float>& logits) {
    options.temperature = 0;
    TokenSampler sampler(options);
    sampler.observe(prompt);
    return std::vector<std::int32_t>{
        sampler.next(logits), sampler.next(logits), sampler.next(logits)};
  };
  const std::vector<float> logits{4, 3, 2, -1};
  EXPECT_THAT(first({}, {0}, logits), ElementsAre(0, 0, 0));
  EXPECT_THAT(first({.repetition_penalty = 1.5}, {0}, logits), ElementsAre(1, 0, 0));
  EXPECT_THAT(first({.presence_penalty = 1.5}, {0}, logits), ElementsAre(0, 1, 0));
  EXPECT_THAT(first({.frequency_penalty = 1.5}, {0}, logits), ElementsAre(0, 1, 0));
  // A negative logit is multiplied: -1·4 is below -3.
  EXPECT_THAT(first({.repetition_penalty = 4}, {1}, {-3, -1}), ElementsAre(0, 1, 1));
}

TEST(TokenSampler, FrequencyCountsEachTokenOfTheTextAndPresenceOnlyOne) {
  const std::vector<float> logits{4, 1.5F};
  EXPECT_THAT(draws({.frequency_penalty = 1, .temperature = 0}, logits, 5),
              ElementsAre(0, 0, 0, 1, 0));
  EXPECT_THAT(draws({.presence_penalty = 1, .temperature = 0}, logits, 5),
              ElementsAre(0, 0, 0, 0, 0));
}

TEST(TokenSampler, EqualSeedsDrawEqualTokensAndACopyGoesOnAlike) {
  const std::vector<float> logits(50, 0.0F);
  const std::vector<std::int32_t> all = draws({.seed = 5}, logits, 40);
  EXPECT_EQ(draws({.seed = 5}, logits, 40), all);
  EXPECT_NE(draws({.seed = 6}, logits, 40), all);
  TokenSampler sampler({.seed = 5});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(sampler.next(logits), all[static_cast<std::size_t>(i)]);
  }
  TokenSampler copy = sampler;
  EXPECT_EQ(copy.next(logits), all[20]);
  EXPECT_EQ(sampler.next(logits), all[20]);
  EXPECT_EQ(sampler.count(), 21);
}

TEST(TokenSampler, ARowOfABatchDrawsAsItDoesAlone) {
  const TestRuntime test;
  for (const Device& device : {test.reference, test.cpu}) {
    Generator generator(2);
    const Tensor logits = random_normal(device, {7, 33}, generator);
    std::vector<TokenSampler> together;
    for (std::uint64_t seed = 0; seed < 7; ++seed) {
      together.emplace_back(SamplerOptions{.frequency_penalty = 0.5, .top_p = 0.9, .seed = seed});
    }
    std::vector<TokenSampler> alone = together;
    for (int step = 0; step < 5; ++step) {
      const std::vector<std::int32_t> tokens = next_tokens(logits, together);
      for (std::int64_t row = 0; row < 7; ++row) {
        const Tensor own = slice(logits, 0, {.start = row, .stop = row + 1});
        EXPECT_EQ(alone[static_cast<std::size_t>(row)].next(own),
                  tokens[static_cast<std::size_t>(row)]);
      }
    }
    // Other neighbours, other order.
    std::vector<TokenSampler> pair{
        TokenSampler({.frequency_penalty = 0.5, .top_p = 0.9, .seed = 4}),
        TokenSampler({.seed = 90})};
    const Tensor rows = concat(
        {slice(logits, 0, {.start = 4, .stop = 5}), slice(logits, 0, {.start = 1, .stop = 2})}, 0);
    std::vector<TokenSampler> again{pair[0]};
    EXPECT_EQ(next_tokens(rows, pair)[0],
              next_tokens(slice(logits, 0, {.start = 4, .stop = 5}), again)[0]);
  }
}

TEST(TokenSampler, ReadsSixteenBitLogits) {
  const TestRuntime test;
  const Tensor logits =
      Tensor::from(test.cpu, std::vector<float>{1, 4, 2}, {1, 1, 3}).to(DType::bf16);
  EXPECT_EQ(TokenSampler({.temperature = 0}).next(logits), 1);
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& error) {
    return error.error().text;
  }
  return "nothing was refused";
}

TEST(TokenSampler, RefusesOptionsThatMakeNoSense) {
  const auto text = [](const SamplerOptions& options) {
    return refusal_of([&] { TokenSampler sampler(options); });
  };
  EXPECT_EQ(text({.repetition_penalty = 0}),
            "TokenSampler: repetition_penalty is 0, but must be above 0 and finite");
  EXPECT_EQ(text({.frequency_penalty = std::nan("")}),
            "TokenSampler: frequency_penalty is nan, but must be finite");
  EXPECT_EQ(text({.temperature = -1}),
            "TokenSampler: temperature is -1, but must be 0 or more and finite");
  EXPECT_EQ(text({.top_k = -1}), "TokenSampler: top_k is -1, but must be 0 or more");
  EXPECT_EQ(text({.top_p = 0}), "TokenSampler: top_p is 0, but must be above 0 and at most 1");
  EXPECT_EQ(text({.min_p = 1.5}), "TokenSampler: min_p is 1.5, but must be in 0 to 1");
}

TEST(TokenSampler, RefusesLogitsThatItCannotChooseFromAndStaysAsItWas) {
  const TestRuntime test;
  TokenSampler sampler;
  const auto text = [&](const std::vector<float>& logits) {
    return refusal_of([&] { sampler.next(logits); });
  };
  EXPECT_EQ(text({}), "TokenSampler: there are no logits");
  EXPECT_EQ(text({0, std::nanf(""), 0}), "TokenSampler: logit 1 is nan");
  EXPECT_EQ(text({0, kInfinity}), "TokenSampler: logit 1 is inf");
  EXPECT_EQ(text({-kInfinity, -kInfinity}), "TokenSampler: all logits are -inf");
  sampler.observe(std::vector<std::int32_t>{7});
  EXPECT_EQ(text({1, 2}), "TokenSampler: token 7 was observed, but there are 2 logits");
  EXPECT_EQ(refusal_of([&] { sampler.observe(std::vector<std::int32_t>{-1}); }),
            "TokenSampler: token -1 is below 0");
  EXPECT_EQ(refusal_of([&] {
              sampler.next(ones(test.cpu, {2, 3}));
            }),
            "TokenSampler: logits are [1, tokens], got f32[2, 3]");
  EXPECT_EQ(refusal_of([&] { sampler.next(ones(test.cpu, {3}, DType::i32)); }),
            "TokenSampler: logits are floats, got i32[3]");
  std::vector<TokenSampler> two(2);
  EXPECT_EQ(refusal_of([&] {
              static_cast<void>(next_tokens(ones(test.cpu, {3, 3}), two));
            }),
            "next_tokens: logits are [2, tokens], got f32[3, 3]");
  const Tensor bad = Tensor::from(test.cpu, std::vector<float>{0, 0, 0, std::nanf("")}, {2, 2});
  EXPECT_THAT(refusal_of([&] { static_cast<void>(next_tokens(bad, two)); }), HasSubstr("is nan"));
  EXPECT_EQ(two[0].count(), 0) << "no row moves if one cannot";
  EXPECT_EQ(sampler.count(), 0);
}

}  // namespace
}  // namespace hearth
