#include <hearth/runtime/base/host_kernel_scope.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth::detail {
namespace {

// no device has this key: devices count from 1
constexpr std::uint64_t kScopeKey = ~std::uint64_t{0};

struct RunningKernel final : ContextAttachment {
  explicit RunningKernel(std::string_view kernel) : name(kernel) {}
  std::string_view name;
};

}  // namespace

HostKernelScope::HostKernelScope(std::string_view kernel)
    : is_outermost_(current_context().find<RunningKernel>(kScopeKey) == nullptr) {
  if (is_outermost_) {
    current_context().attach(kScopeKey, std::make_unique<RunningKernel>(kernel));
  }
}

HostKernelScope::~HostKernelScope() {
  if (is_outermost_) {
    current_context().detach(kScopeKey);
  }
}

void require_no_host_kernel(std::string_view awaited) {
  if (const auto* const running = current_context().find<RunningKernel>(kScopeKey)) {
    throw_error(Error{.code = ErrorCode::stream_misuse,
                      .text = std::string(awaited) + " is waited for inside the kernel '" +
                              std::string(running->name) +
                              "', which its device waits for; give the kernel what it needs as an "
                              "input",
                      .op = std::string(running->name)});
  }
}

}  // namespace hearth::detail
