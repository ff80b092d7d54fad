// TokenSampler: chooses the next token of one request from a model's logits.
// A value: a copy continues on its own with the same draws. Threads: one at a time.
// Invariant: draw n of a request depends on its options, its tokens so far, its n-th logits and n
// only. Other requests of a batch have no effect.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace hearth {

/// How a token is chosen. The options apply in their order here.
struct SamplerOptions {
  /// Divides positive logits of tokens that the prompt or the text has, and multiplies negative
  /// ones; 1: no effect.
  double repetition_penalty = 1;
  /// Subtracted from a token's logit, times its number in the text, without the prompt.
  double frequency_penalty = 0;
  double presence_penalty = 0;  ///< Subtracted once from each token that the text has.
  double temperature = 1;       ///< Divides the logits; 0: the largest logit is chosen.
  std::int64_t top_k = 0;       ///< Keeps the tokens with the largest logits; 0: all.
  /// Keeps the likeliest tokens whose probabilities sum to this or more; 1: all.
  double top_p = 1;
  double min_p = 0;        ///< Keeps tokens with this share of the likeliest one's probability.
  std::uint64_t seed = 0;  ///< Seed of the request's draws.
};

/// Draws tokens for one request:
///
///   hearth::TokenSampler sampler({.temperature = 0.8, .top_p = 0.95, .seed = 7});
///   sampler.observe(prompt);
///   const std::int32_t token = sampler.next(logits);
///
/// Of equal logits, the lower token comes first, everywhere. A logit of minus infinity excludes its
/// token.
///
/// Papers: top_p: Holtzman et al., arXiv:1904.09751; min_p: Nguyen et al., arXiv:2407.01082;
/// repetition_penalty: Keskar et al., CTRL, arXiv:1909.05858.
class TokenSampler final {
 public:
  /// Errors: ArgumentError for an option out of range.
  explicit TokenSampler(const SamplerOptions& options = {}, SourceLoc loc = SourceLoc::current());

  /// Adds the prompt, whose tokens count for the repetition penalty.
  ///
  /// Errors: ArgumentError for a token below 0.
  void observe(std::span<const std::int32_t> prompt, SourceLoc loc = SourceLoc::current());
  /// Chooses the next token and adds it to the text.
  ///
  /// Errors: ArgumentError for no logits, for NaN or infinity, if all tokens are excluded, or if an
  /// observed token has no logit. Then no token is added.
  std::int32_t next(std::span<const float> logits, SourceLoc loc = SourceLoc::current());
  /// Chooses the next token from logits of a device, and waits for them.
  ///
  /// Shapes: logits [tokens]; axes of size 1 may precede.
  /// Dtypes: floats, chosen from in f32.
  /// Errors: also ShapeError, DtypeError now; DeviceError when the logits are poisoned.
  std::int32_t next(const Tensor& logits, SourceLoc loc = SourceLoc::current());

  [[nodiscard]] const SamplerOptions& options() const noexcept { return options_; }
  /// Number of tokens that were chosen.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }

 private:
  SamplerOptions options_;
  std::map<std::int32_t, std::int64_t> seen_;  ///< By token, its number in the text.
  std::int64_t count_ = 0;
};

/// Chooses the next token of each row with its own sampler, and waits for the logits once.
///
/// Shapes: logits [rows, tokens].
/// Errors: those of TokenSampler::next(), which add no token to a text; ArgumentError for another
/// number of samplers than rows.
[[nodiscard]] std::vector<std::int32_t> next_tokens(const Tensor& logits,
                                                    std::span<TokenSampler> samplers,
                                                    SourceLoc loc = SourceLoc::current());

}  // namespace hearth
