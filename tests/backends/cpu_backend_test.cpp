#include "tests/backends/small_call.hpp"
#include "tests/support/run_call.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/runtime/base/philox.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace hearth::cpu {
namespace {

using hearth::testing::SmallCall;
using hearth::testing::SmallTensor;

std::vector<double> waves(std::int64_t count) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(std::sin(static_cast<double>(i) * 0.37) + 1e-3 * static_cast<double>(i % 17));
  }
  return values;
}

TEST(CpuBackend, DescribesItsCoresAndInstructionSet) {
  const CpuBackend backend({.name = "cpu:3", .cores = {0}, .max_isa = IsaLevel::baseline});
  EXPECT_EQ(backend.info().name, "cpu:3");
  EXPECT_EQ(backend.info().core_count, 1);
  EXPECT_NE(backend.info().description.find("1 core of "), std::string::npos);
  EXPECT_NE(backend.info().description.find("baseline"), std::string::npos);
}

TEST(CpuBackend, IsDoneWhenSubmitReturns) {
  CpuBackend backend;
  const SmallTensor x(DType::f32, {3}, {1, 2, 3});
  const SmallTensor y(DType::f32, {3});
  testing::run_call(backend, SmallCall(OpKind::neg, {x.view()}, {y.view()}).call()).value();
  EXPECT_EQ(y.values(), (std::vector<double>{-1, -2, -3}));
}

TEST(CpuBackend, RefusesKindsThatAreNoKernels) {
  CpuBackend backend;
  const SmallTensor x(DType::f32, {3}, {1, 2, 3});
  const SmallCall call(OpKind::reshape, {x.view()}, {x.view()});
  EXPECT_FALSE(backend.supports(call.call()).yes);
  EXPECT_EQ(testing::run_call(backend, call.call()).error().code, ErrorCode::unsupported);
}

TEST(CpuBackend, SaysWhichTypesAKindTakes) {
  const CpuBackend backend;
  const SmallTensor x(DType::i32, {3}, {1, 2, 3});
  const Support support = backend.supports(SmallCall(OpKind::exp, {x.view()}, {x.view()}).call());
  EXPECT_FALSE(support.yes);
  EXPECT_NE(support.reason.find("exp: i32 is not one of f32"), std::string::npos) << support.reason;
}

