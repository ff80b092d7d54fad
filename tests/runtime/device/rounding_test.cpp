// f16 and bf16 in fused groups: intermediates are f32, which is more exact than single ops. With
// round_intermediates they have the bits of single ops.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/runtime/stepped_runtime.hpp"

namespace hearth {
namespace {

using testing::stepped;
using testing::SteppedOptions;
using testing::World;

SteppedOptions on_cpu(Fusion fusion, bool rounds) {
  return {.devices = {{.name = "cpu:0"}}, .fusion = fusion, .round_intermediates = rounds};
}

// A chain of random ops over x [rows, width] and y [rows, width], elementwise and along rows, whose
// values stay near 1.
Tensor random_chain(std::mt19937& random, const Tensor& x, const Tensor& y) {
  std::vector<Tensor> values{x, y};
  const auto any = [&]() -> const Tensor& { return values[random() % values.size()]; };
  const int ops = 3 + static_cast<int>(random() % 8);
  for (int i = 0; i < ops; ++i) {
    const Tensor& a = any();
    const Tensor& b = any();
    switch (random() % 12) {
      case 0:
        values.push_back(a + b * 0.5);
        break;
      case 1:
        values.push_back(a * b);
        break;
      case 2:
        values.push_back(tanh(a));
        break;
      case 3:
        values.push_back(a - mean(b, {-1}, {.keep_dims = true}));
        break;
      case 4:
        values.push_back(a / (square(b) + 1));
        break;
      case 5:
        values.push_back(softmax(a, -1) + b);
        break;
      case 6:
        values.push_back(where(a < b, sigmoid(a), sin(b)));
        break;
      case 7:
        values.push_back(a - max(a, {-1}, {.keep_dims = true}) * 0.125);
        break;
      case 8:
        values.push_back(log_softmax(a, -1) * 0.25);
        break;
      case 9:
        values.push_back(b * sum(a, {-1}, {.keep_dims = true}) * 0.015625);
        break;
      case 10:
        values.push_back(cast(cast(a, DType::f32) * 1.5, a.dtype()));
        break;
      default:
        values.push_back(relu(a) + full(a.device(), {1}, 0.1, a.dtype()));
        break;
    }
    if (random() % 3 == 0 && values.size() > 3) {
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
    }
  }
  Tensor all = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) {
    all = all + values[i];
  }
  return all;
}

struct Outcome {
  std::vector<double> values;
  std::uint64_t fused_ops = 0;
};

// The inputs have type `dtype`; the chain is computed in `computed`.
Outcome run_chain(const SteppedOptions& options, unsigned seed, DType dtype, DType computed) {
  Outcome outcome;
  stepped(options, [&](const World& world) {
    std::mt19937 random(seed);
    const auto rows = static_cast<std::int64_t>(1 + random() % 5);
    const bool is_long = random() % 4 == 0;
    const auto width = static_cast<std::int64_t>(1 + random() % (is_long ? 3000 : 70));
    Generator generator(seed);
    const auto input = [&] {
      return cast(random_normal(world.device, {rows, width}, generator, 0.2, 0.5, dtype), computed);
    };
    const Tensor x = input();
    const Tensor y = input();
    world.device.sync();
    outcome.values = cast(random_chain(random, x, y), DType::f64).to_vector<double>();
    outcome.fused_ops = world.device.statistics().fused_ops;
  });
  return outcome;
}

TEST(Rounding, OfIntermediatesGivesTheBitsOfSingleOps) {
  std::uint64_t fused = 0;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (unsigned seed = 1; seed <= 60; ++seed) {
      const Outcome singly = run_chain(on_cpu(Fusion::off, true), seed, dtype, dtype);
      const Outcome rounded = run_chain(on_cpu(Fusion::on, true), seed, dtype, dtype);
      const bool is_same =
          std::ranges::equal(singly.values, rounded.values, [](double a, double b) {
            return a == b || (std::isnan(a) && std::isnan(b));
          });
      EXPECT_TRUE(is_same) << name(dtype) << " seed " << seed;
      fused += rounded.fused_ops;
    }
  }
  EXPECT_GT(fused, 400U);
}

