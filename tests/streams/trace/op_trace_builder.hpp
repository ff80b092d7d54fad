// Builds op traces by hand, for tests and for the fuzzers' first corpus. Values are numbered from
// 1, as in the trace. Threads: the test's.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>
#include <hearth/streams/trace/op_trace.hpp>
#include <hearth/streams/trace/record_rules.hpp>

namespace hearth::testing {

class OpTraceBuilder {
 public:
  OpTraceBuilder() {
    trace_.devices = {"cpu:0"};
    trace_.places.push_back({"model.cpp", 31});
    trace_.paths.emplace_back("encoder.weight");
  }

  /// Sets the device and lane of the following ops.
  OpTraceBuilder& on(std::uint32_t device, std::uint32_t lane) {
    device_ = device;
    lane_ = lane;
    while (trace_.devices.size() <= device) {
      trace_.devices.push_back("cpu:" + std::to_string(trace_.devices.size()));
    }
    return *this;
  }

  /// Adds an upload of f32 values. This and the other functions return the number of the value.
  std::uint32_t upload(const Shape& shape, const std::vector<float>& values) {
    TraceOp& op = add(OpKind::upload, {}, {{DType::f32, shape}});
    const auto bytes = std::as_bytes(std::span<const float>(values));
    trace_.data.emplace_back(bytes.begin(), bytes.end());
    op.data = static_cast<std::uint32_t>(trace_.data.size());
    return last();
  }
  std::uint32_t fill(const Shape& shape, double value, DType dtype = DType::f32) {
    give(add(OpKind::fill, {}, {{dtype, shape}}), ScalarAttributes{.real = value});
    return last();
  }
  /// Adds an op without attributes whose inputs live on.
  std::uint32_t op(OpKind kind,
                   const std::vector<std::uint32_t>& inputs,
                   const TensorSpec& result) {
    add(kind, inputs, {result});
    return last();
  }
  template <class Attributes>
  std::uint32_t op(OpKind kind,
                   const std::vector<std::uint32_t>& inputs,
                   const TensorSpec& result,
                   const Attributes& attributes) {
    give(add(kind, inputs, {result}), attributes);
    return last();
  }
  /// Adds a record about one value, or about none (0).
  TraceOp& about(OpKind kind, std::uint32_t value) {
    TraceOp& op = add(
        kind, value == 0 ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{value}, {});
    if (kind == OpKind::drop) {
      op.record.operands[0].use = Use::read_last;
    }
    return op;
  }
  /// Adds a readback that returned these values.
  void read(std::uint32_t value, const std::vector<float>& values) {
    TraceOp& op = about(OpKind::readback, value);
    const auto bytes = std::as_bytes(std::span<const float>(values));
    trace_.data.emplace_back(bytes.begin(), bytes.end());
    op.data = static_cast<std::uint32_t>(trace_.data.size());
    op.outcome = TraceOutcome::ok;
  }

  TraceOp& add(OpKind kind,
               const std::vector<std::uint32_t>& inputs,
               const std::vector<TensorSpec>& outputs) {
    TraceOp op;
    op.record.kind = kind;
    op.record.sequence = trace_.ops.size() + 1;
    op.record.source.value = 1;
    op.record.input_count = static_cast<std::uint16_t>(inputs.size());
    op.record.output_count = static_cast<std::uint16_t>(outputs.size());
    op.device = device_;
    op.lane = lane_;
    op.blob.resize(rules::blob_size_bytes(kind, op.record.operand_count()));
    op.record.blob_size_bytes = static_cast<std::uint32_t>(op.blob.size());
    int place = 0;
    for (const std::uint32_t input : inputs) {
      Operand operand = producers_[input - 1];
      operand.use = Use::read;
      put(op, place++, operand);
    }
    for (const TensorSpec& spec : outputs) {
      const Operand operand{.slot = {static_cast<std::uint32_t>(producers_.size() + 1)},
                            .shape = {shape_number(spec.shape)},
                            .dtype = spec.dtype,
                            .use = Use::out};
      producers_.push_back(operand);
      put(op, place++, operand);
    }
    trace_.ops.push_back(std::move(op));
    return trace_.ops.back();
  }

