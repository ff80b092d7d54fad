// TrainingConsole: the live output of a training run. On a terminal it redraws one line or, on
// request, a full screen with curves; elsewhere it prints a line per epoch.
// Owned by a run; the output file outlives it. Threads: one at a time. A line that cannot be
// written (closed pipe, full disk) is lost. The console reports that once on stderr, and the run
// continues.
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
  /// The style in HEARTH_CONSOLE; without it `live` on a terminal, else `plain`. A terminal whose
  /// TERM is empty or "dumb" cannot clear a line, so it does not count as one.
  automatic,
  live,  ///< One line that is redrawn, and a line per epoch.
  /// A full screen with curves, throughput and devices, by ncurses. If that is not available, a
  /// line gives the reason and the style is `automatic`. When the run ends, also by Ctrl-C or an
  /// exception, the terminal is restored and the line of each epoch printed.
  dashboard,
  plain,   ///< A line per epoch.
  silent,  ///< No output.
};

struct ConsoleOptions {
  ConsoleStyle style = ConsoleStyle::automatic;  ///< Style of the output.
  std::FILE* out = stdout;                       ///< File that receives the output; stays open.
};

/// A position inside a run.
struct RunPlace {
  std::int64_t epoch = 0;        ///< Number of the epoch, from 1.
  std::int64_t batch = 0;        ///< Batches of the epoch that are done.
  std::int64_t batch_count = 0;  ///< Batches of the epoch in total.
};

/// One device, as a dashboard shows it.
struct DashboardDevice {
  std::string name;
  bool is_lost = false;
  std::int64_t live_bytes = 0;
  std::int64_t peak_bytes = 0;
  std::int64_t budget_bytes = 0;
};

/// All values that a dashboard shows.
struct DashboardFigures {
  std::string title;
  RunPlace place = {};
  /// Position in the epoch's validation, while it runs.
  std::optional<RunPlace> validated = std::nullopt;
  std::int64_t epochs = 0;
  double loss = 0;  ///< The epoch's mean so far.
  double samples_per_s = 0;
  double learning_rate = 0;
  std::chrono::nanoseconds elapsed{0};  ///< Time since the run was started or resumed.
  double share_at_begin = 0;            ///< Share of the run that was done at that time.
  const TrainingHistory* history = nullptr;
  std::optional<std::int64_t> best_epoch = std::nullopt;
  double best_value = 0;
  /// `best_value` in words, "accuracy 97.86 %"; empty: the number alone.
  std::string best_text = {};
  std::vector<DashboardDevice> devices = {};
  std::string message = {};  ///< The last message.
};

namespace detail {
class TerminalScreen;
}  // namespace detail

class TrainingConsole final {
 public:
  /// `epochs`: number of epochs of the run.
  TrainingConsole(const ConsoleOptions& options, std::int64_t epochs);
  TrainingConsole(const TrainingConsole&) = delete;
  TrainingConsole& operator=(const TrainingConsole&) = delete;
  ~TrainingConsole();
  /// Restores the terminal and prints the lines that were held back.
  void close() noexcept;

  /// Whether the style is dashboard and the last drawing is not too recent.
  [[nodiscard]] bool wants_dashboard() const;
  /// Draws the dashboard. The first call takes the screen, or prints why it cannot.
  void draw(DashboardFigures figures);

  /// Draws the live line, unless the last drawing is too recent. `loss`: the epoch's mean so far.
  void show(const RunPlace& place, double loss, double samples_per_s);
  /// Draws the live line of an epoch's validation. `place` counts its batches.
  void show_validation(const RunPlace& place);
  /// Prints the line of an epoch. `ending` describes an epoch that ended early: "stopped after 3 of
  /// 7 batches:".
  void end_epoch(const TrainingHistory& history,
                 const EpochRecord& epoch,
                 const std::string& ending = {});
  /// Prints a message as a line of its own.
  void print_line(const std::string& line);

 private:
  void write(const std::string& text);
  /// Writes bytes unchanged.
  void put(std::string_view bytes) noexcept;
  /// Draws "epoch 1/5 [####....] 12/60" and as many of the parts as fit.
  void show_line(const RunPlace& place,
                 std::string_view doing,
                 const std::vector<std::string>& parts);
  void open_screen();

  std::FILE* out_;
  ConsoleStyle style_;
  std::int64_t epochs_;
  bool is_line_open_ = false;
  bool has_failed_ = false;  // whether a write failed; reported once
  std::optional<detail::TimePoint> drawn_at_;
  std::unique_ptr<detail::TerminalScreen> screen_;
  std::string kept_;  // printed when the screen is given back
  std::string message_;
};

}  // namespace hearth
