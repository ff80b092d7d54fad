#include "fiber.hpp"

#include <hearth/runtime/base/assert.hpp>

#include <boost/context/preallocated.hpp>

#include <cstring>
#include <utility>

#include <cxxabi.h>

// g++ defines a macro, clang a feature.
#if defined(__SANITIZE_ADDRESS__)
#define HEARTH_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEARTH_ADDRESS_SANITIZER
#endif
#endif

#if defined(HEARTH_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

namespace hearth {
namespace {

/// Stack allocator that leaves the stack to its Fiber.
struct KeptStack {
  void deallocate(boost::context::stack_context&) const noexcept {}
};

// Announces the stack in use to the address sanitizer; no effect in other builds.
void start_switch([[maybe_unused]] void** fake_stack,
                  [[maybe_unused]] const void* lowest_address,
                  [[maybe_unused]] std::size_t size_bytes) noexcept {
#if defined(HEARTH_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(fake_stack, lowest_address, size_bytes);
#endif
}
void finish_switch([[maybe_unused]] void* fake_stack,
                   [[maybe_unused]] const void** from_lowest_address,
                   [[maybe_unused]] std::size_t* from_size_bytes) noexcept {
#if defined(HEARTH_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fake_stack, from_lowest_address, from_size_bytes);
#endif
}
// Lifts the sanitizer's guards. The last frames of a fiber never return, so their guards would
// remain after the memory is reused for another stack or by the heap.
void forget_frames([[maybe_unused]] const void* lowest_address,
                   [[maybe_unused]] std::size_t size_bytes) noexcept {
#if defined(HEARTH_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(lowest_address, size_bytes);
#endif
}

}  // namespace

void Fiber::ExceptionState::exchange_with_thread() noexcept {
  // Without this, a fiber that suspends inside a catch block, or in a destructor during unwinding,
  // would end another fiber's exception.
  void* const globals = abi::__cxa_get_globals();
  const auto mine = saved_;
  std::memcpy(saved_.data(), globals, saved_.size());
  std::memcpy(globals, mine.data(), mine.size());
}

Fiber::Fiber(UniqueFunction<void()> body) : body_(std::move(body)) {}

Fiber::~Fiber() {
  HEARTH_ASSERT(has_ended_ || !inside_, "a fiber died before its end");
  forget_frames(stack_.lowest_address(), stack_.memory().size);
}

void Fiber::resume() {
  exceptions_.exchange_with_thread();
  void* fake_stack = nullptr;
  start_switch(&fake_stack, stack_.lowest_address(), stack_.memory().size);
  if (!inside_) {
    // Not done in the constructor: creating a fiber switches to its stack and back, which the
    // sanitizer must be notified of.
    inside_ = boost::context::fiber(
        std::allocator_arg,
        boost::context::preallocated(stack_.memory().sp, stack_.memory().size, stack_.memory()),
        KeptStack{},
        [this](boost::context::fiber&& resumer) { return enter(std::move(resumer)); });
  }
  inside_ = std::move(inside_).resume();
  finish_switch(fake_stack, nullptr, nullptr);
  exceptions_.exchange_with_thread();
}

boost::context::fiber Fiber::enter(boost::context::fiber&& resumer) {
  finish_switch(nullptr, &resumer_stack_, &resumer_stack_bytes_);
  resumer_ = std::move(resumer);
  body_();
  body_ = nullptr;
  has_ended_ = true;
  start_switch(nullptr, resumer_stack_, resumer_stack_bytes_);
  return std::move(resumer_);
}

void Fiber::suspend() {
  start_switch(&fake_stack_, resumer_stack_, resumer_stack_bytes_);
  resumer_ = std::move(resumer_).resume();
  finish_switch(fake_stack_, &resumer_stack_, &resumer_stack_bytes_);
}

void Fiber::keep_reachable() const noexcept {
#if defined(HEARTH_ADDRESS_SANITIZER)
  __lsan_ignore_object(this);
  __lsan_register_root_region(stack_.lowest_address(), stack_.memory().size);
#endif
}

}  // namespace hearth
