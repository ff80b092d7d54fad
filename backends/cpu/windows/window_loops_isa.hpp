// Declarations shared by the window loops of one instruction set. Included by sources of
// ISA_SOURCES only. Threads: any; pure functions.
#pragma once

#include "window_loops.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

// The members of WindowLoops, for T = float and double.
template <class T>
void copy_planes(const PlaneCopy& planes, T* to);
template <class T>
void spread(const T* from, T* to, std::int64_t step, std::int64_t count);
template <class T>
void sum_windows(const WindowSum<T>& sum);
template <class T>
std::int64_t dot_windows(const WindowDots<T>& dots, std::int64_t terms);
template <class T>
void finish_dots(T* lanes, std::int64_t taps, double* totals);

}  // namespace hearth::cpu::HEARTH_CPU_ISA
