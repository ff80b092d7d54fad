#include <hearth/autotune/duel.hpp>

#include <algorithm>
#include <array>

#include <hearth/runtime/base/assert.hpp>

namespace hearth::detail {
namespace {

// Each look at the data is a chance of a false verdict, so there are four.
constexpr std::array<std::size_t, 4> kChecks{9, 13, 20, Duel::kMostPairs};

}  // namespace

void Duel::add(const Sample& sample) {
  HEARTH_ASSERT(!is_over_, "a duel that is over takes no sample");
  auto& side = is_challenger_next() ? open_.challenger : open_.incumbent;
  side[static_cast<std::size_t>(place_ / 2)] = sample;
  place_ = (place_ + 1) % 4;
  if (place_ != 0) {
    return;
  }
  if (!is_warm_) {
    is_warm_ = true;
    return;
  }
  pairs_.push_back(open_);
  if (std::ranges::find(kChecks, pairs_.size()) != kChecks.end()) {
    judgement_ = judge(pairs_, options_);
    is_over_ = judgement_.verdict != Verdict::unclear || judgement_.doubt == Doubt::dirty ||
               pairs_.size() == kChecks.back();
  }
}

}  // namespace hearth::detail
