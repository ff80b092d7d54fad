#include "roofs.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "operands.hpp"
#include "problem.hpp"
#include "stopwatch.hpp"

namespace hearth::bench {
namespace {

constexpr int kChains = 12;  // hide a latency of four cycles on two units
constexpr std::int64_t kSteps = 1024;
constexpr std::string_view kCopy = "copy shape=8388608 a=plain";  // 32 MiB to 32 MiB

#if defined(__x86_64__)
__attribute__((target("avx512f"))) std::int64_t wide() noexcept {
  __m512 sums[kChains];
  std::fill_n(sums, kChains, _mm512_set1_ps(0.5F));
  const __m512 factor = _mm512_set1_ps(0.999F);
  const __m512 term = _mm512_set1_ps(0.001F);
  for (std::int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
    }
  }
  asm volatile("" : : "r"(&sums[0]) : "memory");  // NOLINT: the results are used
  return 2 * kSteps * kChains * 16;
}
__attribute__((target("avx2,fma"))) std::int64_t middle() noexcept {
  __m256 sums[kChains];
  std::fill_n(sums, kChains, _mm256_set1_ps(0.5F));
  const __m256 factor = _mm256_set1_ps(0.999F);
  const __m256 term = _mm256_set1_ps(0.001F);
  for (std::int64_t step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) {
      sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
    }
  }
  asm volatile("" : : "r"(&sums[0]) : "memory");  // NOLINT: the results are used
  return 2 * kSteps * kChains * 8;
}
#endif

}  // namespace

std::int64_t run_multiply_adds() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) {
    return wide();
  }
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) {
    return middle();
  }
#endif
  return 0;
}

detail::RunTime Roofs::least_time(double flops, double bytes) const noexcept {
  const double by_flops = flops_per_second > 0 ? flops / flops_per_second : 0;
  const double by_bytes = bytes_per_second > 0 ? bytes / bytes_per_second : 0;
  return detail::RunTime(1e9 * std::max(by_flops, by_bytes));
}

std::string Roofs::to_string() const {
  const auto rate = [](double value, std::string_view unit) {
    return value > 0 ? fmt::format("{:.4g} {}", value / 1e9, unit) : fmt::format("no {}", unit);
  };
  return fmt::format("{}, {}{}",
                     rate(flops_per_second, "GFLOP/s"),
                     rate(bytes_per_second, "GB/s"),
                     is_clean ? "" : " (at least: the machine is busy)");
}

// Both rates are those of the low quantile: disturbances only ever add time.
Result<Roofs> measure_roofs(BenchDevice& device, int cores, const ContestOptions& options) {
  Roofs roofs;
  if (device.source() != detail::SampleSource::device) {
    const Side additions = [](std::int32_t run_count) -> Result<detail::Sample> {
      Stopwatch watch(detail::SampleSource::host_thread);
      for (std::int32_t i = 0; i < run_count; ++i) {
        static_cast<void>(run_multiply_adds());
      }
      return watch.stop(run_count, 0);
    };
    HEARTH_TRY(const Contest found, time_alone(additions, options));
    if (found.incumbent.is_known()) {
      roofs.flops_per_second =
          1e9 * cores * static_cast<double>(run_multiply_adds()) / found.incumbent.lowest.count();
    }
    roofs.is_clean = found.judgement.verdict == detail::Verdict::same;
  }
  HEARTH_TRY(const std::vector<Problem> problems, parse_problems(kCopy));
  HEARTH_TRY(const std::unique_ptr<Operands> operands,
             Operands::make(device, problems[0], Heat::rotated));
  const Side copies = [&](std::int32_t run_count) {
    return device.sample([&](std::size_t i) { return operands->call(i); },
                         detail::kRulePick,
                         run_count,
                         operands->rotated_bytes());
  };
  HEARTH_TRY(const Contest found, time_alone(copies, options));
  if (found.incumbent.is_known()) {
    roofs.bytes_per_second = 1e9 * problems[0].cost.bytes / found.incumbent.lowest.count();
  }
  roofs.is_clean = roofs.is_clean && found.judgement.verdict == detail::Verdict::same;
  return roofs;
}

}  // namespace hearth::bench
