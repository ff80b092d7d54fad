// The part of a backend that makes kernels before calls need them, and knows the needs of calls.
// The class itself serves a backend whose kernels are complete when it opens; others override it.
// Owned by the backend. Threads: owner only.
#pragma once

#include <cstdint>
#include <vector>

#include <hearth/autotune/candidate.hpp>
#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// Kernels that a backend has compiled since it was opened.
struct CompileCounts {
  std::uint64_t kernels = 0;   ///< Kernels built by the driver or loaded from the disk cache.
  std::uint64_t compiled = 0;  ///< The part of `kernels` that was in no disk cache.
};

class KernelMaker {
 public:
  KernelMaker() = default;
  KernelMaker(const KernelMaker&) = delete;
  KernelMaker& operator=(const KernelMaker&) = delete;
  virtual ~KernelMaker() = default;

  /// Prepares all that submit() of this call needs, such as a compiled kernel. The device calls it
  /// for ops of an update group, which must not fail for lack of it once others have run.
  ///
  /// Errors: kernel_failed; unsupported.
  [[nodiscard]] virtual Status prepare(const KernelCall& call) {
    static_cast<void>(call);
    return {};
  }
  /// Announces a call like this one, so that other threads may compile its kernel. Ignores the
  /// bytes of its operands. An announced call that never comes wastes time alone.
  virtual void precompile(const KernelCall& call) { static_cast<void>(call); }
  /// Returns whether submit() of this call would find its kernel compiled. Ignores the bytes of its
  /// operands.
  [[nodiscard]] virtual bool has_kernel(const KernelCall& call) {
    static_cast<void>(call);
    return true;
  }
  /// Returns the scratch bytes that submit() of this call would take. The device reserves them for
  /// ops of an update group, which must not fail for lack of them. 0: none, or not known in
  /// advance.
  [[nodiscard]] virtual std::int64_t scratch_bytes(const KernelCall& call) const noexcept {
    static_cast<void>(call);
    return 0;
  }
  /// Returns the number of calls like this one that may run as one call, with inputs 0 and outputs
  /// 0 concatenated along their first axis. The calls share all other operands. Every result keeps
  /// the bits that it has alone. 1: the calls cannot be joined.
  [[nodiscard]] virtual std::int64_t joinable_calls(const KernelCall& call) const noexcept {
    static_cast<void>(call);
    return 1;
  }
  /// Returns the kernels among which a tuner may choose for calls like this one: the rule first, as
  /// `autotune/candidate.hpp` requires. Depends on sizes, strides, types and alignment alone.
  /// Empty: there is no choice.
  ///
  /// Cost: some microseconds; once for each new call.
  [[nodiscard]] virtual std::vector<detail::Candidate> candidates(const KernelCall& call) const {
    static_cast<void>(call);
    return {};
  }
  [[nodiscard]] virtual CompileCounts compile_counts() const noexcept { return {}; }
};

}  // namespace hearth
