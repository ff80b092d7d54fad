#include <hearth/modules/epoch_order.hpp>

#include <hearth/runtime/base/philox.hpp>
#include <hearth/runtime/generator.hpp>

#include <numeric>
#include <utility>

namespace hearth {
namespace {

constexpr std::uint64_t kLow = 0xffffffffU;

/// Maps 64 random bits to a uniform number in [0, below): the upper half of their product, computed
/// from 32-bit parts.
std::uint64_t scaled_down(std::uint64_t random, std::uint64_t below) noexcept {
  const std::uint64_t low = (random & kLow) * (below & kLow);
  const std::uint64_t middle = (random >> 32U) * (below & kLow) + (low >> 32U);
  const std::uint64_t other = (random & kLow) * (below >> 32U) + (middle & kLow);
  return (random >> 32U) * (below >> 32U) + (middle >> 32U) + (other >> 32U);
}

}  // namespace

std::vector<std::int64_t> plain_order(std::int64_t size) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

std::vector<std::int64_t> shuffled_order(std::int64_t size,
                                         std::uint64_t seed,
                                         std::int64_t epoch) {
  std::vector<std::int64_t> order = plain_order(size);
  const Generator generator = Generator(seed).fork(static_cast<std::uint64_t>(epoch));
  for (std::size_t left = order.size(); left > 1; --left) {
    const std::uint64_t block = left / 2;  // two numbers per block
    const philox::Block words = philox::block(generator.seed(), block);
    const std::size_t first = 2 * (left % 2);
    const std::uint64_t random = std::uint64_t{words[first]} << 32U | words[first + 1];
    std::swap(order[left - 1], order[scaled_down(random, left)]);
  }
  return order;
}

}  // namespace hearth
