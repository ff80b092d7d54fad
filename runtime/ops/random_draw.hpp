// Draws of random ops from a generator, and their log for checkpoint(). The second run of a
// function draws the same numbers as the first, whatever the generator's state is. Private to
// runtime. Threads: each has its own logs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hearth/runtime/generator.hpp>

namespace hearth::detail {

struct DrawnNumbers {
  std::uint64_t seed = 0;
  std::uint64_t counter = 0;
  std::uint64_t blocks = 0;
};

/// Records or replays the draws of one run of a function. Scopes nest, and each is opened and
/// closed on one thread.
class DrawScope final {
 public:
  enum class Way : std::uint8_t { record, replay };
  DrawScope(std::vector<DrawnNumbers>& log, Way way);
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;
  ~DrawScope();

  /// True if a replay drew exactly what was recorded.
  [[nodiscard]] bool is_used_up() const noexcept {
    return !has_drawn_more_ && next_ == log_->size();
  }
  [[nodiscard]] bool is_replay() const noexcept { return way_ == Way::replay; }
  /// The enclosing scope, or null.
  [[nodiscard]] const DrawScope* outer() const noexcept { return outer_; }

 private:
  friend class RandomDraw;

  std::vector<DrawnNumbers>* log_;
  Way way_;
  bool has_drawn_more_ = false;
  std::size_t next_ = 0;
  DrawScope* outer_;
};

/// One op's draw: reserved first, taken once the op is queued.
class RandomDraw final {
 public:
  RandomDraw(Generator& generator, std::uint64_t blocks);
  [[nodiscard]] std::uint64_t seed() const noexcept { return numbers_.seed; }
  [[nodiscard]] std::uint64_t counter() const noexcept { return numbers_.counter; }
  void take();

 private:
  Generator* generator_;
  DrawScope* innermost_;
  DrawnNumbers numbers_;
};

/// Returns whether a function runs again on this thread: an open scope replays.
[[nodiscard]] bool is_replaying() noexcept;

}  // namespace hearth::detail
