#include "modules/onnx/handlers/resample.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace hearth::onnx {
namespace sample_parts {
namespace {

struct GridRule {
  std::string mode;
  std::string padding;
  bool aligns_corners = false;
};

// From [-1, 1] to positions of an axis.
Tensor unnormalised(const Tensor& x, std::int64_t size, bool aligns_corners) {
  const auto length = static_cast<double>(size);
  return aligns_corners ? mul(add(x, 1.0), (length - 1) / 2)
                        : sub(mul(add(x, 1.0), length / 2), 0.5);
}

// Mirrors positions at the ends until they lie inside.
Tensor reflected(const Tensor& x, std::int64_t size, bool aligns_corners) {
  const double low = aligns_corners ? 0 : -0.5;
  const double length = aligns_corners ? static_cast<double>(size - 1) : static_cast<double>(size);
  if (length <= 0) {
    return zeros_like(x);
  }
  const Tensor inside = remainder(sub(x, low), 2 * length);
  return add(minimum(inside, sub(2 * length, inside)), low);
}

// Elements of x [n, c, h·w] at whole positions [n, p]; outside ones give 0 with zeros padding.
Tensor picked(const Tensor& x,
              const Tensor& row,
              const Tensor& column,
              const Shape& shape,
              const GridRule& rule) {
  const auto height = static_cast<double>(shape[2]);
  const auto width = static_cast<double>(shape[3]);
  Tensor y = row;
  Tensor z = column;
  if (rule.padding == "reflection") {
    y = reflected(y, shape[2], rule.aligns_corners);
    z = reflected(z, shape[3], rule.aligns_corners);
  }
  y = clamp(std::move(y), 0.0, height - 1);
  z = clamp(std::move(z), 0.0, width - 1);
  const Tensor place = cast(round(add(mul(std::move(y), width), std::move(z))), DType::i64);
  const std::int64_t count = place.size(1);
  const Tensor index =
      contiguous(expand(reshape(place, {shape[0], 1, count}), Shape{shape[0], shape[1], count}));
  Tensor values = gather(x, 2, index);
  if (rule.padding == "zeros") {
    const Tensor inside =
        logical_and(logical_and(greater_equal(row, 0.0), less_equal(row, height - 1)),
                    logical_and(greater_equal(column, 0.0), less_equal(column, width - 1)));
    values = where(reshape(inside, {shape[0], 1, count}), std::move(values), 0.0);
  }
  return values;
}

// Weights of the four neighbours of a fraction, a = -0.75.
std::array<Tensor, 4> cubic_weights(const Tensor& t) {
  constexpr double kA = -0.75;
  const auto near = [](const Tensor& d) {
    return add(mul(mul(sub(mul(d, kA + 2), kA + 3), d), d), 1.0);
  };
  const auto far = [](const Tensor& d) {
    return mul(sub(mul(add(mul(sub(d, 5.0), d), 8.0), d), 4.0), kA);
  };
  const Tensor rest = sub(1.0, t);
  return {far(add(t, 1.0)), near(t), near(rest), far(add(rest, 1.0))};
}

// Sum over the neighbours along both axes.
template <std::size_t kCount>
Tensor weighted(const Tensor& x,
                const Tensor& row,
                const Tensor& column,
                const std::array<Tensor, kCount>& by_row,
                const std::array<Tensor, kCount>& by_column,
                const Shape& shape,
                const GridRule& rule,
                double first) {
  Tensor sum;
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t k = 0; k < kCount; ++k) {
      const Tensor values = picked(x,
                                   add(row, first + static_cast<double>(i)),
                                   add(column, first + static_cast<double>(k)),
                                   shape,
                                   rule);
      Tensor part = mul(values, unsqueeze(mul(by_row[i], by_column[k]), 1));
      sum = sum.is_valid() ? add(std::move(sum), std::move(part)) : std::move(part);
    }
  }
  return sum;
}

