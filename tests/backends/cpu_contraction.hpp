// Shared by the tests of contractions and pooling on the CPU: random operands, and one op run by
// the oracle and by a CPU device. Values, any thread.
#pragma once

#include "small_call.hpp"

#include "tests/support/run_call.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/backends/reference/reference.hpp>
#include <hearth/runtime/base/cores.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hearth::testing {

inline cpu::CpuOptions serial_device(cpu::IsaLevel isa = cpu::IsaLevel::avx512) {
  return {.cores = {available_cores().front()}, .serial = true, .max_isa = isa};
}

/// The call's first output as the device computes it.
inline std::vector<double> computed(cpu::CpuBackend& device,
                                    const SmallCall& call,
                                    const SmallTensor& output) {
  testing::run_call(device, call.call()).value();
  return output.values();
}
inline std::vector<double> computed(const cpu::CpuOptions& options,
                                    const SmallCall& call,
                                    const SmallTensor& output) {
  cpu::CpuBackend device(options);
  return computed(device, call, output);
}

/// One serial device for each instruction set; a set that the machine lacks gets the highest
/// available one.
class DevicePerIsa {
 public:
  [[nodiscard]] std::vector<cpu::CpuBackend*> all() {
#ifdef HEARTH_CPU_ONE_LEVEL  // they run the same code
    return {&baseline_};
#else
    return {&baseline_, &avx2_, &avx512_};
#endif
  }

 private:
  cpu::CpuBackend baseline_{serial_device(cpu::IsaLevel::baseline)};
  cpu::CpuBackend avx2_{serial_device(cpu::IsaLevel::avx2)};
  cpu::CpuBackend avx512_{serial_device(cpu::IsaLevel::avx512)};
};

/// Compares sums of `length` products of values in [-1, 1).
inline void expect_like_the_oracle(DevicePerIsa& devices,
                                   const SmallCall& call,
                                   const SmallTensor& output,
                                   double length,
                                   const std::string& what) {
  std::vector<std::vector<double>> results;
  for (cpu::CpuBackend* device : devices.all()) {
    results.push_back(computed(*device, call, output));
  }
  reference::evaluate(call.call()).value();
  const std::vector<double> expected = output.values();
  const Tolerance tolerance = testing::tolerance(Precision::sum, output.view().dtype, length, 1.0);
  for (const std::vector<double>& result : results) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(tolerance.accepts(result[i], expected[i]))
          << what << ": element " << i << " is " << result[i] << ", not " << expected[i];
    }
  }
}

}  // namespace hearth::testing
