// The arithmetic that the library computes in, whatever the program has set for its own: rounding
// to nearest, denormals kept, no exception raises a signal. A thread of the library has it from its
// start; a guard puts it in place on a thread of the program, and puts back what was there.
// On the stack, where work of the library begins. Threads: its own. Guards nest.
// Invariants: (1) behind a guard's end the control bits and the flags of exceptions are those from
// before it: the flags that the library's work raises are not seen; (2) inside of a guard, a signal
// of an exception comes from nobody.
#pragma once

#include <cstdint>

#ifndef __x86_64__
#include <cfenv>
#endif

namespace hearth::detail {

class FloatEnvironment final {
 public:
  /// Cost: 10 ns with the end, where the program has set nothing.
  FloatEnvironment() noexcept;
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;
  ~FloatEnvironment();

 private:
#ifdef __x86_64__
  // The registers are read in a few cycles, written in many: they are when they differ.
  struct X87 {
    std::uint32_t words[7] = {};  // as fnstenv lays them out
  };
  std::uint32_t vector_ = 0;   // MXCSR
  std::uint16_t control_ = 0;  // of x87, in which long double computes
  std::uint16_t status_ = 0;
  X87 x87_;  // where the program's control word is another
#else
  std::fenv_t saved_;
#endif
};

}  // namespace hearth::detail
