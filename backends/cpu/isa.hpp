// The instruction sets that vector code is built for. Sources listed under ISA_SOURCES in
// CMakeLists.txt are compiled once per level, into the namespace hearth::cpu::HEARTH_CPU_ISA; the
// device picks a level once, when it is made. Threads: any; pure functions. Invariant: a source
// built above baseline defines nothing outside its own namespace, and includes no header with
// inline functions that a baseline source might share: the linker keeps one copy of those, and it
// must run on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hearth::cpu {

enum class IsaLevel : std::uint8_t {
  baseline,  ///< What the compiler assumes by default; SSE2 on x86-64.
  avx2,      ///< x86-64-v3: AVX2, FMA, F16C.
  avx512,    ///< x86-64-v4: AVX-512 F, BW, CD, DQ, VL.
};

/// The highest level that this machine runs.
[[nodiscard]] IsaLevel machine_isa() noexcept;
/// The processor's own name, or "this machine".
[[nodiscard]] std::string machine_name();
/// The same, with what tells processors apart whose names a hypervisor has made alike: "..., family
/// 6, model 207, stepping 2".
[[nodiscard]] std::string processor_name();
/// "baseline", "avx2", "avx512".
[[nodiscard]] std::string_view name(IsaLevel level) noexcept;

}  // namespace hearth::cpu
