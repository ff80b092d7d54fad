// Discarding a Status is an error.
#include <hearth/runtime/base/result.hpp>

namespace {
hearth::Status act() {
  return {};
}
}  // namespace

int main() {
#ifdef HEARTH_MUST_FAIL
  act();
#else
  const hearth::Status status = act();
  return status.has_value() ? 0 : 1;
#endif
}
