// Sums of many terms on each device against sums in f64: no rounding error grows with the number of
// terms. LONG_SUMS=100000000 makes them longer; matrices then have fewer columns, so that 2 GiB
// suffice.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/losses.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support/tested_devices.hpp"
#include "tests/support/tolerance.hpp"

namespace hearth {
namespace {

/// The longest chain of f32 additions that numerics.md allows, for terms of one sign.
constexpr double kChain = 1024;
const double kBound = kChain * testing::unit_roundoff(DType::f32);

class LongSums : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  [[nodiscard]] std::int64_t length() const {
    const char* const wanted = std::getenv("LONG_SUMS");
    const bool is_slow = std::string(GetParam()).starts_with("reference");
    return wanted != nullptr && !is_slow ? std::atoll(wanted) : 1'000'000;
  }
  /// The number of columns, reduced for a long matrix.
  [[nodiscard]] std::int64_t columns(std::int64_t wanted) const {
    constexpr std::int64_t kMostElements = 200'000'000;
    return std::clamp<std::int64_t>(kMostElements / length(), 1, wanted);
  }
  /// Positive numbers near a tenth, or all a tenth, so that all round by equal amounts.
  [[nodiscard]] Tensor terms(const Shape& shape, bool are_equal) const {
    if (are_equal) {
      return full(device(), shape, 0.1);
    }
    Generator generator(11);
    return random_uniform(device(), shape, generator, 0.05, 0.15);
  }
  static void expect_near(double got, double want, const std::string& what) {
    EXPECT_LE(std::fabs(got / want - 1), kBound) << what << ": " << got << " is not " << want;
  }
  static std::vector<float> values(const Tensor& x) { return x.to_vector<float>(); }

  Runtime runtime_{RuntimeOptions{.devices = {{.name = GetParam()}}}};
};

double sum_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) {
    sum += static_cast<double>(value);
  }
  return sum;
}

double squares_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) {
    sum += static_cast<double>(value) * static_cast<double>(value);
  }
  return sum;
}

Tensor narrow(const Tensor& x, int axis, std::int64_t first, std::int64_t count) {
  return contiguous(slice(x, axis, {.start = first, .stop = first + count}));
}

template <class Fn>
Tensor gradient(const Fn& fn, const Tensor& x) {
  return grad([&](const std::vector<Tensor>& inputs) { return fn(inputs[0]); }, {x})[0];
}

TEST_P(LongSums, OfThinProducts) {
  for (const std::int64_t wanted : {1, 2, 4, 8, 16}) {
    const std::int64_t n = columns(wanted);
    const bool are_equal = wanted != 2;
    const Tensor x = terms({length(), n}, are_equal);
    const std::vector<float> got = values(matmul(transpose(x), x));
    const std::vector<float> first = values(narrow(x, 1, 0, 1));
    const std::vector<float> last = values(narrow(x, 1, n - 1, 1));
    double mixed = 0;
    for (std::size_t k = 0; k < first.size(); ++k) {
      mixed += static_cast<double>(first[k]) * static_cast<double>(last[k]);
    }
    const std::string what = describe(DType::f32, x.shape());
    expect_near(static_cast<double>(got[0]), squares_of(first), what);
    expect_near(static_cast<double>(got[static_cast<std::size_t>(n - 1)]), mixed, what);
  }
}

TEST_P(LongSums, OfProductsWhoseDepthLiesEitherWay) {
  const std::int64_t n = columns(3);
  for (const bool are_equal : {true, false}) {
    const Tensor x = terms({n, length()}, are_equal);
    const Tensor ones_of_depth = ones(device(), {length(), 1});
    const Tensor row = terms({1, length()}, true);
    const double want = sum_of(values(narrow(x, 0, 0, 1)));
    expect_near(static_cast<double>(values(matmul(x, ones_of_depth))[0]), want, "matrix by vector");
    expect_near(static_cast<double>(values(matmul(row, transpose(x)))[0]),
                want * static_cast<double>(0.1F),
                "vector by matrix");
    expect_near(static_cast<double>(values(matmul(x, transpose(x)))[0]),
                squares_of(values(narrow(x, 0, 0, 1))),
                "x by its transpose");
  }
}

