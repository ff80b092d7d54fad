// interpolate against plain loops over PyTorch's rules and its documented examples.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using ::testing::Pointwise;
using testing::thrown_text;
using ResampleTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

double keys_cubic(double x, double a) {
  x = std::fabs(x);
  return x <= 1  ? (a + 2) * x * x * x - (a + 3) * x * x + 1
         : x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a
                 : 0;
}

// Weights of one element of the result with antialiasing, as PyTorch's kernels compute them.
void add_antialiased(std::vector<double>& row, double index, double step, bool is_linear) {
  const double support = (is_linear ? 1.0 : 2.0) * std::max(step, 1.0);
  const double centre = step * (index + 0.5);
  const double first = std::max(std::trunc(centre - support + 0.5), 0.0);
  const double end = std::min(std::trunc(centre + support + 0.5), static_cast<double>(row.size()));
  double total = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const auto at = static_cast<double>(i);
    if (at >= first && at < end) {
      const double x = (at - centre + 0.5) / std::max(step, 1.0);
      row[i] = is_linear ? std::max(0.0, 1 - std::fabs(x)) : keys_cubic(x, -0.5);
      total += row[i];
    }
  }
  for (double& weight : row) {
    weight /= total;
  }
}

// Weights of the elements of an axis for element `index` of the result.
std::vector<double> weights_of(std::int64_t from,
                               double index,
                               double step,
                               const InterpolateOptions& o) {
  std::vector<double> row(static_cast<std::size_t>(from), 0);
  const auto add = [&](double at, double weight) {
    row[static_cast<std::size_t>(std::clamp(at, 0.0, static_cast<double>(from - 1)))] += weight;
  };
  const double place = o.align_corners ? index * step : (index + 0.5) * step - 0.5;
  if (o.antialias) {
    add_antialiased(row, index, step, o.mode == InterpolateMode::linear);
  } else if (o.mode == InterpolateMode::nearest) {
    add(std::floor(index * step + 1e-9), 1);
  } else if (o.mode == InterpolateMode::nearest_exact) {
    add(std::floor((index + 0.5) * step + 1e-9), 1);
  } else if (o.mode == InterpolateMode::linear) {
    const double inside = std::max(place, 0.0);
    const double low = std::floor(inside);
    add(low, 1 - (inside - low));
    add(low + 1, inside - low);
  } else {
    const double low = std::floor(place);
    for (int k = -1; k <= 2; ++k) {
      add(low + k, keys_cubic(place - low - k, -0.75));
    }
  }
  return row;
}

// Resamples axis by axis with whole rows of weights.
std::vector<double> resampled(std::vector<double> values,
                              const Shape& shape,
                              const Shape& result,
                              const InterpolateOptions& options) {
  Shape sizes = shape;
  for (int axis = 2; axis < shape.rank(); ++axis) {
    const std::int64_t from = shape[axis];
    const std::int64_t to = result[axis];
    double step = options.scale.empty() ? static_cast<double>(from) / static_cast<double>(to)
                                        : 1 / options.scale[static_cast<std::size_t>(axis) - 2];
    if (options.align_corners) {
      step = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0;
    }
    std::int64_t inner = 1;
    for (int i = axis + 1; i < shape.rank(); ++i) {
      inner *= sizes[i];
    }
    sizes.set(axis, to);
    std::vector<double> next;
    for (std::int64_t i = 0; i < sizes.element_count(); ++i) {
      const std::int64_t outer = i / inner / to;
      const std::vector<double> weights =
          weights_of(from, static_cast<double>(i / inner % to), step, options);
      double sum = 0;
      for (std::int64_t f = 0; f < from; ++f) {
        sum += weights[static_cast<std::size_t>(f)] *
               values[static_cast<std::size_t>((outer * from + f) * inner + i % inner)];
      }
      next.push_back(sum);
    }
    values = std::move(next);
  }
  return values;
}

