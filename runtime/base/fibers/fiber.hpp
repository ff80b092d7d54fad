// A Fiber is a function with a stack of its own. The thread that resumes it runs it until it
// suspends itself or ends. Private to the manual executor and FiberLoop.
// Threads: owner only: all calls on the OS thread that resumed it first. Invariant: exceptions
// being handled inside do not mix with those of other fibers or of the thread.
#pragma once

#include <array>
#include <cstddef>

#include <hearth/runtime/base/unique_function.hpp>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <boost/context/stack_context.hpp>

namespace hearth {

class Fiber final {
 public:
  /// Makes a fiber; the body must not throw. The stack has kStackBytes and a guard page; untouched
  /// pages cost nothing.
  explicit Fiber(UniqueFunction<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  /// Requires that the fiber has ended or was never resumed.
  ~Fiber();

  static constexpr std::size_t kStackBytes = 1 << 20;

  /// Runs the fiber until suspend() or the end of the body.
  void resume();
  /// Returns to resume(). Called inside the fiber only.
  void suspend();
  [[nodiscard]] bool has_ended() const noexcept { return has_ended_; }
  /// Marks the objects on the stack as reachable for the leak checker, for a fiber that is never
  /// destroyed.
  void keep_reachable() const noexcept;

 private:
  /// A mapped stack with a guard page below it.
  class Stack {
   public:
    Stack() : allocator_(kStackBytes), memory_(allocator_.allocate()) {}
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;
    ~Stack() { allocator_.deallocate(memory_); }

    [[nodiscard]] const boost::context::stack_context& memory() const noexcept { return memory_; }
    [[nodiscard]] void* lowest_address() const noexcept {
      return static_cast<std::byte*>(memory_.sp) - memory_.size;
    }

   private:
    boost::context::protected_fixedsize_stack allocator_;
    boost::context::stack_context memory_;
  };

  /// Exception state that the C++ runtime keeps per OS thread: the caught list, the uncaught count.
  class ExceptionState {
   public:
    void exchange_with_thread() noexcept;

   private:
    std::array<std::byte, sizeof(void*) + sizeof(unsigned)> saved_{};
  };

  boost::context::fiber enter(boost::context::fiber&& resumer);

  UniqueFunction<void()> body_;
  bool has_ended_ = false;
  Stack stack_;
  // after stack_: destroyed first, and may access the stack even when ended
  boost::context::fiber inside_;
  boost::context::fiber resumer_;
  ExceptionState exceptions_;
  // For the address sanitizer: its own frames of this fiber, and the stack that resumed it.
  void* fake_stack_ = nullptr;
  const void* resumer_stack_ = nullptr;
  std::size_t resumer_stack_bytes_ = 0;
};

}  // namespace hearth
