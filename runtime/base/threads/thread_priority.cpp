#include <hearth/runtime/base/thread_priority.hpp>

#include <cerrno>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

namespace hearth {

// Linux has a nice value for each thread.
Status lower_priority() {
  constexpr int kNice = 10;
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice) != 0) {
    return Error{.code = ErrorCode::unsupported,
                 .text = "the priority of a thread: " + std::generic_category().message(errno)};
  }
  return {};
}

}  // namespace hearth