TEST_F(ResampleTest, MatchesPyTorchsExamples) {
  const Tensor x = f64({1, 2, 3, 4}, {1, 1, 2, 2});
  EXPECT_THAT(reals(interpolate(x, {.scale = 2})),
              ElementsAre(1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4));
  EXPECT_THAT(
      reals(interpolate(x, {.scale = 2, .mode = InterpolateMode::linear})),
      ElementsAre(1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4));
  EXPECT_THAT(
      reals(interpolate(x, {.scale = 2, .mode = InterpolateMode::linear, .align_corners = true})),
      Pointwise(DoubleNear(1e-4),
                {1.0,
                 1.3333,
                 1.6667,
                 2.0,
                 1.6667,
                 2.0,
                 2.3333,
                 2.6667,
                 2.3333,
                 2.6667,
                 3.0,
                 3.3333,
                 3.0,
                 3.3333,
                 3.6667,
                 4.0}));
  const Tensor wide = f64({1, 2, 0, 3, 4, 0, 0, 0, 0}, {1, 1, 3, 3});
  const std::vector<double> y =
      reals(interpolate(wide, {.scale = 2, .mode = InterpolateMode::linear}));
  EXPECT_THAT(std::vector<double>(y.begin() + 18, y.begin() + 24),
              ElementsAre(2.25, 2.4375, 2.8125, 2.25, 0.75, 0));
}

struct Resampling {
  Shape x;
  InterpolateOptions options;
};

std::vector<Resampling> resamplings() {
  std::vector<Resampling> all;
  for (const InterpolateMode mode : {InterpolateMode::nearest,
                                     InterpolateMode::nearest_exact,
                                     InterpolateMode::linear,
                                     InterpolateMode::cubic}) {
    all.push_back({{2, 1, 5}, {.size = 9, .mode = mode}});
    all.push_back({{1, 2, 7, 4}, {.size = {3, 9}, .mode = mode}});
    all.push_back({{1, 1, 3, 4, 5}, {.size = {6, 2, 7}, .mode = mode}});
    all.push_back({{1, 1, 3, 4, 2}, {.scale = 2, .mode = mode}});
    all.push_back({{1, 1, 6, 9}, {.scale = {0.5, 0.34}, .mode = mode}});
    all.push_back({{1, 1, 5, 6}, {.scale = {2.3, 1.7}, .mode = mode}});
    all.push_back({{1, 1, 1, 6}, {.size = {4, 1}, .mode = mode}});
    if (mode == InterpolateMode::linear || mode == InterpolateMode::cubic) {
      all.push_back({{1, 2, 4, 5}, {.size = {7, 3}, .mode = mode, .align_corners = true}});
      all.push_back({{1, 1, 3, 3, 3}, {.size = {1, 5, 3}, .mode = mode, .align_corners = true}});
      all.push_back({{1, 2, 12, 13}, {.size = {3, 5}, .mode = mode, .antialias = true}});
      all.push_back({{1, 1, 4, 20}, {.scale = {1.5, 0.15}, .mode = mode, .antialias = true}});
    }
  }
  return all;
}

TEST_F(ResampleTest, MatchesPlainLoops) {
  HostRandom random(61);
  for (const Resampling& each : resamplings()) {
    const auto x = random.uniform(each.x, -1, 1);
    const Tensor result = interpolate(x.on(device()), each.options);
    for (int axis = 2; axis < each.x.rank(); ++axis) {
      const auto i = static_cast<std::size_t>(axis) - 2;
      EXPECT_EQ(result.shape()[axis],
                each.options.scale.empty()
                    ? each.options.size[i]
                    : static_cast<std::int64_t>(static_cast<double>(each.x[axis]) *
                                                each.options.scale[i]));
    }
    EXPECT_THAT(
        reals(result),
        Pointwise(DoubleNear(1e-12), resampled(x.values, each.x, result.shape(), each.options)))
        << each.x.to_string() << " mode " << static_cast<int>(each.options.mode);
  }
}

TEST_F(ResampleTest, HasGradients) {
  HostRandom random(62);
  for (const Resampling& each : resamplings()) {
    SCOPED_TRACE(each.x.to_string());
    check_gradients(device(),
                    [&](const Tensors& in) { return interpolate(in[0], each.options); },
                    {random.uniform(each.x, -1, 1)});
  }
}

