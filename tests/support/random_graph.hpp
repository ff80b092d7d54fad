// A random program of graphs on one device, from bytes: leaves of one broad shape, of its rows, its
// columns and of single elements; then some graphs of ops, plain, under a tape with a loss, in
// checkpoints or with few bytes to keep; at the end a read of all that it kept. Nothing is read
// before, so that windows are as long as they can be. Its purpose: whoever groups ops gives what
// single ops give. Threads: one. Invariants: (1) the same bytes make the same program on every
// device; (2) each op has a line of its own, from 1 on.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/device.hpp>

#include "tests/support/random_bytes.hpp"

namespace hearth::testing {

/// What a read gave: bytes, or an error with op and line.
struct GraphResult {
  Bytes bytes = {};
  std::string error = {};
  std::string what = {};  ///< dtype and shape
  friend bool operator==(const GraphResult&, const GraphResult&) = default;
};

struct GraphFigures {
  std::uint64_t ops = 0;
  std::uint64_t sweeps = 0;
  std::uint64_t results = 0;
  std::uint64_t failed = 0;  ///< of the results
};

/// Runs the program. `story`: a line for each op, for people.
[[nodiscard]] std::vector<GraphResult> run_graphs(const Device& device,
                                                  std::span<const std::byte> bytes,
                                                  GraphFigures* figures = nullptr,
                                                  std::vector<std::string>* story = nullptr);

/// Makes all NaNs of these elements one: which of them it is, an instruction decides by the order
/// of its operands.
void make_nans_one(DType dtype, Bytes& bytes);

/// What differs, if anything. Results of all types are compared bit by bit; NaN is NaN.
[[nodiscard]] std::vector<std::string> compare_graphs(const std::vector<GraphResult>& want,
                                                      const std::vector<GraphResult>& got);

}  // namespace hearth::testing
