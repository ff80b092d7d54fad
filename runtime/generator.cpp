#include <hearth/runtime/generator.hpp>

#include <hearth/runtime/base/philox.hpp>

namespace hearth {

Generator Generator::fork(std::uint64_t rank) const noexcept {
  // Blocks that ops draw have 0 in the upper half of Philox's counter; a 1 there separates forks
  // from every draw.
  const philox::Block words = philox::rounds(
      {static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(rank >> 32U), 1, 0},
      {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32U)});
  return Generator(static_cast<std::uint64_t>(words[1]) << 32U | words[0]);
}

}  // namespace hearth
