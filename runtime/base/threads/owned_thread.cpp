#include <hearth/runtime/base/owned_thread.hpp>

#include <utility>

#include <fmt/format.h>

namespace hearth::detail {

OwnedThread::OwnedThread(Executor& executor,
                         ThreadOptions thread,
                         OwnedThreadOptions options,
                         UniqueFunction<void()> body)
    : options_(std::move(options)), thread_(executor.spawn(std::move(thread), std::move(body))) {}

OwnedThread::~OwnedThread() {
  end(Deadline::in(options_.limit));
}

bool OwnedThread::end(Deadline deadline) {
  if (is_detached_ || thread_->join(deadline)) {
    return !is_detached_;
  }
  thread_->detach();
  is_detached_ = true;
  const std::string text = fmt::format(
      "{} does not end: {}; its thread is abandoned", options_.subject, options_.observe());
  if (options_.log != nullptr) {
    options_.log->error(text);
  } else {
    Log().error(text);
  }
  return false;
}

}  // namespace hearth::detail
