#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <hearth/runtime/base/shape_table.hpp>

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(ShapeTable, GivesAllThreadsTheSameIds) {
  constexpr int kThreads = 4;
  constexpr std::int64_t kShapes = 3'000;
  ShapeTable table;
  std::vector<std::vector<ShapeId>> ids(kThreads);
  std::atomic<int> wrong_count{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::int64_t i = 0; i < kShapes; ++i) {
          const std::int64_t size = thread % 2 == 0 ? i : kShapes - 1 - i;
          const ShapeId id = table.intern(Shape{size, 3}).value();
          ids[static_cast<std::size_t>(thread)].push_back(id);
          wrong_count += table.shape(id)[0] == size ? 0 : 1;
        }
      });
    }
  }
  EXPECT_EQ(wrong_count.load(), 0);
  EXPECT_EQ(table.size(), kShapes + 1);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kShapes); ++i) {
    EXPECT_EQ(ids[0][i], ids[2][i]);
    EXPECT_EQ(ids[1][i], ids[3][i]);
    EXPECT_EQ(ids[0][i], ids[1][static_cast<std::size_t>(kShapes) - 1 - i]);
  }
}

}  // namespace
}  // namespace hearth
