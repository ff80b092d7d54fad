// Fourier transforms beside sums in f64, their inverses, and derivatives beside differences;
// windows and spectrograms.
#include <hearth/runtime/fourier_ops.hpp>

#include "linear_test.hpp"

#include <complex>
#include <numbers>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using testing::kReals;
using testing::Tensors;
using testing::thrown_text;

// 41 and 47 have passes of their own; 53 and 257 are convolutions.
constexpr std::int64_t kLengths[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,   12,  13,  16,
                                     20, 30, 41, 47, 49, 53, 64, 77, 100, 106, 128, 257};

class FourierTest : public testing::LinearTest {
 protected:
  /// exp(sign·2πi·jk/n) as [n, n, 2].
  [[nodiscard]] Tensor roots(std::int64_t n, double sign) const {
    std::vector<double> values;
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t k = 0; k < n; ++k) {
        const double angle =
            sign * 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
        values.push_back(std::cos(angle));
        values.push_back(std::sin(angle));
      }
    }
    return f64(values, {n, n, 2});
  }
  /// The transform of complex rows [..., n, 2], by its definition.
  [[nodiscard]] Tensor by_sums(const Tensor& x, double sign) const {
    const std::int64_t n = x.shape()[-2];
    const Tensor wide = unsqueeze(cast(x, DType::f64), -2);  // [..., j, 1, 2]
    return sum(complex_mul(wide, roots(n, sign)), -3);
  }
};

TEST_P(FourierTest, TransformsAreTheSumsOfTheirDefinition) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : kLengths) {
      const Tensor x = random({3, n, 2}, dtype);
      expect_close(fft(x), cast(by_sums(x, -1), dtype), n, "fft");
      const Tensor back = ifft(x) * static_cast<double>(n);
      expect_close(back, cast(by_sums(x, 1), dtype), n, "ifft");
    }
  }
}

TEST_P(FourierTest, InversesGiveTheNumbersBack) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : kLengths) {
      const Tensor x = random({5, n, 2}, dtype);
      expect_close(ifft(fft(x)), x, 8, "ifft");
      const Tensor real = random({5, n}, dtype);
      expect_close(irfft(rfft(real), {.length = n}), real, 8, "irfft");
    }
  }
}

TEST_P(FourierTest, RealTransformsAreTheFirstHalf) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : kLengths) {
      const Tensor x = random({6, n}, dtype);
      const Tensor parts = stack({x, zeros_like(x)}, -1);
      const Tensor half = slice(fft(parts), -2, {.stop = n / 2 + 1});
      expect_close(rfft(x), half, n, "rfft");
    }
  }
  // The imaginary parts that a real signal cannot have are ignored.
  const Tensor odd = f64({1, 5, 0, 0, 2, 7}, {3, 2});
  const Tensor even = f64({1, 0, 0, 0, 2, 0}, {3, 2});
  EXPECT_EQ(reals(irfft(odd)), reals(irfft(even)));
}

TEST_P(FourierTest, LongLengthsAndPrimesAreExact) {
  for (const std::int64_t n : {4097, 50'257, 65'536}) {
    const Tensor x = random({2, n, 2});
    const Tensor y = fft(x);
    const double energy = sum(square(x)).item();
    EXPECT_NEAR(sum(square(y)).item() / static_cast<double>(n), energy, energy * 1e-12);
    expect_close(ifft(y), x, 16, "ifft");
    // An impulse at 3 is a wave.
    const Tensor place = equal(arange(device(), 0, static_cast<double>(n), 1, DType::f64), 3);
    const Tensor impulse = cast(place, DType::f64);
    const Tensor wave = fft(stack({impulse, zeros_like(impulse)}, -1));
    const Tensor angle = arange(device(), 0, static_cast<double>(n), 1, DType::f64) *
                         (-6 * std::numbers::pi / static_cast<double>(n));
    expect_close(wave, stack({cos(angle), sin(angle)}, -1), 64, "a wave");
  }
}

TEST_P(FourierTest, RowsDoNotDependOnTheirNeighbours) {
  for (const DType dtype : kReals) {
    for (const std::int64_t n : {12, 53, 100}) {
      const Tensor x = random({7, n, 2}, dtype);
      const Tensor together = fft(x);
      const Tensor real = rfft(slice(x, -1, {.stop = 1})[{Range{}, Range{}, 0}]);
      for (std::int64_t row = 0; row < 7; ++row) {
        EXPECT_TRUE(all_equal(fft(x[{row}]), together[{row}])) << row;
        EXPECT_TRUE(all_equal(rfft(x[{row, Range{}, 0}]), real[{row}])) << row;
      }
    }
  }
}

