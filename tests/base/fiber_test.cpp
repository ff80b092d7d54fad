#include "runtime/base/fibers/fiber.hpp"

#include <exception>
#include <string>

#include <gtest/gtest.h>

using namespace hearth;

TEST(Fiber, RunsFromResumeToSuspendAndKeepsItsPlace) {
  std::string order;
  Fiber* self = nullptr;
  Fiber fiber([&] {
    for (const char letter : {'a', 'b'}) {
      order += letter;
      self->suspend();
    }
  });
  self = &fiber;
  EXPECT_EQ(order, "");
  fiber.resume();
  order += '1';
  fiber.resume();
  order += '2';
  EXPECT_FALSE(fiber.has_ended());
  fiber.resume();
  EXPECT_TRUE(fiber.has_ended());
  EXPECT_EQ(order, "a1b2");
}

TEST(Fiber, DestroysItsBodyWhenItEnds) {
  auto owned = std::make_shared<int>(1);
  Fiber fiber([owned] { EXPECT_EQ(*owned, 1); });
  EXPECT_EQ(owned.use_count(), 2);
  fiber.resume();
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(Fiber, AnExceptionBeingHandledInsideIsNotSeenOutside) {
  Fiber* self = nullptr;
  Fiber fiber([&] {
    try {
      throw 1;
    } catch (int) {
      self->suspend();
      EXPECT_NE(std::current_exception(), nullptr);
    }
  });
  self = &fiber;
  fiber.resume();
  EXPECT_EQ(std::current_exception(), nullptr);
  try {
    throw std::string("outside");
  } catch (const std::string& caught) {
    fiber.resume();
    EXPECT_EQ(caught, "outside");
    EXPECT_NE(std::current_exception(), nullptr);
  }
  EXPECT_TRUE(fiber.has_ended());
}
