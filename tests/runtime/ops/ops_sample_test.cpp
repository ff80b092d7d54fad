// grid_sample and affine_grid against plain loops over PyTorch's rules, with gradients for both
// operands.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using ::testing::Pointwise;
using testing::thrown_text;
using SampleTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

// Places by PyTorch's GridSampler.h.
double unnormalized(double x, std::int64_t size, bool aligns) {
  const auto length = static_cast<double>(size);
  return aligns ? (x + 1) / 2 * (length - 1) : ((x + 1) * length - 1) / 2;
}
double reflected(double x, std::int64_t twice_low, std::int64_t twice_high) {
  if (twice_low == twice_high) {
    return 0;
  }
  const double low = static_cast<double>(twice_low) / 2;
  const double span = static_cast<double>(twice_high - twice_low) / 2;
  x = std::fabs(x - low);
  const double extra = std::fmod(x, span);
  const auto flips = static_cast<std::int64_t>(std::floor(x / span));
  return flips % 2 == 0 ? extra + low : span - extra + low;
}
double padded_place(double x, std::int64_t size, const GridSampleOptions& o) {
  if (o.padding == GridPadding::reflection) {
    x = o.align_corners ? reflected(x, 0, 2 * (size - 1)) : reflected(x, -1, 2 * size - 1);
  }
  return o.padding == GridPadding::zeros ? x : std::clamp(x, 0.0, static_cast<double>(size - 1));
}

// Weights [size] of one axis for one place; elements outside have none.
std::vector<double> place_weights(double x, std::int64_t size, const GridSampleOptions& o) {
  std::vector<double> weights(static_cast<std::size_t>(size), 0);
  const auto add = [&](double at, double weight) {
    if (at >= 0 && at < static_cast<double>(size)) {
      weights[static_cast<std::size_t>(at)] += weight;
    }
  };
  const double raw = unnormalized(x, size, o.align_corners);
  if (o.mode == GridMode::bicubic) {
    const double low = std::floor(raw);
    for (int k = -1; k <= 2; ++k) {
      const double d = std::fabs(raw - low - k);
      constexpr double kA = -0.75;
      const double weight = d <= 1 ? ((kA + 2) * d - (kA + 3)) * d * d + 1
                                   : ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA;
      add(std::nearbyint(padded_place(low + k, size, o)), weight);
    }
    return weights;
  }
  const double place = padded_place(raw, size, o);
  if (o.mode == GridMode::nearest) {
    add(std::nearbyint(place), 1);
    return weights;
  }
  const double low = std::floor(place);
  add(low, 1 - (place - low));
  add(low + 1, place - low);
  return weights;
}

std::vector<double> sampled(const HostTensor& x,
                            const HostTensor& grid,
                            const GridSampleOptions& o) {
  const int axes = x.shape.rank() - 2;
  const std::int64_t n = x.shape[0];
  const std::int64_t c = x.shape[1];
  const std::int64_t places = grid.shape.element_count() / (n * axes);
  std::int64_t elements = 1;
  for (int axis = 0; axis < axes; ++axis) {
    elements *= x.shape[axis + 2];
  }
  std::vector<double> result;
  for (std::int64_t b = 0; b < n; ++b) {
    for (std::int64_t channel = 0; channel < c; ++channel) {
      for (std::int64_t p = 0; p < places; ++p) {
        double sum = 0;
        for (std::int64_t e = 0; e < elements; ++e) {
          double weight = 1;
          std::int64_t rest = e;
          for (int axis = axes - 1; axis >= 0; --axis) {
            const std::int64_t size = x.shape[axis + 2];
            const auto column = static_cast<std::size_t>((b * places + p) * axes + axes - 1 - axis);
            weight *=
                place_weights(grid.values[column], size, o)[static_cast<std::size_t>(rest % size)];
            rest /= size;
          }
          sum += weight * x.values[static_cast<std::size_t>((b * c + channel) * elements + e)];
        }
        result.push_back(sum);
      }
    }
  }
  return result;
}

std::vector<GridSampleOptions> all_options(bool has_cubic) {
  std::vector<GridSampleOptions> all;
  for (const GridMode mode : {GridMode::bilinear, GridMode::nearest, GridMode::bicubic}) {
    for (const GridPadding padding :
         {GridPadding::zeros, GridPadding::border, GridPadding::reflection}) {
      for (const bool aligns : {false, true}) {
        if (has_cubic || mode != GridMode::bicubic) {
          all.push_back({.mode = mode, .padding = padding, .align_corners = aligns});
        }
      }
    }
  }
  return all;
}

