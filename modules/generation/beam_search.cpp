#include <hearth/modules/beam_search.hpp>

#include "logit_rows.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void refuse_beams(const std::string& text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "beam_search: " + text,
                    .op = "beam_search",
                    .location = loc});
}

void require_sound_beams(const BeamOptions& options, const BeamStep& step, SourceLoc loc) {
  const auto at_least = [&](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) {
      refuse_beams(fmt::format("{} is {}, but must be {} or more", name, value, least), loc);
    }
  };
  at_least("beams", options.beams, 1);
  at_least("max_tokens", options.max_tokens, 1);
  at_least("results", options.results, 1);
  at_least("end", options.end.value_or(0), 0);
  if (options.results > options.beams) {
    refuse_beams(
        fmt::format("results is {}, but there are {} beams", options.results, options.beams), loc);
  }
  if (!std::isfinite(options.length_penalty)) {
    refuse_beams(fmt::format("length_penalty is {}", options.length_penalty), loc);
  }
  if (!step) {
    refuse_beams("the step function is empty", loc);
  }
}

/// One token more for a beam.
struct Continuation {
  double log_probability;
  std::size_t beam;
  std::int32_t token;
};
bool is_better(const Continuation& a, const Continuation& b) noexcept {
  return a.log_probability != b.log_probability ? a.log_probability > b.log_probability
         : a.beam != b.beam                     ? a.beam < b.beam
                                                : a.token < b.token;
}

// Logarithm of the sum of the exponentials.
double log_sum_of(std::span<const float> logits, SourceLoc loc) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] < std::numeric_limits<float>::infinity())) {
      refuse_beams(fmt::format("logit {} is {}", i, logits[i]), loc);
    }
    largest = std::max(largest, static_cast<double>(logits[i]));
  }
  if (std::isinf(largest)) {
    return 0;  // all tokens are excluded, and none is a continuation
  }
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(logit - largest);
  }
  return largest + std::log(sum);
}

/// The search: beams that are continued, and texts that have ended.
class BeamSearch final {
 public:
  BeamSearch(const BeamOptions& options, SourceLoc loc) : options_(options), loc_(loc) {}

  /// Adds a token to the beams. `logits` has a row for each.
  void advance(const detail::LogitRows& logits) {
    std::vector<BeamText> next;
    parents_.clear();
    const auto wanted = static_cast<std::size_t>(options_.beams);
    std::size_t rank = 0;
    for (const Continuation& each : best(logits)) {
      const bool ends = options_.end == each.token;
      // An ended text counts only if it is among the best continuations.
      if (ends && rank < wanted) {
        add_text(beams_[each.beam], each);
      } else if (!ends && next.size() < wanted) {
        BeamText text = beams_[each.beam];
        text.tokens.push_back(each.token);
        text.log_probability = each.log_probability;
        next.push_back(std::move(text));
        parents_.push_back(static_cast<std::int64_t>(each.beam));
      }
      ++rank;
    }
    beams_ = std::move(next);
    ++length_;
  }

  /// Whether no beam can become a better text than the kept ones.
  [[nodiscard]] bool is_done() const {
    if (beams_.empty() || length_ == options_.max_tokens) {
      return true;
    }
    if (texts_.size() < static_cast<std::size_t>(options_.beams)) {
      return false;
    }
    // Log-probabilities only fall. The best length for a given one is the longest if the penalty
    // is above 0, else the next.
    const std::int64_t length = options_.length_penalty > 0 ? options_.max_tokens : length_ + 1;
    return texts_.back().score >= score_of(beams_.front().log_probability, length);
  }

  [[nodiscard]] std::vector<BeamText> take() {
    for (BeamText& each : beams_) {
      each.score = score_of(each.log_probability, length_);
      keep(std::move(each));
    }
    texts_.resize(std::min(texts_.size(), static_cast<std::size_t>(options_.results)));
    return std::move(texts_);
  }

  [[nodiscard]] std::vector<std::int32_t> last_tokens() const {
    std::vector<std::int32_t> tokens;
    for (const BeamText& each : beams_) {
      tokens.push_back(each.tokens.back());
    }
    return tokens;
  }
  [[nodiscard]] const std::vector<std::int64_t>& parents() const noexcept { return parents_; }

 private:
  [[nodiscard]] double score_of(double log_probability, std::int64_t length) const {
    return log_probability / std::pow(static_cast<double>(length), options_.length_penalty);
  }

  // Twice as many as beams, since each beam may end.
  [[nodiscard]] std::vector<Continuation> best(const detail::LogitRows& logits) const {
    std::vector<Continuation> all;
    for (std::size_t beam = 0; beam < beams_.size(); ++beam) {
      const std::span<const float> row = logits.row(beam);
      const double log_sum = log_sum_of(row, loc_);
      for (std::size_t token = 0; token < row.size(); ++token) {
        if (!std::isinf(row[token])) {
          all.push_back({.log_probability = beams_[beam].log_probability + row[token] - log_sum,
                         .beam = beam,
                         .token = static_cast<std::int32_t>(token)});
        }
      }
    }
    const std::size_t kept = std::min(all.size(), 2 * static_cast<std::size_t>(options_.beams));
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(kept);
    std::partial_sort(all.begin(), end, all.end(), is_better);
    all.erase(end, all.end());
    return all;
  }

  void add_text(BeamText text, const Continuation& last) {
    text.has_ended = true;
    text.log_probability = last.log_probability;
    text.score = score_of(last.log_probability, length_ + 1);
    keep(std::move(text));
  }
  // Keeps the best texts in order; the earlier one of equals comes first.
  void keep(BeamText text) {
    const auto place =
        std::ranges::upper_bound(texts_, text.score, std::ranges::greater{}, &BeamText::score);
    texts_.insert(place, std::move(text));
    texts_.resize(std::min(texts_.size(), static_cast<std::size_t>(options_.beams)));
  }

  const BeamOptions& options_;
  SourceLoc loc_;
  std::vector<BeamText> beams_ = {BeamText{}};  ///< Best first.
  std::vector<BeamText> texts_;                 ///< Best first.
  std::vector<std::int64_t> parents_;           ///< [beam]: its beam before the last token.
  std::int64_t length_ = 0;                     ///< Tokens of each beam.
};

}  // namespace

std::vector<BeamText> beam_search(const Tensor& first,
                                  const BeamStep& step,
                                  const BeamOptions& options,
                                  SourceLoc loc) {
  const detail::FloatEnvironment environment;
  require_sound_beams(options, step, loc);
  BeamSearch search(options, loc);
  search.advance(detail::read_logits(first, 1, "beam_search", loc));
  while (!search.is_done()) {
    const std::vector<std::int32_t> tokens = search.last_tokens();
    const Tensor logits = step(tokens, search.parents());
    search.advance(detail::read_logits(logits, tokens.size(), "beam_search", loc));
  }
  std::vector<BeamText> texts = search.take();
  if (texts.empty()) {
    refuse_beams("all logits are -inf, or there are none", loc);
  }
  return texts;
}

KeyValueCache select_rows(const KeyValueCache& cache,
                          std::span<const std::int64_t> rows,
                          SourceLoc loc) {
  KeyValueCache selected;
  if (cache.keys && cache.values) {
    const Tensor index =
        Tensor::from(cache.keys->device(), rows, {static_cast<std::int64_t>(rows.size())}, loc);
    selected.keys = index_select(Arg(*cache.keys, loc), 0, Arg(index, loc));
    selected.values = index_select(Arg(*cache.values, loc), 0, Arg(index, loc));
  }
  return selected;
}

}  // namespace hearth
