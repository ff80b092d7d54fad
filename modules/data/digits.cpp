#include <hearth/modules/digits.hpp>

#include "digit_glyphs.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/host_memory.hpp>
#include <hearth/runtime/base/philox.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

// The bytes must be equal on every machine. So this file uses only + - * / and sqrt, which IEEE 754
// rounds exactly, and no fused multiply-add (-ffp-contract=off). It avoids sines and exponentials:
// see Affine.

namespace hearth {
namespace {

using detail::GlyphPoint;
using detail::GlyphStroke;
using detail::GlyphStyle;

constexpr int kSide = 28;
constexpr int kStepsPerSpan = 6;
constexpr int kFieldSide = 4;
constexpr float kSoftEdge = 0.6F;  // pixels on each side of the stroke's border

using Canvas = std::array<float, std::size_t{kSide} * kSide>;

constexpr std::size_t pixel_index(int x, int y) noexcept {
  return static_cast<std::size_t>(y) * kSide + static_cast<std::size_t>(x);
}

// The random numbers of one image. Each image owns 2^16 counters, far more than it uses.
class Dice {
 public:
  Dice(std::uint64_t seed, std::int64_t picture)
      : seed_(seed), counter_(static_cast<std::uint64_t>(picture) << 16U) {}

  std::uint32_t word() {
    if (used_ == words_.size()) {
      words_ = philox::block(seed_, counter_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  std::size_t below(std::size_t limit) { return (std::uint64_t{word()} * limit) >> 32U; }
  float between(float low, float high) { return low + (high - low) * philox::unit_f32(word()); }
  /// A bell-shaped number within ±1.5 with mean 0 and deviation 1/2: the sum of three uniform ones.
  float bell() { return between(-0.5F, 0.5F) + between(-0.5F, 0.5F) + between(-0.5F, 0.5F); }

 private:
  std::uint64_t seed_;
  std::uint64_t counter_;
  philox::Block words_{};
  std::size_t used_ = words_.size();
};

// A smooth random displacement of the unit box: random vectors on a grid, interpolated.
class BendingField {
 public:
  BendingField(Dice& dice, float strength) {
    for (GlyphPoint& vector : vectors_) {
      vector = {.x = strength * dice.bell(), .y = strength * dice.bell()};
    }
  }

  [[nodiscard]] GlyphPoint bend(GlyphPoint p) const {
    const Place column = place(p.x);
    const Place row = place(p.y);
    const GlyphPoint top =
        mix(at(row.cell, column.cell), at(row.cell, column.cell + 1), column.blend);
    const GlyphPoint bottom =
        mix(at(row.cell + 1, column.cell), at(row.cell + 1, column.cell + 1), column.blend);
    const GlyphPoint shift = mix(top, bottom, row.blend);
    return {.x = p.x + shift.x, .y = p.y + shift.y};
  }

 private:
  struct Place {
    std::size_t cell = 0;
    float blend = 0;
  };

  static Place place(float coordinate) {
    const float scaled = std::clamp(coordinate, 0.0F, 0.999F) * static_cast<float>(kFieldSide - 1);
    const auto cell = static_cast<std::size_t>(scaled);
    const float t = scaled - static_cast<float>(cell);
    return {.cell = cell, .blend = t * t * (3.0F - 2.0F * t)};
  }
  static GlyphPoint mix(GlyphPoint a, GlyphPoint b, float t) {
    return {.x = a.x + (b.x - a.x) * t, .y = a.y + (b.y - a.y) * t};
  }
  [[nodiscard]] GlyphPoint at(std::size_t row, std::size_t column) const {
    return vectors_[row * kFieldSide + column];
  }

  std::array<GlyphPoint, std::size_t{kFieldSide} * kFieldSide> vectors_{};
};

// Maps the unit box to pixels: width and height, slant, rotation, position.
class Affine {
 public:
  explicit Affine(Dice& dice) {
    const float height = dice.between(15.5F, 21.0F);
    const float width = height * dice.between(0.42F, 0.92F);
    const float slant = 0.12F + 0.36F * dice.bell();
    // The tangent of half the angle yields sine and cosine without a libm.
    const float half = 0.16F * dice.bell();
    const float cosine = (1.0F - half * half) / (1.0F + half * half);
    const float sine = 2.0F * half / (1.0F + half * half);
    const float shear = -slant * height;
    matrix_ = {cosine * width,
               cosine * shear - sine * height,
               sine * width,
               sine * shear + cosine * height};
    centre_ = {.x = 14.0F + 2.4F * dice.bell(), .y = 14.0F + 2.4F * dice.bell()};
  }

  [[nodiscard]] GlyphPoint apply(GlyphPoint p) const {
    const float x = p.x - 0.5F;
    const float y = p.y - 0.5F;
    return {.x = centre_.x + matrix_[0] * x + matrix_[1] * y,
            .y = centre_.y + matrix_[2] * x + matrix_[3] * y};
  }

 private:
  std::array<float, 4> matrix_{};
  GlyphPoint centre_;
};

float catmull_rom(float a, float b, float c, float d, float t) {
  return 0.5F * (2.0F * b + t * ((c - a) + t * ((2.0F * a - 5.0F * b + 4.0F * c - d) +
                                                t * (3.0F * (b - c) + d - a))));
}

// The smooth curve through the points. A repeated point makes a corner.
std::vector<GlyphPoint> smooth(const GlyphStroke& points) {
  std::vector<GlyphPoint> curve;
  const auto is_corner = [&](std::size_t i) {
    return points[i].x == points[i + 1].x && points[i].y == points[i + 1].y;
  };
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    if (is_corner(i)) {
      continue;
    }
    const GlyphPoint b = points[i];
    const GlyphPoint c = points[i + 1];
    const GlyphPoint a = i == 0 ? b : points[i - 1];
    const GlyphPoint d = i + 2 < points.size() ? points[i + 2] : c;
    for (int step = 0; step < kStepsPerSpan; ++step) {
      const float t = static_cast<float>(step) / static_cast<float>(kStepsPerSpan);
      curve.push_back(
          {.x = catmull_rom(a.x, b.x, c.x, d.x, t), .y = catmull_rom(a.y, b.y, c.y, d.y, t)});
    }
  }
  curve.push_back(points.back());
  return curve;
}

// Darkens the pixels near a segment of the stroke, by their distance to it.
void draw_segment(Canvas& canvas, GlyphPoint from, GlyphPoint to, float radius) {
  const float reach = radius + kSoftEdge;
  const auto first = [&](float low) { return std::max(0, static_cast<int>(low - reach)); };
  const auto last = [&](float high) { return std::min(kSide - 1, static_cast<int>(high + reach)); };
  const float dx = to.x - from.x;
  const float dy = to.y - from.y;
  const float length_squared = dx * dx + dy * dy + 1e-6F;
  const int right = last(std::max(from.x, to.x));
  const int bottom = last(std::max(from.y, to.y));
  for (int y = first(std::min(from.y, to.y)); y <= bottom; ++y) {
    for (int x = first(std::min(from.x, to.x)); x <= right; ++x) {
      const float px = static_cast<float>(x) + 0.5F - from.x;
      const float py = static_cast<float>(y) + 0.5F - from.y;
      const float along = std::clamp((px * dx + py * dy) / length_squared, 0.0F, 1.0F);
      const float ex = px - along * dx;
      const float ey = py - along * dy;
      const float distance = std::sqrt(ex * ex + ey * ey);
      const float ink = std::clamp((reach - distance) / (2.0F * kSoftEdge), 0.0F, 1.0F);
      float& pixel = canvas[pixel_index(x, y)];
      pixel = std::max(pixel, ink);
    }
  }
}

GlyphStroke jitter(const GlyphStroke& stroke, Dice& dice, float strength) {
  GlyphStroke moved = stroke;
  for (std::size_t i = 0; i < stroke.size(); ++i) {
    const bool is_second_of_corner =
        i > 0 && stroke[i].x == stroke[i - 1].x && stroke[i].y == stroke[i - 1].y;
    moved[i] = is_second_of_corner ? moved[i - 1]
                                   : GlyphPoint{.x = stroke[i].x + strength * dice.bell(),
                                                .y = stroke[i].y + strength * dice.bell()};
  }
  return moved;
}

void draw_style(Canvas& canvas, const GlyphStyle& style, Dice& dice) {
  const float strength = dice.between(0.02F, 0.09F);
  const BendingField field(dice, dice.between(0.03F, 0.16F));
  const Affine affine(dice);
  const float pen = dice.between(0.75F, 1.75F);
  for (const GlyphStroke& stroke : style) {
    std::vector<GlyphPoint> curve = smooth(jitter(stroke, dice, strength));
    for (GlyphPoint& point : curve) {
      point = affine.apply(field.bend(point));
    }
    const float begin = pen * (1.0F + 0.3F * dice.bell());
    const float end = pen * (1.0F + 0.3F * dice.bell());
    const auto segments = static_cast<float>(curve.size() - 1);
    for (std::size_t i = 0; i + 1 < curve.size(); ++i) {
      draw_segment(
          canvas, curve[i], curve[i + 1], begin + (end - begin) * static_cast<float>(i) / segments);
    }
  }
}

// Blends each pixel with the mean of its neighbours in the row, then in the column.
Canvas blur(const Canvas& canvas, float amount) {
  const auto pass = [amount](const Canvas& from, int dx, int dy) {
    Canvas to{};
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const auto at = pixel_index(x, y);
        const bool is_inside = x >= dx && y >= dy && x + dx < kSide && y + dy < kSide;
        const auto step = pixel_index(dx, dy);
        const float mean = is_inside ? 0.5F * (from[at - step] + from[at + step]) : from[at];
        to[at] = from[at] + amount * (mean - from[at]);
      }
    }
    return to;
  };
  return pass(pass(canvas, 1, 0), 0, 1);
}

void develop(const Canvas& canvas, Dice& dice, std::uint8_t* pixels) {
  const Canvas soft = blur(canvas, dice.between(0.0F, 0.5F));
  const float ink = dice.between(0.75F, 1.0F);
  const float grain = dice.between(0.0F, 0.25F);
  const float dust = dice.between(0.0F, 0.04F);
  for (std::size_t i = 0; i < soft.size(); ++i) {
    const float noise = dice.between(-1.0F, 1.0F);
    const float value = soft[i] * ink * (1.0F + grain * noise) + dust * noise;
    pixels[i] = static_cast<std::uint8_t>(std::clamp(value, 0.0F, 1.0F) * 255.99F);
  }
}

}  // namespace

LabelledImages make_digits(DigitOptions options, SourceLoc loc) {
  const detail::FloatEnvironment environment;
  if (options.count < 0 || options.first < 0) {
    throw ArgumentError(Error{.code = ErrorCode::invalid_argument,
                              .text = "make_digits: count and first must not be negative: count " +
                                      std::to_string(options.count) + ", first " +
                                      std::to_string(options.first),
                              .op = "make_digits",
                              .location = loc});
  }
  const auto glyphs = detail::digit_glyphs();
  LabelledImages data{.count = options.count,
                      .height = kSide,
                      .width = kSide,
                      .class_count = 10,
                      .pixels = {},
                      .labels = {}};
  constexpr std::int64_t kMostPictures = std::numeric_limits<std::int64_t>::max() / (kSide * kSide);
  const std::int64_t pixel_count = std::min(options.count, kMostPictures) * kSide * kSide;
  resize_on_host(data.pixels, static_cast<std::size_t>(pixel_count), "make_digits", loc).value();
  resize_on_host(data.labels, static_cast<std::size_t>(options.count), "make_digits", loc).value();
  for (std::int64_t i = 0; i < options.count; ++i) {
    Dice dice(options.seed, options.first + i);
    const std::size_t digit = dice.below(glyphs.size());
    const std::vector<GlyphStyle>& styles = glyphs[digit];
    Canvas canvas{};
    draw_style(canvas, styles[dice.below(styles.size())], dice);
    const auto at = static_cast<std::size_t>(i);
    develop(canvas, dice, data.pixels.data() + at * kSide * kSide);
    data.labels[at] = static_cast<std::uint8_t>(digit);
  }
  return data;
}

}  // namespace hearth