TEST_F(ResampleTest, KeepsTypesViewsAndEmptyBatches) {
  const Tensor x = counting({1, 1, 3, 4});
  const Tensor turned = transpose(counting({1, 1, 4, 3}));
  const InterpolateOptions linear{.size = {5, 7}, .mode = InterpolateMode::linear};
  EXPECT_EQ(reals(interpolate(turned, linear)), reals(interpolate(contiguous(turned), linear)));
  EXPECT_EQ(interpolate(cast(x, DType::f16), linear).dtype(), DType::f16);
  EXPECT_THAT(reals(interpolate(cast(x, DType::bf16), linear)),
              Pointwise(DoubleNear(0.05), reals(interpolate(x, linear))));
  EXPECT_THAT(integers(interpolate(i32({1, 2, 3}, {1, 1, 3}), {.size = 5})),
              ElementsAre(1, 1, 2, 2, 3));
  EXPECT_THAT(integers(interpolate(booleans({1, 0}, {1, 1, 2}), {.scale = 2})),
              ElementsAre(1, 1, 0, 0));
  EXPECT_EQ(interpolate(counting({0, 2, 3, 3}), linear).shape(), (Shape{0, 2, 5, 7}));
  EXPECT_EQ(reals(interpolate(x, {.size = {3, 4}, .mode = InterpolateMode::cubic})), reals(x));
}

// Each element is a sum of its neighbours alone.
TEST_F(ResampleTest, ANanStaysAmongItsNeighbours) {
  std::vector<double> values(30, 1);
  values[20] = std::nan("");
  const Tensor x = f64(values, {1, 1, 30});
  for (const bool antialias : {false, true}) {
    const std::vector<double> y = reals(
        interpolate(x, {.size = 10, .mode = InterpolateMode::linear, .antialias = antialias}));
    EXPECT_EQ(std::ranges::count_if(y, [](double v) { return std::isnan(v); }), antialias ? 2 : 0);
  }
}

TEST_F(ResampleTest, RefusesWhatItCannotResize) {
  const Tensor x = counting({1, 2, 3, 4});
  const auto text = [&](const InterpolateOptions& options) {
    return thrown_text<ArgumentError>([&] { (void)interpolate(x, options); });
  };
  EXPECT_EQ(text({}), "interpolate: needs a size or a scale: x f64[1, 2, 3, 4]");
  EXPECT_THAT(text({.size = 3, .scale = 2}), HasSubstr("takes a size or a scale, not both"));
  EXPECT_THAT(text({.size = {3, 4, 5}}), HasSubstr("3 numbers do not fit 2 axes"));
  EXPECT_THAT(text({.size = {3, 0}}), HasSubstr("a size of 0 gives axis 3 no elements"));
  EXPECT_THAT(text({.scale = {0.3, 1}}), HasSubstr("a scale of 0.3 gives axis 2 no elements"));
  EXPECT_THAT(text({.scale = -1}), HasSubstr("a scale of -1 gives"));
  EXPECT_THAT(text({.scale = std::nan("")}), HasSubstr("a scale of nan gives"));
  EXPECT_THAT(text({.scale = 1e300}), HasSubstr("gives axis 2 no elements"));
  EXPECT_THAT(text({.size = 2, .align_corners = true}), HasSubstr("align_corners is for linear"));
  EXPECT_THAT(text({.size = 2, .antialias = true}), HasSubstr("antialias is for linear"));
  EXPECT_THAT(
      text({.size = 2, .mode = InterpolateMode::cubic, .align_corners = true, .antialias = true}),
      HasSubstr("without antialias"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)interpolate(counting({3, 4}), {.size = 2});
              }),
              HasSubstr("interpolate: needs [n, c, w], [n, c, h, w] or [n, c, d, h, w]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)interpolate(counting({1, 2, 0}), {.size = 2});
              }),
              HasSubstr("axis 2 has no elements"));
  EXPECT_THAT(
      thrown_text<DtypeError>([&] {
        (void)interpolate(i32({1, 2}, {1, 1, 2}), {.size = 3, .mode = InterpolateMode::linear});
      }),
      HasSubstr("takes floats, unless it selects the nearest elements"));
}

}  // namespace
}  // namespace hearth
