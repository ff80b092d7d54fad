// box_iou, nms and roi_align beside plain loops over torchvision's rules.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/vision_ops.hpp>

#include "tests/runtime/composed/composed_test.hpp"
#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using ::testing::IsEmpty;
using ::testing::Pointwise;
using testing::thrown_text;
using VisionTest = testing::ComposedTest;
using Tensors = std::vector<Tensor>;

HostTensor random_boxes(std::uint32_t seed, std::int64_t count) {
  HostTensor boxes = HostRandom(seed).uniform({count, 4}, 0, 10);
  for (std::size_t i = 0; i < boxes.values.size(); i += 4) {
    boxes.values[i + 2] = boxes.values[i] + boxes.values[i + 2] / 2 + 0.1;
    boxes.values[i + 3] = boxes.values[i + 1] + boxes.values[i + 3] / 2 + 0.1;
  }
  return boxes;
}

double plain_iou(const double* a, const double* b) {
  const double width = std::max(std::min(a[2], b[2]) - std::max(a[0], b[0]), 0.0);
  const double height = std::max(std::min(a[3], b[3]) - std::max(a[1], b[1]), 0.0);
  const double common = width * height;
  return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common);
}

TEST_P(VisionTest, BoxIouComparesAllPairs) {
  const HostTensor a = random_boxes(61, 5);
  const HostTensor b = random_boxes(62, 7);
  std::vector<double> wanted;
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t k = 0; k < 7; ++k) {
      wanted.push_back(plain_iou(&a.values[4 * i], &b.values[4 * k]));
    }
  }
  EXPECT_THAT(reals(box_iou(a.on(device()), b.on(device()))), Pointwise(DoubleNear(1e-12), wanted));
  EXPECT_TRUE(std::ranges::any_of(wanted, [](double iou) { return iou > 0.1; }));
  check_gradients(device(), [](const Tensors& in) { return box_iou(in[0], in[1]); }, {a, b});
  EXPECT_EQ(box_iou(zeros(device(), {0, 4}), b.on(device())).shape(), (Shape{0, 7}));
  EXPECT_EQ(box_iou(cast(a.on(device()), DType::f16), cast(b.on(device()), DType::f16)).dtype(),
            DType::f16);
  EXPECT_TRUE(std::isnan(box_iou(zeros(device(), {1, 4}), zeros(device(), {1, 4})).item()));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)box_iou(counting({2, 4}), counting({2, 5}));
              }),
              HasSubstr("box_iou: needs boxes [n, 4] and [m, 4]: f64[2, 4], f64[2, 5]"));
  EXPECT_THROW((void)box_iou(i64({1, 2, 3, 4}, {1, 4}), counting({1, 4})), DtypeError);
}

std::vector<std::int64_t> plain_nms(const HostTensor& boxes,
                                    const std::vector<double>& scores,
                                    const std::vector<std::int64_t>& classes,
                                    double threshold) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  std::vector<std::int64_t> kept;
  for (const std::int64_t i : order) {
    const bool is_free = std::ranges::none_of(kept, [&](std::int64_t k) {
      const auto mine = static_cast<std::size_t>(i);
      const auto other = static_cast<std::size_t>(k);
      return (classes.empty() || classes[mine] == classes[other]) &&
             plain_iou(&boxes.values[4 * other], &boxes.values[4 * mine]) > threshold;
    });
    if (is_free) {
      kept.push_back(i);
    }
  }
  return kept;
}

TEST_P(VisionTest, NmsKeepsTheBestOfOverlappingBoxes) {
  const HostTensor boxes = random_boxes(63, 200);
  HostTensor scores = HostRandom(64).uniform({200}, 0, 1);
  for (double& score : scores.values) {
    score = std::round(score * 50) / 50;  // ties
  }
  std::vector<std::int64_t> classes(200);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    classes[i] = static_cast<std::int64_t>(i * 7 % 3) - 1;
  }
  for (const double threshold : {0.0, 0.1, 0.5, 1.0}) {
    const std::vector<std::int64_t> wanted = plain_nms(boxes, scores.values, {}, threshold);
    EXPECT_EQ(integers(nms(boxes.on(device()), scores.on(device()), threshold)), wanted);
    const Tensor got = batched_nms(
        boxes.on(device()), scores.on(device()), cast(i64(classes), DType::i32), threshold);
    EXPECT_EQ(integers(got), plain_nms(boxes, scores.values, classes, threshold));
    EXPECT_EQ(got.dtype(), DType::i64);
  }
}

