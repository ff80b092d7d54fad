#include <hearth/streams/trace/record_rules.hpp>

#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/conformance/prepared_call.hpp"
#include "tests/streams/trace/op_trace_builder.hpp"

namespace hearth {
namespace {

using conformance::PreparedCall;
using testing::OpTraceBuilder;

Status check(const TraceOp& op,
             const std::vector<TensorSpec>& inputs,
             const std::vector<TensorSpec>& outputs) {
  HEARTH_TRY_STATUS(rules::check_form(op.record, op.blob.size()));
  return rules::check_record(op.view(), inputs, outputs);
}

std::string text(const Status& status) {
  return status.has_value() ? "no error" : status.error().text;
}

std::vector<TensorSpec> specs_of(std::span<const TensorView> views) {
  std::vector<TensorSpec> specs;
  for (const TensorView& view : views) {
    specs.push_back({view.dtype, view.shape()});
  }
  return specs;
}

/// Calls `check` with every call of the conformance cases, in up to `most_dtypes` dtypes.
template <class Check>
void for_each_call(std::size_t most_dtypes, const Check& check) {
  for (const conformance::OpCase& each : conformance::op_cases()) {
    for (const conformance::CallSpec& call : each.calls) {
      std::size_t dtypes = 0;
      for (const DType dtype : each.dtypes()) {
        if ((call.dtypes & dtype_bit(dtype)) != 0 && dtypes++ < most_dtypes) {
          const PreparedCall prepared(each.kind, call, dtype);
          check(prepared);
        }
      }
    }
  }
}

TEST(RecordRules, TakeEveryCallOfTheConformanceCases) {
  int calls = 0;
  for_each_call(2, [&](const PreparedCall& prepared) {
    const KernelCall call = prepared.call();
    const OpRecord& record = call.op.record();
    Status status = rules::check_form(record, record.blob_size_bytes);
    if (status.has_value()) {
      status = rules::check_record(call.op, specs_of(call.inputs), specs_of(call.outputs));
    }
    ASSERT_TRUE(status.has_value()) << prepared.to_string() << ": " << text(status);
    ++calls;
  });
  EXPECT_GT(calls, 500);
}

// The caller chooses the result type of a random op, and the size of an expand.
TEST(RecordRules, RefuseAResultOfAnotherTypeOrRank) {
  for_each_call(1, [&](const PreparedCall& prepared) {
    const KernelCall call = prepared.call();
    const OpClass op_class = op_info(call.op.kind()).op_class;
    std::vector<TensorSpec> outputs = specs_of(call.outputs);
    if (op_class == OpClass::creation || outputs[0].shape.rank() == kMaxRank) {
      return;
    }
    if (call.op.kind() != OpKind::reshape && call.op.kind() != OpKind::expand) {
      outputs[0].shape.push_back(2);
      EXPECT_FALSE(rules::check_record(call.op, specs_of(call.inputs), outputs).has_value())
          << prepared.to_string();
    }
    if (call.op.kind() != OpKind::cast) {
      outputs = specs_of(call.outputs);
      outputs[0].dtype = outputs[0].dtype == DType::f64 ? DType::f32 : DType::f64;
      EXPECT_FALSE(rules::check_record(call.op, specs_of(call.inputs), outputs).has_value())
          << prepared.to_string();
    }
  });
}

TEST(RecordRules, SayWhichCountIsWrong) {
  OpTraceBuilder builder;
  const std::uint32_t a = builder.fill({2}, 1);
  builder.op(OpKind::matmul, {a}, {DType::f32, {2}});
  EXPECT_EQ(text(rules::check_form(builder.trace().ops[1].record, 0)),
            "matmul: takes 2 to 3 inputs, was given 1");
  builder.add(OpKind::neg, {a}, {});
  EXPECT_EQ(text(rules::check_form(builder.trace().ops[2].record, 0)),
            "neg: has 1 results, was given 0");
}

TEST(RecordRules, RefuseKindsAndFlagsThatDoNotExist) {
  OpRecord record;
  record.kind = static_cast<OpKind>(kOpKindCount);
  EXPECT_EQ(text(rules::check_form(record, 0)),
            "there is no op kind " + std::to_string(kOpKindCount));
  record.kind = OpKind::fill;
  record.output_count = 1;
  record.set(RecordFlag::scalar_lhs);
  EXPECT_EQ(text(rules::check_form(record, 0)), "full: the flags 0x1 do not fit it");
  record.flags = 0x4000;
  EXPECT_EQ(text(rules::check_form(record, 0)), "full: the flags 0x4000 do not fit it");
  record.flags = 0x20;
  EXPECT_EQ(text(rules::check_form(record, 0)), "full: the flags 0x20 do not fit it");
  record.flags = 0x40;
  EXPECT_EQ(text(rules::check_form(record, 0)), "full: the flags 0x40 do not fit it");
  for (unsigned called = 1; called <= 0xff; ++called) {
    const auto name = static_cast<CalledAs>(called);
    if (is_known(name) && called_info(name).kind == OpKind::fill) {
      continue;
    }
    record.flags = flags_of(name);
    EXPECT_TRUE(text(rules::check_form(record, 0)).ends_with("do not fit it")) << called;
  }
}

TEST(RecordRules, ANameFitsTheKindThatItIsMadeOf) {
  int names = 0;
  for (unsigned value = 1; is_known(static_cast<CalledAs>(value)); ++value) {
    const auto called = static_cast<CalledAs>(value);
    ++names;
    EXPECT_FALSE(called_info(called).name.empty());
    for (const OpInfo& op : op_table()) {
      OpRecord record;
      record.kind = op.kind;
      record.flags = flags_of(called);
      const std::string mistake = text(rules::check_form(record, 0));
      EXPECT_EQ(mistake.ends_with("do not fit it"), op.kind != called_info(called).kind)
          << called_info(called).name << " of " << op.name << ": " << mistake;
    }
  }
  EXPECT_EQ(names, static_cast<int>(CalledAs::zeros_like)) << "a name without a row";
}

TEST(RecordRules, RefuseABlobOfAnotherSize) {
  OpTraceBuilder builder;
  const std::uint32_t a = builder.fill({2}, 1);
  builder.op(OpKind::slice, {a}, {DType::f32, {2}}, SliceAttributes{.step = {1}});
  TraceOp op = builder.trace().ops[1];
  EXPECT_TRUE(rules::check_form(op.record, op.blob.size()).has_value());
  EXPECT_EQ(text(rules::check_form(op.record, 5)),
            "slice: its blob has 5 bytes, the record states 128, its operands need 128");
  op.record.blob_size_bytes = 5;
  EXPECT_FALSE(rules::check_form(op.record, 5).has_value());
}

Status check_slice(std::int64_t size, std::int64_t start, std::int64_t step, std::int64_t count) {
  OpTraceBuilder builder;
  const TensorSpec from{DType::f32, {size}};
  const TensorSpec to{DType::f32, {count}};
  const std::uint32_t a = builder.fill({size}, 1);
  builder.op(OpKind::slice, {a}, to, SliceAttributes{.start = {start}, .step = {step}});
  return check(builder.trace().ops[1], {from}, {to});
}

TEST(RecordRules, KeepSlicesInside) {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(check_slice(5, 4, -2, 3).has_value());
  EXPECT_TRUE(check_slice(5, 0, 2, 3).has_value());
  EXPECT_TRUE(check_slice(0, 0, 1, 0).has_value());
  EXPECT_EQ(text(check_slice(5, 4, -2, 4)),
            "slice: 4 indices from 4 in steps of -2 do not lie along axis 0 of [5]");
  EXPECT_FALSE(check_slice(5, 1, 2, 3).has_value());
  EXPECT_FALSE(check_slice(5, -1, 1, 2).has_value());
  EXPECT_FALSE(check_slice(5, 5, 1, 1).has_value());
  EXPECT_FALSE(check_slice(5, 0, 0, 2).has_value());
  EXPECT_FALSE(check_slice(5, 0, kLowest, 2).has_value());
  EXPECT_FALSE(check_slice(5, 0, kHighest, 2).has_value());
  EXPECT_FALSE(check_slice(5, kHighest, kHighest, 1).has_value());
  EXPECT_FALSE(check_slice(5, kLowest, 1, 0).has_value());
}

TEST(RecordRules, KeepAxesInside) {
  OpTraceBuilder builder;
  const TensorSpec spec{DType::f32, {2, 3}};
  const std::uint32_t a = builder.fill({2, 3}, 1);
  for (const int axis : {-1, 2, 1 << 30}) {
    builder.op(OpKind::softmax, {a}, spec, AxisAttributes{.axis = axis});
    EXPECT_FALSE(check(builder.trace().ops.back(), {spec}, {spec}).has_value()) << axis;
  }
  for (const std::uint32_t axes : {0U, 4U, 0xffffffffU}) {
    builder.op(OpKind::reduce_sum, {a}, {DType::f32, {2}}, ReduceAttributes{.axes = axes});
    EXPECT_FALSE(check(builder.trace().ops.back(), {spec}, {{DType::f32, {2}}}).has_value())
        << axes;
  }
  builder.op(OpKind::permute, {a}, {DType::f32, {3, 2}}, PermuteAttributes{.axes = {1, 200}});
  EXPECT_FALSE(check(builder.trace().ops.back(), {spec}, {{DType::f32, {3, 2}}}).has_value());
}

}  // namespace
}  // namespace hearth
