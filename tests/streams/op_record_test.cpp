#include <hearth/streams/op_record.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include <hearth/streams/op_attributes.hpp>

#include <gtest/gtest.h>

namespace hearth {
namespace {

Operand operand(std::uint32_t slot) {
  return {.slot = SlotId{slot}, .generation = slot + 100, .shape = ShapeId{slot + 200}};
}

// n operands, of which the first `inputs` are inputs, and a convolution's attributes in the blob.
struct LongRecord {
  LongRecord(int input_count, int output_count) {
    record.kind = OpKind::concat;
    record.input_count = static_cast<std::uint16_t>(input_count);
    record.output_count = static_cast<std::uint16_t>(output_count);
    for (int i = 0; i < record.operand_count(); ++i) {
      const Operand next = operand(static_cast<std::uint32_t>(i));
      if (i < kInlineOperands) {
        record.operands[i] = next;
      } else {
        append(&next, sizeof(next));
      }
    }
    const ConvAttributes attributes{.stride = {2, 3}, .groups = 5};
    append(&attributes, sizeof(attributes));
    record.blob_size_bytes = static_cast<std::uint32_t>(blob.size());
  }
  void append(const void* data, std::size_t size_bytes) {
    const auto* bytes = static_cast<const std::byte*>(data);
    blob.insert(blob.end(), bytes, bytes + size_bytes);
  }

  OpRecord record;
  std::vector<std::byte> blob{};
};

TEST(OpRecord, KeepsFlagsApart) {
  OpRecord record;
  EXPECT_FALSE(record.has(RecordFlag::scalar_rhs));
  record.set(RecordFlag::scalar_rhs);
  record.set(RecordFlag::exclusive);
  EXPECT_TRUE(record.has(RecordFlag::scalar_rhs));
  EXPECT_TRUE(record.has(RecordFlag::exclusive));
  EXPECT_FALSE(record.has(RecordFlag::scalar_lhs));
}

TEST(OpView, ReadsSmallAttributesFromTheRecord) {
  OpRecord record;
  const ReduceAttributes attributes{.axes = 5, .keep_dims = 1};
  std::memcpy(record.immediate, &attributes, sizeof(attributes));
  const auto read = OpView(record, nullptr).attributes<ReduceAttributes>();
  EXPECT_EQ(read.axes, 5U);
  EXPECT_EQ(read.keep_dims, 1U);
}

TEST(OpView, ReadsOutputsBehindInputs) {
  const LongRecord op(2, 2);
  const OpView view(op.record, op.blob.data());
  EXPECT_EQ(view.input(1).slot, SlotId{1});
  EXPECT_EQ(view.output(0).slot, SlotId{2});
  EXPECT_EQ(view.output(1).shape, ShapeId{203});
}

TEST(OpView, ReadsOperandsThatDoNotFitFromTheBlob) {
  const LongRecord op(8, 1);
  const OpView view(op.record, op.blob.data());
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(view.input(i).slot, SlotId{static_cast<std::uint32_t>(i)});
    EXPECT_EQ(view.input(i).generation, static_cast<std::uint32_t>(i) + 100);
  }
  EXPECT_EQ(view.output(0).slot, SlotId{8});
}

TEST(OpView, FindsLargeAttributesBehindTheExtraOperands) {
  for (const int input_count : {1, 4, 5, 9}) {
    const LongRecord op(input_count, 1);
    const auto attributes = OpView(op.record, op.blob.data()).attributes<ConvAttributes>();
    EXPECT_EQ(attributes.stride[1], 3) << input_count;
    EXPECT_EQ(attributes.groups, 5) << input_count;
  }
}

}  // namespace
}  // namespace hearth
