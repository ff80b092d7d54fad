// Marks a thread that runs a program's own kernel. The kernel's device waits for it, so it must not
// wait for a device: such a wait is refused. Threads: each scope is its thread's.
#pragma once

#include <string_view>

namespace hearth::detail {

/// Marks the calling thread as running this kernel while the scope lives. Scopes may nest; the
/// outermost counts.
class HostKernelScope final {
 public:
  /// Lifetime: the name outlives the scope.
  explicit HostKernelScope(std::string_view kernel);
  HostKernelScope(const HostKernelScope&) = delete;
  HostKernelScope& operator=(const HostKernelScope&) = delete;
  ~HostKernelScope();

 private:
  bool is_outermost_;
};

/// Throws ArgumentError stream_misuse if the calling thread runs a program's own kernel. `awaited`
/// names what it would wait for.
void require_no_host_kernel(std::string_view awaited);

}  // namespace hearth::detail
