// Discrete Fourier transforms of any length, and spectrograms. Complex numbers are a last axis of
// size 2: real part, imaginary part. Options name axes of complex numbers, so -1 is the axis in
// front of it.
//
// Dtypes, unless stated: f32 and f64; 16-bit types are refused: cast first. Gradients of any order.
// Errors of all: ShapeError, DtypeError, ArgumentError now.
// Threads: any. Devices cpu, reference and sim queue the op. For vulkan and cuda devices the call,
// and its gradient, copy the operands to the host and wait. The wait ends at the limits of the
// calling thread's stream. Recordings refuse these ops.
// Cost: O(n log n); lengths with a prime factor above 50 take about six times as long as others.
#pragma once

#include <cstdint>
#include <optional>

#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Which of a transform and its inverse has a factor.
enum class FourierNorm : std::uint8_t {
  backward,  ///< The inverse: 1/n.
  ortho,     ///< Both: 1/√n.
  forward,   ///< The transform: 1/n.
};
struct FourierOptions {
  int axis = -1;  ///< Axis of the transform, without the axis of the parts.
  /// Length of the transform: x is cut, or padded with zeros. irfft: of the result, by default
  /// 2·(m - 1).
  std::optional<std::int64_t> length = {};
  FourierNorm norm = FourierNorm::backward;  ///< Where the factor is.
};

/// The discrete Fourier transform Σ x_j·exp(-2πi·jk/n) of complex numbers.
///
/// Shapes: x [..., n, 2]; result like x, with options.length along the axis.
[[nodiscard]] Tensor fft(Arg x, FourierOptions options = {});
/// The inverse of fft, with the same options. Shapes: as fft.
[[nodiscard]] Tensor ifft(Arg x, FourierOptions options = {});
/// The first n/2 + 1 numbers of the transform of real numbers; the others are their conjugates.
///
/// Shapes: x [..., n] -> [..., n/2 + 1, 2].
[[nodiscard]] Tensor rfft(Arg x, FourierOptions options = {});
/// The inverse of rfft. Ignores the imaginary part of the first number and, for an even length, of
/// the last. An odd length must be given.
///
/// Shapes: x [..., m, 2] -> [..., length].
[[nodiscard]] Tensor irfft(Arg x, FourierOptions options = {});

struct Fourier2dOptions {
  FourierNorm norm = FourierNorm::backward;  ///< Where the factor is.
};
/// fft over the last two axes of complex numbers. Shapes: x [..., m, n, 2]; result like x.
[[nodiscard]] Tensor fft2(Arg x, Fourier2dOptions options = {});
/// The inverse of fft2. Shapes: as fft2.
[[nodiscard]] Tensor ifft2(Arg x, Fourier2dOptions options = {});

/// Moves frequency 0 from the start of an axis to its middle. Counts all axes of x, so the last
/// axis of complex numbers is -2. Dtypes: all. Errors: ArgumentError for an axis outside x.
[[nodiscard]] Tensor fftshift(Arg x, int axis);
/// The inverse of fftshift.
[[nodiscard]] Tensor ifftshift(Arg x, int axis);
/// The frequencies of fft's numbers, in cycles per unit of `spacing`: [n].
/// Dtypes: floats. Errors: ArgumentError if count is below 1 or spacing is 0; DtypeError.
[[nodiscard]] Tensor fftfreq(const Device& device,
                             std::int64_t count,
                             double spacing = 1,
                             DType dtype = DType::f32,
                             SourceLoc loc = SourceLoc::current());
/// The frequencies of rfft's numbers: [n/2 + 1]. Errors: as fftfreq.
[[nodiscard]] Tensor rfftfreq(const Device& device,
                              std::int64_t count,
                              double spacing = 1,
                              DType dtype = DType::f32,
                              SourceLoc loc = SourceLoc::current());

/// The products of complex numbers; shapes broadcast. Shapes: a [..., 2], b [..., 2].
[[nodiscard]] Tensor complex_mul(Arg a, Arg b);
/// The magnitudes of complex numbers; the gradient at 0 is 0. Shapes: x [..., 2] -> [...].
[[nodiscard]] Tensor complex_abs(Arg x);

struct HannOptions {
  bool periodic = true;  ///< For spectra: the first of the next period is left out.
};
/// Hann's window, 0.5 - 0.5·cos(2πj/n): [size]. With periodic = false the divisor is n - 1.
/// Dtypes: floats. Errors: ArgumentError if size is below 1; DtypeError.
[[nodiscard]] Tensor hann_window(const Device& device,
                                 std::int64_t size,
                                 HannOptions options = {},
                                 DType dtype = DType::f32,
                                 SourceLoc loc = SourceLoc::current());

struct StftOptions {
  std::int64_t size = 0;                 ///< Length of a frame; must be given.
  std::optional<std::int64_t> hop = {};  ///< Distance of frames; by default a quarter of the size.
  /// Pads half of a frame at both ends, by reflection, so that frame i is centred at i·hop.
  bool center = true;
};
/// Spectra of overlapping frames of real signals, as torch.stft with onesided spectra.
///
/// Shapes: x [..., samples], window [size] -> [..., size/2 + 1, frames, 2].
/// Errors: ArgumentError for a size or hop below 1; ShapeError for fewer samples than a frame
/// has, and for another window.
/// Cost: one rfft for each frame, and a copy of all frames.
[[nodiscard]] Tensor stft(Arg x, Arg window, StftOptions options);
/// The signal with these spectra, by overlapping sums, over the sums of the squared windows. Where
/// these are 0, as at the ends without `center`, the result is NaN.
///
/// Shapes: x [..., size/2 + 1, frames, 2], window [size] -> [..., samples]: hop·(frames - 1), and
/// a frame more without `center`.
/// Errors: as stft; ShapeError if x does not fit the size.
/// Paper: Griffin, Lim, Signal estimation from modified STFT, IEEE ASSP 32 (1984).
[[nodiscard]] Tensor istft(Arg x, Arg window, StftOptions options);

}  // namespace hearth
