// Runs conformance cases on a target, which runs kernel calls on host memory, and compares with the
// oracle. Threads: one at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <hearth/backends/backend.hpp>

#include "op_case.hpp"

namespace hearth::conformance {

/// The tested object: a backend, or a table of kernels without one.
struct Target {
  std::function<Support(const KernelCall&)> supports;
  std::function<Status(const KernelCall&)> submit;
  std::function<bool(OpKind, int)> may_alias;
  /// Announces a call that comes later; empty: calls are not announced.
  std::function<void(const KernelCall&)> precompile = {};
};
/// Borrows the backend, which must compute values.
[[nodiscard]] Target target_of(Backend& backend);
/// As target_of(), and threads of the backend compile the kernels of a case ahead.
[[nodiscard]] Target precompiling_target_of(Backend& backend);

struct Report {
  int calls = 0;        ///< Calls that ran and were compared.
  int aliased = 0;      ///< The part of `calls` that ran in place.
  int unsupported = 0;  ///< Calls that the target refused with a reason.
  int failed = 0;
  std::vector<std::string>
      failures;  ///< The first few, each with call, place, value, expected value and tolerance.
  std::vector<std::string> refusals;  ///< The first few reasons for unsupported dense calls.

  [[nodiscard]] std::string to_string() const;
};

/// Runs every call of a case in every type: all inputs dense; each input, and all at once, in every
/// other layout; in place wherever the target allows it. Large calls run in f32, bf16, i64 and
/// bool, dense and with all inputs transposed. Checks values, unchanged inputs, unchanged margins
/// around the outputs, and a reason in each refusal.
[[nodiscard]] Report run_case(const Target& target, const OpCase& op_case);
/// As run_case(), with dense inputs alone.
[[nodiscard]] Report run_dense(const Target& target, const OpCase& op_case);

}  // namespace hearth::conformance
