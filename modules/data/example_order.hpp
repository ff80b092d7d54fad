// ExampleOrder: which examples an epoch reads, and in which order, in place of a plain shuffle.
// Values with pure functions, so every worker, rank and resumed run computes the same order.
// Threads: any; loader workers call the function at the same time.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace hearth {

/// An order of one data set's examples. A program may also make one of its own.
struct ExampleOrder {
  std::int64_t size = 0;        ///< Examples of the data set.
  std::int64_t count = 0;       ///< Examples that an epoch reads.
  std::int64_t batch_size = 0;  ///< Size of the batches that the order is made for; 0: any.
  /// Returns `count` indices of examples, which depend on seed and epoch only. Empty: no order.
  std::function<std::vector<std::int64_t>(std::uint64_t seed, std::int64_t epoch)> indices = {};
};

struct WeightedOrderOptions {
  std::int64_t count = 0;   ///< Examples of an epoch; 0: as many as there are weights.
  bool replacement = true;  ///< Whether an epoch may draw an example several times.
};

/// Draws examples by weights that need not sum to 1. For classes of unequal size, an example's
/// weight is 1 over the size of its class.
///
/// Errors: ArgumentError for no weights, for weights that are below 0, not finite or all 0, for a
/// count below 0, and without replacement for more draws than weights above 0.
/// Paper: Efraimidis, Spirakis, Weighted random sampling with a reservoir, IPL 97 (2006).
[[nodiscard]] ExampleOrder weighted_order(std::vector<double> weights,
                                          const WeightedOrderOptions& options = {},
                                          SourceLoc loc = SourceLoc::current());

struct BucketedOrderOptions {
  std::int64_t batch_size = 32;  ///< Size of the loader's batches.
  /// Batches whose examples are sorted together: more of them have less padding and less chance.
  std::int64_t pool = 100;
};

/// Reads each example once, in batches of similar length, for sequences that are padded to the
/// longest of their batch: shuffles all, sorts each pool of batches by length, and shuffles the
/// batches. A smaller last batch stays the last one.
///
/// Errors: ArgumentError for no lengths, a length below 0, and options below 1.
[[nodiscard]] ExampleOrder bucketed_order(std::vector<std::int64_t> lengths,
                                          const BucketedOrderOptions& options = {},
                                          SourceLoc loc = SourceLoc::current());

}  // namespace hearth
