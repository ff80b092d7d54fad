#include <hearth/runtime/box_suppression.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hearth::detail {
namespace {

template <class Real>
struct BoxArea {
  Real x1;
  Real y1;
  Real x2;
  Real y2;
  Real area;
};

template <class Real>
BoxArea<Real> box_at(std::span<const Real> boxes, std::size_t i) {
  const std::span<const Real> b = boxes.subspan(4 * i, 4);
  return {b[0], b[1], b[2], b[3], (b[2] - b[0]) * (b[3] - b[1])};
}

// NaN, of two boxes without area, is above no threshold.
template <class Real>
Real overlap_of(const BoxArea<Real>& a, const BoxArea<Real>& b) {
  const Real width = std::max(std::min(a.x2, b.x2) - std::max(a.x1, b.x1), Real{0});
  const Real height = std::max(std::min(a.y2, b.y2) - std::max(a.y1, b.y1), Real{0});
  const Real common = width * height;
  return common / (a.area + b.area - common);
}

// The places of the boxes with a sufficient score, the highest first.
template <class Real>
std::vector<std::size_t> by_score(std::span<const Real> scores, const SuppressionRule& rule) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (rule.score_threshold.has_value()) {
    std::erase_if(order, [&](std::size_t i) {
      return !(static_cast<double>(scores[i]) > *rule.score_threshold);
    });
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return std::isnan(scores[a]) ? !std::isnan(scores[b]) : scores[a] > scores[b];
  });
  return order;
}

}  // namespace

template <class Real>
std::vector<std::int64_t> kept_boxes(std::span<const Real> boxes,
                                     std::span<const Real> scores,
                                     std::span<const std::int64_t> classes,
                                     const SuppressionRule& rule) {
  std::vector<std::int64_t> kept;
  std::vector<BoxArea<Real>> areas;  // of the kept boxes
  for (const std::size_t i : by_score(scores, rule)) {
    if (static_cast<std::int64_t>(kept.size()) >= rule.most) {
      break;
    }
    const BoxArea<Real> box = box_at(boxes, i);
    bool is_covered = false;
    for (std::size_t k = 0; k < kept.size() && !is_covered; ++k) {
      const bool is_rival =
          classes.empty() || classes[static_cast<std::size_t>(kept[k])] == classes[i];
      is_covered = is_rival && static_cast<double>(overlap_of(areas[k], box)) > rule.iou_threshold;
    }
    if (!is_covered) {
      kept.push_back(static_cast<std::int64_t>(i));
      areas.push_back(box);
    }
  }
  return kept;
}

template std::vector<std::int64_t> kept_boxes<float>(std::span<const float> boxes,
                                                     std::span<const float> scores,
                                                     std::span<const std::int64_t> classes,
                                                     const SuppressionRule& rule);
template std::vector<std::int64_t> kept_boxes<double>(std::span<const double> boxes,
                                                      std::span<const double> scores,
                                                      std::span<const std::int64_t> classes,
                                                      const SuppressionRule& rule);

}  // namespace hearth::detail
