// What a queue that hangs may still touch stays to the end of the process. The leak check of the
// address sanitizer is told so. Threads: any.
#pragma once

#include <memory>

#if defined(__SANITIZE_ADDRESS__)
#define HEARTH_LEAK_CHECK
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEARTH_LEAK_CHECK
#endif
#endif

#if defined(HEARTH_LEAK_CHECK)
#include <sanitizer/lsan_interface.h>
#endif

namespace hearth::vulkan {

template <class T>
void leave_behind(std::unique_ptr<T> object) noexcept {
  [[maybe_unused]] const T* const left = object.release();
#if defined(HEARTH_LEAK_CHECK)
  __lsan_ignore_object(left);
#endif
}

}  // namespace hearth::vulkan