TEST(CpuBackend, NamesTheRowAndClassThatAreOutOfRange) {
  CpuBackend backend;
  const SmallTensor logits(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const SmallTensor targets(DType::i64, {2}, {1, 3});
  const SmallTensor losses(DType::f32, {2});
  const SmallTensor probabilities(DType::f32, {2, 3});
  const Status status = testing::run_call(backend,
                                          SmallCall(OpKind::cross_entropy,
                                                    {logits.view(), targets.view()},
                                                    {losses.view(), probabilities.view()})
                                              .call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::out_of_range);
  EXPECT_EQ(status.error().text, "cross_entropy: class 3 in row 1 is outside the 3 classes");
}

TEST(CpuBackend, NamesTheElementThatIsDividedByZero) {
  CpuBackend backend;
  const SmallTensor a(DType::i32, {4}, {1, 2, 3, 4});
  const SmallTensor b(DType::i32, {4}, {1, 1, 0, 0});
  const SmallTensor out(DType::i32, {4});
  const Status status =
      testing::run_call(backend, SmallCall(OpKind::div, {a.view(), b.view()}, {out.view()}).call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kernel_failed);
  EXPECT_EQ(status.error().text, "div: division by zero at element 2");
}

TEST(CpuBackend, NamesTheIndexThatIsOutsideItsAxis) {
  CpuBackend backend;
  const SmallTensor x(DType::f32, {2, 3});
  const SmallTensor index(DType::i32, {2, 2}, {0, 2, 3, -1});
  const SmallTensor out(DType::f32, {2, 2});
  const AxisAttributes along{.axis = 1};
  const auto text_of = [&](OpKind kind, const TensorView& places) {
    const Status status = testing::run_call(
        backend, SmallCall(kind, {x.view(), places}, {out.view()}).with(along).call());
    EXPECT_FALSE(status.has_value() || status.error().code != ErrorCode::out_of_range);
    return status.has_value() ? "no error" : status.error().text;
  };
  EXPECT_EQ(text_of(OpKind::gather, index.view()),
            "gather: index 3 at [1, 0] is outside axis 1 of size 3");
  const hearth::detail::Layout turned(Shape{2, 2}, Strides{1, 2});
  EXPECT_EQ(text_of(OpKind::gather, index.view(turned, 0)),
            "gather: index 3 at [0, 1] is outside axis 1 of size 3");
  const hearth::detail::Layout backwards(Shape{2}, Strides{-1});
  EXPECT_EQ(text_of(OpKind::index_select, index.view(backwards, 3)),
            "index_select: index -1 at [0] is outside axis 1 of size 3");
}

// Larger than the size from which zeros bypass the caches.
TEST(CpuBackend, AddsIntoALargeTable) {
  CpuBackend backend;
  constexpr std::int64_t kRows = 70'001;
  constexpr std::int64_t kWidth = 129;
  const SmallTensor source(DType::f32, {4, kWidth}, std::vector<double>(4 * kWidth, 1.5));
  const SmallTensor index(DType::i64, {4}, {kRows - 1, 17, 17, 0});
  const SmallTensor out(DType::f32,
                        {kRows, kWidth},
                        std::vector<double>(static_cast<std::size_t>(kRows) * kWidth, 7));
  ASSERT_TRUE(
      testing::run_call(backend,
                        SmallCall(OpKind::index_add, {source.view(), index.view()}, {out.view()})
                            .with(AxisAttributes{})
                            .call())
          .has_value());
  const auto* const sums = out.view().as<const float>();
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const float want = row == 17 ? 3.0F : row == 0 || row == kRows - 1 ? 1.5F : 0.0F;
    for (std::int64_t column = 0; column < kWidth; ++column) {
      wrong += sums[row * kWidth + column] == want ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0);
}

// Both addition loops, by rows and by lines, add in the order of the index: the same bits on any
// arena.
TEST(CpuBackend, AdditionsByIndexHaveTheBitsOfTheirOrder) {
  CpuBackend one({.serial = true});
  CpuBackend all;
  constexpr std::int64_t kCount = 1000;  // a longer index ends chains where it is read by lines
  constexpr std::int64_t kWidth = 185;
  std::vector<double> values;
  std::vector<double> places;
  for (std::int64_t i = 0; i < kCount * kWidth; ++i) {
    values.push_back(1.0 / static_cast<double>(i + 3));
  }
  for (std::int64_t i = 0; i < kCount; ++i) {
    places.push_back(static_cast<double>(i * i % 11));
  }
  const SmallTensor source(DType::f32, {kCount, kWidth}, values);
  const SmallTensor index(DType::i32, {kCount}, places);
  const hearth::detail::Layout repeated(Shape{kCount, kWidth}, Strides{1, 0});
  std::vector<float> want(11 * kWidth, 0.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    want[static_cast<std::size_t>(places[i / kWidth]) * kWidth + i % kWidth] +=
        static_cast<float>(values[i]);
  }
  const auto sums_of = [&](CpuBackend& backend, OpKind kind, const TensorView& from) {
    const SmallTensor out(DType::f32, {11, kWidth});
    const TensorView at = kind == OpKind::index_add ? index.view() : index.view(repeated, 0);
    EXPECT_TRUE(
        testing::run_call(backend,
                          SmallCall(kind, {from, at}, {out.view()}).with(AxisAttributes{}).call())
            .has_value());
    const auto* const sums = out.view().as<const float>();
    return std::vector<float>(sums, sums + 11 * kWidth);
  };
  // The same values from a buffer with a gap after each row, which cannot be copied as rows.
  std::vector<double> gapped;
  for (std::int64_t row = 0; row < kCount; ++row) {
    gapped.insert(gapped.end(), values.begin() + row * kWidth, values.begin() + (row + 1) * kWidth);
    gapped.push_back(0);
  }
  const SmallTensor wide(DType::f32, {kCount, kWidth + 1}, gapped);
  const hearth::detail::Layout part(Shape{kCount, kWidth}, Strides{kWidth + 1, 1});
  for (const OpKind kind : {OpKind::index_add, OpKind::scatter_add}) {
    for (CpuBackend* const backend : {&one, &all}) {
      EXPECT_EQ(sums_of(*backend, kind, source.view()), want) << name(kind);
      EXPECT_EQ(sums_of(*backend, kind, wide.view(part, 0)), want) << name(kind);
    }
  }
}

TEST(CpuBackend, FailsForTheMaximumOfNothing) {
  CpuBackend backend;
  const SmallTensor x(DType::f32, {0, 3});
  const SmallTensor out(DType::f32, {3});
  const Status status = testing::run_call(backend,
                                          SmallCall(OpKind::reduce_max, {x.view()}, {out.view()})
                                              .with(ReduceAttributes{.axes = 1})
                                              .call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().text, "max: no elements to choose from in [0, 3]");
}

TEST(CpuBackend, SumsTenMillionElementsToTheLastPlace) {
  CpuBackend backend;
  constexpr std::int64_t kCount = 10'000'000;
  std::vector<double> values;
  values.reserve(kCount);
  double want = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    values.push_back(static_cast<double>(0.1F));
    want += static_cast<double>(0.1F);
  }
  const SmallTensor x(DType::f32, {kCount}, values);
  const SmallTensor out(DType::f32, {});
  testing::run_call(backend,
                    SmallCall(OpKind::reduce_sum, {x.view()}, {out.view()})
                        .with(ReduceAttributes{.axes = 1})
                        .call())
      .value();
  const auto allowed = hearth::testing::tolerance(hearth::testing::Precision::rounded, DType::f32);
  EXPECT_TRUE(allowed.accepts(out.values()[0], want)) << out.values()[0] << " instead of " << want;
}

