#include <hearth/streams/trace/op_trace_file.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/streams/trace/op_trace_reducer.hpp>

#include "tests/base/temporary_folder.hpp"
#include "tests/streams/kernel/example_expressions.hpp"
#include "tests/streams/trace/op_trace_builder.hpp"

namespace hearth {
namespace {

using testing::OpTraceBuilder;
using testing::scaled_sum;
using testing::small_program;

const TensorSpec kPair{DType::f32, {2}};

std::string text(const Status& status) {
  return status.has_value() ? "no error" : status.error().text;
}

TEST(OpTrace, DescribesItsOps) {
  const OpTrace trace = small_program().trace();
  EXPECT_EQ(trace.describe(trace.ops[2]), "add f32[2], f32[2] -> f32[2]");
  EXPECT_EQ(trace.place_of(trace.ops[2]), "model.cpp:31");
}

TEST(OpTraceFile, GivesBackWhatWasWritten) {
  OpTrace trace = small_program().trace();
  trace.notes = {{"seed", "17"}, {"why", ""}};
  const TemporaryFolder folder;
  write_trace(folder.path() / "a.trace", trace).value();
  const OpTrace back = read_trace(folder.path() / "a.trace").value();
  EXPECT_EQ(back.notes, trace.notes);
  EXPECT_EQ(back.shapes, trace.shapes);
  EXPECT_EQ(back.data, trace.data);
  ASSERT_EQ(back.ops.size(), trace.ops.size());
  EXPECT_EQ(encode_trace(back), encode_trace(trace));
}

// Programs keep files, so the numbers of kinds and the layouts of records and attributes are fixed.
// This file of version 2 has each kind of that version.
TEST(OpTraceFile, ReadsAFileOfVersion2) {
  const std::filesystem::path golden = HEARTH_GOLDEN_DIR;
  const OpTrace trace = read_trace(golden / "version_2.trace").value();
  std::string text;
  std::set<OpKind> kinds;
  for (const TraceOp& op : trace.ops) {
    text += std::to_string(static_cast<int>(op.record.kind)) + " " + trace.describe(op) + "\n";
    kinds.insert(op.record.kind);
  }
  const std::vector<std::byte> lines = read_file(golden / "version_2.txt").value();
  const std::string wanted(reinterpret_cast<const char*>(lines.data()), lines.size());
  EXPECT_EQ(text, wanted);
  constexpr int kKindsOfThen = 73;
  for (int number = 0; number < kKindsOfThen; ++number) {
    EXPECT_TRUE(kinds.contains(static_cast<OpKind>(number))) << name(static_cast<OpKind>(number));
  }
  const Result<std::vector<std::byte>> bytes = read_file(golden / "version_2.trace");
  const std::vector<std::byte> payload = encode_trace(trace);
  EXPECT_TRUE(std::ranges::equal(std::span(bytes.value()).subspan(kCheckedHeaderBytes), payload));
}

// Up to version 3 attention stored the logarithm of a row's sum for its gradient, which cannot
// replace the two statistics (largest score and sum).
TEST(OpTraceFile, RefusesTheAttentionOfVersion3WithOneSentence) {
  const TensorSpec head{DType::f32, {2, 3, 2}};
  for (const Shape& kept : {Shape{2, 3}, Shape{2, 3, 2}}) {
    OpTraceBuilder builder;
    const std::uint32_t q = builder.fill(head.shape, 0.5);
    builder.add(OpKind::attention, {q, q, q}, {head, {DType::f32, kept}});
    OpTraceBuilder::give(builder.trace().ops.back(), AttentionAttributes{});
    const Status status = check_trace(builder.trace());
    ASSERT_EQ(status.has_value(), kept.rank() == 3) << text(status);
    if (kept.rank() == 2) {
      EXPECT_NE(
          text(status).find("the recording is of version 3 or older, whose attention kept one "
                            "number of a row for its gradient, where it now keeps two: "
                            "record it again"),
          std::string::npos)
          << text(status);
      EXPECT_FALSE(decode_trace(encode_trace(builder.trace())).has_value());
    }
  }
}

OpTrace program_with_expressions() {
  OpTraceBuilder builder;
  const std::uint32_t a = builder.upload({2}, {1, 2});
  const std::uint32_t unused = builder.expression(scaled_sum("unused"), {a, a}, kPair, {2});
  builder.read(builder.expression(scaled_sum("sum"), {a, a}, kPair, {0.5}), {1.5F, 3});
  builder.about(OpKind::drop, unused);
  return builder.trace();
}

TEST(OpTraceFile, KeepsTheExpressionsThatItsOpsName) {
  const OpTrace trace = program_with_expressions();
  check_trace(trace).value();
  const OpTrace back = decode_trace(encode_trace(trace)).value();
  ASSERT_EQ(back.expressions.size(), 2U);
  EXPECT_EQ(back.expressions[1]->text, trace.expressions[1]->text);
  EXPECT_EQ(back.describe(back.ops[2]), "sum f32[2], f32[2] -> f32[2]");
  EXPECT_EQ(encode_trace(back), encode_trace(trace));
}

TEST(OpTraceFile, RefusesEveryDamagedByteOfAnExpression) {
  const std::vector<std::byte> good = encode_trace(program_with_expressions());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{0x21};
    ASSERT_FALSE(decode_trace(bad).has_value()) << "byte " << i;
    repair_checksums(bad);
    if (const Result<OpTrace> read = decode_trace(bad); read.has_value()) {
      ASSERT_TRUE(check_trace(read.value()).has_value());
      ASSERT_EQ(encode_trace(read.value()), bad) << "byte " << i;
    }
  }
}

TEST(OpTraceChecker, RefusesOpsThatDoNotFitTheirExpression) {
  OpTrace trace = program_with_expressions();
  const auto refusal_of = [&](ExpressionAttributes attributes) {
    std::memcpy(trace.ops[2].record.immediate, &attributes, sizeof attributes);
    return text(check_trace(trace));
  };
  const std::uint32_t flops = trace.expressions[1]->flops;
  EXPECT_EQ(refusal_of({.expression = 1, .parameter_count = 1, .flops = flops}), "no error");
  EXPECT_EQ(refusal_of({.expression = 2, .parameter_count = 1, .flops = flops}),
            "op 3: expression: its expression is not in the table");
  EXPECT_EQ(refusal_of({.expression = 1, .parameter_count = 1, .flops = flops + 1}),
            "op 3: expression: its parameters or results are not those of sum");
  EXPECT_EQ(refusal_of({.expression = 1, .parameter_count = 33, .flops = flops}),
            "op 3: expression: has 33 parameters, at most 32 are possible");
  EXPECT_EQ(refusal_of({.expression = 1, .parameter_count = 2, .flops = flops}),
            "op 3: expression: its blob has 8 bytes, the record states 8, its operands need 16");
}

// A file with any damaged byte is refused. With corrected checksums, a file that is read is still
// valid.
TEST(OpTraceFile, RefusesEveryDamagedByte) {
  const std::vector<std::byte> good = encode_trace(small_program().trace());
  ASSERT_TRUE(decode_trace(good).has_value());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{0x41};
    const Result<OpTrace> refused = decode_trace(bad);
    ASSERT_FALSE(refused.has_value()) << "byte " << i;
    ASSERT_EQ(refused.error().code, ErrorCode::bad_format);
    ASSERT_EQ(refused.error().text.substr(0, 5), "byte ");
    repair_checksums(bad);
    if (const Result<OpTrace> read = decode_trace(bad); read.has_value()) {
      ASSERT_TRUE(check_trace(read.value()).has_value());
      ASSERT_EQ(encode_trace(read.value()), bad) << "byte " << i;
    }
  }
}

