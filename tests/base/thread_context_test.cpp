#include <hearth/runtime/base/thread_context.hpp>

#include <hearth/runtime/base/thread_executor.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

using namespace hearth;

namespace {

struct Named final : detail::ContextAttachment {
  Named(std::string name_, std::vector<std::string>& deaths_)
      : name(std::move(name_)), deaths(deaths_) {}
  ~Named() override {
    deaths.push_back(name);
    found_itself_dying |= detail::current_context().find<Named>(1) == this;
    died_on = detail::current_context().id();
  }
  std::string name;
  std::vector<std::string>& deaths;
  static inline bool found_itself_dying = false;
  static inline detail::ThreadId died_on{};
};

std::unique_ptr<Named> named(std::string name, std::vector<std::string>& deaths) {
  return std::make_unique<Named>(std::move(name), deaths);
}

std::string name_at(detail::ThreadContext& context, std::uint64_t key) {
  const Named* const found = context.find<Named>(key);
  return found != nullptr ? found->name : "nothing";
}

}  // namespace

TEST(ThreadContext, IsTheSameObjectForOneThreadAndAnotherForTheNext) {
  detail::ThreadContext* const mine = &detail::current_context();
  EXPECT_EQ(mine, &detail::current_context());
  ThreadExecutor executor;
  detail::ThreadContext* theirs = nullptr;
  detail::ThreadId their_id{};
  std::string their_name;
  executor
      .spawn({.name = "worker with a long name"},
             [&] {
               theirs = &detail::current_context();
               their_id = detail::current_context().id();
               their_name = detail::current_context().name();
             })
      ->join();
  EXPECT_NE(theirs, mine);
  EXPECT_NE(their_id, mine->id());
  EXPECT_NE(their_id.value, 0U);
  EXPECT_EQ(their_name, "worker with a long name");
}

TEST(ThreadContext, FindsWhatWasAttachedUnderEachKey) {
  std::vector<std::string> deaths;
  detail::ThreadContext context("test");
  EXPECT_EQ(context.find<Named>(1), nullptr);
  context.attach(1, named("one", deaths));
  context.attach(2, named("two", deaths));
  EXPECT_EQ(name_at(context, 1), "one");
  EXPECT_EQ(name_at(context, 2), "two");
  EXPECT_EQ(name_at(context, 1), "one");
  EXPECT_EQ(context.find<Named>(3), nullptr);
}

TEST(ThreadContext, ForgetsADetachedKeyEvenIfItWasLookedUpLast) {
  std::vector<std::string> deaths;
  detail::ThreadContext context("test");
  context.attach(1, named("one", deaths));
  ASSERT_NE(context.find<Named>(1), nullptr);
  context.detach(1);
  context.detach(1);
  EXPECT_EQ(context.find<Named>(1), nullptr);
  EXPECT_EQ(deaths, (std::vector<std::string>{"one"}));
}

TEST(ThreadContext, AttachmentsDieNewestFirstOnTheirOwnThread) {
  std::vector<std::string> deaths;
  ThreadExecutor executor;
  detail::ThreadId id{};
  executor
      .spawn({.name = "worker"},
             [&] {
               id = detail::current_context().id();
               detail::current_context().attach(1, named("one", deaths));
               detail::current_context().attach(2, named("two", deaths));
               detail::current_context().attach(3, named("three", deaths));
             })
      ->join();
  EXPECT_EQ(deaths, (std::vector<std::string>{"three", "two", "one"}));
  EXPECT_FALSE(Named::found_itself_dying);
  EXPECT_EQ(Named::died_on, id);
}

TEST(ThreadContext, AnUnnamedOneIsNamedByItsNumber) {
  const detail::ThreadContext context("");
  EXPECT_EQ(context.name(), "thread-" + std::to_string(context.id().value));
}
