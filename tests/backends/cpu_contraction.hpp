// What the tests of contractions and pooling on the CPU share: random operands, and one op run by
// the oracle and by a CPU device. Values, any thread.
#pragma once

#include "small_call.hpp"

#include "tests/support/tolerance.hpp"

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/backends/reference/reference.hpp>
#include <hearth/runtime/base/cores.hpp>

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace hearth::testing {

/// Values in [-1, 1) that f16 and bf16 hold exactly.
inline SmallTensor random_tensor(DType dtype, const Shape& shape, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.element_count(); ++i) {
    values.push_back(static_cast<double>(static_cast<int>(engine() % 256U) - 128) / 128);
  }
  return SmallTensor(dtype, shape, values);
}

/// Two cores if the machine has them, and each core twice, so that work is forked on any machine.
inline std::vector<int> forking_cores() {
  std::vector<int> cores = available_cores();
  const std::vector<int> again = cores;
  cores.insert(cores.end(), again.begin(), again.end());
  return cores;
}

inline cpu::CpuOptions serial_device(cpu::IsaLevel isa = cpu::IsaLevel::avx512) {
  return {.cores = {available_cores().front()}, .serial = true, .max_isa = isa};
}

/// The call's first output as the device computes it; the bytes of the output are left as they are.
inline std::vector<double> computed(const cpu::CpuOptions& options,
                                    const SmallCall& call,
                                    const SmallTensor& output) {
  cpu::CpuBackend device(options);
  device.submit(call.call()).value();
  return output.values();
}

/// Compares sums of `length` products of values in [-1, 1).
inline void expect_like_the_oracle(const SmallCall& call,
                                   const SmallTensor& output,
                                   double length,
                                   const std::string& what) {
  std::vector<std::vector<double>> results;
  for (const cpu::IsaLevel isa :
       {cpu::IsaLevel::baseline, cpu::IsaLevel::avx2, cpu::IsaLevel::avx512}) {
    results.push_back(computed(serial_device(isa), call, output));
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