TEST_P(VisionTest, NmsTakesNanEmptyAndNarrowOperands) {
  const Tensor boxes = f64({0, 0, 2, 2, 0, 0, 2, 2, 5, 5, 6, 6, 0, 0, 2, 1}, {4, 4});
  EXPECT_THAT(integers(nms(boxes, f64({1, 1, 0, 0.5}), 0.5)), ElementsAre(0, 3, 2))
      << "an overlap of 0.5 is not above it";
  EXPECT_THAT(integers(nms(boxes, f64({1, std::nan(""), 0, 0.5}), 0.4)), ElementsAre(1, 2));
  EXPECT_THAT(integers(nms(transpose(contiguous(transpose(boxes))), f64({1, 1, 0, 0.5}), 0.5)),
              ElementsAre(0, 3, 2));
  EXPECT_EQ(nms(zeros(device(), {0, 4}), zeros(device(), {0}), 0.5).shape(), Shape{0});
  EXPECT_EQ(batched_nms(zeros(device(), {0, 4}), zeros(device(), {0}), i64({}), 0.5).shape(),
            Shape{0});
  EXPECT_THAT(integers(nms(cast(boxes, DType::bf16), cast(f64({1, 1, 0, 0.5}), DType::bf16), 0.5)),
              ElementsAre(0, 3, 2));
  const WaitOptions limit{.deadline = Deadline::in(std::chrono::minutes(1))};
  EXPECT_THAT(integers(nms(boxes, f64({1, 1, 0, 0.5}), 0.5, limit)), ElementsAre(0, 3, 2));
  const Tensor broken = index_select(boxes, 0, i64({0, 1, 2, 9}));
  EXPECT_THROW((void)nms(broken, f64({1, 1, 0, 0.5}), 0.5), DeviceError);
}

TEST_P(VisionTest, NmsRefusesWhatDoesNotFit) {
  const Tensor boxes = counting({2, 4});
  const Tensor scores = counting({2});
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)nms(boxes, counting({3}), 0.5); }),
              HasSubstr("nms: needs boxes [n, 4] and scores [n]: f64[2, 4], f64[3]"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)nms(boxes, scores, std::nan("")); }),
              HasSubstr("nms: iou_threshold is NaN"));
  EXPECT_THROW((void)nms(cast(boxes, DType::i32), scores, 0.5), DtypeError);
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)batched_nms(boxes, scores, scores, 0.5); }),
              HasSubstr("batched_nms: classes are i32 or i64"));
  EXPECT_THROW((void)batched_nms(boxes, scores, i64({1}), 0.5), ShapeError);
}

// One sample by torchvision's bilinear_interpolate.
double plain_sample(const double* picture, std::int64_t h, std::int64_t w, double y, double x) {
  if (!(y >= -1 && y <= static_cast<double>(h) && x >= -1 && x <= static_cast<double>(w))) {
    return 0;
  }
  y = std::clamp(y, 0.0, static_cast<double>(h - 1));
  x = std::clamp(x, 0.0, static_cast<double>(w - 1));
  double sum = 0;
  for (std::int64_t i = 0; i < h; ++i) {
    for (std::int64_t k = 0; k < w; ++k) {
      sum += std::max(1 - std::fabs(y - static_cast<double>(i)), 0.0) *
             std::max(1 - std::fabs(x - static_cast<double>(k)), 0.0) * picture[i * w + k];
    }
  }
  return sum;
}

std::vector<double> plain_roi_align(const HostTensor& x,
                                    const HostTensor& boxes,
                                    const RoiAlignOptions& o) {
  const std::int64_t h = x.shape[2];
  const std::int64_t w = x.shape[3];
  std::vector<double> result;
  for (std::size_t r = 0; r < boxes.values.size(); r += 5) {
    const double* const box = &boxes.values[r];
    const auto bin_of = [&](double low, double high, std::int64_t bins) {
      const double length = (high - low) * o.spatial_scale;
      return (o.aligned ? length : std::max(length, 1.0)) / static_cast<double>(bins);
    };
    const double offset = o.aligned ? 0.5 : 0;
    const double top = box[2] * o.spatial_scale - offset;
    const double left = box[1] * o.spatial_scale - offset;
    const double bin_h = bin_of(box[2], box[4], o.size.height());
    const double bin_w = bin_of(box[1], box[3], o.size.width());
    const auto samples = [&](double bin) {
      return o.sampling_ratio > 0 ? static_cast<double>(o.sampling_ratio) : std::ceil(bin);
    };
    const double rows = samples(bin_h);
    const double columns = samples(bin_w);
    for (std::int64_t c = 0; c < x.shape[1]; ++c) {
      const double* const picture = &x.values[static_cast<std::size_t>(
          (static_cast<std::int64_t>(box[0]) * x.shape[1] + c) * h * w)];
      for (std::int64_t p = 0; p < o.size.height(); ++p) {
        for (std::int64_t q = 0; q < o.size.width(); ++q) {
          double sum = 0;
          for (double i = 0; i < rows; ++i) {
            for (double k = 0; k < columns; ++k) {
              sum += plain_sample(picture,
                                  h,
                                  w,
                                  top + (static_cast<double>(p) + (i + 0.5) / rows) * bin_h,
                                  left + (static_cast<double>(q) + (k + 0.5) / columns) * bin_w);
            }
          }
          result.push_back(sum / std::max(rows * columns, 1.0));
        }
      }
    }
  }
  return result;
}

