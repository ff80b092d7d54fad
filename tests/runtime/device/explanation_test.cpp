// The explanation of the kernels into which a program's ops were grouped.
#include <hearth/runtime/explanation.hpp>
#include <hearth/runtime/update_group.hpp>

#include <gmock/gmock.h>

#include "tests/runtime/stepped_runtime.hpp"

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::stepped;
using testing::World;

constexpr std::int64_t kBytes = 24;  // of six f32

Tensor gelu(const Tensor& x) {
  return x * 0.5 * (1 + erf(x * 0.7071067811865476));
}

template <class Body>
void with(Fusion fusion, Body body) {
  stepped({.fusion = fusion}, body);
}

TEST(Explanations, AFormulaIsOneKernelThatMovesNoMoreThanItMust) {
  with(Fusion::on, [](const World& world) {
    const Tensor x = world.f32({-3, -1, -0.25, 0, 0.5, 2});
    Tensor y;
    const Explanation said = explain(world.device, [&] { y = gelu(x); });
    ASSERT_EQ(said.kernels.size(), 1U);
    EXPECT_EQ(said.device, "sim:0");
    EXPECT_EQ(said.launches, 1);
    const ExplainedKernel& kernel = said.kernels[0];
    EXPECT_EQ(kernel.op_count, 5);
    EXPECT_THAT(kernel.name, AllOf(HasSubstr("erf"), HasSubstr("mul")));
    EXPECT_EQ(kernel.bytes_read, kBytes);
    EXPECT_EQ(kernel.bytes_written, kBytes);
    EXPECT_EQ(said.ideal_bytes, 2 * kBytes);
    EXPECT_THAT(kernel.location.file, EndsWith("explanation_test.cpp"));
    EXPECT_THAT(kernel.boundary, EndsWith("(sync)"));
  });
}

TEST(Explanations, WithoutFusionEachOpIsAKernelAndMovesItsOwnBytes) {
  with(Fusion::off, [](const World& world) {
    const Tensor x = world.f32({-3, -1, -0.25, 0, 0.5, 2});
    Tensor y;
    const Explanation said = explain(world.device, [&] { y = gelu(x); });
    EXPECT_EQ(said.kernels.size(), 5U);
    EXPECT_EQ(said.op_count(), 5);
    EXPECT_EQ(said.bytes_read(), 6 * kBytes) << "the last product has two operands";
    EXPECT_EQ(said.bytes_written(), 5 * kBytes);
    EXPECT_EQ(said.ideal_bytes, 2 * kBytes);
  });
}

TEST(Explanations, NameTheOpThatAKernelDoesNotTakeIn) {
  with(Fusion::on, [](const World& world) {
    const Tensor x = reshape(world.f32({1, 2, 3, 4, 5, 6}), {2, 3});
    Tensor y;
    const Explanation said = explain(world.device, [&] {
      const Tensor squares = square(x) * 2;
      y = matmul(transpose(squares), squares) + 1;
      y = neg(exp(sum(y)));
    });
    ASSERT_EQ(said.kernels.size(), 3U);
    EXPECT_EQ(said.kernels[0].boundary,
              "the next op, transpose or permute, is a view, which shows what is in memory");
    EXPECT_EQ(said.kernels[1].name, "matmul+add");
    EXPECT_EQ(
        said.kernels[1].boundary,
        "the next op, sum, works along rows, which a kernel that begins with matmul does not");
    EXPECT_EQ(said.kernels[2].name, "sum+exp+neg");
    EXPECT_EQ(said.ideal_bytes, kBytes + 4) << "x once, and y";
  });
}

// A view of a computed tensor ends no group, and an internal value has no bytes in memory.
TEST(Explanations, CountNothingThatIsMadeAsItIsRead) {
  with(Fusion::on, [](const World& world) {
    const Tensor x = reshape(world.f32({1, 2, 3, 4, 5, 6}), {2, 3});
    Tensor y;
    const Explanation said =
        explain(world.device, [&] { y = matmul(square(x) * 2, transpose(x)) + 1; });
    ASSERT_EQ(said.kernels.size(), 1U);
    EXPECT_EQ(said.kernels[0].name, "square+mul > matmul+add");
    EXPECT_EQ(said.kernels[0].op_count, 4);
    EXPECT_EQ(said.bytes_read(), kBytes) << "x once, also through its view";
    EXPECT_EQ(said.bytes_written(), 4 * 4);
    EXPECT_EQ(said.ideal_bytes, kBytes + 4 * 4);
  });
}

// The name of a formula's argument goes out of scope after the ops that use its result.
TEST(Explanations, AnArgumentThatDiesLaterNeverReachesMemory) {
  with(Fusion::on, [](const World& world) {
    const Tensor x = reshape(world.f32({1, 2, 3, 4, 5, 6}), {2, 3});
    const Tensor w = reshape(world.f32({1, 2, 3}), {3, 1});
    Tensor y;
    const Explanation said = explain(world.device, [&] { y = matmul(gelu(x + 1), w); });
    ASSERT_EQ(said.kernels.size(), 1U);
    EXPECT_EQ(said.kernels[0].op_count, 7);
    EXPECT_EQ(said.kernels[0].bytes_written, 2 * 4);
  });
}