TEST(OpTraceFile, RefusesEveryCutAndWhatIsTooMuch) {
  std::vector<std::byte> bytes = encode_trace(small_program().trace());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(decode_trace(std::span(bytes).first(size)).has_value()) << size;
  }
  const std::size_t end = bytes.size();
  bytes.push_back(std::byte{0});
  EXPECT_EQ(text(decode_trace(bytes).status()),
            "byte " + std::to_string(end) + ": more bytes than the frames have");
}

TEST(OpTraceFile, NamesTheByteTheOpAndTheRule) {
  OpTraceBuilder builder;
  const std::uint32_t a = builder.fill({2, 3}, 1);
  builder.op(OpKind::matmul, {a, a}, {DType::f32, {2, 3}});
  const Status status = decode_trace(encode_trace(builder.trace())).status();
  ASSERT_FALSE(status.has_value());
  EXPECT_NE(status.error().text.find(
                ": op 2: matmul: inner dimensions differ: lhs f32[2, 3], rhs f32[2, 3]"),
            std::string::npos)
      << text(status);
  EXPECT_EQ(status.error().cause->code, ErrorCode::shape_mismatch);
}

TEST(OpTraceFile, TellsOtherFilesApart) {
  const TemporaryFolder folder;
  { std::ofstream(folder.path() / "other") << "not a trace, but long enough for its header"; }
  const Status other = read_trace(folder.path() / "other").status();
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::bad_format);
  EXPECT_EQ(read_trace(folder.path() / "none").status().error().code, ErrorCode::not_found);
}

