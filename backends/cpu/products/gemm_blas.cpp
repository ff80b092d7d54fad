#include "gemm_blas.hpp"

#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/machine_memory.hpp>
#include <hearth/runtime/base/parker.hpp>

#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace hearth::cpu {

namespace {

// Smaller products lose more by OpenBLAS's packing than they gain by its loops.
constexpr double kLeastFlops = 4e6;
constexpr std::int64_t kLeastSide = 32;

// Memory that each OpenBLAS thread allocates some time after the library is loaded (0.3.21,
// x86-64). A thread that gets none retries without end, and the exit of the process waits for it.
constexpr std::int64_t kThreadBytes = std::int64_t{128} << 20;
// Limits of polls, a millisecond apart: consecutive ones that find no room, and all.
constexpr int kSurelyStarved = 20;
constexpr int kMostLooks = 2'000;

// Number of threads that hold their memory: a single readable and writable mapping, unlike a stack
// or memory that malloc only reserves.
std::int64_t fed_threads() {
  std::int64_t count = 0;
  std::ifstream mappings("/proc/self/maps");
  for (std::string line; std::getline(mappings, line);) {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::array<char, 5> access{};
    // NOLINTNEXTLINE(cert-err34-c): the kernel writes these numbers
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, access.data()) ==
            3 &&
        std::string_view(access.data()) == "rw-p") {
      count += static_cast<std::int64_t>(end - begin) / kThreadBytes;
    }
  }
  return count;
}

std::string starving_threads() {
  const int count = openblas_get_num_threads() - 1;  // minus the caller
  const auto addresses = detail::address_limit();
  if (!addresses || count == 0) {
    return {};
  }
  // A thread that allocates later depends on the memory that the program leaves it.
  const auto parker = make_intrusive<hearth::detail::Parker>();
  int starved = 0;
  for (int looks = 0; fed_threads() < count; ++looks) {
    // While a thread starts, malloc briefly reserves the same amount.
    const auto now = detail::address_limit();
    starved = now && now->left_bytes < kThreadBytes ? starved + 1 : 0;
    if (looks == kMostLooks && now && now->left_bytes >= count * kThreadBytes) {
      return {};  // threads of another build, which allocate less
    }
    if (starved == kSurelyStarved || looks == kMostLooks) {
      return fmt::format(
          "the limit on addresses (ulimit -v) of {} MiB leaves no room for OpenBLAS's own threads, "
          "which take {} MiB; OpenBLAS would retry that allocation for ever, and the program would "
          "hang: "
          "set OPENBLAS_NUM_THREADS=1, or raise the limit",
          addresses->most_bytes >> 20,
          count * (kThreadBytes >> 20));
    }
    static_cast<void>(parker->park(Deadline::in(std::chrono::milliseconds(1))));
  }
  return {};
}

#ifdef __SANITIZE_THREAD__
constexpr bool kIsUsable = false;  // OpenBLAS is not instrumented
#else
constexpr bool kIsUsable = true;
#endif

BlasStatus probe() {
  if (!kIsUsable) {
    return {.usable = false, .description = "own matrix products (OpenBLAS is not instrumented)"};
  }
  // "OpenBLAS 0.3.21 NO_LAPACKE ...": the first two words.
  const std::string_view config = openblas_get_config();
  const std::string_view version = config.substr(0, config.find(' ', config.find(' ') + 1));
  if (openblas_get_parallel() != OPENBLAS_THREAD) {
    return {.usable = false,
            .description =
                fmt::format("own matrix products ({} is its {} build, not the pthread build)",
                            version,
                            openblas_get_parallel() == OPENBLAS_OPENMP ? "OpenMP" : "serial")};
  }
  std::string starving = starving_threads();
  openblas_set_num_threads(1);
  return {.usable = true,
          .description = fmt::format("{} (pthread build)", version),
          .core = openblas_get_corename(),
          .starving = std::move(starving)};
}

struct BlasOperand {
  CBLAS_TRANSPOSE transpose;
  blasint step;
};

bool is_blas_matrix(const GemmOperand& operand, std::int64_t rows, std::int64_t columns) {
  return (operand.column_step == 1 && operand.row_step >= std::max<std::int64_t>(1, columns)) ||
         (operand.row_step == 1 && operand.column_step >= std::max<std::int64_t>(1, rows));
}

BlasOperand blas_operand(const GemmOperand& operand, std::int64_t columns) {
  if (operand.column_step == 1 && operand.row_step >= std::max<std::int64_t>(1, columns)) {
    return {CblasNoTrans, static_cast<blasint>(operand.row_step)};
  }
  return {CblasTrans, static_cast<blasint>(operand.column_step)};
}

