// Beam search: the likeliest continuations of a prompt. A pure function over a step function of the
// program. Threads: the caller's, which also calls the step function.
#pragma once

#include <hearth/modules/multi_head_attention.hpp>

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/tensor.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace hearth {

struct BeamOptions {
  std::int64_t beams = 4;                          ///< Texts that are continued at once.
  std::int64_t max_tokens = 32;                    ///< Tokens after which every text ends.
  std::optional<std::int32_t> end = std::nullopt;  ///< Token that ends a text.
  /// Exponent of the text's length, by which its log-probability is divided: above 0 longer texts
  /// win more often.
  double length_penalty = 1;
  std::int64_t results = 1;  ///< Number of texts to return, at most `beams`.
};

/// A continuation that beam_search() found.
struct BeamText {
  std::vector<std::int32_t> tokens;  ///< Without the prompt and the token that ends it.
  bool has_ended = false;            ///< Whether `end` came before max_tokens.
  double log_probability = 0;        ///< Sum over its tokens, with that of `end`.
  double score = 0;  ///< log_probability / length^length_penalty; the length includes `end`.
};

/// Adds a token to each text and returns the logits of the next one, [texts, tokens]. Text i
/// continues text parents[i] of the call before, so a cache is reordered first (select_rows()). In
/// the first call all parents are 0: the prompt.
using BeamStep = std::function<Tensor(std::span<const std::int32_t> tokens,
                                      std::span<const std::int64_t> parents)>;

/// Returns the best texts, best first. Of equal scores, the text whose beam was better before comes
/// first, then the one with the lower token.
///
/// Each step takes the best continuations of all beams. The search ends when no beam can reach a
/// better score than the texts that have ended, or after max_tokens. The remaining beams then count
/// as texts too.
///
/// Shapes: `first` [tokens], the logits after the prompt; axes of size 1 may precede.
/// Errors: ArgumentError for options out of range, NaN or infinity among the logits, or if no token
/// is possible; ShapeError, DtypeError for other logits; DeviceError when the logits are poisoned;
/// exceptions of `step`.
/// Paper: Wu et al., Google's Neural Machine Translation System, arXiv:1609.08144, section 7, with
/// length^length_penalty as the length normalisation.
[[nodiscard]] std::vector<BeamText> beam_search(const Tensor& first,
                                                const BeamStep& step,
                                                const BeamOptions& options = {},
                                                SourceLoc loc = SourceLoc::current());

/// Returns the cache whose row i is row rows[i]: the axis of the batch is the first one.
///
/// Errors: those of index_select(). An empty cache stays empty.
[[nodiscard]] KeyValueCache select_rows(const KeyValueCache& cache,
                                        std::span<const std::int64_t> rows,
                                        SourceLoc loc = SourceLoc::current());

}  // namespace hearth
