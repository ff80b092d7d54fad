#include <hearth/runtime/base/schedule.hpp>

#include <hearth/runtime/base/error.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace hearth {
namespace {

class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t bits = (state_ += 0x9e3779b97f4a7c15U);
    bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
    return bits ^ (bits >> 31U);
  }

 private:
  std::uint64_t state_;
};

class Pct {
 public:
  explicit Pct(const PctOptions& options) : random_(options.seed) {
    const std::uint64_t steps = std::max<std::uint64_t>(options.step_count, 1);
    for (int change = 1; change < options.depth; ++change) {
      changes_.push_back(random_.next() % steps);
    }
    std::ranges::sort(changes_, std::greater<>{});  // the next change is at the back
  }

  std::size_t operator()(std::span<const ThreadNumber> runnable, ThreadNumber previous) {
    const std::uint64_t step = steps_++;
    std::size_t best = highest(runnable);
    const bool stays = runnable.size() > 1 && runnable[best] == previous;
    in_a_row_ = stays ? in_a_row_ + 1 : 0;
    const bool is_change = !changes_.empty() && changes_.back() <= step;
    if (is_change) {
      changes_.pop_back();
    }
    if (is_change || in_a_row_ >= kSchedulePatience) {
      priority_of(runnable[best]) = --lowest_;
      in_a_row_ = 0;
      best = highest(runnable);
    }
    return best;
  }

 private:
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

  std::int64_t& priority_of(ThreadNumber thread) {
    if (thread >= priorities_.size()) {
      priorities_.resize(thread + 1, kNone);
    }
    std::int64_t& priority = priorities_[thread];
    if (priority == kNone) {
      priority = static_cast<std::int64_t>(random_.next() >> 2U);
    }
    return priority;
  }
  std::size_t highest(std::span<const ThreadNumber> runnable) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < runnable.size(); ++i) {
      // In sequence, because priority_of may reallocate the priorities.
      const std::int64_t known = priority_of(runnable[best]);
      best = priority_of(runnable[i]) > known ? i : best;
    }
    return best;
  }

  SplitMix random_;
  std::vector<std::uint64_t> changes_;
  std::vector<std::int64_t> priorities_;  // by thread; lowered ones are negative
  std::int64_t lowest_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t in_a_row_ = 0;
};

}  // namespace

ScheduleFn in_turn() {
  return [](std::span<const ThreadNumber> /*runnable*/, ThreadNumber /*previous*/) {
    return std::size_t{0};
  };
}

ScheduleFn random_schedule(std::uint64_t seed) {
  return [random = SplitMix(seed)](std::span<const ThreadNumber> runnable,
                                   ThreadNumber /*previous*/) mutable {
    return static_cast<std::size_t>(random.next() % runnable.size());
  };
}

ScheduleFn pct_schedule(const PctOptions& options) {
  return Pct(options);
}

ScheduleFn replay_schedule(std::vector<ThreadNumber> choices) {
  return [choices = std::move(choices), step = std::size_t{0}](
             std::span<const ThreadNumber> runnable, ThreadNumber /*previous*/) mutable {
    if (step == choices.size()) {
      return std::size_t{0};
    }
    const ThreadNumber wanted = choices[step++];
    const auto found = std::ranges::find(runnable, wanted);
    if (found == runnable.end()) {
      throw_error(Error{.code = ErrorCode::bad_format,
                        .text = "replay: at step " + std::to_string(step) + " thread " +
                                std::to_string(wanted) +
                                " cannot run: this is not the program that was recorded"});
    }
    return static_cast<std::size_t>(found - runnable.begin());
  };
}

}  // namespace hearth
