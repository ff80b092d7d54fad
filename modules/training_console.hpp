// TrainingConsole: what a training run says while it goes on: on a terminal one line that is drawn
// again and again, elsewhere a line an epoch.
// Owned by a run; the file outlives it. Threads: one at a time. Writing errors are left to the
// file.
#pragma once

#include <hearth/modules/training_history.hpp>

#include <hearth/runtime/base/clock.hpp>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace hearth {

enum class ConsoleStyle : std::uint8_t {
  automatic,  ///< `live` on a terminal, else `plain`.
  live,       ///< A line that is drawn again and again, and one an epoch.
  plain,      ///< A line an epoch.
  silent,
};

struct ConsoleOptions {
  ConsoleStyle style = ConsoleStyle::automatic;
  std::FILE* out = stdout;
};

/// Where a run was ended in the middle.
struct RunPlace {
  std::int64_t epoch = 0;        ///< From 1.
  std::int64_t batch = 0;        ///< So many batches of it are trained …
  std::int64_t batch_count = 0;  ///< … of so many.
};

class TrainingConsole final {
 public:
  /// `epochs`: how many the run is to have.
  TrainingConsole(const ConsoleOptions& options, std::int64_t epochs);

  /// Draws the live line, unless it was drawn a moment ago. `loss`: the epoch's mean so far.
  void show(const RunPlace& place, double loss, double samples_per_s);
  /// The line of an epoch; of one that was ended early, how far it came.
  void end_epoch(const TrainingHistory& history,
                 const EpochRecord& epoch,
                 const std::optional<RunPlace>& ended_at = std::nullopt);
  /// A line of its own.
  void say(const std::string& line);

 private:
  void write(const std::string& text);

  std::FILE* out_;
  ConsoleStyle style_;
  std::int64_t epochs_;
  bool is_line_open_ = false;
  std::optional<detail::TimePoint> drawn_at_;
};

}  // namespace hearth
