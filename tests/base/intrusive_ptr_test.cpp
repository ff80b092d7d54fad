#include <hearth/runtime/base/intrusive_ptr.hpp>

#include <hearth/runtime/base/thread_executor.hpp>

#include <gtest/gtest.h>

using namespace hearth;

namespace {

class Counted : public RefCounted<Counted> {
 public:
  explicit Counted(int& live) : live_(live) { ++live_; }
  virtual ~Counted() { --live_; }

 private:
  int& live_;
};

class Derived final : public Counted {
 public:
  using Counted::Counted;
};

}  // namespace

TEST(IntrusivePtr, TheObjectDiesWithItsLastHandle) {
  int live = 0;
  auto first = make_intrusive<Counted>(live);
  auto second = first;
  EXPECT_EQ(first->use_count(), 2U);
  first = nullptr;
  EXPECT_EQ(live, 1);
  second = nullptr;
  EXPECT_EQ(live, 0);
}

TEST(IntrusivePtr, AMovedFromHandleIsNull) {
  int live = 0;
  auto first = make_intrusive<Counted>(live);
  const auto second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second->use_count(), 1U);
}

TEST(IntrusivePtr, AssigningAHandleToItselfKeepsTheObject) {
  int live = 0;
  auto handle = make_intrusive<Counted>(live);
  const auto& same = handle;
  handle = same;
  EXPECT_EQ(live, 1);
  EXPECT_EQ(handle->use_count(), 1U);
}

TEST(IntrusivePtr, AHandleToABaseDestroysTheDerivedObject) {
  int live = 0;
  {
    const IntrusivePtr<Counted> base = make_intrusive<Derived>(live);
    EXPECT_EQ(live, 1);
  }
  EXPECT_EQ(live, 0);
}

TEST(IntrusivePtr, DetachAndAdoptKeepTheCount) {
  int live = 0;
  auto handle = make_intrusive<Counted>(live);
  Counted* const raw = handle.detach();
  EXPECT_EQ(raw->use_count(), 1U);
  handle = IntrusivePtr<Counted>::adopt(raw);
  EXPECT_EQ(handle->use_count(), 1U);
  handle = nullptr;
  EXPECT_EQ(live, 0);
}

TEST(IntrusivePtr, CopiesInManyThreadsLeaveOneHolder) {
  int live = 0;
  const auto shared = make_intrusive<Counted>(live);
  ThreadExecutor executor;
  std::vector<std::unique_ptr<detail::Joinable>> threads;
  for (int i = 0; i < 4; ++i) {
    threads.push_back(executor.spawn({.name = "copier"}, [shared] {
      for (int k = 0; k < 1000; ++k) {
        const auto copy = shared;
      }
    }));
  }
  threads.clear();
  EXPECT_EQ(shared->use_count(), 1U);
  EXPECT_EQ(live, 1);
}
