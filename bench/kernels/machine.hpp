// The header of every output: what was built, where it ran, and what may have disturbed it.
// Values. Threads: any.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hearth::bench {

/// Facts in their order, as ("commit", "42814f8d").
using Facts = std::vector<std::pair<std::string, std::string>>;

/// Reads the facts of the build (commit, compiler, flags) and of the machine (processor, caches,
/// cores, hypervisor, governor), and the date. Also reads all variables of the environment that
/// begin with OPENBLAS_, OMP_ or HEARTH_.
[[nodiscard]] Facts machine_facts();
/// Returns facts of the whole run: the load before and behind it, and the share of all cores' time
/// that the hypervisor took.
class LoadWatch final {
 public:
  LoadWatch();
  [[nodiscard]] Facts facts() const;

 private:
  double load_;
  double stolen_;
  double begin_;  ///< Seconds.
};
/// Returns warnings for settings that slow a library down, as an OPENBLAS_CORETYPE below the
/// processor's level.
[[nodiscard]] std::vector<std::string> machine_warnings();

}  // namespace hearth::bench
