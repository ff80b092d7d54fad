#include "runtime/client/name_set.hpp"

#include <cstdint>
#include <set>

#include <gtest/gtest.h>

namespace hearth {
namespace {

// Names as devices number them: slots from 0, generations in the lower half.
std::uint64_t name(std::uint64_t slot, std::uint64_t generation) {
  return slot << 32U | generation;
}

TEST(NameSet, HasWhatWasAddedAndNothingElseHoweverOftenItGrows) {
  NameSet set;
  EXPECT_FALSE(set.has(0)) << "of an empty set";
  std::set<std::uint64_t> added;
  for (std::uint64_t slot = 0; slot < 1000; ++slot) {
    const std::uint64_t generation = slot * 7 % 3;
    set.add(name(slot, generation));
    added.insert(name(slot, generation));
    if (slot % 37 != 0 && slot != 999) {
      continue;
    }
    for (std::uint64_t other = 0; other <= slot + 1; ++other) {
      for (std::uint64_t each = 0; each < 3; ++each) {
        ASSERT_EQ(set.has(name(other, each)), added.contains(name(other, each)))
            << other << " " << each;
      }
    }
  }
}

}  // namespace
}  // namespace hearth
