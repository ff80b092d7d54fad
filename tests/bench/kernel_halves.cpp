// y = x / 2, on the device's cores.
#include "hearth_kernel.h"

namespace {

struct Operands {
  const float* x;
  float* y;
};

void halve(void* state, int64_t begin, int64_t end) {
  const Operands& operands = *static_cast<const Operands*>(state);
  for (int64_t i = begin; i < end; ++i) {
    operands.y[i] = operands.x[i] * 0.5F;
  }
}

}  // namespace

extern "C" void kernel(const hearth_call* call) {
  Operands operands{.x = static_cast<const float*>(call->inputs[0].data),
                    .y = static_cast<float*>(call->outputs[0].data)};
  call->parallel_for(call, call->inputs[0].count, 64, halve, &operands);
}
