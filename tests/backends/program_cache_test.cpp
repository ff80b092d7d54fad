#include "backends/cpu/fused/program_cache.hpp"

#include "tests/streams/kernel/example_kernels.hpp"

#include <hearth/backends/cpu/isa.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>

#include <gtest/gtest.h>

#include <cstddef>

namespace hearth::cpu {
namespace {

KernelIR plus(std::size_t number) {
  KernelBuilder b({0});
  b.output(b.input(DType::f32, {hearth::testing::axis(0)}) + static_cast<double>(number));
  return b.take();
}

TEST(ProgramCache, FindsAKernelThatLastsByItsAddressUntilItsProgramMadeRoom) {
  ProgramCache programs;
  const KernelIR lasting = plus(0);
  const KernelIR other = plus(1);
  const TileProgram* const first = programs.find_lasting(lasting, 0, machine_isa()).value();
  EXPECT_EQ(programs.find_lasting(lasting, 0, machine_isa()).value(), first);
  EXPECT_EQ(programs.find_lasting(other, 1, machine_isa()).value()->kernel, other);
  EXPECT_EQ(programs.find_lasting(lasting, 0, machine_isa()).value(), first);
  for (std::size_t i = 2; i < ProgramCache::kMostPrograms + 2; ++i) {
    static_cast<void>(programs.find(plus(i), i, machine_isa()).value());
  }
  // The kernel at the first address no longer exists.
  EXPECT_EQ(programs.find_lasting(lasting, 0, machine_isa()).value()->kernel, lasting);
}

TEST(ProgramCache, KeepsWhatACallHasFoundWhileItMakesAnother) {
  ProgramCache programs;
  constexpr std::size_t kMost = ProgramCache::kMostPrograms;
  const KernelIR producer = plus(0);
  for (std::size_t i = 1; i < kMost; ++i) {
    static_cast<void>(programs.find(plus(i), i, machine_isa()).value());
  }
  static_cast<void>(programs.find_lasting(producer, 0, machine_isa()).value());
  for (std::size_t i = 1; i < kMost; ++i) {
    static_cast<void>(programs.find(plus(i), i, machine_isa()).value());
  }
  const TileProgram* const found = programs.find_lasting(producer, 0, machine_isa()).value();
  const TileProgram* const made = programs.find(plus(kMost), kMost, machine_isa()).value();
  EXPECT_NE(made, found);
  EXPECT_EQ(programs.find_lasting(producer, 0, machine_isa()).value(), found);
}

}  // namespace
}  // namespace hearth::cpu