// Boxes in, across and beyond pictures, in no order of the pictures.
HostTensor regions_of(std::int64_t pictures) {
  const auto last = static_cast<double>(pictures - 1);
  return {{6, 5}, {last, 1, 1, 9,    7,    0, -3, -2, 4,  5,  last, 2.5, 3.5, 2.6, 3.6,
                   0,    6, 5, 30.5, 20.2, 0, 40, 40, 50, 50, last, 0,   0,   12,  10}};
}

TEST_P(VisionTest, RoiAlignMatchesPlainLoops) {
  for (const std::int64_t pictures : {1, 3}) {
    const HostTensor x = HostRandom(65).uniform({pictures, 2, 5, 6}, -1, 1);
    const HostTensor boxes = regions_of(pictures);
    for (const bool aligned : {false, true}) {
      for (const std::int64_t ratio : {0, 1, 2, 3}) {
        const RoiAlignOptions options{
            .size = {3, 2}, .spatial_scale = 0.5, .sampling_ratio = ratio, .aligned = aligned};
        const Tensor got = roi_align(x.on(device()), boxes.on(device()), options);
        EXPECT_EQ(got.shape(), (Shape{6, 2, 3, 2}));
        EXPECT_THAT(reals(got), Pointwise(DoubleNear(1e-11), plain_roi_align(x, boxes, options)))
            << pictures << aligned << ratio;
      }
    }
  }
}

TEST_P(VisionTest, RoiAlignHasAGradientForTheFeatures) {
  const Tensor boxes = regions_of(2).on(device());
  for (const std::int64_t ratio : {0, 2}) {
    check_gradients(
        device(),
        [&](const Tensors& in) {
          return square(roi_align(
              in[0],
              boxes,
              {.size = 2, .spatial_scale = 0.5, .sampling_ratio = ratio, .aligned = true}));
        },
        {HostRandom(66).uniform({2, 2, 4, 3}, -1, 1)});
  }
}

TEST_P(VisionTest, RoiAlignTakesEdgesAndTypes) {
  const Tensor x = counting({1, 1, 4, 4});
  EXPECT_EQ(roi_align(x, zeros(device(), {0, 5})).shape(), (Shape{0, 1, 7, 7}));
  const Tensor whole = f64({0, 0, 0, 4, 4}, {1, 5});
  const Tensor narrow = roi_align(cast(x, DType::f16), cast(whole, DType::f16), {.size = 2});
  EXPECT_EQ(narrow.dtype(), DType::f16);
  EXPECT_EQ(roi_align(cast(x, DType::f32), cast(whole, DType::f32)).dtype(), DType::f32);
  const Tensor reversed = f64({0, 3, 3, 1, 1}, {1, 5});
  EXPECT_THAT(reals(roi_align(x, reversed, {.size = 1, .aligned = true})), ElementsAre(0))
      << "no samples";
  const double nan = std::nan("");
  EXPECT_THAT(reals(roi_align(x, f64({0, nan, 0, 1, 1}, {1, 5}), {.size = 1, .sampling_ratio = 1})),
              ElementsAre(0));
  const Tensor view = permute(counting({4, 4, 1, 1}), {2, 3, 1, 0});
  EXPECT_EQ(reals(roi_align(view, whole, {.size = 2, .sampling_ratio = 2})),
            reals(roi_align(contiguous(view), whole, {.size = 2, .sampling_ratio = 2})));
  const WaitOptions limit{.deadline = Deadline::in(std::chrono::minutes(1))};
  EXPECT_EQ(reals(roi_align(x, whole, {.size = 2}, limit)),
            reals(roi_align(x, whole, {.size = 2})));
}

TEST_P(VisionTest, RoiAlignRefusesWhatDoesNotFit) {
  const Tensor x = counting({2, 1, 4, 4});
  const Tensor boxes = counting({2, 5});
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)roi_align(x, counting({2, 4}));
              }),
              HasSubstr("roi_align: needs x [n, c, h, w] and boxes [k, 5]: x f64[2, 1, 4, 4], "
                        "boxes f64[2, 4]"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)roi_align(x, boxes, {.size = 0}); }),
              HasSubstr("roi_align: size 0 x 0 is below 1"));
  EXPECT_THROW((void)roi_align(x, boxes, {.sampling_ratio = -1}), ArgumentError);
  EXPECT_THROW((void)roi_align(x, boxes, {.spatial_scale = std::nan("")}), ArgumentError);
  EXPECT_THROW((void)roi_align(cast(x, DType::i32), boxes), DtypeError);
  EXPECT_THROW((void)roi_align(counting({1, 1, 0, 4}), boxes), ShapeError);
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)roi_align(x, f64({0, 0, 0, 1e12, 1}, {1, 5}));
              }),
              HasSubstr("roi_align: a bin of the largest box takes 142857142858 samples"));
  for (const std::int64_t pictures : {1, 2}) {
    const Tensor outside = f64({static_cast<double>(pictures), 0, 0, 1, 1}, {1, 5});
    EXPECT_EQ(failure(roi_align(counting({pictures, 1, 4, 4}), outside, {.sampling_ratio = 1})),
              ErrorCode::out_of_range);
  }
}

HEARTH_ON_COMPOSED_DEVICES(VisionTest);

}  // namespace
}  // namespace hearth