  /// Adds an op of an expression with one result and parameters in f32.
  std::uint32_t expression(const ExpressionRef& expression,
                           const std::vector<std::uint32_t>& inputs,
                           const TensorSpec& result,
                           const std::vector<double>& parameters) {
    TraceOp& op = add(OpKind::expression, inputs, {result});
    give(op,
         ExpressionAttributes{.expression = static_cast<std::uint32_t>(trace_.expressions.size()),
                              .parameter_count = static_cast<std::uint32_t>(parameters.size()),
                              .flops = expression->flops});
    const auto bytes = std::as_bytes(std::span<const double>(parameters));
    op.blob.insert(op.blob.end(), bytes.begin(), bytes.end());
    op.record.blob_size_bytes = static_cast<std::uint32_t>(op.blob.size());
    trace_.expressions.push_back(expression);
    return last();
  }

  template <class Attributes>
  static void give(TraceOp& op, const Attributes& attributes) {
    if constexpr (fits_immediate<Attributes>) {
      std::memcpy(op.record.immediate, &attributes, sizeof attributes);
    } else {
      std::memcpy(
          op.blob.data() + op.blob.size() - sizeof attributes, &attributes, sizeof attributes);
    }
  }

  [[nodiscard]] std::uint32_t last() const { return static_cast<std::uint32_t>(producers_.size()); }
  [[nodiscard]] OpTrace& trace() noexcept { return trace_; }

 private:
  static void put(TraceOp& op, int index, const Operand& operand) {
    if (index < kInlineOperands) {
      op.record.operands[index] = operand;
    } else {
      std::memcpy(
          op.blob.data() + static_cast<std::size_t>(index - kInlineOperands) * sizeof operand,
          &operand,
          sizeof operand);
    }
  }
  std::uint32_t shape_number(const Shape& shape) {
    const auto found = std::find(trace_.shapes.begin(), trace_.shapes.end(), shape);
    const auto number = static_cast<std::uint32_t>(found - trace_.shapes.begin());
    if (found == trace_.shapes.end()) {
      trace_.shapes.push_back(shape);
    }
    return number;
  }

  OpTrace trace_;
  std::vector<Operand> producers_;  // by value, from 1
  std::uint32_t device_ = 0;
  std::uint32_t lane_ = 1;
};

/// A small program with two streams, a view, a step of an optimizer, drops and reads.
[[nodiscard]] inline OpTraceBuilder small_program() {
  OpTraceBuilder program;
  const TensorSpec pair{DType::f32, {2}};
  const std::uint32_t a = program.upload({2}, {1, 2});
  const std::uint32_t b = program.fill({2}, 0.5);
  const std::uint32_t sum = program.op(OpKind::add, {a, b}, pair, ScalarAttributes{});
  program.about(OpKind::publish, sum);
  program.on(0, 2);
  const std::uint32_t back =
      program.op(OpKind::slice, {sum}, pair, SliceAttributes{.start = {1}, .step = {-1}});
  const std::uint32_t all =
      program.op(OpKind::concat, {a, b, sum, back, a, b}, {DType::f32, {12}}, AxisAttributes{});
  program.about(OpKind::group_begin, 0);
  program.add(OpKind::sgd_step, {a, sum}, {pair});
  OpTraceBuilder::give(program.trace().ops.back(), SgdAttributes{.learning_rate = 2});
  const std::uint32_t updated = program.last();
  program.about(OpKind::group_end, 0);
  program.about(OpKind::drop, a);
  program.read(updated, {-2, -3});
  program.read(all, {1, 2, 0.5, 0.5, 1.5, 2.5, 2.5, 1.5, 1, 2, 0.5, 0.5});
  return program;
}

}  // namespace hearth::testing
