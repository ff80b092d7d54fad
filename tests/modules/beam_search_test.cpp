#include <hearth/modules/beam_search.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/ops.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;

constexpr std::int32_t kEnd = 0;
constexpr std::int64_t kTokens = 4;
using Text = std::vector<std::int32_t>;

// Made-up logits of the token after a text.
std::vector<float> logits_after(const Text& text) {
  std::vector<float> logits;
  double key = 0.3;
  for (const std::int32_t token : text) {
    key = 1.7 * key + token + 0.4;
  }
  for (std::int64_t token = 0; token < kTokens; ++token) {
    logits.push_back(
        static_cast<float>(2.5 * std::sin(3.1 * key + 1.3 * static_cast<double>(token))));
  }
  return logits;
}

double log_probability_after(const Text& text, std::int32_t token) {
  const std::vector<float> logits = logits_after(text);
  double sum = 0;
  for (const float each : logits) {
    sum += std::exp(static_cast<double>(each));
  }
  return logits[static_cast<std::size_t>(token)] - std::log(sum);
}

/// The step function of these logits. Its cache is the texts themselves.
class TextModel {
 public:
  explicit TextModel(Device device) : device_(std::move(device)) {}

  [[nodiscard]] Tensor first() const {
    return Tensor::from(device_, logits_after({}), {1, kTokens});
  }
  [[nodiscard]] BeamStep step() {
    return [this](std::span<const std::int32_t> tokens, std::span<const std::int64_t> parents) {
      std::vector<Text> next;
      std::vector<float> logits;
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        next.push_back(texts_.at(static_cast<std::size_t>(parents[i])));
        next.back().push_back(tokens[i]);
        std::ranges::copy(logits_after(next.back()), std::back_inserter(logits));
      }
      texts_ = std::move(next);
      ++steps;
      return Tensor::from(device_, logits, {static_cast<std::int64_t>(tokens.size()), kTokens});
    };
  }

  int steps = 0;

 private:
  Device device_;
  std::vector<Text> texts_ = {Text()};
};

// All texts of the search's space with their scores, best first.
void collect(const Text& text,
             double log_probability,
             const BeamOptions& options,
             std::vector<BeamText>& all) {
  for (std::int32_t token = 0; token < kTokens; ++token) {
    const double sum = log_probability + log_probability_after(text, token);
    const bool ends = options.end == token;
    Text next = text;
    if (!ends) {
      next.push_back(token);
    }
    const auto length = static_cast<std::int64_t>(text.size()) + 1;
    if (ends || length == options.max_tokens) {
      all.push_back({.tokens = next,
                     .has_ended = ends,
                     .log_probability = sum,
                     .score = sum / std::pow(length, options.length_penalty)});
    } else {
      collect(next, sum, options, all);
    }
  }
}
std::vector<BeamText> exhaustive(const BeamOptions& options) {
  std::vector<BeamText> all;
  collect({}, 0, options, all);
  std::ranges::stable_sort(all, std::ranges::greater{}, &BeamText::score);
  return all;
}

TEST(BeamSearch, WithRoomForAllBeamsFindsTheBestTexts) {
  const TestRuntime test;
  for (const Device& device : {test.reference, test.cpu}) {
    for (const double penalty : {0.0, 1.0, 2.0, -1.0}) {
      const BeamOptions options{
          .beams = 300, .max_tokens = 4, .end = kEnd, .length_penalty = penalty, .results = 5};
      TextModel model(device);
      const std::vector<BeamText> got = beam_search(model.first(), model.step(), options);
      const std::vector<BeamText> want = exhaustive(options);
      ASSERT_EQ(got.size(), 5U);
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(got[i].tokens, want[i].tokens) << "penalty " << penalty << ", text " << i;
        EXPECT_EQ(got[i].has_ended, want[i].has_ended);
        EXPECT_NEAR(got[i].log_probability, want[i].log_probability, 1e-5);
        EXPECT_NEAR(got[i].score, want[i].score, 1e-5);
      }
    }
  }
}

// The texts of a plain search that reorders nothing: each beam has its whole text.
std::vector<std::pair<double, Text>> plain_search(std::size_t beams, std::size_t length) {
  std::vector<std::pair<double, Text>> all{{0.0, {}}};
  for (std::size_t step = 0; step < length; ++step) {
    std::vector<std::pair<double, Text>> next;
    for (const auto& [sum, text] : all) {
      for (std::int32_t token = 0; token < kTokens; ++token) {
        next.emplace_back(sum + log_probability_after(text, token), text);
        next.back().second.push_back(token);
      }
    }
    std::ranges::stable_sort(
        next, std::ranges::greater{}, [](const auto& each) { return each.first; });
    next.resize(std::min(beams, next.size()));
    all = std::move(next);
  }
  return all;
}

