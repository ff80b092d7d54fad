// y = x / 2
#include "hearth_kernel.h"

static void range(void* state, int64_t begin, int64_t end) {
  const hearth_call* call = (const hearth_call*)state;
  const float* x = (const float*)call->inputs[0].data;
  float* y = (float*)call->outputs[0].data;
  for (int64_t i = begin; i < end; ++i) {
    y[i] = x[i] * 0.5F;
  }
}

void kernel(const hearth_call* call) {
  call->parallel_for(call, call->inputs[0].count, 64, range, (void*)call);
}
