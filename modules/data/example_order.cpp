#include <hearth/modules/example_order.hpp>

#include <hearth/modules/epoch_order.hpp>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/philox.hpp>
#include <hearth/runtime/generator.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

void require_order(bool is_right, std::string_view order, const std::string& text, SourceLoc loc) {
  if (!is_right) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("{}: {}", order, text),
                      .op = std::string(order),
                      .location = loc});
  }
}

// Number i of an epoch's stream, in [0, 1).
double uniform_at(const Generator& generator, std::size_t i) {
  const philox::Block words = philox::block(generator.seed(), i);
  return philox::unit_f64(words[0], words[1]);
}

Generator generator_of(std::uint64_t seed, std::int64_t epoch) {
  return Generator(seed).fork(static_cast<std::uint64_t>(epoch));
}

std::vector<std::int64_t> drawn_with_replacement(std::span<const double> weights,
                                                 std::size_t count,
                                                 const Generator& generator) {
  std::vector<double> ends;  // running sums
  double sum = 0;
  for (const double weight : weights) {
    sum += weight;
    ends.push_back(sum);
  }
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < count; ++i) {
    const auto place = std::ranges::upper_bound(ends, uniform_at(generator, i) * sum);
    // Rounding up to the whole sum: the first example that reaches it has a weight.
    const auto found = place == ends.end() ? std::ranges::lower_bound(ends, sum) : place;
    indices.push_back(found - ends.begin());
  }
  return indices;
}

// The largest keys ln(u) / weight, where u is uniform in (0, 1].
std::vector<std::int64_t> drawn_without_replacement(std::span<const double> weights,
                                                    std::size_t count,
                                                    const Generator& generator) {
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > 0) {
      keys.emplace_back(-std::log(1.0 - uniform_at(generator, i)) / weights[i],
                        static_cast<std::int64_t>(i));
    }
  }
  const auto end = keys.begin() + static_cast<std::ptrdiff_t>(count);
  std::partial_sort(keys.begin(), end, keys.end());
  std::vector<std::int64_t> indices;
  std::ranges::transform(
      keys.begin(), end, std::back_inserter(indices), [](const auto& key) { return key.second; });
  return indices;
}

std::vector<std::int64_t> in_buckets(std::span<const std::int64_t> lengths,
                                     const BucketedOrderOptions& options,
                                     std::uint64_t seed,
                                     std::int64_t epoch) {
  std::vector<std::int64_t> all =
      shuffled_order(static_cast<std::int64_t>(lengths.size()), seed, epoch);
  const auto batch = static_cast<std::size_t>(options.batch_size);
  const std::size_t pool = batch * static_cast<std::size_t>(options.pool);
  for (std::size_t first = 0; first < all.size(); first += pool) {
    std::ranges::stable_sort(std::span(all).subspan(first, std::min(pool, all.size() - first)),
                             {},
                             [&](std::int64_t i) { return lengths[static_cast<std::size_t>(i)]; });
  }
  std::vector<std::int64_t> order;
  const std::size_t batches = all.size() / batch;
  // Another stream of numbers than that of the examples.
  for (const std::int64_t number :
       shuffled_order(static_cast<std::int64_t>(batches), ~seed, epoch)) {
    std::ranges::copy(std::span(all).subspan(static_cast<std::size_t>(number) * batch, batch),
                      std::back_inserter(order));
  }
  std::ranges::copy(std::span(all).subspan(batches * batch), std::back_inserter(order));
  return order;
}

}  // namespace

ExampleOrder weighted_order(std::vector<double> weights,
                            const WeightedOrderOptions& options,
                            SourceLoc loc) {
  constexpr std::string_view kName = "weighted_order";
  require_order(!weights.empty(), kName, "there are no weights", loc);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    require_order(weights[i] >= 0 && std::isfinite(weights[i]),
                  kName,
                  fmt::format("weight {} is {}, but must be 0 or more and finite", i, weights[i]),
                  loc);
  }
  require_order(options.count >= 0,
                kName,
                fmt::format("count is {}, but must be 0 or more", options.count),
                loc);
  const auto possible = std::ranges::count_if(weights, [](double weight) { return weight > 0; });
  require_order(possible > 0, kName, "all weights are 0", loc);
  const auto size = static_cast<std::int64_t>(weights.size());
  const std::int64_t count = options.count == 0 ? size : options.count;
  require_order(options.replacement || count <= possible,
                kName,
                fmt::format("without replacement, {} examples cannot be drawn from {} with a "
                            "weight above 0",
                            count,
                            possible),
                loc);
  const auto draw = options.replacement ? drawn_with_replacement : drawn_without_replacement;
  return {.size = size,
          .count = count,
          .indices = [weights = std::move(weights), count, draw](std::uint64_t seed,
                                                                 std::int64_t epoch) {
            return draw(weights, static_cast<std::size_t>(count), generator_of(seed, epoch));
          }};
}

ExampleOrder bucketed_order(std::vector<std::int64_t> lengths,
                            const BucketedOrderOptions& options,
                            SourceLoc loc) {
  constexpr std::string_view kName = "bucketed_order";
  require_order(!lengths.empty(), kName, "there are no lengths", loc);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    require_order(
        lengths[i] >= 0, kName, fmt::format("length {} is {}, below 0", i, lengths[i]), loc);
  }
  require_order(
      options.batch_size >= 1 && options.pool >= 1,
      kName,
      fmt::format(
          "batch_size is {} and pool {}, but must be 1 or more", options.batch_size, options.pool),
      loc);
  const auto size = static_cast<std::int64_t>(lengths.size());
  // A pool of all batches sorts all; more would only overflow.
  BucketedOrderOptions bounded = options;
  bounded.batch_size = std::min(options.batch_size, size + 1);
  bounded.pool = std::min(options.pool, size / bounded.batch_size + 1);
  return {
      .size = size,
      .count = size,
      .batch_size = options.batch_size,
      .indices = [lengths = std::move(lengths), bounded](std::uint64_t seed, std::int64_t epoch) {
        return in_buckets(lengths, bounded, seed, epoch);
      }};
}

}  // namespace hearth
