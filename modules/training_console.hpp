// TrainingConsole: what a training run says while it goes on: on a terminal one line that is drawn
// again and again, or, on request, a full screen with curves; elsewhere a line an epoch.
// Owned by a run; the file outlives it. Threads: one at a time. A line that cannot be written (a
// closed pipe, a full disk) is lost; the console reports that once on stderr, and the run goes on.
#pragma once

#include <hearth/modules/training_history.hpp>

#include <hearth/runtime/base/clock.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

enum class ConsoleStyle : std::uint8_t {
  automatic,  ///< What HEARTH_CONSOLE says; without it `live` on a terminal, else `plain`. One
              ///< whose TERM is empty or "dumb" cannot clear a line, and is no terminal here.
  live,       ///< A line that is drawn again and again, and one an epoch.
  dashboard,  ///< A full screen with curves, throughput and devices, by ncurses; where that cannot
              ///< be had a line says why, and then it is `automatic`. When the run ends, by Ctrl-C
              ///< or an exception too, the terminal is as it was, with the line of each epoch.
  plain,      ///< A line an epoch.
  silent,     ///< Nothing.
};

struct ConsoleOptions {
  ConsoleStyle style = ConsoleStyle::automatic;  ///< Form of the output.
  std::FILE* out = stdout;                       ///< File of the output; stays open.
};

/// Where a run was ended in the middle.
struct RunPlace {
  std::int64_t epoch = 0;        ///< From 1.
  std::int64_t batch = 0;        ///< So many batches of it are trained …
  std::int64_t batch_count = 0;  ///< … of so many.
};

/// A device as a dashboard shows it.
struct DashboardDevice {
  std::string name;
  bool is_lost = false;
  std::int64_t live_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t budget_bytes = 0;
};

/// What a dashboard shows.
struct DashboardFigures {
  std::string title;
  RunPlace place = {};
  std::optional<RunPlace> validated = std::nullopt;  ///< While the epoch's validation goes on.
  std::int64_t epochs = 0;
  double loss = 0;  ///< The epoch's mean so far.
  double samples_per_s = 0;
  double learning_rate = 0;
  std::chrono::nanoseconds elapsed{0};  ///< Since the run was begun, or resumed …
  double share_at_begin = 0;            ///< … and what share of it was done then.
  const TrainingHistory* history = nullptr;
  std::optional<std::int64_t> best_epoch = std::nullopt;
  double best_value = 0;
  std::string best_text = {};  ///< The same in words, "accuracy 97.86 %"; empty: the number alone.
  std::vector<DashboardDevice> devices = {};
  std::string message = {};  ///< The last line that was said.
};

namespace detail {
class TerminalScreen;
}  // namespace detail

class TrainingConsole final {
 public:
  /// `epochs`: how many the run is to have.
  TrainingConsole(const ConsoleOptions& options, std::int64_t epochs);
  TrainingConsole(const TrainingConsole&) = delete;
  TrainingConsole& operator=(const TrainingConsole&) = delete;
  ~TrainingConsole();
  /// Gives the terminal back, with the lines that were written meanwhile.
  void close() noexcept;

  /// Whether a dashboard is wanted, and was not drawn a moment ago.
  [[nodiscard]] bool wants_dashboard() const;
  /// Draws it; the first time, takes the screen, or says in a line why not.
  void draw(DashboardFigures figures);

  /// Draws the live line, unless it was drawn a moment ago. `loss`: the epoch's mean so far.
  void show(const RunPlace& place, double loss, double samples_per_s);
  /// The same in the validation of an epoch, whose batches `place` counts.
  void show_validation(const RunPlace& place);
  /// The line of an epoch; of one that was ended early, how far it came: "stopped after 3 of 7
  /// batches:".
  void end_epoch(const TrainingHistory& history,
                 const EpochRecord& epoch,
                 const std::string& ending = {});
  /// A line of its own.
  void say(const std::string& line);

 private:
  void write(const std::string& text);
  /// Bytes as they are.
  void put(std::string_view bytes) noexcept;
  /// "epoch 1/5 [####....] 12/60", and as many of the parts as there is room for.
  void show_line(const RunPlace& place,
                 std::string_view doing,
                 const std::vector<std::string>& parts);
  void open_screen();

  std::FILE* out_;
  ConsoleStyle style_;
  std::int64_t epochs_;
  bool is_line_open_ = false;
  bool has_failed_ = false;  // to write, which is reported once
  std::optional<detail::TimePoint> drawn_at_;
  std::unique_ptr<detail::TerminalScreen> screen_;
  std::string kept_;  // written once the screen is given back
  std::string message_;
};

}  // namespace hearth
