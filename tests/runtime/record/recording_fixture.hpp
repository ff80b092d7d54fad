// A runtime whose programs the tests record. Owned by a test. Threads: its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/trace/op_trace_checker.hpp>

#include "tests/base/temporary_folder.hpp"

namespace hearth::testing {

class RecordingFixture : public ::testing::Test {
 protected:
  /// Records the ops of `program`.
  template <class Program>
  OpTrace record(const Program& program, RecordOptions options = {}) {
    RecordScope scope(runtime_, std::move(options));
    program();
    OpTrace trace = scope.take().value();
    check_trace(trace).value();
    return trace;
  }
  static std::size_t count(const OpTrace& trace, OpKind kind) {
    return static_cast<std::size_t>(std::ranges::count_if(
        trace.ops, [&](const TraceOp& op) { return op.record.kind == kind; }));
  }
  Tensor f32(const std::vector<float>& values) const {
    return Tensor::from(cpu_, values, Shape{static_cast<std::int64_t>(values.size())});
  }

  const Runtime runtime_{
      {.devices = {{.name = "cpu:0"}, {.name = "cpu:1"}, {.name = "reference:0"}}}};
  const Device cpu_ = runtime_.device("cpu:0");
  const Device other_ = runtime_.device("cpu:1");
  const Device reference_ = runtime_.device("reference:0");
  const TemporaryFolder folder_;
};

}  // namespace hearth::testing
