#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/backends/reference/program.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <cstring>
#include <vector>

namespace hearth::reference {
namespace {

using ::testing::ElementsAre;

class Program : public ::testing::Test {
 protected:
  void set(std::uint32_t slot,
           const Shape& shape,
           const std::vector<float>& values,
           DType dtype = DType::f32) {
    HostTensor tensor(dtype, shape);
    std::memcpy(tensor.bytes.data(), values.data(), values.size() * sizeof(float));
    tensors_.insert_or_assign(SlotId{slot}, tensor);
  }

  Operand operand(std::uint32_t slot, const Shape& shape, DType dtype = DType::f32) {
    return {.slot = {slot}, .shape = shapes_.intern(shape).value(), .dtype = dtype};
  }

  RecordedOp& add(OpKind kind, std::vector<Operand> inputs, std::vector<Operand> outputs) {
    RecordedOp op;
    op.record.kind = kind;
    op.record.sequence = ops_.size() + 1;
    op.record.input_count = static_cast<std::uint16_t>(inputs.size());
    op.record.output_count = static_cast<std::uint16_t>(outputs.size());
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    std::copy(inputs.begin(), inputs.end(), op.record.operands);
    ops_.push_back(op);
    return ops_.back();
  }

  template <class Attributes>
  static void give(RecordedOp& op, const Attributes& attributes) {
    if constexpr (fits_immediate<Attributes>) {
      std::memcpy(op.record.immediate, &attributes, sizeof(attributes));
    } else {
      op.blob.resize(sizeof(attributes));
      std::memcpy(op.blob.data(), &attributes, sizeof(attributes));
      op.record.blob_size_bytes = sizeof(attributes);
    }
  }

  Status run() { return evaluate_program(ops_, shapes_, tensors_); }

  std::vector<float> values(std::uint32_t slot) {
    HostTensor& tensor = tensors_.at(SlotId{slot});
    std::vector<float> out(tensor.bytes.size() / sizeof(float));
    std::memcpy(out.data(), tensor.bytes.data(), tensor.bytes.size());
    return out;
  }
  ErrorRef error(std::uint32_t slot) { return tensors_.at(SlotId{slot}).error; }

  /// Divides an integer by zero into `slot`, which poisons it.
  void poison(std::uint32_t slot) {
    tensors_.insert_or_assign(SlotId{90}, HostTensor(DType::i32, {}));
    add(OpKind::div,
        {operand(90, {}, DType::i32), operand(90, {}, DType::i32)},
        {operand(91, {}, DType::i32)});
    add(OpKind::cast, {operand(91, {}, DType::i32)}, {operand(slot, {})});
  }

  ShapeTable shapes_;
  Tensors tensors_;
  std::vector<RecordedOp> ops_;
};

TEST_F(Program, RunsOpsInOrderOverSlots) {
  set(1, {2}, {1, 2});
  add(OpKind::add, {operand(1, {2}), operand(1, {2})}, {operand(2, {2})});
  add(OpKind::mul, {operand(2, {2}), operand(1, {2})}, {operand(1, {2})});
  add(OpKind::drop, {operand(2, {2})}, {});
  run().value();
  EXPECT_THAT(values(1), ElementsAre(2, 8));
  EXPECT_FALSE(tensors_.contains(SlotId{2}));
}

TEST_F(Program, ViewsAreCopiesWithTheViewsElements) {
  set(1, {2, 3}, {1, 2, 3, 4, 5, 6});
  give(add(OpKind::permute, {operand(1, {2, 3})}, {operand(2, {3, 2})}),
       PermuteAttributes{.axes = {1, 0}});
  give(add(OpKind::slice, {operand(1, {2, 3})}, {operand(3, {2, 2})}),
       SliceAttributes{.start = {1, 2}, .step = {-1, -2}});
  add(OpKind::reshape, {operand(2, {3, 2})}, {operand(4, {6})});
  set(5, {2, 1}, {7, 8});
  add(OpKind::expand, {operand(5, {2, 1})}, {operand(6, {2, 2, 3})});
  run().value();
  EXPECT_THAT(values(2), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(values(3), ElementsAre(6, 4, 3, 1));
  EXPECT_THAT(values(4), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(values(6), ElementsAre(7, 7, 7, 8, 8, 8, 7, 7, 7, 8, 8, 8));
}

TEST_F(Program, AFailurePoisonsItsDependantsOnly) {
  set(1, {}, {4});
  poison(2);
  add(OpKind::add, {operand(1, {}), operand(2, {})}, {operand(3, {})});
  add(OpKind::reshape, {operand(3, {})}, {operand(4, {1})});
  add(OpKind::neg, {operand(1, {})}, {operand(5, {})});
  run().value();
  ASSERT_NE(error(4), nullptr);
  EXPECT_EQ(error(4)->code, ErrorCode::kernel_failed);
  EXPECT_EQ(error(4)->sequence, 1U);
  EXPECT_EQ(error(4), error(2));
  EXPECT_EQ(error(5), nullptr);
  EXPECT_THAT(values(5), ElementsAre(-4));
}

TEST_F(Program, APoisonedGradientKeepsAllOfTheGroupsParameters) {
  set(1, {}, {1});
  set(2, {}, {10});
  set(3, {}, {1});
  poison(4);
  const SgdAttributes sgd{.learning_rate = 0.5};
  add(OpKind::group_begin, {}, {});
  give(add(OpKind::sgd_step, {operand(1, {}), operand(3, {})}, {operand(5, {})}), sgd);
  give(add(OpKind::sgd_step, {operand(2, {}), operand(4, {})}, {operand(6, {})}), sgd);
  add(OpKind::neg, {operand(1, {})}, {operand(7, {})});
  add(OpKind::group_end, {}, {});
  run().value();
  EXPECT_THAT(values(5), ElementsAre(1));
  EXPECT_THAT(values(6), ElementsAre(10));
  EXPECT_NE(error(7), nullptr);
}

TEST_F(Program, AHealthyGroupRuns) {
  set(1, {}, {1});
  set(2, {}, {1});
  set(3, {}, {2});
  add(OpKind::group_begin, {}, {});
  give(add(OpKind::sgd_step,
           {operand(1, {}), operand(2, {}), operand(3, {})},
           {operand(1, {}), operand(3, {})}),
       SgdAttributes{.learning_rate = 0.5, .momentum = 0.5});
  add(OpKind::group_end, {}, {});
  run().value();
  EXPECT_THAT(values(3), ElementsAre(2));
  EXPECT_THAT(values(1), ElementsAre(0));
}

TEST_F(Program, MalformedProgramsAreRefused) {
  add(OpKind::neg, {operand(8, {})}, {operand(9, {})});
  EXPECT_EQ(run().error().code, ErrorCode::invalid_argument);
  ops_.clear();
  add(OpKind::group_begin, {}, {});
  EXPECT_EQ(run().error().code, ErrorCode::invalid_argument);
  ops_.clear();
  add(OpKind::upload, {}, {operand(3, {})});
  EXPECT_EQ(run().error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace hearth::reference
