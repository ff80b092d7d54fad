// Windows, and spectra of overlapping frames.
#include <hearth/runtime/distance_ops.hpp>
#include <hearth/runtime/fourier_ops.hpp>
#include <hearth/runtime/ops.hpp>

#include "linear_operands.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using detail::At;

// Sizes of a call of stft or istft.
struct FrameSizes {
  std::int64_t size = 0;
  std::int64_t hop = 0;

  [[nodiscard]] std::int64_t samples(std::int64_t frames) const noexcept {
    return size + hop * (frames - 1);
  }
};

FrameSizes frame_sizes(const StftOptions& options, const Arg& x, const Arg& window) {
  const std::array operands{x, window};
  const FrameSizes sizes{options.size, options.hop.value_or(options.size / 4)};
  if (sizes.size < 1 || sizes.hop < 1) {
    detail::refuse_linear(
        ErrorCode::invalid_argument,
        fmt::format("size {} and hop {}: both are at least 1", sizes.size, sizes.hop),
        operands);
  }
  const Shape shape = detail::require_real(window, 1, "a window [size]");
  if (shape != Shape{sizes.size}) {
    detail::refuse_linear(
        ErrorCode::shape_mismatch, fmt::format("needs a window [{}]", sizes.size), operands);
  }
  if (window.tensor().dtype() != x.tensor().dtype()) {
    detail::refuse_linear(ErrorCode::dtype_mismatch, "takes operands of one type", operands);
  }
  return sizes;
}

// The sample [frames·size] of each number of each frame.
Tensor frame_places(const Device& device,
                    const FrameSizes& sizes,
                    std::int64_t frames,
                    const At& at) {
  std::vector<std::int64_t> places;
  places.reserve(static_cast<std::size_t>(frames * sizes.size));
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    for (std::int64_t i = 0; i < sizes.size; ++i) {
      places.push_back(frame * sizes.hop + i);
    }
  }
  return Tensor::from(device, std::move(places), Shape{frames * sizes.size}, at.location());
}

// The axes in front of the last `behind` ones, then these sizes.
std::vector<std::int64_t> sizes_ending(const Shape& shape,
                                       int behind,
                                       std::initializer_list<std::int64_t> end) {
  std::vector<std::int64_t> sizes(shape.dims().begin(), shape.dims().end() - behind);
  sizes.insert(sizes.end(), end);
  return sizes;
}

// Frames [..., frames, size] of samples [..., n]: slices of blocks, whose size divides a frame and
// a hop. Frames of very many blocks are gathered number by number.
Tensor frames_of(const Tensor& signal, const FrameSizes& sizes, std::int64_t frames, const At& at) {
  constexpr std::int64_t kMostSlices = 32;
  const Shape shape = signal.shape();
  const std::vector<std::int64_t> wanted = sizes_ending(shape, 1, {frames, sizes.size});
  const std::int64_t block = std::gcd(sizes.size, sizes.hop);
  const std::int64_t count = sizes.size / block;
  if (count > kMostSlices) {
    const Tensor places = frame_places(signal.device(), sizes, frames, at);
    return reshape(at(index_select(at(signal), -1, at(places))), wanted);
  }
  const std::int64_t step = sizes.hop / block;
  const std::int64_t blocks = (frames - 1) * step + count;
  Tensor whole = slice(at(signal), -1, {.start = 0, .stop = blocks * block});
  whole = reshape(at(std::move(whole)), sizes_ending(shape, 1, {blocks, block}));
  std::vector<Tensor> slices;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t stop = i + (frames - 1) * step + 1;
    slices.push_back(slice(at(whole), -2, {.start = i, .stop = stop, .step = step}));
  }
  return reshape(at(concat(slices, -1, at.location())), wanted);
}