template <class T>
void call(const Gemm<T>& gemm, BlasOperand a, BlasOperand b) {
  const auto m = static_cast<blasint>(gemm.m);
  const auto n = static_cast<blasint>(gemm.n);
  const auto k = static_cast<blasint>(gemm.k);
  const auto c_step = static_cast<blasint>(gemm.c_step);
  const T* a_data = reinterpret_cast<const T*>(gemm.a.data);
  const T* b_data = reinterpret_cast<const T*>(gemm.b.data);
  const T beta = gemm.accumulate ? T{1} : T{0};
  if constexpr (sizeof(T) == sizeof(float)) {
    cblas_sgemm(CblasRowMajor,
                a.transpose,
                b.transpose,
                m,
                n,
                k,
                1.0F,
                a_data,
                a.step,
                b_data,
                b.step,
                beta,
                gemm.c,
                c_step);
  } else {
    cblas_dgemm(CblasRowMajor,
                a.transpose,
                b.transpose,
                m,
                n,
                k,
                1.0,
                a_data,
                a.step,
                b_data,
                b.step,
                beta,
                gemm.c,
                c_step);
  }
}

}  // namespace

bool is_worthy_blas_core(std::string_view core, IsaLevel isa) noexcept {
  constexpr std::array<std::string_view, 6> kVectorCores = {
      "Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "SapphireRapids"};
  const auto is_core = [core](std::string_view each) {
    return std::ranges::equal(core, each, [](unsigned char a, unsigned char b) {
      return std::tolower(a) == std::tolower(b);
    });
  };
  return isa == IsaLevel::baseline || std::ranges::any_of(kVectorCores, is_core);
}

const BlasStatus& blas_status() {
  static const BlasStatus kStatus = probe();
  return kStatus;
}

std::string describe_products(IsaLevel isa) {
  const BlasStatus& status = blas_status();
  return status.usable && !is_worthy_blas_core(status.core, isa)
             ? fmt::format("own matrix products ({} takes this processor for a {})",
                           status.description,
                           status.core)
             : status.description;
}

template <class T>
bool blas_suits(std::int64_t m,
                std::int64_t n,
                std::int64_t k,
                const GemmOperand& a,
                const GemmOperand& b,
                IsaLevel isa) noexcept {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (isa == IsaLevel::avx512) {
    return false;
  }
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const std::int64_t largest =
      std::max({m, n, k, a.row_step, a.column_step, b.row_step, b.column_step});
  return flops >= kLeastFlops && std::min({m, n, k}) >= kLeastSide && largest < kMost &&
         a.dtype == dtype_of<T> && b.dtype == dtype_of<T> && is_blas_matrix(a, m, k) &&
         is_blas_matrix(b, k, n);
}

template <class T>
void run_blas_gemm(const Gemm<T>& gemm, Arena* arena) {
  const double flops =
      2.0 * static_cast<double>(gemm.m) * static_cast<double>(gemm.n) * static_cast<double>(gemm.k);
  const std::int64_t count = part_count(flops);
  const BlasOperand a = blas_operand(gemm.a, gemm.k);
  const BlasOperand b = blas_operand(gemm.b, gemm.n);
  // Cuts the longer side at whole cache lines.
  const bool by_rows = gemm.m >= gemm.n;
  const std::int64_t side = by_rows ? gemm.m : gemm.n;
  const std::int64_t grain = ((side + count - 1) / count + 63) / 64 * 64;
  for_ranges(arena, side, grain, [&](std::int64_t begin, std::int64_t end) {
    Gemm<T> part = gemm;
    if (by_rows) {
      part.m = end - begin;
      part.a.data += begin * gemm.a.row_step * static_cast<std::int64_t>(sizeof(T));
      part.c += begin * gemm.c_step;
    } else {
      part.n = end - begin;
      part.b.data += begin * gemm.b.column_step * static_cast<std::int64_t>(sizeof(T));
      part.c += begin;
      part.bias = gemm.bias == nullptr ? nullptr : gemm.bias + begin;
    }
    if (part.bias != nullptr && !part.accumulate) {
      for (std::int64_t i = 0; i < part.m; ++i) {
        std::copy_n(part.bias, part.n, part.c + i * part.c_step);
      }
      part.accumulate = true;
    }
    call(part, a, b);
    gemm.sink.take(by_rows ? begin : 0, part.m, by_rows ? 0 : begin, part.n);
  });
}

template bool blas_suits<float>(std::int64_t,
                                std::int64_t,
                                std::int64_t,
                                const GemmOperand&,
                                const GemmOperand&,
                                IsaLevel) noexcept;
template bool blas_suits<double>(std::int64_t,
                                 std::int64_t,
                                 std::int64_t,
                                 const GemmOperand&,
                                 const GemmOperand&,
                                 IsaLevel) noexcept;
template void run_blas_gemm<float>(const Gemm<float>&, Arena*);
template void run_blas_gemm<double>(const Gemm<double>&, Arena*);

}  // namespace hearth::cpu
