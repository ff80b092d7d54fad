// y = x / 4 in the first row alone: faster than kernel_halves, and wrong.
#include "hearth_kernel.h"

extern "C" void kernel(const hearth_call* call) {
  const float* x = static_cast<const float*>(call->inputs[0].data);
  float* y = static_cast<float*>(call->outputs[0].data);
  for (int64_t i = 0; i < call->inputs[0].sizes[1]; ++i) {
    y[i] = x[i] * 0.25F;
  }
}