Tensor sampled(
    const Tensor& x, Tensor row, Tensor column, const Shape& shape, const GridRule& rule) {
  if (rule.mode == "nearest") {
    return picked(x, round(row), round(column), shape, rule);
  }
  const bool is_cubic = rule.mode == "bicubic" || rule.mode == "cubic";
  if (!is_cubic && rule.padding != "zeros") {
    if (rule.padding == "reflection") {
      row = reflected(row, shape[2], rule.aligns_corners);
      column = reflected(column, shape[3], rule.aligns_corners);
    }
    row = clamp(std::move(row), 0.0, static_cast<double>(shape[2] - 1));
    column = clamp(std::move(column), 0.0, static_cast<double>(shape[3] - 1));
  }
  const Tensor top = floor(row);
  const Tensor left = floor(column);
  const Tensor below = sub(row, top);
  const Tensor right = sub(column, left);
  if (is_cubic) {
    return weighted<4>(x, top, left, cubic_weights(below), cubic_weights(right), shape, rule, -1);
  }
  return weighted<2>(
      x, top, left, {sub(1.0, below), below}, {sub(1.0, right), right}, shape, rule, 0);
}

}  // namespace
}  // namespace sample_parts

std::string check_grid_sample(const NodeInfo& node) {
  const std::string mode = node.text("mode", "bilinear");
  constexpr std::array<std::string_view, 5> kModes{
      "bilinear", "linear", "nearest", "bicubic", "cubic"};
  if (std::ranges::find(kModes, mode) == kModes.end()) {
    return fmt::format("attribute mode is '{}'", mode);
  }
  const std::string padding = node.text("padding_mode", "zeros");
  return padding == "zeros" || padding == "border" || padding == "reflection"
             ? std::string{}
             : fmt::format("attribute padding_mode is '{}'", padding);
}

void grid_sample(Call& call) {
  const OnnxType type = call.type(0);
  const Shape shape = call.shape(0);
  const Shape grid_shape = call.shape(1);
  if (shape.rank() != 4 || grid_shape.rank() != 4) {
    call.refuse("{} is no batch of pictures", shape.to_string());
  }
  const sample_parts::GridRule rule{.mode = call.node().text("mode", "bilinear"),
                                    .padding = call.node().text("padding_mode", "zeros"),
                                    .aligns_corners = call.node().integer("align_corners", 0) != 0};
  const std::int64_t count = grid_shape[1] * grid_shape[2];
  const Tensor x = reshape(widened(call.take(0)), {shape[0], shape[1], shape[2] * shape[3]});
  const Tensor grid = reshape(widened(call.take(1)), {shape[0], count, 2});
  const auto coordinate = [&](std::int64_t i, std::int64_t size) {
    const Tensor part = squeeze(slice(grid, 2, {.start = i, .stop = i + 1}), 2);
    return sample_parts::unnormalised(part, size, rule.aligns_corners);
  };
  Tensor result =
      sample_parts::sampled(x, coordinate(1, shape[2]), coordinate(0, shape[3]), shape, rule);
  call.give(reshape(std::move(result), {shape[0], shape[1], grid_shape[1], grid_shape[2]}), type);
}

// theta [n, 2, 3] and sizes (n, c, h, w), or [n, 3, 4] and (n, c, d, h, w).
void affine_grid(Call& call) {
  const OnnxType type = call.type(0);
  const Sizes sizes = call.integers(1);
  const bool aligns = call.node().integer("align_corners", 0) != 0;
  const int axes = static_cast<int>(sizes.size()) - 2;
  if (axes != 2 && axes != 3) {
    call.refuse("a grid has two or three axes, not {}", axes);
  }
  const Tensor theta = widened(call.take(0));
  Sizes spatial(sizes.begin() + 2, sizes.end());
  std::vector<Tensor> coordinates;
  for (int axis = axes - 1; axis >= 0; --axis) {  // x first
    const std::int64_t size = spatial[static_cast<std::size_t>(axis)];
    std::vector<double> places;
    for (std::int64_t i = 0; i < size; ++i) {
      const auto at = static_cast<double>(i);
      const auto length = static_cast<double>(size);
      places.push_back(aligns ? (size == 1 ? 0 : -1 + 2 * at / (length - 1))
                              : (2 * at + 1) / length - 1);
    }
    Tensor line = along_axis(vector_of(call, places, theta.dtype()), axes, axis);
    coordinates.push_back(expand(std::move(line), Shape(spatial)));
  }
  coordinates.push_back(ones(call.device(), Shape(spatial), theta.dtype()));
  Tensor base = reshape(stack(coordinates, -1), {1, -1, axes + 1});
  Tensor grid = matmul(std::move(base), transpose(theta));
  Sizes result{sizes[0]};
  result.insert(result.end(), spatial.begin(), spatial.end());
  result.push_back(axes);
  call.give(reshape(std::move(grid), result), type);
}

}  // namespace hearth::onnx
