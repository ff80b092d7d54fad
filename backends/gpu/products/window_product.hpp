// Convolutions as products of weights and windows of planes. One form serves conv2d and its
// gradient for the input. That gradient is a convolution for each remainder of a place by the
// stride, with the weights of that remainder. Values and functions. Threads: any.
#pragma once

#include <array>
#include <cstdint>

#include <hearth/streams/op_attributes.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

/// Windows along one axis. Window q of `count` produces the result at first + q*step. It reads the
/// source's places q*stride + begin + t*tap_step for each tap t of `taps`, where they exist.
struct WindowAxis {
  std::int64_t count = 1;
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t stride = 1;
  std::int64_t begin = 0;
  std::int64_t tap_step = 1;
  std::int64_t taps = 1;
  std::int64_t source_size = 1;
  std::int64_t out_size = 1;
  std::int64_t source_stride = 0;  ///< All strides in elements.
  std::int64_t weight_stride = 0;
};

/// result[image, group * rows + row, y, x] = bias[group * rows + row] +
///   sum over channel and taps of weight[group, row, channel, taps] * source[image, group *
///   channels + channel, ...].
struct WindowProduct {
  DType dtype = DType::f32;
  const std::byte* source = nullptr;
  const std::byte* weight = nullptr;
  const std::byte* bias = nullptr;  ///< Null: none.
  std::int64_t images = 1;
  std::int64_t groups = 1;
  std::int64_t rows = 1;
  std::int64_t channels = 1;
  std::int64_t source_image = 0;
  std::int64_t source_channel = 0;
  std::int64_t weight_group = 0;
  std::int64_t weight_row = 0;
  std::int64_t weight_channel = 0;
  std::int64_t bias_stride = 0;
  std::array<WindowAxis, 2> axes{};
};

/// Writes the result to the call's outputs, through its epilogue if it has one.
/// Errors: unsupported, axes of 2^31 and more; those of the encoder.
[[nodiscard]] Status encode_windows(const WindowProduct& product,
                                    const KernelCall& call,
                                    KernelEncoder& encoder);

/// The gradient for the weight. result[row of group, channel, tap, tap] is the sum over images and
/// windows of grad[image, group * rows + row, window] * source[image, group * channels + channel,
/// ...].
struct WeightProduct {
  DType dtype = DType::f32;
  const std::byte* source = nullptr;
  const std::byte* grad = nullptr;
  std::int64_t images = 1;
  std::int64_t groups = 1;
  std::int64_t rows = 1;
  std::int64_t channels = 1;
  std::int64_t source_image = 0;
  std::int64_t source_channel = 0;
  std::int64_t grad_image = 0;
  std::int64_t grad_channel = 0;
  /// Windows and taps as above, with grad's strides as weight_stride.
  std::array<WindowAxis, 2> axes{};
};

/// Errors: as encode_windows().
[[nodiscard]] Status encode_weight_product(const WeightProduct& product,
                                           const KernelCall& call,
                                           KernelEncoder& encoder);

}  // namespace hearth::gpu
