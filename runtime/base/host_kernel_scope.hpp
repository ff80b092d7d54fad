// Where a thread runs a kernel of the program's own. The kernel's device waits for it, so it must
// not wait for a device: such a wait is refused. Threads: each scope is its thread's.
#pragma once

#include <string_view>

namespace hearth::detail {

/// The calling thread runs this kernel as long as the scope lives. Scopes may nest; the outermost
/// counts.
class HostKernelScope final {
 public:
  /// Lifetime: the name lives as long as the scope.
  explicit HostKernelScope(std::string_view kernel);
  HostKernelScope(const HostKernelScope&) = delete;
  HostKernelScope& operator=(const HostKernelScope&) = delete;
  ~HostKernelScope();

 private:
  bool is_outermost_;
};

/// Throws ArgumentError stream_misuse where the calling thread runs a kernel of the program's own.
/// `awaited`: for what it would wait.
void require_no_host_kernel(std::string_view awaited);

}  // namespace hearth::detail
