// Fourier transforms as products with the transform's matrix, windows, and mel weights.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

#include <array>
#include <cmath>
#include <numbers>
#include <span>

namespace hearth::onnx {
namespace signal_ops {
namespace {

// A matrix of more rows takes more memory than a signal deserves.
constexpr std::int64_t kMostPoints = 4096;

struct Transform {
  Tensor real;  // [points, frequencies]
  Tensor imaginary;
};

// exp(-2πi·n·k/points), or its inverse with the factor 1 / points.
Transform transform_of(
    Call& call, std::int64_t points, std::int64_t frequencies, bool is_inverse, DType dtype) {
  if (points < 1 || points > kMostPoints) {
    call.refuse("a transform of {} points; 1 to {} are supported", points, kMostPoints);
  }
  std::vector<double> real;
  std::vector<double> imaginary;
  const double sign = is_inverse ? 1 : -1;
  const double factor = is_inverse ? 1.0 / static_cast<double>(points) : 1;
  for (std::int64_t n = 0; n < points; ++n) {
    for (std::int64_t k = 0; k < frequencies; ++k) {
      const double angle = sign * 2 * std::numbers::pi * static_cast<double>(n * k % points) /
                           static_cast<double>(points);
      real.push_back(std::cos(angle) * factor);
      imaginary.push_back(std::sin(angle) * factor);
    }
  }
  const Sizes shape{points, frequencies};
  return {reshape(vector_of(call, real, dtype), shape),
          reshape(vector_of(call, imaginary, dtype), shape)};
}

// Transforms the last axis. `imaginary` may be empty. Real and imaginary part along a new last
// axis.
Tensor transformed(const Tensor& real, const Tensor& imaginary, const Transform& by) {
  Tensor first = matmul(real, by.real);
  Tensor second = matmul(real, by.imaginary);
  if (imaginary.is_valid()) {
    first = sub(std::move(first), matmul(imaginary, by.imaginary));
    second = add(std::move(second), matmul(imaginary, by.real));
  }
  return stack({std::move(first), std::move(second)}, -1);
}

// Cuts or pads an axis with zeros.
Tensor with_length(Tensor x, int axis, std::int64_t length) {
  const std::int64_t size = x.size(axis);
  if (size > length) {
    return slice(std::move(x), axis, {.stop = length});
  }
  return size == length ? std::move(x)
                        : pad(std::move(x), {{.axis = axis, .after = length - size}});
}

// x [..., 1 or 2]: the last axis has the real and the imaginary part. The axis is an attribute, or
// input 2 from opset 20 on.
void dft(Call& call) {
  const OnnxType type = call.type(0);
  const int rank = call.rank(0);
  const bool is_inverse = call.node().integer("inverse", 0) != 0;
  const bool is_onesided = call.node().integer("onesided", 0) != 0;
  const std::int64_t given =
      call.opset() >= 20 ? (call.has(2) ? call.integer(2) : -2) : call.node().integer("axis", 1);
  const int axis = call.axis(given, rank);
  const std::int64_t points = call.has(1) ? call.integer(1) : call.shape(0)[axis];
  Tensor x = with_length(widened(call.take(0)), axis, points);
  const std::int64_t parts = x.size(-1);
  const auto part = [&](std::int64_t i) {
    Tensor one = squeeze(slice(x, -1, {.start = i, .stop = i + 1}), -1);
    return transpose(std::move(one), axis, -1);
  };
  const std::int64_t frequencies = is_onesided ? points / 2 + 1 : points;
  const Transform by = transform_of(call, points, frequencies, is_inverse, x.dtype());
  const Tensor result = transformed(part(0), parts > 1 ? part(1) : Tensor(), by);
  call.give(transpose(result, axis, rank - 2), type);
}

// Inputs: signal [batch, length, 1 or 2], step, window, frame length.
void stft(Call& call) {
  const OnnxType type = call.type(0);
  const std::int64_t step = call.integer(1);
  const std::int64_t length = call.has(3)   ? call.integer(3)
                              : call.has(2) ? call.shape(2)[0]
                                            : call.shape(0)[1];
  const Shape shape = call.shape(0);
  if (step < 1 || length < 1 || length > shape[1]) {
    call.refuse("frames of {} every {} elements do not fit {}", length, step, shape.to_string());
  }
  const std::int64_t frames = (shape[1] - length) / step + 1;
  Sizes places;
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    for (std::int64_t i = 0; i < length; ++i) {
      places.push_back(frame * step + i);
    }
  }
  const Tensor x = widened(call.take(0));
  const Tensor index = positions_of(call, places);
  const Tensor window = call.has(2) ? cast(call.take(2), x.dtype()) : Tensor();
  const std::int64_t parts = shape.rank() == 3 ? shape[2] : 1;
  const auto part = [&](std::int64_t i) {
    Tensor one = shape.rank() == 3 ? squeeze(slice(x, -1, {.start = i, .stop = i + 1}), -1) : x;
    one = reshape(index_select(std::move(one), 1, index), {shape[0], frames, length});
    return window.is_valid() ? mul(std::move(one), window) : one;
  };
  const bool is_onesided = call.node().integer("onesided", 1) != 0 && parts == 1;
  const std::int64_t frequencies = is_onesided ? length / 2 + 1 : length;
  const Transform by = transform_of(call, length, frequencies, false, x.dtype());
  call.give(transformed(part(0), parts > 1 ? part(1) : Tensor(), by), type);
}

// A sum of cosines: a0 - a1·cos(2πn/N) + a2·cos(4πn/N).
void cosine_window(Call& call, double a0, double a1, double a2) {
  const OnnxType type = onnx_type_of(call.node().integer("output_datatype", 1));
  const std::int64_t size = call.integer(0);
  if (size < 0 || size > kMostHostElements) {
    call.refuse("a window of {} elements", size);
  }
  const bool is_periodic = call.node().integer("periodic", 1) != 0;
  const double period =
      static_cast<double>(is_periodic ? size : std::max<std::int64_t>(size - 1, 1));
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
    values.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  call.give(cast_host(host_reals(std::move(values), Shape{size}, OnnxType::f64), type));
}

void hann(Call& call) {
  cosine_window(call, 0.5, 0.5, 0);
}
void hamming(Call& call) {
  cosine_window(call, 25.0 / 46, 21.0 / 46, 0);
}
void blackman(Call& call) {
  cosine_window(call, 0.42, 0.5, 0.08);
}

double mel_of(double hertz) {
  return 2595 * std::log10(1 + hertz / 700);
}
double hertz_of(double mel) {
  return 700 * (std::pow(10, mel / 2595) - 1);
}

struct MelRule {
  std::int64_t bins = 0;
  std::int64_t points = 0;
  double rate = 0;
  double low = 0;   // mel
  double high = 0;  // mel
};

// Frequencies that lie evenly on the mel scale, as numbers of the transform.
Sizes mel_edges(const MelRule& rule) {
  Sizes edges;
  const double step = (rule.high - rule.low) / static_cast<double>(rule.bins + 2);
  for (std::int64_t i = 0; i < rule.bins + 2; ++i) {
    const double hertz = hertz_of(rule.low + static_cast<double>(i) * step);
    edges.push_back(static_cast<std::int64_t>(
        std::floor(static_cast<double>(rule.points + 1) * hertz / rule.rate)));
  }
  return edges;
}

// A triangle from `left` over `centre` to `right`, in one column of a matrix.
void add_triangle(std::vector<double>& weights,
                  std::int64_t column,
                  std::int64_t columns,
                  std::span<const std::int64_t, 3> edges) {
  const auto [left, centre, right] = std::array{edges[0], edges[1], edges[2]};
  const auto at = [&, column, columns](std::int64_t row) -> double& {
    return weights.at(static_cast<std::size_t>(row * columns + column));
  };
  for (std::int64_t row = left; row < centre; ++row) {
    at(row) = static_cast<double>(row - left) / static_cast<double>(centre - left);
  }
  if (static_cast<std::size_t>(centre * columns + column) < weights.size()) {
    at(centre) = 1;
  }
  for (std::int64_t row = centre; row < right; ++row) {
    at(row) = static_cast<double>(right - row) / static_cast<double>(right - centre);
  }
}

// Triangles between neighbouring frequencies that lie evenly on the mel scale.
void mel_weights(Call& call) {
  const OnnxType type = onnx_type_of(call.node().integer("output_datatype", 1));
  const MelRule rule{.bins = call.integer(0),
                     .points = call.integer(1),
                     .rate = call.real(2),
                     .low = mel_of(call.real(3)),
                     .high = mel_of(call.real(4))};
  const std::int64_t rows = rule.points / 2 + 1;
  if (rule.bins < 1 || rule.points < 1 || rows > kMostHostElements / rule.bins) {
    call.refuse("{} mel bins of {} points", rule.bins, rule.points);
  }
  const Sizes edges = mel_edges(rule);
  if (edges.front() < 0 || edges.back() > rows) {
    call.refuse("the frequencies reach beyond half of the sample rate {}", rule.rate);
  }
  std::vector<double> weights(static_cast<std::size_t>(rows * rule.bins), 0);
  for (std::int64_t bin = 0; bin < rule.bins; ++bin) {
    const std::span all(edges);
    add_triangle(weights, bin, rule.bins, all.subspan(static_cast<std::size_t>(bin)).first<3>());
  }
  const Shape shape{rows, rule.bins};
  call.give(cast_host(host_reals(std::move(weights), shape, OnnxType::f64), type));
}

constexpr OpRow kRows[] = {
    {.op = "DFT", .since = 17, .run = dft, .host_inputs = inputs(1, 2)},
    {.op = "STFT", .since = 17, .run = stft, .host_inputs = inputs(1, 3)},
    {.op = "HannWindow", .since = 17, .run = hann, .host_inputs = inputs(0)},
    {.op = "HammingWindow", .since = 17, .run = hamming, .host_inputs = inputs(0)},
    {.op = "BlackmanWindow", .since = 17, .run = blackman, .host_inputs = inputs(0)},
    {.op = "MelWeightMatrix",
     .since = 17,
     .run = mel_weights,
     .host_inputs = inputs(0, 1, 2, 3, 4)},
};

}  // namespace
}  // namespace signal_ops

std::span<const OpRow> signal_rows() {
  return signal_ops::kRows;
}

}  // namespace hearth::onnx