TEST_F(SampleTest, MatchesPlainLoops) {
  HostRandom random(71);
  const HostTensor pictures = random.uniform({2, 3, 4, 5}, -1, 1);
  const HostTensor grid = random.uniform({2, 3, 7, 2}, -2.6, 2.6);
  for (const GridSampleOptions& options : all_options(true)) {
    const Tensor result = grid_sample(pictures.on(device()), grid.on(device()), options);
    EXPECT_EQ(result.shape(), (Shape{2, 3, 3, 7}));
    EXPECT_THAT(reals(result), Pointwise(DoubleNear(1e-11), sampled(pictures, grid, options)))
        << static_cast<int>(options.mode) << static_cast<int>(options.padding)
        << options.align_corners;
  }
  const HostTensor volumes = random.uniform({2, 2, 3, 2, 4}, -1, 1);
  const HostTensor places = random.uniform({2, 2, 1, 5, 3}, -1.7, 1.7);
  for (const GridSampleOptions& options : all_options(false)) {
    const Tensor result = grid_sample(volumes.on(device()), places.on(device()), options);
    EXPECT_EQ(result.shape(), (Shape{2, 2, 2, 1, 5}));
    EXPECT_THAT(reals(result), Pointwise(DoubleNear(1e-11), sampled(volumes, places, options)));
  }
}

TEST_F(SampleTest, TheCornersAreThoseOfThePicture) {
  const Tensor x = f64({1, 2, 3, 4}, {1, 1, 2, 2});
  const Tensor corners = f64({-1, -1, 1, -1, -1, 1, 1, 1}, {1, 2, 2, 2});
  EXPECT_THAT(reals(grid_sample(x, corners, {.align_corners = true})), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(reals(grid_sample(x, corners)), ElementsAre(0.25, 0.5, 0.75, 1));
  EXPECT_THAT(reals(grid_sample(x, corners, {.padding = GridPadding::border})),
              ElementsAre(1, 2, 3, 4));
  const Tensor one = f64({5}, {1, 1, 1, 1});
  for (const GridSampleOptions& options : all_options(true)) {
    const Tensor centre = f64({0, 0}, {1, 1, 1, 2});
    EXPECT_THAT(reals(grid_sample(one, centre, options)), ElementsAre(5));
  }
}

TEST_F(SampleTest, HasGradientsForBothOperands) {
  HostRandom random(72);
  for (const GridSampleOptions& options : all_options(true)) {
    SCOPED_TRACE(static_cast<int>(options.mode) * 10 + static_cast<int>(options.padding));
    check_gradients(device(),
                    [&](const Tensors& in) { return grid_sample(in[0], in[1], options); },
                    {random.uniform({1, 2, 3, 4}, -1, 1), random.uniform({1, 2, 3, 2}, -1.9, 1.9)});
  }
  check_gradients(
      device(),
      [&](const Tensors& in) { return grid_sample(in[0], in[1]); },
      {random.uniform({2, 1, 2, 3, 2}, -1, 1), random.uniform({2, 1, 2, 2, 3}, -1.2, 1.2)});
}

TEST_F(SampleTest, PlacesFarOutsideAndNanAreHarmless) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Tensor x = f64({1, 2, 3, 4}, {1, 1, 2, 2});
  const Tensor far = f64({kInf, 0, -kInf, 0, 1e30, 1e30, 0, -1e30}, {1, 1, 4, 2});
  for (const GridMode mode : {GridMode::bilinear, GridMode::nearest, GridMode::bicubic}) {
    EXPECT_THAT(reals(grid_sample(x, far, {.mode = mode})), Each(0));
    for (const Tensor& slope :
         grad([&](const Tensors& in) { return sum(grid_sample(in[0], in[1], {.mode = mode})); },
              {x, far})) {
      EXPECT_THAT(reals(slope), Each(0));
    }
  }
  const Tensor nan = f64({std::nan(""), std::nan("")}, {1, 1, 1, 2});
  EXPECT_THAT(reals(grid_sample(x, nan, {.align_corners = true})), ElementsAre(1)) << "as -1";
  const std::vector<double> border =
      reals(grid_sample(x, far, {.padding = GridPadding::border, .align_corners = true}));
  EXPECT_THAT(border, ElementsAre(3, 2, 4, 1.5));
}

