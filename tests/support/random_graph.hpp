// A random program of graphs on one device, from bytes. Its leaves have one broad shape, that of
// its rows, that of its columns, or a single element. Graphs of ops follow: plain, under a tape
// with a loss, in checkpoints, or with a small budget of kept bytes. All reads come at the end, so
// that windows are as long as possible. Tests compare grouped ops with single ops.
// Threads: one. Invariants: (1) equal bytes make equal programs on every device; (2) each op has
// its own line, from 1 on.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/device.hpp>

#include "tests/support/random_bytes.hpp"

namespace hearth::testing {

/// The result of a read: bytes, or an error with op and line.
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
  std::uint64_t failed = 0;  ///< number of failed results
};

/// Runs the program. `story` receives a readable line for each op.
[[nodiscard]] std::vector<GraphResult> run_graphs(const Device& device,
                                                  std::span<const std::byte> bytes,
                                                  GraphFigures* figures = nullptr,
                                                  std::vector<std::string>* story = nullptr);

/// Replaces all NaNs of these elements by one NaN, because the order of an instruction's operands
/// selects among them.
void make_nans_one(DType dtype, Bytes& bytes);

/// The differences. Results of all types are compared bit by bit; every NaN equals every NaN.
[[nodiscard]] std::vector<std::string> compare_graphs(const std::vector<GraphResult>& want,
                                                      const std::vector<GraphResult>& got);

}  // namespace hearth::testing