TEST(CpuBackend, GivesTheBytesOfOneThreadOnManyCores) {
  CpuBackend alone({.cores = {0}, .serial = true});
  CpuBackend forked({.cores = {0, 1}});
  constexpr std::int64_t kRows = 1031;
  constexpr std::int64_t kColumns = 517;
  const SmallTensor x(DType::f32, {kRows, kColumns}, waves(kRows * kColumns));
  const SmallTensor state(
      DType::f32, {kRows, kColumns}, std::vector<double>(kRows * kColumns, 0.25));
  const RandomAttributes random{.seed = 7, .counter = 11, .a = 0.3};
  const AdamAttributes adam{.learning_rate = 0.1, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8};
  struct Results {
    SmallTensor full{DType::f32, {kRows, kColumns}};
    SmallTensor m{DType::f32, {kRows, kColumns}};
    SmallTensor v{DType::f32, {kRows, kColumns}};
    SmallTensor columns{DType::f32, {kColumns}};
    SmallTensor all{DType::f32, {}};
  };
  const auto run = [&](CpuBackend& backend) {
    Results r;
    std::vector<std::vector<double>> values;
    const auto keep = [&](const SmallCall& call, const SmallTensor& out) {
      testing::run_call(backend, call.call()).value();
      values.push_back(out.values());
    };
    keep(SmallCall(OpKind::tanh, {x.view()}, {r.full.view()}), r.full);
    keep(SmallCall(OpKind::dropout, {x.view()}, {r.full.view()}).with(random), r.full);
    keep(SmallCall(OpKind::random_normal, {}, {r.full.view()}).with(random), r.full);
    keep(SmallCall(OpKind::softmax, {x.view()}, {r.full.view()}).with(AxisAttributes{.axis = 1}),
         r.full);
    keep(SmallCall(OpKind::softmax, {x.view()}, {r.full.view()}).with(AxisAttributes{.axis = 0}),
         r.full);
    keep(SmallCall(OpKind::reduce_sum, {x.view()}, {r.columns.view()})
             .with(ReduceAttributes{.axes = 1}),
         r.columns);
    keep(
        SmallCall(OpKind::reduce_sum, {x.view()}, {r.all.view()}).with(ReduceAttributes{.axes = 3}),
        r.all);
    keep(SmallCall(OpKind::adam_step,
                   {x.view(), x.view(), state.view(), state.view()},
                   {r.full.view(), r.m.view(), r.v.view()})
             .with(adam),
         r.full);
    return values;
  };
  EXPECT_EQ(run(alone), run(forked));
}

TEST(CpuBackend, DrawsTheRandomWordsOfEachElementsPlace) {
  CpuBackend backend;
  constexpr std::int64_t kCount = 1003;
  const RandomAttributes random{.seed = 0x123456789ABCDEFU, .counter = 0xFFFFFFFFU, .a = 0.25};
  const SmallTensor out(DType::u8, {kCount});
  testing::run_call(backend,
                    SmallCall(OpKind::random_bernoulli, {}, {out.view()}).with(random).call())
      .value();
  const std::vector<double> got = out.values();
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const bool hit =
        philox::hit_element(random.seed, random.counter, i, philox::threshold(random.a));
    ASSERT_EQ(got[i], hit ? 1.0 : 0.0) << i;
  }
}

