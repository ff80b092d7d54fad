// The floating-point environment of the library's work, whatever the program has set: rounding to
// nearest, denormals kept, no exception raises a signal. A thread of the library has it from its
// start. A guard sets it on a thread of the program and restores the program's environment.
// On the stack, where work of the library begins. Threads: its own. Guards nest.
// Invariants: (1) after a guard, the control bits and exception flags are those from before it:
// flags raised by the library's work are discarded; (2) inside a guard, no floating-point exception
// raises a signal.
#pragma once

#include <cstdint>

#ifndef __x86_64__
#include <cfenv>
#endif

namespace hearth::detail {

class FloatEnvironment final {
 public:
  /// Cost: 10 ns including the destructor, if the program changed nothing.
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
  std::uint32_t vector_ = 0;   // MXCSR
  std::uint16_t control_ = 0;  // of x87, which computes long double
  std::uint16_t status_ = 0;
  X87 x87_;  // set if the program's control word differs
#else
  std::fenv_t saved_;
#endif
};

}  // namespace hearth::detail
