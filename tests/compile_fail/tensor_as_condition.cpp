// Tensors compare element by element, so a comparison is no condition: all_equal() returns one
// bool.
#include <hearth/runtime/ops.hpp>

int compare(const hearth::Tensor& a, const hearth::Tensor& b) {
#ifdef HEARTH_MUST_FAIL
  if (a == b) {
#else
  if (all_equal(a, b)) {
#endif
    return 1;
  }
  return 0;
}
