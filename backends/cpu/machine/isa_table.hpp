// Declares a table of loops that exists once per instruction set, and the function that selects
// one. Private to backends/cpu. Threads: any; tables are constants.
#pragma once

#include <hearth/backends/cpu/isa.hpp>

// HEARTH_CPU_ONE_LEVEL: the build has the lowest level alone (preset tsan).
#if defined(__x86_64__) && !defined(HEARTH_CPU_ONE_LEVEL)
#define HEARTH_CPU_ISA_TABLE(Table, accessor)                           \
  namespace baseline {                                                  \
  extern const Table accessor##_table;                                  \
  }                                                                     \
  namespace avx2 {                                                      \
  extern const Table accessor##_table;                                  \
  }                                                                     \
  namespace avx512 {                                                    \
  extern const Table accessor##_table;                                  \
  }                                                                     \
  [[nodiscard]] inline const Table& accessor(IsaLevel level) noexcept { \
    switch (level) {                                                    \
      case IsaLevel::avx512:                                            \
        return avx512::accessor##_table;                                \
      case IsaLevel::avx2:                                              \
        return avx2::accessor##_table;                                  \
      case IsaLevel::baseline:                                          \
      default:                                                          \
        return baseline::accessor##_table;                              \
    }                                                                   \
  }                                                                     \
  static_assert(true)
#else
#define HEARTH_CPU_ISA_TABLE(Table, accessor)                     \
  namespace baseline {                                            \
  extern const Table accessor##_table;                            \
  }                                                               \
  [[nodiscard]] inline const Table& accessor(IsaLevel) noexcept { \
    return baseline::accessor##_table;                            \
  }                                                               \
  static_assert(true)
#endif
