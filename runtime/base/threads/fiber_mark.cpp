#include <hearth/runtime/base/fiber_mark.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth::detail {
namespace {

// no device has this key, and no kernel: devices count from 1, kernels have the largest number
constexpr std::uint64_t kFiberKey = ~std::uint64_t{1};

struct RunningFibers final : ContextAttachment {
  std::vector<const char*> scopes;  ///< The open ones of the running fiber; the newest is last.
};

RunningFibers* running_fibers() noexcept {
  return current_context().find<RunningFibers>(kFiberKey);
}

}  // namespace

FiberMark::FiberMark() {
  current_context().attach(kFiberKey, std::make_unique<RunningFibers>());
}

FiberMark::~FiberMark() {
  current_context().detach(kFiberKey);
}

void require_no_fibers(std::string_view awaited) {
  if (running_fibers() != nullptr) {
    throw_error(Error{.code = ErrorCode::stream_misuse,
                      .text = std::string(awaited) +
                              " is waited for on a thread of fibers, which the wait would hold up; "
                              "wait on another thread, or use then()"});
  }
}

void enter_thread_scope(const char* what) {
  if (RunningFibers* const fibers = running_fibers()) {
    fibers->scopes.push_back(what);
  }
}

void leave_thread_scope() noexcept {
  RunningFibers* const fibers = running_fibers();
  if (fibers != nullptr && !fibers->scopes.empty()) {  // a scope may be older than the mark
    fibers->scopes.pop_back();
  }
}

void require_no_thread_scope() {
  const RunningFibers* const fibers = running_fibers();
  if (fibers != nullptr && !fibers->scopes.empty()) {
    throw_error(Error{.code = ErrorCode::stream_misuse,
                      .text = std::string("a fiber awaits inside of a ") + fibers->scopes.back() +
                              ", which the thread's other fibers would enter; end it first"});
  }
}

}  // namespace hearth::detail
