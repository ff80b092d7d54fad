// The instruction sets that vector code is built for. Sources under ISA_SOURCES in CMakeLists.txt
// are compiled once per level, into the namespace hearth::cpu::HEARTH_CPU_ISA. The device picks a
// level once, when it is opened. Threads: any; pure functions. Invariant: a source built above
// baseline defines nothing outside its own namespace, and includes no header whose inline functions
// a baseline source might share. The linker keeps one copy of such a function, and that copy must
// run on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hearth::cpu {

enum class IsaLevel : std::uint8_t {
  baseline,  ///< The compiler's default; SSE2 on x86-64.
  avx2,      ///< x86-64-v3: AVX2, FMA, F16C.
  avx512,    ///< x86-64-v4: AVX-512 F, BW, CD, DQ, VL.
};

/// Returns the highest level that this machine runs.
[[nodiscard]] IsaLevel machine_isa() noexcept;
/// Returns the processor's name, or "this machine".
[[nodiscard]] std::string machine_name();
/// Returns the name with the numbers that distinguish processors which a hypervisor gives one name:
/// "..., family 6, model 207, stepping 2".
[[nodiscard]] std::string processor_name();
/// Returns "baseline", "avx2" or "avx512".
[[nodiscard]] std::string_view name(IsaLevel level) noexcept;

}  // namespace hearth::cpu
