// The floating-point environment of the library's work, whatever the program has set: rounding to
// nearest, denormals kept, no exception raises a signal. A thread of the library has it from its
// start. A guard sets it on a thread of the program and restores the program's environment.
// On the stack, where work of the library begins. Threads: its own. Guards nest.
// A compiler moves arithmetic of local values over the start and the end of a guard, for it knows
// no effect of either on them: such values are pinned(). Invariants: (1) after a guard, the control
// bits and exception flags are those from before it: flags raised by the library's work are
// discarded; (2) inside a guard, no floating-point exception raises a signal.
#pragma once

#include <cstdint>

#ifndef __x86_64__
#include <cfenv>
#endif

namespace hearth::detail {

#ifdef __x86_64__

/// The part of a FloatEnvironment that SSE and AVX compute in, MXCSR. For short work that neither
/// computes in long double nor converts between text and numbers, for which the C library reads the
/// rounding of x87.
class VectorEnvironment final {
 public:
  /// Cost: 12 ns including the destructor, if the program changed nothing.
  VectorEnvironment() noexcept : saved_(control()) {
    if ((saved_ & ~kFlags) != kDefault) [[unlikely]] {
      set_control(kDefault | (saved_ & kFlags));
    }
  }
  VectorEnvironment(const VectorEnvironment&) = delete;
  VectorEnvironment& operator=(const VectorEnvironment&) = delete;
  ~VectorEnvironment() {
    if (control() != saved_) [[unlikely]] {
      set_control(saved_);
    }
  }

 private:
  static constexpr std::uint32_t kDefault = 0x1f80;  // all exceptions masked, to nearest
  static constexpr std::uint32_t kFlags = 0x3f;

  // MXCSR, read anew: of two built-in reads around plain arithmetic g++ 12 drops the second, and
  // the flags that the arithmetic raised would stay.
  static std::uint32_t control() noexcept {
    std::uint32_t word = 0;
    __asm__ volatile("stmxcsr %0" : "=m"(word) : : "memory");
    return word;
  }
  static void set_control(std::uint32_t word) noexcept {
    __asm__ volatile("ldmxcsr %0" : : "m"(word) : "memory");
  }

  const std::uint32_t saved_;
};

#endif

class FloatEnvironment final {
 public:
  /// Cost: 23 ns including the destructor, if the program changed nothing.
  FloatEnvironment() noexcept;
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
  ~FloatEnvironment();

 private:
#ifdef __x86_64__
  // The registers are cheap to read and expensive to write, so they are written only if they
  // differ.
  struct X87 {
    std::uint32_t words[7] = {};  // in the layout of fnstenv
  };
  VectorEnvironment vector_;
  std::uint16_t control_ = 0;  // of x87, which computes long double
  std::uint16_t status_ = 0;
  X87 x87_;  // set if the program's control word differs
#else
  std::fenv_t saved_;
#endif
};

#ifndef __x86_64__
using VectorEnvironment = FloatEnvironment;
#endif

/// Returns `value`, computed before this call and opaque to the compiler: arithmetic on the result
/// is not moved to before a guard that this call follows, nor that of `value` to behind one that
/// ends after it.
template <class T>
[[nodiscard]] T pinned(T value) noexcept {
  __asm__ volatile("" : "+m"(value) : : "memory");
  return value;
}

}  // namespace hearth::detail
