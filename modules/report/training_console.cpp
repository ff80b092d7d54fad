#include <hearth/modules/training_console.hpp>

#include "terminal_screen.hpp"
#include "training_dashboard.hpp"

#include <hearth/runtime/base/settings.hpp>
#include <hearth/runtime/base/thread_context.hpp>

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";
constexpr std::chrono::milliseconds kDashboardPause{200};

// Whether the terminal can clear a line. An unset TERM may be anything.
bool can_clear_lines() {
  const char* const kind = std::getenv("TERM");  // NOLINT: no code here changes it
  const std::string_view name = kind == nullptr ? "" : kind;
  return !name.empty() && name != "dumb";
}

ConsoleStyle by_output(std::FILE* out) {
  return isatty(fileno(out)) == 1 && can_clear_lines() ? ConsoleStyle::live : ConsoleStyle::plain;
}

// Width of the terminal; a common width if there is none.
std::size_t columns_of(std::FILE* out) {
  constexpr std::size_t kCommon = 80;
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kCommon;
}

ConsoleStyle chosen(const ConsoleOptions& options) {
  if (options.out == nullptr) {
    return ConsoleStyle::silent;
  }
  if (options.style != ConsoleStyle::automatic) {
    return options.style;
  }
  constexpr std::array<std::string_view, 4> kNames = {"live", "dashboard", "plain", "silent"};
  constexpr std::array kStyles = {
      ConsoleStyle::live, ConsoleStyle::dashboard, ConsoleStyle::plain, ConsoleStyle::silent};
  const std::optional<std::size_t> place =
      detail::Settings::from_environment().choice(detail::Setting::console, kNames).value();
  return place ? kStyles[*place] : by_output(options.out);
}

}  // namespace

TrainingConsole::TrainingConsole(const ConsoleOptions& options, std::int64_t epochs)
    : out_(options.out), style_(chosen(options)), epochs_(epochs) {}

TrainingConsole::~TrainingConsole() {
  close();
}

void TrainingConsole::close() noexcept {
  if (screen_) {
    screen_.reset();
    put(kept_);
    kept_.clear();
  }
}

bool TrainingConsole::wants_dashboard() const {
  return style_ == ConsoleStyle::dashboard &&
         (!drawn_at_ || detail::current_context().clock().now() - *drawn_at_ >= kDashboardPause);
}

void TrainingConsole::open_screen() {
  std::string why;
  screen_ = detail::TerminalScreen::open(out_, why);
  if (!screen_) {
    style_ = by_output(out_);
    print_line("no dashboard: " + why);
  }
}

void TrainingConsole::draw(DashboardFigures figures) {
  if (style_ != ConsoleStyle::dashboard) {
    return;
  }
  if (!screen_) {
    std::fflush(out_);
    open_screen();
    if (!screen_) {
      return;
    }
  }
  figures.message = message_;
  int rows = 0;
  int columns = 0;
  screen_->measure(rows, columns);
  screen_->show(detail::draw_dashboard(figures, rows, columns, screen_->is_unicode()));
  drawn_at_ = detail::current_context().clock().now();
}

void TrainingConsole::write(const std::string& text) {
  if (style_ == ConsoleStyle::silent) {
    return;
  }
  if (screen_) {
    kept_ += text;
    message_ = text.substr(0, text.find_last_not_of('\n') + 1);
    return;
  }
  const std::string_view clear = is_line_open_ ? kClearLine : "";
  is_line_open_ = false;
  put(std::string(clear) + text);
}

void TrainingConsole::put(std::string_view bytes) noexcept {
  const bool is_written =
      std::fwrite(bytes.data(), 1, bytes.size(), out_) == bytes.size() && std::fflush(out_) == 0;
  if (is_written) {
    return;
  }
  const int error_number = errno;
  std::clearerr(out_);  // the next write may succeed
  if (!std::exchange(has_failed_, true)) {
    std::fprintf(stderr,
                 "hearth: the lines of a training cannot be written: %s; it goes on without them\n",
                 std::strerror(error_number));  // NOLINT(concurrency-mt-unsafe): glibc's is safe
  }
}

void TrainingConsole::show(const RunPlace& place, double loss, double samples_per_s) {
  if (style_ != ConsoleStyle::live) {
    return;
  }
  show_line(place,
            "",
            {"  loss " + figure_text({}, loss), fmt::format("  {:.0f} samples/s", samples_per_s)});
}

void TrainingConsole::show_validation(const RunPlace& place) {
  show_line(place, "validating ", {});
}

void TrainingConsole::show_line(const RunPlace& place,
                                std::string_view doing,
                                const std::vector<std::string>& parts) {
  constexpr std::chrono::milliseconds kPause{80};
  if (style_ != ConsoleStyle::live) {
    return;
  }
  const detail::TimePoint now = detail::current_context().clock().now();
  if (drawn_at_ && place.batch != place.batch_count && now - *drawn_at_ < kPause) {
    return;
  }
  drawn_at_ = now;
  constexpr std::int64_t kWidth = 20;
  const std::int64_t filled = kWidth * place.batch / std::max<std::int64_t>(place.batch_count, 1);
  std::string bar(static_cast<std::size_t>(std::clamp<std::int64_t>(filled, 0, kWidth)), '#');
  bar.resize(kWidth, '.');
  const std::string count = fmt::format("{}{}/{}", doing, place.batch, place.batch_count);
  std::string line = fmt::format("epoch {}/{} [{}] {}", place.epoch, epochs_, bar, count);
  const std::size_t room = columns_of(out_) - 1;  // a wrapped line cannot be redrawn
  if (line.size() + (parts.empty() ? 0 : parts[0].size()) > room) {
    line = fmt::format("epoch {}/{} {}", place.epoch, epochs_, count);
  }
  for (const std::string& part : parts) {
    line += line.size() + part.size() <= room ? part : "";
  }
  write(line.substr(0, room));
  is_line_open_ = true;
}

void TrainingConsole::end_epoch(const TrainingHistory& history,
                                const EpochRecord& epoch,
                                const std::string& ending) {
  std::string line = fmt::format("epoch {}/{}", epoch.epoch, epochs_);
  if (!ending.empty()) {
    line += " " + ending;
  }
  line += "  loss " + figure_text({}, epoch.train_loss);
  if (epoch.validation_loss) {
    line += "  validation loss " + figure_text({}, *epoch.validation_loss);
  }
  for (std::size_t i = 0; i < std::min(epoch.metrics.size(), history.metrics.size()); ++i) {
    line += fmt::format(
        "  {} {}", history.metrics[i].name, figure_text(history.metrics[i], epoch.metrics[i]));
  }
  write(line + fmt::format("  {:.0f} samples/s\n", epoch.samples_per_s()));
}

void TrainingConsole::print_line(const std::string& line) {
  write(line + "\n");
}

}  // namespace hearth
