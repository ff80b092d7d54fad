// Kernels of the program: calls its function, with the device's cores for its loops.
#include "kernel_table.hpp"

#include <hearth/backends/custom_call.hpp>

namespace hearth::cpu {
namespace {

Status run_with_cores(const KernelCall& call, KernelContext& context) {
  const HostKernelCall::Cores cores{
      .object = &context.arena,
      .run = [](void* object,
                std::int64_t count,
                std::int64_t grain,
                HostKernelCall::RangeFn range,
                const void* body) {
        static_cast<Arena*>(object)->parallel_for(
            count, grain, [&](std::int64_t begin, std::int64_t end) { range(body, begin, end); });
      }};
  return run_custom(call, cores, "a cpu device");
}

}  // namespace

std::span<const KernelRow> custom_rows() noexcept {
  static constexpr KernelRow kRows[] = {{OpKind::custom, run_with_cores, nullptr, 0}};
  return kRows;
}

}  // namespace hearth::cpu