TEST(Explanations, AResultOfAnotherShapeIsSaid) {
  with(Fusion::on, [](const World& world) {
    const Tensor row = world.f32({1, 2, 3});
    const Tensor x = reshape(world.f32({1, 2, 3, 4, 5, 6}), {2, 3});
    Tensor y;
    const Explanation said = explain(world.device, [&] { y = x * exp(neg(row)); });
    ASSERT_EQ(said.kernels.size(), 2U);
    EXPECT_EQ(said.kernels[0].name, "neg+exp");
    EXPECT_EQ(
        said.kernels[0].boundary,
        "the next op, mul, has a result of another shape, [2, 3], and this kernel works on [3]");
    EXPECT_EQ(said.ideal_bytes, 2 * kBytes + kBytes / 2);
  });
}

TEST(Explanations, AnOptimizersStepIsOneLaunchOfManyKernels) {
  with(Fusion::on, [](const World& world) {
    std::vector<Tensor> parameters;
    parameters.reserve(20);
    for (int i = 0; i < 20; ++i) {
      parameters.push_back(world.f32({1, 2, 3}));
    }
    const Explanation said = explain(world.device, [&] {
      Tensor none;
      UpdateGroup group(world.device);
      for (Tensor& parameter : parameters) {
        group.sgd(parameter, world.f32({1, 1, 1}), none, {.learning_rate = 1});
      }
      group.commit().get();
    });
    EXPECT_EQ(said.kernels.size(), 20U);
    EXPECT_EQ(said.launches, 1);
    EXPECT_EQ(said.kernels[0].name, "sgd_step");
    EXPECT_THAT(said.kernels[0].boundary, HasSubstr("runs whole or not at all"));
  });
}

TEST(Explanations, TwoPartsOfATensorAreReadWhole) {
  with(Fusion::on, [](const World& world) {
    const Tensor x = world.f32({1, 2, 3, 4, 5, 6});
    Tensor y;
    const Explanation said = explain(world.device, [&] {
      y = slice(x, 0, {0, 3}) * slice(x, 0, {3, 6});
    });
    EXPECT_EQ(said.bytes_read(), kBytes);
    EXPECT_EQ(said.ideal_bytes, kBytes + kBytes / 2);
  });
}

TEST(Explanations, HaveOnlyWhatRan) {
  stepped({.faults = {{"sim:0", {.failing_submits = {1}}}}, .fusion = Fusion::on},
          [](const World& world) {
            const Tensor x = world.f32({1, 2, 3, 4, 5, 6});
            Tensor y;
            const Explanation said = explain(world.device, [&] { y = exp(neg(x)) * 2; });
            ASSERT_EQ(said.kernels.size(), 3U);
            EXPECT_THAT(said.kernels[0].boundary, HasSubstr("was refused"));
          });
}

TEST(Explanations, ABoundaryIsThatOfItsKernel) {
  with(Fusion::on, [](const World& world) {
    const Tensor x = reshape(world.f32({1, 2, 3, 4, 5, 6}), {2, 3});
    Tensor parameter = world.f32({1});
    const Tensor gradient = world.f32({1});
    const Explanation said = explain(world.device, [&] {
      static_cast<void>(transpose(x).to_vector<float>());
      const Tensor turned = transpose(x);
      Tensor none;
      UpdateGroup group(world.device);
      group.sgd(parameter, gradient, none, {.learning_rate = 1});
      group.commit().get();
    });
    ASSERT_EQ(said.kernels.size(), 2U);
    EXPECT_EQ(said.kernels[0].boundary, "it copies what readback needs in row-major order");
    EXPECT_THAT(said.kernels[1].boundary, HasSubstr("it updates a parameter"));
  });
}

TEST(Explanations, EndWithARestart) {
  with(Fusion::on, [](const World& world) {
    world.device.start_explanation();
    world.device.restart();
    const Tensor x = exp(world.f32({1}));
    world.device.sync();
    EXPECT_TRUE(world.device.take_explanation().kernels.empty());
  });
}

TEST(Explanations, ReadAsTextAndAsJson) {
  with(Fusion::on, [](const World& world) {
    const Tensor x = world.f32({-3, -1, -0.25, 0, 0.5, 2});
    Tensor y;
    const Explanation said = explain(world.device, [&] { y = gelu(x); });
    EXPECT_THAT(said.to_string(),
                AllOf(HasSubstr("sim:0: 5 ops in 1 kernel, 1 launch, 4 launches saved\n"),
                      HasSubstr("(5 ops), reads 24 B, writes 24 B  at explanation_test.cpp:"),
                      HasSubstr("ends: the device stopped looking ahead: the program waits"),
                      HasSubstr("1.00 times the 48 B that one kernel for all of it would move")));
    EXPECT_THAT(said.to_json(),
                AllOf(HasSubstr("\"kernels\": 1"),
                      HasSubstr("\"launches\": 1"),
                      HasSubstr("\"launches_saved\": 4"),
                      HasSubstr("\"bytes_read\": 24"),
                      HasSubstr("\"ideal_bytes\": 48")));
  });
}

TEST(Explanations, AreEmptyWhereNobodyAskedOrTheProgramThrew) {
  with(Fusion::on, [](const World& world) {
    EXPECT_TRUE(world.device.take_explanation().kernels.empty());
    const auto program = [&] {
      const Tensor y = neg(world.f32({1}));
      throw std::runtime_error("no");
    };
    EXPECT_THROW(static_cast<void>(explain(world.device, program)), std::runtime_error);
    const Tensor x = world.f32({1});
    Tensor y;
    EXPECT_EQ(explain(world.device, [&] { y = exp(x); }).kernels.size(), 1U) << "it began anew";
  });
}

}  // namespace
}  // namespace hearth