TEST(BeamSearch, KeepsTheBestBeamsOfEachStep) {
  const TestRuntime test;
  for (const std::int64_t beams : {1, 2, 3, 5}) {
    TextModel model(test.cpu);
    const std::vector<BeamText> got = beam_search(
        model.first(), model.step(), {.beams = beams, .max_tokens = 7, .results = beams});
    const auto want = plain_search(static_cast<std::size_t>(beams), 7);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].tokens, want[i].second) << beams << " beams, text " << i;
      EXPECT_FALSE(got[i].has_ended);
    }
    EXPECT_EQ(model.steps, 6);
  }
}

TEST(BeamSearch, OneBeamIsGreedy) {
  const TestRuntime test;
  TextModel model(test.cpu);
  Text greedy;
  for (int i = 0; i < 6; ++i) {
    const std::vector<float> logits = logits_after(greedy);
    greedy.push_back(static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  EXPECT_EQ(beam_search(model.first(), model.step(), {.beams = 1, .max_tokens = 6})[0].tokens,
            greedy);
}

TEST(BeamSearch, EndsWhenNoBeamCanReachABetterScore) {
  const TestRuntime test;
  // The end is nearly certain after the first token.
  const auto step = [&](std::span<const std::int32_t> tokens, std::span<const std::int64_t>) {
    std::vector<float> logits;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      logits.insert(logits.end(), {30, 1, 0, 0});
    }
    return Tensor::from(test.cpu, logits, {static_cast<std::int64_t>(tokens.size()), kTokens});
  };
  int steps = 0;
  const auto counted = [&](auto tokens, auto parents) {
    ++steps;
    return step(tokens, parents);
  };
  const Tensor first = Tensor::from(test.cpu, std::vector<float>{0, 3, 2, 1}, {kTokens});
  const std::vector<BeamText> texts =
      beam_search(first,
                  counted,
                  {.beams = 2, .max_tokens = 50, .end = kEnd, .length_penalty = 0, .results = 2});
  EXPECT_THAT(texts[0].tokens, ElementsAre(1));
  EXPECT_THAT(texts[1].tokens, ElementsAre(2));
  EXPECT_TRUE(texts[0].has_ended);
  EXPECT_LE(steps, 2);
}

TEST(BeamSearch, ReordersAKeyValueCache) {
  const TestRuntime test;
  const Tensor values = reshape(arange(test.cpu, 0, 12), {3, 1, 2, 2});
  const std::vector<std::int64_t> rows{2, 0, 2, 1};
  const KeyValueCache cache{.keys = values, .values = values + 100};
  const KeyValueCache selected = select_rows(cache, rows);
  EXPECT_EQ(selected.keys->shape(), (Shape{4, 1, 2, 2}));
  EXPECT_EQ(selected.length(), 2);
  EXPECT_EQ(selected.keys->to_vector<float>(),
            (std::vector<float>{8, 9, 10, 11, 0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7}));
  EXPECT_EQ(selected.values->to_vector<float>()[0], 108);
  EXPECT_FALSE(select_rows({}, rows).keys);
}

TEST(BeamSearch, RefusesWhatMakesNoSense) {
  const TestRuntime test;
  TextModel model(test.cpu);
  const auto text = [&](const BeamOptions& options, const Tensor& first, const BeamStep& step) {
    try {
      static_cast<void>(beam_search(first, step, options));
    } catch (const Exception& error) {
      return error.error().text;
    }
    return std::string("nothing was refused");
  };
  const auto of = [&](const BeamOptions& options) {
    return text(options, model.first(), model.step());
  };
  EXPECT_EQ(of({.beams = 0}), "beam_search: beams is 0, but must be 1 or more");
  EXPECT_EQ(of({.max_tokens = 0}), "beam_search: max_tokens is 0, but must be 1 or more");
  EXPECT_EQ(of({.end = -1}), "beam_search: end is -1, but must be 0 or more");
  EXPECT_EQ(of({.beams = 2, .results = 3}), "beam_search: results is 3, but there are 2 beams");
  EXPECT_EQ(of({.length_penalty = std::nan("")}), "beam_search: length_penalty is nan");
  EXPECT_EQ(text({}, model.first(), {}), "beam_search: the step function is empty");
  const float infinity = std::numeric_limits<float>::infinity();
  const auto logits = [&](float value) { return full(test.cpu, {3}, value); };
  EXPECT_EQ(text({}, logits(std::nanf("")), model.step()), "beam_search: logit 0 is nan");
  EXPECT_EQ(text({}, logits(-infinity), model.step()),
            "beam_search: all logits are -inf, or there are none");
  const auto one_row = [&](auto, auto) { return ones(test.cpu, {1, kTokens}); };
  EXPECT_EQ(text({.beams = 3}, model.first(), one_row),
            "beam_search: logits are [3, tokens], got f32[1, 4]");
}

}  // namespace
}  // namespace hearth
