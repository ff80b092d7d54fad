#include <hearth/modules/digits.hpp>

#include <hearth/runtime/base/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth {
namespace {

constexpr std::size_t kPixels = std::size_t{28} * 28;

std::vector<std::uint8_t> picture(const LabelledImages& data, std::size_t i) {
  const auto begin = data.pixels.begin() + static_cast<std::ptrdiff_t>(i * kPixels);
  return {begin, begin + static_cast<std::ptrdiff_t>(kPixels)};
}

// FNV-1a.
std::uint64_t fingerprint(const std::vector<std::uint8_t>& bytes) {
  std::uint64_t hash = 14695981039346656037U;
  for (const std::uint8_t byte : bytes) {
    hash = (hash ^ byte) * 1099511628211U;
  }
  return hash;
}

TEST(Digits, HaveTheShapeThatTheySay) {
  const LabelledImages data = make_digits({.count = 7});
  EXPECT_EQ(data.count, 7);
  EXPECT_EQ(data.height, 28);
  EXPECT_EQ(data.width, 28);
  EXPECT_EQ(data.class_count, 10);
  EXPECT_EQ(data.pixels.size(), 7 * kPixels);
  EXPECT_EQ(data.labels.size(), 7U);
}

// The bytes are part of the contract: figures in the documentation are measured on them.
TEST(Digits, HaveTheSameBytesOnEveryMachine) {
  const LabelledImages data = make_digits({.count = 500, .seed = 1});
  EXPECT_EQ(fingerprint(data.pixels), 6045746580345821494U);
  EXPECT_EQ(fingerprint(data.labels), 12004954774251804270U);
}

TEST(Digits, DependOnSeedAndIndexAlone) {
  const LabelledImages all = make_digits({.count = 20, .seed = 5});
  const LabelledImages tail = make_digits({.count = 5, .seed = 5, .first = 15});
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(picture(all, 15 + i), picture(tail, i));
    EXPECT_EQ(all.labels[15 + i], tail.labels[i]);
  }
}

TEST(Digits, DifferBetweenSeeds) {
  EXPECT_NE(make_digits({.count = 10, .seed = 1}).pixels,
            make_digits({.count = 10, .seed = 2}).pixels);
}

TEST(Digits, NeverRepeatAPicture) {
  const LabelledImages data = make_digits({.count = 2000});
  std::vector<std::uint64_t> prints;
  for (std::size_t i = 0; i < 2000; ++i) {
    prints.push_back(fingerprint(picture(data, i)));
  }
  std::sort(prints.begin(), prints.end());
  EXPECT_EQ(std::adjacent_find(prints.begin(), prints.end()), prints.end());
}

TEST(Digits, HaveEachClassAboutEquallyOften) {
  const LabelledImages data = make_digits({.count = 5000});
  for (std::uint8_t digit = 0; digit < 10; ++digit) {
    const auto times = std::count(data.labels.begin(), data.labels.end(), digit);
    EXPECT_GT(times, 400) << int{digit};
    EXPECT_LT(times, 600) << int{digit};
  }
}

TEST(Digits, AreBrightInkOnADarkGround) {
  const LabelledImages data = make_digits({.count = 500});
  for (std::size_t i = 0; i < 500; ++i) {
    const std::vector<std::uint8_t> pixels = picture(data, i);
    const auto inked =
        std::count_if(pixels.begin(), pixels.end(), [](std::uint8_t p) { return p > 96; });
    EXPECT_GT(inked, 12) << "picture " << i << " is all but empty";
    EXPECT_LT(inked, 400) << "picture " << i << " is a blot";
  }
}

using Means = std::array<std::vector<double>, 10>;

Means class_means(const LabelledImages& data) {
  Means means;
  for (std::uint8_t digit = 0; digit < 10; ++digit) {
    std::vector<double>& mean = means[digit];
    mean.assign(kPixels, 0.0);
    const auto times =
        static_cast<double>(std::count(data.labels.begin(), data.labels.end(), digit));
    for (std::size_t i = 0; i < data.labels.size(); ++i) {
      for (std::size_t p = 0; data.labels[i] == digit && p < kPixels; ++p) {
        mean[p] += data.pixels[i * kPixels + p] / times;
      }
    }
  }
  return means;
}

std::size_t nearest(const Means& means, const std::vector<std::uint8_t>& pixels) {
  std::array<double, 10> distances{};
  for (std::size_t digit = 0; digit < 10; ++digit) {
    for (std::size_t p = 0; p < kPixels; ++p) {
      const double difference = pixels[p] - means[digit][p];
      distances[digit] += difference * difference;
    }
  }
  return static_cast<std::size_t>(std::min_element(distances.begin(), distances.end()) -
                                  distances.begin());
}

// The nearest class mean is a weak classifier: far better than chance, and far from sufficient.
TEST(Digits, CanBeToldApartButNotByTheirMeansAlone) {
  const Means means = class_means(make_digits({.count = 2000}));
  const LabelledImages test = make_digits({.count = 500, .first = 100'000});
  int right = 0;
  for (std::size_t i = 0; i < 500; ++i) {
    right += nearest(means, picture(test, i)) == test.labels[i] ? 1 : 0;
  }
  EXPECT_GT(right, 200);
  EXPECT_LT(right, 425);
}

TEST(Digits, MayBeNone) {
  EXPECT_TRUE(make_digits({.count = 0}).pixels.empty());
}

TEST(Digits, RefuseNegativeCounts) {
  EXPECT_THROW(static_cast<void>(make_digits({.count = -1})), ArgumentError);
  EXPECT_THROW(static_cast<void>(make_digits({.count = 1, .first = -1})), ArgumentError);
}

}  // namespace
}  // namespace hearth