TEST_P(FourierTest, NormsDivideOnTheirSide) {
  const Tensor x = random({12, 2});
  const Tensor y = fft(x);
  expect_close(fft(x, {.norm = FourierNorm::forward}), y / 12, 12, "forward");
  expect_close(fft(x, {.norm = FourierNorm::ortho}), y / std::sqrt(12.0), 12, "ortho");
  const Tensor real = random({12});
  for (const FourierNorm norm : {FourierNorm::backward, FourierNorm::ortho, FourierNorm::forward}) {
    expect_close(ifft(fft(x, {.norm = norm}), {.norm = norm}), x, 12, "there and back");
    expect_close(irfft(rfft(real, {.norm = norm}), {.norm = norm}), real, 12, "there and back");
    expect_close(ifft2(fft2(random({3, 4, 2}), {.norm = norm}), {.norm = norm}),
                 random({3, 4, 2}),
                 12,
                 "planes");
  }
}

TEST_P(FourierTest, AxesAndLengthsAreThoseOfComplexNumbers) {
  const Tensor x = random({3, 4, 5, 2});
  const Tensor turned = transpose(x, 0, 2);
  expect_close(fft(x, {.axis = 0}), transpose(fft(turned), 0, 2), 3, "axis 0");
  expect_close(fft(x, {.axis = -3}), transpose(fft(turned), 0, 2), 3, "axis -3");
  expect_close(fft(x, {.length = 3}), fft(slice(x, -2, {.stop = 3})), 3, "cut");
  expect_close(fft(x, {.length = 8}), fft(pad(x, {{.axis = -2, .after = 3}})), 8, "padded");
  const Tensor real = random({3, 4});
  expect_close(rfft(real, {.axis = 0}), transpose(rfft(transpose(real)), 0, 1), 3, "rfft");
  EXPECT_EQ(irfft(random({4, 3, 2}), {.axis = 0, .length = 9}).shape(), (Shape{9, 3}));
  expect_close(fft2(x), fft(fft(x, {.axis = 2}), {.axis = 1}), 5, "fft2");
  EXPECT_EQ(fft(zeros(device(), {0, 4, 2})).shape(), (Shape{0, 4, 2}));
}

TEST_P(FourierTest, ShiftsAndFrequencies) {
  EXPECT_THAT(reals(fftfreq(device(), 5, 0.5, DType::f64)), ElementsAre(0, 0.4, 0.8, -0.8, -0.4));
  EXPECT_THAT(reals(fftfreq(device(), 4, 1, DType::f64)), ElementsAre(0, 0.25, -0.5, -0.25));
  EXPECT_THAT(reals(rfftfreq(device(), 5, 0.5, DType::f64)), ElementsAre(0, 0.4, 0.8));
  EXPECT_THAT(reals(fftshift(f64({0, 1, 2, -2, -1}), 0)), ElementsAre(-2, -1, 0, 1, 2));
  EXPECT_THAT(reals(ifftshift(f64({-2, -1, 0, 1, 2}), 0)), ElementsAre(0, 1, 2, -2, -1));
  EXPECT_THROW((void)fftshift(f64({1}), 1), ArgumentError);
  EXPECT_THROW((void)fftfreq(device(), 0), ArgumentError);
  EXPECT_THROW((void)rfftfreq(device(), 4, 0), ArgumentError);
}

TEST_P(FourierTest, DerivativesMatchDifferences) {
  HostRandom random(71);
  for (const std::int64_t n : {1, 4, 5}) {
    const HostTensor x = random.uniform({2, n, 2}, -1, 1);
    const HostTensor real = random.uniform({2, n}, -1, 1);
    check_twice([](const Tensors& in) { return fft(in[0], {.norm = FourierNorm::ortho}); }, {x});
    check_twice([](const Tensors& in) { return square(ifft(in[0])); }, {x});
    check_twice([](const Tensors& in) { return square(rfft(in[0])) * 0.1; }, {real});
    check_twice([n](const Tensors& in) { return square(irfft(in[0], {.length = 2 * n - 1})); },
                {x});
    check_twice([n](const Tensors& in) { return square(irfft(in[0], {.length = 2 * n})); }, {x});
  }
  check_twice([](const Tensors& in) { return square(fft2(in[0])) * 0.1; },
              {random.uniform({3, 2, 2}, -1, 1)});
  check_twice([](const Tensors& in) { return complex_abs(complex_mul(in[0], in[1])); },
              {random.uniform({3, 2}, 0.5, 1), random.uniform({3, 2}, 0.5, 1)});
}

