// Kernels of the program: calls its function on one thread.
#include "evaluators.hpp"

#include <hearth/backends/custom_call.hpp>

#include <algorithm>

namespace hearth::reference {

Status evaluate_custom(const KernelCall& call) {
  const HostKernelCall::Cores cores{.object = nullptr,
                                    .run = [](void* /*object*/,
                                              std::int64_t count,
                                              std::int64_t grain,
                                              HostKernelCall::RangeFn range,
                                              const void* body) {
                                      for (std::int64_t i = 0; i < count; i += grain) {
                                        range(body, i, std::min(count, i + grain));
                                      }
                                    }};
  return run_custom(call, cores, "a device of the host");
}

}  // namespace hearth::reference