TEST_F(SampleTest, KeepsTypesAndEmptyGrids) {
  const Tensor x = cast(counting({1, 2, 2, 2}), DType::f16);
  const Tensor grid = cast(f64({0, 0, 0.5, -0.5}, {1, 1, 2, 2}), DType::f16);
  EXPECT_EQ(grid_sample(x, grid).dtype(), DType::f16);
  EXPECT_EQ(grid_sample(x, cast(grid, DType::f32)).dtype(), DType::f32);
  EXPECT_THAT(reals(grid_sample(x, grid)), ElementsAre(1.5, 1, 5.5, 5));
  EXPECT_EQ(grid_sample(x, zeros(device(), {1, 0, 3, 2}, DType::f16)).shape(), (Shape{1, 2, 0, 3}));
  EXPECT_EQ(grid_sample(zeros(device(), {0, 2, 2, 2}), zeros(device(), {0, 3, 3, 2})).shape(),
            (Shape{0, 2, 3, 3}));
}

TEST_F(SampleTest, RefusesWhatDoesNotFit) {
  const Tensor x = counting({1, 2, 3, 4});
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)grid_sample(x, counting({1, 2, 2, 3}));
              }),
              HasSubstr("grid_sample: needs x [n, c, h, w] and grid [n, p, q, 2]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)grid_sample(x, counting({2, 2, 2, 2}));
              }),
              HasSubstr("x f64[1, 2, 3, 4], grid f64[2, 2, 2, 2]"));
  EXPECT_THROW((void)grid_sample(counting({1, 2, 0, 4}), counting({1, 2, 2, 2})), ShapeError);
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)grid_sample(counting({1, 1, 2, 2, 2}),
                                  counting({1, 1, 1, 1, 3}),
                                  {.mode = GridMode::bicubic});
              }),
              HasSubstr("bicubic is for pictures"));
  EXPECT_THROW((void)grid_sample(x, cast(counting({1, 2, 2, 2}), DType::i32)), DtypeError);
  EXPECT_THROW((void)grid_sample(cast(x, DType::i32), counting({1, 2, 2, 2})), DtypeError);
}

TEST_F(SampleTest, AffineGridGivesThePlacesOfElements) {
  const Tensor same = f64({1, 0, 0, 0, 1, 0}, {1, 2, 3});
  EXPECT_THAT(reals(affine_grid(same, {1, 1, 2, 2}, {.align_corners = true})),
              ElementsAre(-1, -1, 1, -1, -1, 1, 1, 1));
  EXPECT_THAT(reals(affine_grid(same, {1, 1, 1, 4})),
              ElementsAre(-0.75, 0, -0.25, 0, 0.25, 0, 0.75, 0));
  EXPECT_THAT(reals(affine_grid(f64({0, 2, 5, -1, 0, 3}, {1, 2, 3}), {1, 1, 2, 1})),
              ElementsAre(4, 3, 6, 3));
  EXPECT_THAT(reals(affine_grid(same, {1, 1, 1, 1}, {.align_corners = true})), ElementsAre(0, 0));
  const Tensor x = counting({2, 3, 4, 5});
  const Tensor both = concat({same, same});
  for (const bool aligns : {false, true}) {
    const Tensor grid = affine_grid(both, x.shape(), {.align_corners = aligns});
    EXPECT_THAT(reals(grid_sample(x, grid, {.align_corners = aligns})),
                Pointwise(DoubleNear(1e-12), reals(x)));
  }
  const Tensor volume =
      affine_grid(f64({1, 0, 0, 0.5, 0, 1, 0, 0, 0, 0, 1, 0}, {1, 3, 4}), {1, 1, 2, 1, 1});
  EXPECT_EQ(volume.shape(), (Shape{1, 2, 1, 1, 3}));
  EXPECT_THAT(reals(volume), ElementsAre(0.5, 0, -0.5, 0.5, 0, 0.5));
  EXPECT_EQ(affine_grid(cast(same, DType::bf16), {1, 1, 2, 2}).dtype(), DType::bf16);
  check_gradients(device(),
                  [](const Tensors& in) {
                    return affine_grid(in[0], {2, 1, 3, 2});
                  },
                  {HostRandom(73).uniform({2, 2, 3}, -1, 1)});
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)affine_grid(same, {2, 1, 3, 2});
              }),
              HasSubstr("affine_grid: needs theta [n, 2, 3]"));
  EXPECT_THROW((void)affine_grid(cast(same, DType::i32), {1, 1, 2, 2}), DtypeError);
}

}  // namespace
}  // namespace hearth
