#include <hearth/runtime/base/interner.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hearth/runtime/base/path_table.hpp>
#include <hearth/runtime/base/shape_table.hpp>
#include <hearth/runtime/base/source_table.hpp>

#include <gtest/gtest.h>

namespace hearth {
namespace {

// Every key has one hash, so only equality distinguishes keys.
struct CollidingPolicy {
  using Id = PathId;
  using Key = int;
  using Entry = int;
  static std::uint64_t hash(int /*key*/) noexcept { return ~std::uint64_t{0}; }
  static bool equal(int entry, int key) noexcept { return entry == key; }
  static int make(int key) { return key; }
  static Error full(std::uint32_t cap) {
    return Error{.code = ErrorCode::out_of_memory, .text = std::to_string(cap) + " is all"};
  }
};

TEST(Interner, TellsCollidingKeysApart) {
  detail::Interner<CollidingPolicy> table(1000);
  for (int key = 0; key < 300; ++key) {
    EXPECT_EQ(table.intern(key).value().value, static_cast<std::uint32_t>(key));
  }
  for (int key = 0; key < 300; ++key) {
    EXPECT_EQ(table.intern(key).value().value, static_cast<std::uint32_t>(key));
    EXPECT_EQ(table[PathId{static_cast<std::uint32_t>(key)}], key);
  }
  EXPECT_EQ(table.size(), 300U);
}

TEST(Interner, WhenFullStillKnowsTheOldKeys) {
  detail::Interner<CollidingPolicy> table(2);
  EXPECT_TRUE(table.intern(7).has_value());
  EXPECT_TRUE(table.intern(8).has_value());
  const Result<PathId> refused = table.intern(9);
  EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(refused.error().text, "2 is all");
  EXPECT_EQ(table.intern(8).value().value, 1U);
  EXPECT_EQ(table.size(), 2U);
}

TEST(ShapeTable, GivesTheScalarTheIdZero) {
  ShapeTable table;
  EXPECT_EQ(table.intern(Shape{}).value(), ShapeId{});
  EXPECT_EQ(table.layout(ShapeId{}).shape, Shape{});
}

TEST(ShapeTable, GivesEqualShapesOneIdAndARowMajorLayout) {
  ShapeTable table;
  const ShapeId id = table.intern(Shape{2, 3}).value();
  EXPECT_EQ(table.intern(Shape{2, 3}).value(), id);
  EXPECT_NE(table.intern(Shape{3, 2}).value(), id);
  EXPECT_TRUE(table.layout(id).contiguous);
  EXPECT_EQ(table.layout(id).strides[0], 3);
}

TEST(ShapeTable, KeepsLayoutsInPlaceWhileItGrows) {
  ShapeTable table;
  std::vector<const detail::Layout*> layouts;
  for (std::int64_t size = 0; size < 20'000; ++size) {
    const ShapeId id = table.intern(Shape{size, 7}).value();
    EXPECT_EQ(id.value, static_cast<std::uint32_t>(size) + 1);
    layouts.push_back(&table.layout(id));
  }
  for (std::int64_t size = 0; size < 20'000; ++size) {
    const ShapeId id = table.intern(Shape{size, 7}).value();
    EXPECT_EQ(&table.layout(id), layouts[static_cast<std::size_t>(size)]);
    EXPECT_EQ(table.shape(id)[0], size);
  }
}

TEST(ShapeTable, SaysHowManyShapesFit) {
  ShapeTable table(2);
  EXPECT_TRUE(table.intern(Shape{1}).has_value());
  EXPECT_EQ(
      table.intern(Shape{2}).error().text,
      "shape table: 2 different shapes are in use, and no more fit; pad inputs to fewer sizes");
}

TEST(SourceTable, GivesTheUnknownPlaceTheIdZero) {
  SourceTable table(RuntimeId{1});
  EXPECT_EQ(table.intern(SourceLoc{}), SourceId{});
  EXPECT_EQ(table.intern(SourceLoc{"train.cpp", 0}), SourceId{});
  EXPECT_EQ(table.location(SourceId{}).line, 0U);
}

TEST(SourceTable, ComparesFilesByText) {
  SourceTable table(RuntimeId{1});
  const std::string copy = "train.cpp";
  const SourceId id = table.intern({"train.cpp", 12});
  EXPECT_EQ(table.intern({copy.c_str(), 12}), id);
  EXPECT_NE(table.intern({"train.cpp", 13}), id);
  EXPECT_NE(table.intern({"other.cpp", 12}), id);
  EXPECT_EQ(table.location(id), (SourceLoc{table.location(id).file, 12}));
}

TEST(SourceTable, WhenFullCallsNewPlacesUnknown) {
  SourceTable table(RuntimeId{1}, 2);
  const SourceId known = table.intern({"train.cpp", 1});
  EXPECT_NE(known, SourceId{});
  EXPECT_EQ(table.intern({"train.cpp", 2}), SourceId{});
  EXPECT_EQ(table.intern({"train.cpp", 1}), known);
}

TEST(SourceCache, AnswersLikeTheTable) {
  SourceTable table(RuntimeId{1});
  SourceCache cache;
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t line = 0; line < 2'000; ++line) {
      const SourceLoc location{"train.cpp", line};
      EXPECT_EQ(cache.intern(table, location), table.intern(location));
    }
  }
}

TEST(SourceCache, KeepsTablesApart) {
  SourceTable first(RuntimeId{1});
  SourceTable second(RuntimeId{2});
  SourceCache cache;
  const SourceLoc location{"train.cpp", 5};
  EXPECT_EQ(second.intern({"other.cpp", 1}).value, 1U);
  EXPECT_EQ(cache.intern(first, location).value, 1U);
  EXPECT_EQ(cache.intern(second, location).value, 2U);
  EXPECT_EQ(cache.intern(first, location).value, 1U);
}

TEST(PathTable, GivesTheEmptyPathTheIdZero) {
  PathTable table;
  EXPECT_EQ(table.intern(""), PathId{});
  const PathId id = table.intern("encoder.layers.3.inner");
  EXPECT_EQ(table.intern(std::string("encoder.layers.3.inner")), id);
  EXPECT_EQ(table.path(id), "encoder.layers.3.inner");
  EXPECT_EQ(table.path(PathId{}), "");
}

TEST(PathTable, WhenFullForgetsNewPaths) {
  PathTable table(2);
  const PathId known = table.intern("a");
  EXPECT_EQ(table.intern("b"), PathId{});
  EXPECT_EQ(table.intern("a"), known);
}

}  // namespace
}  // namespace hearth