TEST(OpTraceFile, SaysWhereAFileIsDamaged) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "run.trace";
  write_trace(path, small_program().trace()).value();
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x55');
  file.close();
  const Status damaged = read_trace(path).status();
  ASSERT_FALSE(damaged.has_value());
  EXPECT_EQ(damaged.error().code, ErrorCode::bad_format);
  EXPECT_THAT(damaged.error().text,
              ::testing::ContainsRegex("is damaged.*: byte [0-9]+: .*checksum"));
}

// ---- validity ----

TEST(OpTraceChecker, TakesTheSmallProgram) {
  EXPECT_EQ(text(check_trace(small_program().trace())), "no error");
}

TEST(OpTraceChecker, RefusesValuesThatAreNotThere) {
  OpTraceBuilder dropped;
  const std::uint32_t a = dropped.fill({2}, 1);
  dropped.about(OpKind::drop, a);
  dropped.op(OpKind::neg, {a}, kPair);
  EXPECT_EQ(text(check_trace(dropped.trace())), "op 3: neg: there is no value 1 here");

  OpTraceBuilder early;
  early.fill({2}, 1);
  early.op(OpKind::neg, {1}, kPair);
  early.trace().ops[1].record.operands[0].slot.value = 2;
  EXPECT_EQ(text(check_trace(early.trace())), "op 2: neg: there is no value 2 here");

  OpTraceBuilder again;
  again.fill({2}, 1);
  again.op(OpKind::neg, {1}, kPair);
  again.trace().ops[1].record.operands[1].slot.value = 1;
  EXPECT_EQ(text(check_trace(again.trace())), "op 2: neg: makes value 1, the next one is 2");
}

TEST(OpTraceChecker, RefusesAValueThatIsUsedUpAndNamedAgain) {
  OpTraceBuilder builder;
  const std::uint32_t a = builder.fill({2}, 1);
  builder.op(OpKind::add, {a, a}, kPair, ScalarAttributes{});
  for (const int operand : {0, 1}) {
    OpTrace trace = builder.trace();
    trace.ops[1].record.operands[operand].use = Use::read_last;
    EXPECT_EQ(text(check_trace(trace)), "op 2: add: value 1 is used up and named again");
  }
}

TEST(OpTraceChecker, RefusesOperandsThatContradictTheirMaker) {
  OpTraceBuilder builder;
  const std::uint32_t a = builder.fill({2}, 1);
  builder.fill({2}, 1, DType::f64);
  builder.op(OpKind::neg, {a}, {DType::f64, {2}});
  builder.trace().ops[2].record.operands[0].dtype = DType::f64;
  EXPECT_EQ(text(check_trace(builder.trace())),
            "op 3: neg: value 1 is f32[2] on device 0, not f64[2]");
  OpTraceBuilder elsewhere;
  const std::uint32_t b = elsewhere.fill({2}, 1);
  elsewhere.on(1, 1).op(OpKind::neg, {b}, kPair);
  EXPECT_EQ(text(check_trace(elsewhere.trace())),
            "op 2: neg: value 1 is f32[2] on device 0, not f32[2]");
}