Tensor spectra_of(const Arg& x, const Arg& window, const StftOptions& options) {
  const Shape given = detail::require_real(x, 1, "samples [..., n]");
  const FrameSizes sizes = frame_sizes(options, x, window);
  const At at(x.location());
  const std::int64_t half = sizes.size / 2;
  if (options.center && half >= given[-1]) {
    detail::refuse_linear(ErrorCode::shape_mismatch,
                          fmt::format("needs more than {} samples to reflect", half),
                          std::array{x, window});
  }
  const Tensor signal = options.center ? pad(at(x.tensor()),
                                             {PadAxis{.axis = -1, .before = half, .after = half}},
                                             {.mode = PadMode::reflect})
                                       : x.tensor();
  const std::int64_t samples = signal.shape()[-1];
  if (samples < sizes.size) {
    detail::refuse_linear(ErrorCode::shape_mismatch,
                          fmt::format("needs at least {} samples", sizes.size),
                          std::array{x, window});
  }
  const std::int64_t frames = (samples - sizes.size) / sizes.hop + 1;
  const Tensor parts = mul(at(frames_of(signal, sizes, frames, at)), at(window.tensor()));
  return transpose(at(rfft(at(parts))), -3, -2);
}

Tensor signal_of(const Arg& x, const Arg& window, const StftOptions& options) {
  const Shape given = detail::require_real(x, 3, "spectra [..., size/2 + 1, frames, 2]");
  const FrameSizes sizes = frame_sizes(options, x, window);
  const std::int64_t frames = given[-2];
  if (given[-1] != 2 || given[-3] != sizes.size / 2 + 1 || frames < 1) {
    detail::refuse_linear(ErrorCode::shape_mismatch,
                          fmt::format("needs spectra [..., {}, frames, 2]", sizes.size / 2 + 1),
                          std::array{x, window});
  }
  const At at(x.location());
  const Device device = x.tensor().device();
  const DType dtype = x.tensor().dtype();
  const Tensor places = frame_places(device, sizes, frames, at);
  Tensor parts = irfft(at(transpose(at(x.tensor()), -3, -2)), {.length = sizes.size});
  parts = mul(at(std::move(parts)), at(window.tensor()));
  parts = reshape(at(std::move(parts)), sizes_ending(given, 3, {frames * sizes.size}));
  const std::int64_t samples = sizes.samples(frames);
  const Shape whole(sizes_ending(given, 3, {samples}), at.location());
  const Tensor sum_of_parts = index_add(
      at(zeros(device, whole, dtype, at.location())), -1, at(places), at(std::move(parts)));
  Tensor squares = expand(at(square(at(window.tensor()))), {frames, sizes.size});
  squares = reshape(at(std::move(squares)), {frames * sizes.size});
  const Tensor weights = index_add(
      at(zeros(device, {samples}, dtype, at.location())), 0, at(places), at(std::move(squares)));
  // Cut before the division: the ends may have the weight 0.
  const std::int64_t start = options.center ? sizes.size / 2 : 0;
  const std::int64_t stop = options.center ? start + sizes.hop * (frames - 1) : samples;
  const auto kept = [&](const Tensor& all) {
    return slice(at(all), -1, {.start = start, .stop = stop});
  };
  return div(at(kept(sum_of_parts)), at(kept(weights)));
}

}  // namespace

Tensor complex_abs(Arg x) {
  return detail::named_as("complex_abs", [&] {
    const Shape shape = detail::require_real(x, 1, "complex numbers [..., 2]");
    if (shape[-1] != 2) {
      detail::refuse_linear(
          ErrorCode::shape_mismatch, "needs complex numbers [..., 2]", std::span<const Arg>(&x, 1));
    }
    return vector_norm(x, 2, -1);
  });
}

Tensor hann_window(
    const Device& device, std::int64_t size, HannOptions options, DType dtype, SourceLoc loc) {
  if (size < 1) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = fmt::format("hann_window: size {} is below 1", size),
                      .op = "hann_window",
                      .location = loc});
  }
  detail::require_float_type("hann_window", dtype, loc);
  const auto period = static_cast<double>(options.periodic ? size : size - 1);
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
    values.push_back(size == 1 ? 1 : 0.5 - 0.5 * std::cos(angle));
  }
  return detail::reals_on(device, values, {size}, dtype, loc);
}

Tensor stft(Arg x, Arg window, StftOptions options) {
  return detail::named_as("stft", [&] { return spectra_of(x, window, options); });
}

Tensor istft(Arg x, Arg window, StftOptions options) {
  return detail::named_as("istft", [&] { return signal_of(x, window, options); });
}

}  // namespace hearth
