#include <hearth/backends/cpu/isa.hpp>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include <array>
#include <cstring>

namespace hearth::cpu {

IsaLevel machine_isa() noexcept {
#if defined(__x86_64__) && !defined(HEARTH_CPU_ONE_LEVEL)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    return IsaLevel::avx512;
  }
  if (v3) {
    return IsaLevel::avx2;
  }
#endif
  return IsaLevel::baseline;
}

std::string machine_name() {
  std::string name;
#ifdef __x86_64__
  // Three leaves of sixteen characters, padded with zeros.
  for (unsigned leaf = 0x80000002U; leaf <= 0x80000004U; ++leaf) {
    std::array<unsigned, 4> words{};
    if (__get_cpuid(leaf, &words[0], &words[1], &words[2], &words[3]) == 0) {
      break;
    }
    std::array<char, sizeof(words) + 1> text{};
    std::memcpy(text.data(), words.data(), sizeof(words));
    name += text.data();
  }
#endif
  const std::size_t first = name.find_first_not_of(' ');
  const std::size_t last = name.find_last_not_of(' ');
  return first == std::string::npos ? "this machine" : name.substr(first, last - first + 1);
}

std::string processor_name() {
  std::string name = machine_name();
#ifdef __x86_64__
  std::array<unsigned, 4> words{};
  if (__get_cpuid(1, &words[0], &words[1], &words[2], &words[3]) != 0) {
    const unsigned family = (words[0] >> 8U) & 0xfU;
    const unsigned all_of_family = family + (family == 0xfU ? (words[0] >> 20U) & 0xffU : 0U);
    const unsigned model = ((words[0] >> 4U) & 0xfU) | ((words[0] >> 12U) & 0xf0U);
    name += ", family " + std::to_string(all_of_family) + ", model " + std::to_string(model) +
            ", stepping " + std::to_string(words[0] & 0xfU);
  }
#endif
  return name;
}

std::string_view name(IsaLevel level) noexcept {
  constexpr std::string_view kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(level)];
}

}  // namespace hearth::cpu