// Large numbers that cancel reveal where a sum is rounded.
TEST(Rounding, ASumOfALongRowIsTheSameInAGroup) {
  const auto run = [&](Fusion fusion) {
    Outcome outcome;
    stepped(on_cpu(fusion, true), [&](const World& world) {
      std::vector<float> values(3000, 0.0F);
      values[0] = 0x1p24F;
      values[272] = 1;
      values[600] = -0x1p24F;
      values[1030] = 3;
      const Tensor x = cast(Tensor::from(world.device, values, {1, 3000}), DType::bf16);
      world.device.sync();
      outcome.values = cast(sum(x * 1, {-1}), DType::f64).to_vector<double>();
      outcome.fused_ops = world.device.statistics().fused_ops;
    });
    return outcome;
  };
  EXPECT_EQ(run(Fusion::off).values, run(Fusion::on).values);
  EXPECT_GE(run(Fusion::on).fused_ops, 2U);
}

double error_against(const std::vector<double>& truth, const std::vector<double>& values) {
  double sum = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    sum += std::abs(truth[i] - values[i]);
  }
  return sum / static_cast<double>(truth.size());
}

// Nearly all of many chains are more exact, and none is less exact by more than the rounding of a
// result.
TEST(Rounding, AtTheEndAloneIsNearerToTheTruth) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    double of_single = 0;
    double of_fused = 0;
    const double unit = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
    for (unsigned seed = 1; seed <= 60; ++seed) {
      const Outcome truth = run_chain(on_cpu(Fusion::off, false), seed, dtype, DType::f64);
      const Outcome singly = run_chain(on_cpu(Fusion::off, false), seed, dtype, dtype);
      const Outcome fused = run_chain(on_cpu(Fusion::on, false), seed, dtype, dtype);
      const double single_error = error_against(truth.values, singly.values);
      const double fused_error = error_against(truth.values, fused.values);
      double size = 0;
      for (const double value : truth.values) {
        size = std::max(size, std::abs(value));
      }
      EXPECT_LE(fused_error, single_error + unit * size) << name(dtype) << " seed " << seed;
      of_single += single_error;
      of_fused += fused_error;
    }
    EXPECT_LT(of_fused, 0.8 * of_single) << name(dtype);
  }
}

// An epilogue of a product of 16-bit tensors is too; the product itself rounds its result.
TEST(Rounding, BehindAProductToo) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto run = [&](Fusion fusion, bool rounds) {
      Outcome outcome;
      stepped(on_cpu(fusion, rounds), [&](const World& world) {
        Generator generator(3);
        const auto normal = [&](const Shape& shape) {
          return random_normal(world.device, shape, generator, 0, 0.3, dtype);
        };
        const Tensor x = normal({9, 17});
        const Tensor weight = normal({17, 33});
        const Tensor bias = normal({33});
        world.device.sync();
        const Tensor y = matmul(x, weight) + bias;
        const Tensor z = y * 0.5 * (1 + erf(y * 0.7071067811865476));
        outcome.values = cast(z, DType::f64).to_vector<double>();
        outcome.fused_ops = world.device.statistics().fused_ops;
      });
      return outcome;
    };
    const Outcome rounded = run(Fusion::on, true);
    EXPECT_EQ(run(Fusion::off, false).values, rounded.values) << name(dtype);
    EXPECT_GE(rounded.fused_ops, 5U);
    EXPECT_NE(run(Fusion::on, false).values, rounded.values) << name(dtype);
  }
}

// A reduction sums in f64. For a product of four, one sum in thousands lies so close to a midpoint
// that a detour through f32 rounds to the other neighbour.
TEST(Rounding, OfAReductionIsThatOfItsGroup) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto run = [&](Fusion fusion) {
      std::vector<double> values;
      stepped(on_cpu(fusion, true), [&](const World& world) {
        Generator generator(3);
        const Tensor x = random_normal(world.device, {60'000, 4}, generator, 1, 0.1, dtype);
        world.device.sync();
        const Tensor y = prod(x, {-1}, {.keep_dims = true}) * 2;
        values = cast(y, DType::f64).to_vector<double>();
      });
      return values;
    };
    EXPECT_EQ(run(Fusion::off), run(Fusion::on)) << name(dtype);
  }
}

// A value that a program casts or stores is rounded there.
TEST(Rounding, ACastRoundsInsideOfAGroup) {
  stepped(on_cpu(Fusion::on, false), [](const World& world) {
    const Tensor x = world.f32({1.0F, 1.0F + 0x1p-20F});
    const Tensor y = cast(cast(x, DType::f16), DType::f32) - 1;
    EXPECT_EQ((y * 0x1p20).to_vector<float>(), (std::vector<float>{0, 0}));
    EXPECT_GE(world.device.statistics().fused_ops, 3U);
  });
}

}  // namespace
}  // namespace hearth
