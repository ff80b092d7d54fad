#include <hearth/runtime/base/assert.hpp>

#include <cstdio>
#include <cstdlib>

namespace hearth::detail {

void assert_failed(const char* condition, const char* message, SourceLoc location) noexcept {
  std::fprintf(stderr,
               "hearth: internal error at %s:%u: %s (%s)\n",
               location.file,
               location.line,
               message,
               condition);
  std::abort();
}

}  // namespace hearth::detail
