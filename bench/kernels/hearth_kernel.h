/* The entry point of a kernel that `hearth-bench kernel` loads. C, so that any compiler fits.
 *
 *   g++ -O3 -march=native -shared -fPIC mine.cpp -o mine.so
 *
 * The file defines  void kernel(const hearth_call* call)  with C linkage. hearth-bench calls it once
 * a run, on one thread. Operands are row-major without gaps and do not overlap. Results are not
 * initialised. The kernel must not throw, must write all elements of its results and nothing else,
 * and must not change its inputs. */
#ifndef HEARTH_KERNEL_H
#define HEARTH_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hearth_tensor {
  void* data;         /* f16 and bf16 are 16 bits, bool is one byte */
  const char* dtype;  /* "f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool", "i8" */
  int64_t rank;
  int64_t sizes[8];
  int64_t count; /* of elements */
} hearth_tensor;

typedef struct hearth_call {
  int64_t input_count;
  const hearth_tensor* inputs;
  int64_t output_count;
  const hearth_tensor* outputs;
  /* Calls body(state, begin, end) on the device's cores (--cores), for ranges of at most `grain`
   * that cover [0, count). Returns when all have ended. */
  void (*parallel_for)(const struct hearth_call* call,
                       int64_t count,
                       int64_t grain,
                       void (*body)(void* state, int64_t begin, int64_t end),
                       void* state);
  const void* cores; /* of parallel_for */
} hearth_call;

void kernel(const hearth_call* call);

#ifdef __cplusplus
}
#endif

#endif