TEST(OpTraceChecker, KeepsUpdateGroupsWhole) {
  OpTraceBuilder nested;
  nested.about(OpKind::group_begin, 0);
  nested.about(OpKind::group_begin, 0);
  EXPECT_EQ(text(check_trace(nested.trace())), "op 2: group_begin: update groups cannot be nested");
  OpTraceBuilder ends;
  ends.about(OpKind::group_end, 0);
  EXPECT_EQ(text(check_trace(ends.trace())), "op 1: group_end: no update group is open");
  OpTraceBuilder inside;
  const std::uint32_t p = inside.fill({2}, 1);
  const std::uint32_t g = inside.fill({2}, 1);
  inside.about(OpKind::group_begin, 0);
  const std::uint32_t q = inside.op(OpKind::sgd_step, {p, g}, kPair, SgdAttributes{});
  inside.on(0, 2).op(OpKind::neg, {q}, kPair);
  EXPECT_EQ(text(check_trace(inside.trace())),
            "op 5: neg: value 3 is used inside the update group that makes it");
}

TEST(OpTraceChecker, RefusesBytesOfAnotherSize) {
  OpTraceBuilder builder;
  builder.upload({2}, {1, 2, 3});
  EXPECT_EQ(text(check_trace(builder.trace())), "op 1: upload: f32[2] has 8 bytes, not 12");
  OpTraceBuilder copy;
  copy.fill({2}, 1);
  copy.on(1, 1).add(OpKind::upload, {}, {kPair}).copied_from = 1;
  EXPECT_EQ(text(check_trace(copy.trace())), "op 2: upload: op 1 does not read f32[2]");
}

TEST(OpTraceChecker, RefusesABoolThatIsNeitherTrueNorFalse) {
  OpTraceBuilder builder;
  builder.upload({1}, {2});
  OpTrace trace = builder.trace();
  trace.ops[0].record.operands[0].dtype = DType::boolean;
  for (const auto& [byte, verdict] :
       {std::pair(1, ""),
        std::pair(2, "op 1: upload: bool[1] has a byte that is neither 0 nor 1")}) {
    trace.data[0].assign(1, std::byte(byte));
    const Status status = check_trace(trace);
    EXPECT_EQ(status.has_value() ? "" : status.error().text, verdict);
  }
}

TEST(OpTraceChecker, StopsAtTheLimits) {
  OpTraceBuilder builder;
  builder.fill({1024, 1024}, 1);
  builder.op(OpKind::neg, {1}, {DType::f32, {1024, 1024}});
  EXPECT_EQ(check_trace(builder.trace(), {.value_bytes = 1 << 20}).error().code,
            ErrorCode::out_of_memory);
  EXPECT_EQ(check_trace(builder.trace(), {.live_bytes = 5 << 20}).error().code,
            ErrorCode::out_of_memory);
  EXPECT_EQ(check_trace(builder.trace(), {.work = 1e6}).error().code, ErrorCode::out_of_memory);
  EXPECT_TRUE(check_trace(builder.trace(), {.live_bytes = 8 << 20, .work = 1e8}).has_value());
}

// ---- reduction ----

TEST(OpTraceReducer, SelectsWhatIsKeptAndCanBe) {
  const OpTrace trace = small_program().trace();
  std::vector<bool> keep(trace.ops.size(), true);
  keep[1] = false;  // the fill: the sum, the slice, the concat and the step need it
  const OpTrace rest = select_ops(trace, keep);
  EXPECT_EQ(text(check_trace(rest)), "no error");
  ASSERT_EQ(rest.ops.size(), 4U);  // upload, an empty group, drop
  EXPECT_EQ(rest.ops[1].record.kind, OpKind::group_begin);
  EXPECT_EQ(rest.shapes.size(), 1U);
  EXPECT_EQ(rest.data.size(), 1U);
}

