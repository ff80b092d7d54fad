#include "conv_choices.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace hearth::cpu {

// Of the sources of convolutions and products; kernel_text.cmake generates its definition.
extern const std::uint64_t kConvText;

namespace {

struct TapRow {
  std::string_view name;
  TapChoice choice;
};

// All sums are over (channel, tap) in one order, in blocks that depend on the depth alone.
constexpr detail::BitsClass kTapSums = 1;
constexpr std::int64_t kLargePlanes = std::int64_t{2} << 20;
constexpr std::int64_t kManyPixels = 1024;
constexpr std::int64_t kFewPixels = 128;
constexpr TapForm kPixels = TapForm::pixels_by_channels;
constexpr TapForm kChannels = TapForm::channels_by_pixels;
constexpr TapForm kWindows = TapForm::windows;
constexpr TapForm kRule = TapForm::by_size;
constexpr std::int64_t kSmallPlanes = std::int64_t{64} << 10;

// Ids count from 1. The first rows are tried first.
constexpr std::array kTapRows = {
    TapRow{"pixels-1024", {kRule, kManyPixels, 0}},
    TapRow{"pixels-1024/planes-2M", {kRule, kManyPixels, kLargePlanes}},
    TapRow{"by-pixels", {kPixels, 0, 0}},
    TapRow{"by-channels", {kChannels, 0, 0}},
    TapRow{"by-pixels/pixels-1024", {kPixels, kManyPixels, kLargePlanes}},
    TapRow{"by-channels/pixels-1024", {kChannels, kManyPixels, kLargePlanes}},
    TapRow{"planes-2M", {kRule, 0, kLargePlanes}},
    TapRow{"pixels-128", {kRule, kFewPixels, 0}},
    TapRow{"windows", {kWindows, 0, 0}},
    TapRow{"windows/planes-64K", {kWindows, 0, kSmallPlanes}},
};

}  // namespace

const TapChoice* tap_choice_of(detail::CandidateId pick) noexcept {
  return pick == detail::kRulePick || pick > kTapRows.size() ? nullptr
                                                             : &kTapRows[pick - 1U].choice;
}

std::vector<detail::Candidate> tap_candidates(
    const std::function<TapPlans(const TapChoice&)>& plan) {
  std::vector<TapPlans> known{plan(TapChoice())};
  std::vector<detail::Candidate> list{
      {.id = detail::kRulePick, .bits = kTapSums, .text_hash = kConvText, .name = "rule"}};
  for (std::size_t i = 0; i < kTapRows.size(); ++i) {
    const TapRow& row = kTapRows[i];
    TapPlans plans = plan(row.choice);
    if (std::ranges::find(known, plans) == known.end()) {
      known.push_back(std::move(plans));
      list.push_back({.id = static_cast<detail::CandidateId>(i + 1),
                      .bits = kTapSums,
                      .text_hash = kConvText,
                      .name = row.name});
    }
  }
  if (list.size() == 1) {
    list.clear();
  }
  return list;
}

}  // namespace hearth::cpu
