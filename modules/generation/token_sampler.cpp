#include <hearth/modules/token_sampler.hpp>

#include "logit_rows.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/philox.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void refuse_sampling(const std::string& text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "TokenSampler: " + text,
                    .op = "TokenSampler",
                    .location = loc});
}

void require_sound_sampling(const SamplerOptions& options, SourceLoc loc) {
  const auto require = [&](bool is_right, const char* name, double value, const char* rule) {
    if (!is_right) {
      refuse_sampling(fmt::format("{} is {}, but must be {}", name, value, rule), loc);
    }
  };
  const auto is_finite = [](double value) { return std::isfinite(value); };
  require(options.repetition_penalty > 0 && is_finite(options.repetition_penalty),
          "repetition_penalty",
          options.repetition_penalty,
          "above 0 and finite");
  require(is_finite(options.frequency_penalty),
          "frequency_penalty",
          options.frequency_penalty,
          "finite");
  require(
      is_finite(options.presence_penalty), "presence_penalty", options.presence_penalty, "finite");
  require(options.temperature >= 0 && is_finite(options.temperature),
          "temperature",
          options.temperature,
          "0 or more and finite");
  require(options.top_k >= 0, "top_k", static_cast<double>(options.top_k), "0 or more");
  require(options.top_p > 0 && options.top_p <= 1, "top_p", options.top_p, "above 0 and at most 1");
  require(options.min_p >= 0 && options.min_p <= 1, "min_p", options.min_p, "in 0 to 1");
}

/// A token that may be chosen.
struct Candidate {
  double weight;  // its logit, then its share of the likeliest token's probability
  std::int32_t token;
};
// Whether `a` comes first: the larger logit, of equal ones the lower token.
bool is_before(const Candidate& a, const Candidate& b) noexcept {
  return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
}

std::vector<Candidate> penalised(std::span<const float> logits,
                                 const SamplerOptions& options,
                                 const std::map<std::int32_t, std::int64_t>& seen,
                                 SourceLoc loc) {
  std::vector<Candidate> all;
  all.reserve(logits.size());
  auto known = seen.begin();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const auto token = static_cast<std::int32_t>(i);
    double logit = logits[i];
    if (!(logit < std::numeric_limits<double>::infinity())) {
      refuse_sampling(fmt::format("logit {} is {}", i, logit), loc);
    }
    if (known != seen.end() && known->first == token) {
      const auto count = static_cast<double>(known->second);
      logit = logit > 0 ? logit / options.repetition_penalty : logit * options.repetition_penalty;
      logit -= count * options.frequency_penalty + (count > 0 ? options.presence_penalty : 0);
      ++known;
    }
    if (logit > -std::numeric_limits<double>::infinity()) {
      all.push_back({.weight = logit, .token = token});
    }
  }
  if (known != seen.end()) {
    refuse_sampling(
        fmt::format("token {} was observed, but there are {} logits", known->first, logits.size()),
        loc);
  }
  if (all.empty()) {
    refuse_sampling(logits.empty() ? "there are no logits" : "all logits are -inf", loc);
  }
  return all;
}

// Phases: keep the top_k; turn logits into shares of the likeliest; keep min_p and top_p. The
// result is sorted if any of them applies.
void filter(std::vector<Candidate>& all, const SamplerOptions& options) {
  const bool is_sorted = options.top_k > 0 || options.top_p < 1 || options.min_p > 0;
  const auto kept = options.top_k > 0
                        ? std::min(all.size(), static_cast<std::size_t>(options.top_k))
                        : all.size();
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(kept);
  if (is_sorted) {
    std::partial_sort(all.begin(), end, all.end(), is_before);
    all.erase(end, all.end());
  }
  const double largest = std::ranges::max_element(all, {}, &Candidate::weight)->weight;
  for (Candidate& each : all) {
    each.weight = std::exp((each.weight - largest) / options.temperature);
  }
  double total = 0;
  for (const Candidate& each : all) {
    total += each.weight;
  }
  double sum = 0;
  std::size_t count = 0;
  while (count < all.size() && all[count].weight >= options.min_p &&
         (options.top_p == 1 || sum < options.top_p * total)) {
    sum += all[count++].weight;
  }
  if (is_sorted) {
    all.resize(count);
  }
}

std::int32_t draw(const std::vector<Candidate>& all, double uniform) {
  double total = 0;
  for (const Candidate& each : all) {
    total += each.weight;
  }
  double rest = uniform * total;
  for (const Candidate& each : all) {
    if (rest < each.weight) {
      return each.token;
    }
    rest -= each.weight;
  }
  // Rounding: the last token that has a probability.
  return std::find_if(
             all.rbegin(), all.rend(), [](const Candidate& each) { return each.weight > 0; })
      ->token;
}

std::int32_t chosen(std::vector<Candidate> all, const SamplerOptions& options, std::int64_t count) {
  if (options.temperature == 0) {
    return std::ranges::min_element(all, is_before)->token;
  }
  filter(all, options);
  const philox::Block words = philox::block(options.seed, static_cast<std::uint64_t>(count));
  return draw(all, philox::unit_f64(words[0], words[1]));
}

}  // namespace

TokenSampler::TokenSampler(const SamplerOptions& options, SourceLoc loc) : options_(options) {
  require_sound_sampling(options, loc);
}

void TokenSampler::observe(std::span<const std::int32_t> prompt, SourceLoc loc) {
  for (const std::int32_t token : prompt) {
    if (token < 0) {
      refuse_sampling(fmt::format("token {} is below 0", token), loc);
    }
  }
  for (const std::int32_t token : prompt) {
    seen_.try_emplace(token, 0);
  }
}

std::int32_t TokenSampler::next(std::span<const float> logits, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  const std::int32_t token = chosen(penalised(logits, options_, seen_, loc), options_, count_);
  ++seen_[token];
  ++count_;
  return token;
}

std::int32_t TokenSampler::next(const Tensor& logits, SourceLoc loc) {
  return next(detail::read_logits(logits, 1, "TokenSampler", loc).row(0), loc);
}

std::vector<std::int32_t> next_tokens(const Tensor& logits,
                                      std::span<TokenSampler> samplers,
                                      SourceLoc loc) {
  const detail::LogitRows rows = detail::read_logits(logits, samplers.size(), "next_tokens", loc);
  std::vector<TokenSampler> moved(samplers.begin(), samplers.end());
  std::vector<std::int32_t> tokens;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    tokens.push_back(moved[i].next(rows.row(i), loc));
  }
  std::ranges::move(moved, samplers.begin());
  return tokens;
}

}  // namespace hearth