TEST(OpTraceReducer, TakesGroupsApartWhole) {
  const OpTrace trace = small_program().trace();
  for (std::size_t gone = 0; gone < trace.ops.size(); ++gone) {
    std::vector<bool> keep(trace.ops.size(), true);
    keep[gone] = false;
    EXPECT_EQ(text(check_trace(select_ops(trace, keep))), "no error") << gone;
  }
}

// 400 ops; the failure is an exp that is read.
TEST(OpTraceReducer, FindsTheFewOpsThatMatter) {
  OpTraceBuilder builder;
  std::uint32_t x = builder.upload({2}, {1, 2});
  std::uint32_t bad = 0;
  for (int i = 0; i < 200; ++i) {
    x = builder.op(OpKind::neg, {x}, kPair);
    if (i == 120) {
      bad = builder.op(OpKind::exp, {x}, kPair);
    }
    builder.op(OpKind::sin, {x}, kPair);
  }
  builder.about(OpKind::readback, bad);
  int questions = 0;
  const auto reads_an_exp = [&](const OpTrace& trace) {
    ++questions;
    EXPECT_EQ(text(check_trace(trace)), "no error");
    std::vector<OpKind> producers(1);
    for (const TraceOp& op : trace.ops) {
      if (op.record.kind == OpKind::readback &&
          producers[op.record.operands[0].slot.value] == OpKind::exp) {
        return true;
      }
      producers.insert(producers.end(), op.record.output_count, op.record.kind);
    }
    return false;
  };
  const OpTrace small = reduce_trace(builder.trace(), reads_an_exp);
  ASSERT_EQ(small.ops.size(), 3U);
  EXPECT_EQ(small.ops[0].record.kind, OpKind::fill);
  EXPECT_EQ(small.ops[1].record.kind, OpKind::exp);
  EXPECT_EQ(small.ops[2].record.kind, OpKind::readback);
  EXPECT_LT(questions, 60);
}

TEST(OpTraceReducer, FindsTheEndOfALongChain) {
  OpTraceBuilder builder;
  std::uint32_t x = builder.upload({2}, {1, 2});
  for (int i = 0; i < 3000; ++i) {
    x = builder.op(OpKind::neg, {x}, kPair);
  }
  builder.about(OpKind::readback, builder.op(OpKind::exp, {x}, kPair));
  int questions = 0;
  const auto has_an_exp = [&](const OpTrace& trace) {
    ++questions;
    return std::ranges::any_of(trace.ops,
                               [](const TraceOp& op) { return op.record.kind == OpKind::exp; });
  };
  const OpTrace small = reduce_trace(builder.trace(), has_an_exp);
  ASSERT_EQ(small.ops.size(), 2U);
  EXPECT_EQ(small.ops[1].record.kind, OpKind::exp);
  EXPECT_LT(questions, 100);
}

TEST(OpTraceReducer, AsksNoMoreOftenThanItMay) {
  OpTrace trace = small_program().trace();
  int questions = 0;
  const OpTrace same = reduce_trace(trace,
                                    [&](const OpTrace&) {
                                      ++questions;
                                      return false;
                                    },
                                    {.max_runs = 5});
  EXPECT_EQ(questions, 5);
  EXPECT_EQ(encode_trace(same), encode_trace(trace));
}

TEST(OpTraceReducer, AsksNothingAfterItsTime) {
  const OpTrace trace = small_program().trace();
  int questions = 0;
  const OpTrace same = reduce_trace(trace,
                                    [&](const OpTrace&) {
                                      ++questions;
                                      return true;
                                    },
                                    {.until = Deadline::in(std::chrono::seconds(0))});
  EXPECT_EQ(questions, 0);
  EXPECT_EQ(encode_trace(same), encode_trace(trace));
}

}  // namespace
}  // namespace hearth