TEST_P(FourierTest, ASpectralConvolutionIsACircularOne) {
  const Tensor x = f64({1, 2, 3, 4});
  const Tensor kernel = f64({0, 1, 0, 0.5});
  const Tensor got = irfft(complex_mul(rfft(x), rfft(kernel)));
  expect_close(got, f64({4 + 1, 1 + 1.5, 2 + 2, 3 + 0.5}), 4, "convolution");
}

TEST_P(FourierTest, SpectrogramsFindTheirFrequencyAndInvert) {
  const std::int64_t size = 16;
  const Tensor window = hann_window(device(), size, {}, DType::f64);
  expect_close(slice(window, 0, {.stop = 3}),
               f64({0,
                    0.5 - 0.5 * std::cos(std::numbers::pi / 8),
                    0.5 - 0.5 * std::cos(std::numbers::pi / 4)}),
               4,
               "window");
  EXPECT_THAT(reals(hann_window(device(), 3, {.periodic = false}, DType::f64)),
              ElementsAre(0, 1, 0));
  EXPECT_EQ(hann_window(device(), 1).item(), 1);
  const Tensor angle = arange(device(), 0, 80, 1, DType::f64) * (2 * std::numbers::pi * 3 / 16);
  const Tensor spectra = stft(stack({cos(angle), sin(angle)}), window, {.size = size});
  EXPECT_EQ(spectra.shape(), (Shape{2, 9, 21, 2}));
  const Tensor loudest = argmax(complex_abs(spectra), 1);
  EXPECT_TRUE(all_equal(slice(loudest, -1, {.start = 2, .stop = 19}),
                        full(device(), {2, 17}, 3, DType::i64)));
  const Tensor x = random({2, 80});
  expect_close(istft(stft(x, window, {.size = size}), window, {.size = size}), x, 16, "istft");
  const StftOptions plain{.size = 5, .hop = 2, .center = false};
  const Tensor flat = ones(device(), {5}, DType::f64);
  const Tensor frames = stft(x, flat, plain);
  EXPECT_EQ(frames.shape(), (Shape{2, 3, 38, 2}));
  expect_close(
      frames[{Range{}, Range{}, 4}], rfft(slice(x, 1, {.start = 8, .stop = 13})), 5, "a frame");
  expect_close(istft(frames, flat, plain), slice(x, 1, {.stop = 79}), 5, "without center");
}

TEST_P(FourierTest, SpectrogramsHaveGradients) {
  HostRandom random(72);
  const Tensor window = hann_window(device(), 4, {}, DType::f64);
  check_twice([&](const Tensors& in) { return square(stft(in[0], window, {.size = 4})) * 0.1; },
              {random.uniform({2, 7}, -1, 1)});
  check_twice([&](const Tensors& in) { return square(istft(in[0], window, {.size = 4})); },
              {random.uniform({3, 4, 2}, -1, 1)});
}

TEST_P(FourierTest, RefusesOtherOperands) {
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)fft(random({3, 4}));
              }),
              HasSubstr("fft: needs complex numbers [..., n, 2]: f64[3, 4]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)irfft(random({2})); }),
              HasSubstr("irfft: needs complex numbers [..., n, 2]: f64[2]"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)rfft(random({4}, DType::f16)); }),
              HasSubstr("rfft: takes f32 and f64: cast other types first: f16[4]"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)ifft(random({3, 2}), {.length = 0});
              }),
              HasSubstr("ifft: length 0 is below 1: f64[3, 2]"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)irfft(random({1, 2}));
              }),
              HasSubstr("irfft: length 0 is below 1"));
  EXPECT_THROW((void)fft(random({3, 2}), {.axis = 1}), ArgumentError);
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)fft2(random({3, 2}));
              }),
              HasSubstr("fft2: needs complex numbers [..., m, n, 2]"));
  const Tensor window = ones(device(), {4}, DType::f64);
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)stft(random({9}), window, {}); }),
              HasSubstr("stft: size 0 and hop 0: both are at least 1: f64[9], f64[4]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)stft(random({9}), window, {.size = 8}); }),
              HasSubstr("stft: needs a window [8]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)stft(random({2}), window, {.size = 4}); }),
              HasSubstr("stft: needs more than 2 samples to reflect"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)istft(random({4, 5, 2}), window, {.size = 4});
              }),
              HasSubstr("istft: needs spectra [..., 3, frames, 2]"));
  EXPECT_THROW((void)hann_window(device(), 0), ArgumentError);
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)hann_window(device(), 4, {}, DType::i32); }),
              HasSubstr("hann_window: i32 is no type of floats"));
  EXPECT_THROW((void)fftfreq(device(), 4, 1, DType::u8), DtypeError);
}

HEARTH_ON_COMPOSED_DEVICES(FourierTest);

}  // namespace
}  // namespace hearth