TEST(CpuBackend, StreamsLargeResultsWhole) {
  CpuBackend backend;
  constexpr std::int64_t kCount =
      (std::int64_t{32} << 18) + 77;  // just above the size from which results bypass the caches
  const SmallTensor x(DType::f32, {kCount}, waves(kCount));
  const SmallTensor copy(DType::f32, {kCount});
  const SmallTensor negated(DType::f32, {kCount});
  testing::run_call(backend, SmallCall(OpKind::copy, {x.view()}, {copy.view()}).call()).value();
  testing::run_call(backend, SmallCall(OpKind::neg, {x.view()}, {negated.view()}).call()).value();
  const std::vector<double> want = x.values();
  const std::vector<double> got = negated.values();
  EXPECT_EQ(copy.values(), want);
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(got[i], -want[i]) << i;
  }
}

/// Device memory as the backend sees it.
class DeviceScratch final : public ScratchMemory {
 public:
  [[nodiscard]] Result<std::byte*> take(std::int64_t size_bytes) override {
    if (refuses) {
      return Error{.code = ErrorCode::out_of_memory, .text = "no scratch memory"};
    }
    EXPECT_EQ(out_bytes, 0) << "one piece at a time";
    out_bytes = size_bytes;
    ++take_count;
    pages_.resize(static_cast<std::size_t>(size_bytes) / sizeof(Line) + 1);
    return pages_.front().bytes;
  }
  void release() noexcept override { out_bytes = 0; }

  bool refuses = false;
  std::int64_t out_bytes = 0;
  int take_count = 0;

 private:
  struct alignas(64) Line {
    std::byte bytes[64];  // NOLINT(modernize-avoid-c-arrays)
  };
  std::vector<Line> pages_;
};

class CpuScratch : public ::testing::Test {
 protected:
  CpuScratch() { backend_.use_scratch(scratch_); }

  CpuBackend backend_;
  DeviceScratch scratch_;
  const SmallTensor x_{DType::f16, {64, 512}, waves(64 * 512)};
  const SmallTensor y_{DType::f16, {64, 512}};
  const SmallCall softmax_ =
      SmallCall(OpKind::softmax, {x_.view()}, {y_.view()}).with(AxisAttributes{.axis = 1});
};

TEST_F(CpuScratch, ComesFromTheDeviceAndGoesBackAtTheKernelsEnd) {
  testing::run_call(backend_, softmax_.call()).value();
  EXPECT_EQ(scratch_.take_count, 1);
  EXPECT_EQ(scratch_.out_bytes, 0);
}

TEST_F(CpuScratch, SmallKernelsAskForNone) {
  const SmallTensor x(DType::f16, {4, 8}, waves(32));
  const SmallTensor y(DType::f16, {4, 8});
  testing::run_call(
      backend_,
      SmallCall(OpKind::softmax, {x.view()}, {y.view()}).with(AxisAttributes{.axis = 1}).call())
      .value();
  EXPECT_EQ(scratch_.take_count, 0);
}

TEST_F(CpuScratch, AKernelWithoutAnyFailsAndChangesNothing) {
  const std::vector<double> before = x_.values();
  scratch_.refuses = true;
  const SmallCall in_place =
      SmallCall(OpKind::softmax, {x_.view()}, {x_.view()}).with(AxisAttributes{.axis = 1});
  EXPECT_EQ(testing::run_call(backend_, in_place.call()).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(x_.values(), before);
  scratch_.refuses = false;
  testing::run_call(backend_, in_place.call()).value();
  testing::run_call(backend_, softmax_.call()).value();
  EXPECT_NE(x_.values(), before);
}

TEST_F(CpuScratch, ABackendWithoutADeviceHasSomeOfItsOwn) {
  CpuBackend alone;
  testing::run_call(alone, softmax_.call()).value();
  const std::vector<double> values = y_.values();
  testing::run_call(backend_, softmax_.call()).value();
  EXPECT_EQ(y_.values(), values);
}

}  // namespace
}  // namespace hearth::cpu
