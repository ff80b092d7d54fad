#include <hearth/runtime/base/idle_priority.hpp>

#include <system_error>

#include <pthread.h>
#include <sched.h>

namespace hearth {

Status take_idle_priority() {
  const sched_param none{};
  const int refused = pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
  if (refused != 0) {
    return Error{.code = ErrorCode::unsupported,
                 .text = "the priority of a thread: " + std::generic_category().message(refused)};
  }
  return {};
}

}  // namespace hearth
