#include <hearth/runtime/base/unique_function.hpp>

#include <array>
#include <memory>
#include <string>

#include <gtest/gtest.h>

using namespace hearth;

namespace {

struct Probe {
  explicit Probe(int& live_count) : live(&live_count) { ++*live; }
  Probe(Probe&& other) noexcept : live(other.live) { ++*live; }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  Probe& operator=(Probe&&) = delete;
  ~Probe() { --*live; }
  int* live;
};

}  // namespace

TEST(UniqueFunction, HoldsWhatCanOnlyBeMoved) {
  UniqueFunction<int(int)> add = [owned = std::make_unique<int>(40)](int x) { return *owned + x; };
  UniqueFunction<int(int)> moved = std::move(add);
  EXPECT_FALSE(add);  // NOLINT(bugprone-use-after-move)
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved(2), 42);
}

TEST(UniqueFunction, HoldsWhatIsTooLargeToLiveInside) {
  std::array<int, 64> numbers{};
  numbers.back() = 7;
  UniqueFunction<int()> last = [numbers] { return numbers.back(); };
  UniqueFunction<int()> moved;
  moved = std::move(last);
  EXPECT_EQ(moved(), 7);
}

TEST(UniqueFunction, DestroysWhatItHoldsExactlyOnce) {
  int live = 0;
  {
    UniqueFunction<void()> small = [probe = Probe(live)] { static_cast<void>(probe); };
    UniqueFunction<void()> large = [probe = Probe(live), pad = std::array<char, 100>{}] {
      static_cast<void>(probe);
      static_cast<void>(pad);
    };
    EXPECT_EQ(live, 2);
    small = std::move(large);
    EXPECT_EQ(live, 1);
    small = nullptr;
    EXPECT_EQ(live, 0);
  }
  EXPECT_EQ(live, 0);
}

TEST(UniqueFunction, ForwardsReferencesAndMovesArguments) {
  UniqueFunction<void(std::string&, std::unique_ptr<int>)> append =
      [](std::string& text, std::unique_ptr<int> number) { text += std::to_string(*number); };
  std::string text = "n=";
  append(text, std::make_unique<int>(3));
  EXPECT_EQ(text, "n=3");
}

TEST(UniqueFunction, IgnoresAResultThatTheSignatureDoesNotAskFor) {
  int calls = 0;
  UniqueFunction<void()> call = [&] { return ++calls; };
  call();
  EXPECT_EQ(calls, 1);
}
