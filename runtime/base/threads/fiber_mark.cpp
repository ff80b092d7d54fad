#include <hearth/runtime/base/fiber_mark.hpp>

#include <cstdint>
#include <memory>
#include <string>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth::detail {
namespace {

// no device has this key, and no kernel: devices count from 1, kernels have the largest number
constexpr std::uint64_t kFiberKey = ~std::uint64_t{1};

struct RunningFibers final : ContextAttachment {};

}  // namespace

FiberMark::FiberMark() {
  current_context().attach(kFiberKey, std::make_unique<RunningFibers>());
}

FiberMark::~FiberMark() {
  current_context().detach(kFiberKey);
}

void require_no_fibers(std::string_view awaited) {
  if (current_context().find<RunningFibers>(kFiberKey) != nullptr) {
    throw_error(Error{.code = ErrorCode::stream_misuse,
                      .text = std::string(awaited) +
                              " is waited for on a thread of fibers, which the wait would hold up; "
                              "wait on another thread, or use then()"});
  }
}

}  // namespace hearth::detail
