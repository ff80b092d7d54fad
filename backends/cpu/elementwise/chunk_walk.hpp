// Walks elementwise ops: cuts the result into chunks and forks over the cores by size. Each input's
// part is converted to the type and order of the inner loop (contiguous, or one element). Private
// to backends/cpu. Threads: owner only; the loop body runs on several threads.
// Invariants: (1) the cut depends on shapes, strides and types only; (2) all inputs of a chunk are
// read before its outputs are written, and chunks own disjoint places. So an output may share its
// bytes with an input of equal layout and type.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

#include <hearth/backends/kernel.hpp>

#include <array>
#include <cstdint>
#include <span>

namespace hearth::cpu {

/// Arguments of a loop body: `count` elements of every operand, in the types of the spec.
struct Chunk {
  static constexpr int kMaxInputs = 4;
  static constexpr int kMaxOutputs = 3;
  std::array<const void*, kMaxInputs> in{};
  std::array<void*, kMaxOutputs> out{};
  std::uint32_t one_element = 0;  ///< Bit i: input i is one element, broadcast to all.
  std::int64_t count = 0;
  std::int64_t begin = 0;  ///< Row-major place of the first element in the result.
};

struct WalkSpec {
  std::span<const TensorView> inputs = {};   ///< At most 4; each broadcasts to outputs[0].
  std::span<const TensorView> outputs = {};  ///< At most 3, contiguous, of one shape.
  std::array<DType, Chunk::kMaxInputs>
      input_types{};  ///< Types that the body reads; bool and u8 are interchangeable.
  std::array<DType, Chunk::kMaxOutputs> output_types{};  ///< Types that the body writes.
  std::uint32_t may_be_one_element =
      0;                             ///< Bit i: the body supports Chunk::one_element for input i.
  std::int64_t grain = kCheapGrain;  ///< Elements worth a fork.

  // Waking a sleeping core takes about 34 µs (DESIGN §4), so each part is some 40 µs of work.
  /// For moves and one or two flops.
  static constexpr std::int64_t kCheapGrain = std::int64_t{1} << 17;
  static constexpr std::int64_t kCostlyGrain = std::int64_t{1}
                                               << 16;  ///< For exp, tanh, random numbers.
};

using ChunkFn = void (*)(const void* body, const Chunk& chunk);
void run_chunks(const WalkSpec& spec, KernelContext& context, ChunkFn fn, const void* body);

/// Calls body(chunk) until the whole result is written. body must not throw.
template <class Body>
void walk_chunks(const WalkSpec& spec, KernelContext& context, const Body& body) {
  run_chunks(
      spec,
      context,
      [](const void* object, const Chunk& chunk) { (*static_cast<const Body*>(object))(chunk); },
      &body);
}

}  // namespace hearth::cpu