TEST_P(LongSums, OfWideProductsOfALongDepth) {
  constexpr std::int64_t kDepth = 150'000;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool are_equal : {true, false}) {
      const Tensor a = cast(terms({kDepth, 24}, are_equal), dtype);
      const Tensor b = cast(terms({kDepth, 40}, are_equal), dtype);
      const Tensor bias = full(device(), {40}, 7.0, dtype);
      const std::vector<float> got = values(cast(matmul(transpose(a), b) + bias, DType::f32));
      const std::vector<float> left = values(cast(a, DType::f32));
      const std::vector<float> right = values(cast(b, DType::f32));
      double want = 7;
      for (std::size_t k = 0; k < kDepth; ++k) {
        want += static_cast<double>(left[k * 24 + 23]) * static_cast<double>(right[k * 40 + 39]);
      }
      const double error = std::fabs(static_cast<double>(got.back()) / want - 1);
      EXPECT_LE(error, dtype == DType::f32 ? kBound : 2 * testing::unit_roundoff(DType::bf16));
    }
  }
}

TEST_P(LongSums, AlongEachAxis) {
  const std::int64_t n = columns(3);
  for (const bool are_equal : {true, false}) {
    const Tensor lines = terms({n, length()}, are_equal);
    const double want = sum_of(values(narrow(lines, 0, n - 1, 1)));
    const auto mean_of = want / static_cast<double>(length());
    const auto check = [&](const Tensor& x, int axis, const std::string& what) {
      expect_near(static_cast<double>(values(sum(x, axis)).back()), want, "sum, " + what);
      expect_near(static_cast<double>(values(mean(x, axis)).back()), mean_of, "mean, " + what);
    };
    check(lines, 1, "trailing");
    check(contiguous(transpose(lines)), 0, "leading");
    check(transpose(lines), 0, "strided");
    const std::int64_t half = length() / 2;
    const Tensor middle = contiguous(permute(reshape(lines, {n, 2, half}), {1, 0, 2}));
    expect_near(static_cast<double>(values(sum(middle, {0, 2})).back()), want, "sum, outer axes");
    const Tensor all = cast(lines, DType::bf16);
    expect_near(static_cast<double>(values(mean(cast(all, DType::f32)))[0]),
                sum_of(values(cast(all, DType::f32))) / static_cast<double>(n * length()),
                "mean of all");
    const double of_narrow = static_cast<double>(values(cast(mean(all), DType::f32))[0]);
    EXPECT_NEAR(of_narrow, mean_of, 0.02 * mean_of) << "mean of bf16";
  }
}

TEST_P(LongSums, OfSquaresAboutAMean) {
  const Tensor x = terms({length()}, false);
  const std::vector<float> from = values(x);
  const double mean_of = sum_of(from) / static_cast<double>(length());
  double squares = 0;
  for (const float value : from) {
    const double apart = static_cast<double>(value) - mean_of;
    squares += apart * apart;
  }
  expect_near(static_cast<double>(values(var(x))[0]),
              squares / static_cast<double>(length() - 1),
              "variance");
}

TEST_P(LongSums, FromPlaceToPlace) {
  const std::int64_t n = columns(40);
  const auto check = [&](const Tensor& x, int axis, const std::string& what) {
    const Tensor ends = cumsum(x, axis);
    const Tensor got = axis == 0 ? narrow(narrow(ends, 0, x.shape()[0] - 1, 1), 1, 0, 1)
                                 : narrow(narrow(ends, 1, x.shape()[1] - 1, 1), 0, 0, 1);
    const Tensor line = axis == 0 ? narrow(x, 1, 0, 1) : narrow(x, 0, 0, 1);
    expect_near(static_cast<double>(values(got)[0]), sum_of(values(line)), what);
  };
  for (const bool are_equal : {true, false}) {
    check(terms({1, length()}, are_equal), 1, "along memory");
    check(terms({length() / n, n}, are_equal), 0, "across memory");
  }
}

TEST_P(LongSums, OfWhatAnIndexSendsToOnePlace) {
  const std::int64_t n = columns(20);
  const Tensor to_one = full(device(), {length()}, 1, DType::i64);
  for (const bool are_equal : {true, false}) {
    for (const std::int64_t width : {std::int64_t{1}, n}) {
      const Tensor source = terms({length(), width}, are_equal);
      const std::vector<float> got =
          values(index_add(zeros(device(), {3, width}), 0, to_one, source));
      expect_near(static_cast<double>(got[static_cast<std::size_t>(width)]),
                  sum_of(values(narrow(source, 1, 0, 1))),
                  "index_add of rows of " + std::to_string(width));
      EXPECT_EQ(got.back(), 0);
    }
  }
  const Tensor table = terms({2, 1}, true);
  const Tensor of_table =
      gradient([&](const Tensor& t) { return sum(index_select(t, 0, to_one)); }, table);
  expect_near(static_cast<double>(values(of_table)[1]),
              static_cast<double>(length()),
              "gradient of a lookup");
}

TEST_P(LongSums, OfConvolutionsAndOfTheirGradients) {
  for (const bool are_equal : {true, false}) {
    const Tensor x = terms({40, 1, 160, 160}, are_equal);
    const Tensor weight = ones(device(), {1, 1, 3, 3});
    const Tensor of_weight = gradient([&](const Tensor& w) { return sum(conv2d(x, w)); }, weight);
    const Tensor inside = narrow(narrow(x, 2, 0, 158), 3, 0, 158);
    expect_near(static_cast<double>(values(of_weight)[0]),
                sum_of(values(inside)),
                "gradient of the weight");
    // A row of a million pixels: the taps lie beside one channel, or are separate loops.
    for (const std::int64_t channels : {1, 8}) {
      const std::int64_t width = 1'000'000 / channels;
      const Tensor signal = terms({1, channels, 1, width}, are_equal);
      const Tensor taps = ones(device(), {1, channels, 1, 3});
      const Tensor of_taps =
          gradient([&](const Tensor& w) { return sum(conv2d(signal, w)); }, taps);
      expect_near(static_cast<double>(values(of_taps)[0]),
                  sum_of(values(narrow(narrow(signal, 1, 0, 1), 3, 0, width - 2))),
                  "gradient of the weight of a long row");
    }
    const Tensor wide = terms({1, 64, 1, 1024}, are_equal);
    for (const std::int64_t outputs : {1, 40}) {
      const std::vector<float> got = values(
          conv2d(wide, ones(device(), {outputs, 64, 1, 1024}), full(device(), {outputs}, 9)));
      expect_near(static_cast<double>(got.back()), 9 + sum_of(values(wide)), "many products");
    }
    const Tensor picture = terms({1, 1, 200, 250}, are_equal);
    expect_near(static_cast<double>(values(avg_pool2d(picture, {.kernel = {200, 250}}))[0]),
                sum_of(values(picture)) / 5e4,
                "the mean of a picture");
  }
}

TEST_P(LongSums, OfExponentials) {
  const Tensor x = zeros(device(), {1, length()});
  expect_near(std::exp(static_cast<double>(values(logsumexp(x, 1))[0])) /
                  std::exp(std::log(static_cast<double>(length()))),
              1,
              "logsumexp");
  expect_near(static_cast<double>(values(softmax(x, 1))[0]) * static_cast<double>(length()),
              1,
              "softmax along memory");
  const Tensor columns_of = zeros(device(), {length() / 4, 4});
  expect_near(
      static_cast<double>(values(softmax(columns_of, 0))[0]) * static_cast<double>(length() / 4),
      1,
      "softmax across memory");
}

TEST_P(LongSums, OfTheKeysOfAttention) {
  constexpr std::int64_t kKeys = 20'000;  // the chain grows slowly with their number
  const Tensor value = terms({1, 1, kKeys, 4}, true);
  const std::vector<float> got =
      values(attention(zeros(device(), {1, 1, 1, 4}), zeros(device(), {1, 1, kKeys, 4}), value));
  expect_near(static_cast<double>(got[0]), static_cast<double>(0.1F), "the mean of all values");
}

TEST_P(LongSums, OfLosses) {
  const std::int64_t rows = length() / 4;
  const Tensor logits = full(device(), {rows, 3}, 0.5);
  const Tensor targets = full(device(), {rows}, 1, DType::i64);
  expect_near(
      static_cast<double>(values(cross_entropy(logits, targets))[0]), std::log(3.0), "the loss");
  const Tensor of_bias = gradient(
      [&](const Tensor& b) { return cross_entropy(logits + b, targets); }, zeros(device(), {3}));
  expect_near(static_cast<double>(values(of_bias)[0]), 1.0 / 3, "the bias's gradient");
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         LongSums,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0"),
                         [](const auto& param) { return std::string(param.param).substr(0, 3); });

}  // namespace
}  // namespace hearth
