// The dashboard: its picture at several sizes, and the state of the terminal on all exits.
#include <hearth/modules/training_console.hpp>

#include <hearth/runtime/base/interrupt.hpp>

#include "modules/report/training_dashboard.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;  // NOLINT: a test's own words
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TrainingHistory made_history() {
  TrainingHistory history{.metrics = {{.name = "accuracy", .in_percent = true}},
                          .epochs = {},
                          .steps = {},
                          .rates = {}};
  for (int i = 1; i <= 40; ++i) {
    history.steps.add(2.0 / i);
  }
  for (int i = 1; i <= 4; ++i) {
    history.epochs.push_back({.epoch = i,
                              .train_loss = 1.0 / i,
                              .validation_loss = 1.5 / i,
                              .metrics = {1 - 0.5 / i},
                              .duration = 2s,
                              .sample_count = 100});
  }
  return history;
}

DashboardFigures made_figures(const TrainingHistory& history) {
  return {.title = "Digits",
          .place = {.epoch = 5, .batch = 3, .batch_count = 12},
          .epochs = 10,
          .loss = 0.25,
          .samples_per_s = 1234,
          .learning_rate = 1e-3,
          .elapsed = 85s,
          .share_at_begin = 0,
          .history = &history,
          .best_epoch = 4,
          .best_value = 0.875,
          .devices = {{.name = "cpu:0",
                       .is_lost = false,
                       .live_bytes = 3 << 20,
                       .peak_bytes = 5 << 20,
                       .budget_bytes = 64 << 20},
                      {.name = "cpu:1", .is_lost = true}},
          .message = "epoch 4/10  loss 0.2500"};
}

std::string text_of(const detail::TextPicture& picture) {
  std::string text;
  for (int row = 0; row < picture.rows(); ++row) {
    text += picture.line(row) + "\n";
  }
  return text;
}

TEST(Dashboard, ShowsCurvesProgressAndDevices) {
  const TrainingHistory history = made_history();
  const std::string text = text_of(detail::draw_dashboard(made_figures(history), 30, 100, false));
  for (const char* part : {"Digits",
                           "epoch 5/10",
                           "3/12 batches",
                           "42.5 % of the run",
                           "1 min 25 s elapsed, 1 min 55 s left",
                           "loss 0.2500",
                           "1234 samples/s",
                           "learning rate 0.001",
                           "best 0.8750 in epoch 4",
                           "validation 0.3750",
                           "accuracy 87.5 %",
                           "cpu:0  3.0 MiB live  peak 5.0 MiB  of 64.0 MiB  ##..",
                           "cpu:1  lost",
                           "epoch 4/10  loss 0.2500"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_GT(std::count(text.begin(), text.end(), '*'), 60) << "the curves";
}

TEST(Dashboard, ShowsHowFarAValidationIs) {
  const TrainingHistory history = made_history();
  DashboardFigures figures = made_figures(history);
  figures.validated = RunPlace{.epoch = 5, .batch = 120, .batch_count = 500};
  const std::string text = text_of(detail::draw_dashboard(figures, 30, 100, false));
  EXPECT_THAT(text, HasSubstr("validating 120/500\n"));
  EXPECT_THAT(text, HasSubstr("42.5 % of the run"));
  EXPECT_THAT(text, Not(HasSubstr("batches")));
}

TEST(Dashboard, FitsEverySize) {
  const TrainingHistory history = made_history();
  const DashboardFigures figures = made_figures(history);
  for (const bool is_unicode : {false, true}) {
    for (int rows = 0; rows <= 50; ++rows) {
      for (const int columns : {0, 1, 7, 20, 40, 79, 80, 100, 240}) {
        const detail::TextPicture picture =
            detail::draw_dashboard(figures, rows, columns, is_unicode);
        ASSERT_EQ(picture.rows(), rows);
        ASSERT_EQ(picture.columns(), columns);
      }
    }
  }
}

// At any width, an element without room is left out as a whole, and neighbours keep a gap.
TEST(Dashboard, CutsNoWordsAndLetsNoColumnsTouch) {
  const TrainingHistory history = made_history();
  DashboardFigures figures = made_figures(history);
  figures.title = "Digits of many hands";
  figures.devices[0].name = "vulkan:0";
  figures.message = "epoch 4/10  loss 0.2500  validation loss 0.3750";
  const auto line = [&](int row, int columns) {
    return detail::draw_dashboard(figures, 24, columns, false).line(row);
  };
  for (int columns = 30; columns <= 120; ++columns) {
    SCOPED_TRACE(columns);
    EXPECT_TRUE(std::regex_match(
        line(0, columns),
        std::regex(
            "Digits( of| of many| of many hands)?(\\.\\.)?  +(1 min 25 s( elapsed(, 1 min 55 s "
            "left)?)?|1 min 55 s left)")))
        << line(0, columns);
    EXPECT_TRUE(
        std::regex_match(line(1, columns), std::regex("epoch 5/10  (#+\\.+  )? *3/12( batches)?")))
        << line(1, columns);
    EXPECT_TRUE(
        std::regex_match(line(2, columns), std::regex("all  +(#+\\.+  )? *42.5 %( of the run)?")))
        << line(2, columns);
    EXPECT_TRUE(std::regex_match(
        line(3, columns),
        std::regex(
            "loss 0.2500(   1234 samples/s(   (learning )?rate 0.001(   best 0.8750 in epoch "
            "4)?)?)?")))
        << line(3, columns);
    EXPECT_TRUE(std::regex_match(
        line(20, columns) + line(21, columns),
        std::regex("vulkan:0  3.0 MiB live(  peak 5.0 MiB(  of 64.0 MiB)?)?(  #*\\.+)?cpu:1     "
                   "lost")))
        << line(20, columns);
    EXPECT_TRUE(std::regex_match(
        line(23, columns),
        std::regex("epoch 4/10  loss 0.2500(  validation( loss( 0.3750)?)?)?(\\.\\.)?")))
        << line(23, columns);
  }
}

TEST(Dashboard, DrawsBrailleWhereTheTerminalHasIt) {
  const TrainingHistory history = made_history();
  const std::string text = text_of(detail::draw_dashboard(made_figures(history), 30, 100, true));
  EXPECT_THAT(text, HasSubstr("\xe2\xa0"));  // U+2800 to U+283F
  EXPECT_THAT(text, Not(HasSubstr("*")));
}

TEST(Dashboard, BearsWhatIsNotFiniteOrNotThere) {
  TrainingHistory history{.metrics = {{.name = "R²"}}, .epochs = {}, .steps = {}, .rates = {}};
  DashboardFigures figures = made_figures(history);
  figures.place = {.epoch = 1, .batch = 0, .batch_count = 0};
  figures.loss = std::nan("");
  EXPECT_THAT(text_of(detail::draw_dashboard(figures, 24, 80, false)), HasSubstr("no data yet"));
  history.steps.add(std::nan(""));
  history.steps.add(3);
  history.steps.add(std::nan(""));
  history.epochs.push_back({.epoch = 1, .metrics = {std::nan("")}});
  EXPECT_THAT(text_of(detail::draw_dashboard(figures, 24, 80, false)), HasSubstr("*"));
}

TEST(Dashboard, SaysTimesAsPeopleDo) {
  EXPECT_EQ(detail::readable_time(12400ms), "12 s");
  EXPECT_EQ(detail::readable_time(200s), "3 min 20 s");
  EXPECT_EQ(detail::readable_time(62min), "1 h 02 min");
  EXPECT_EQ(detail::readable_time(std::chrono::duration<double>(std::nan(""))), "a long time");
}

TEST(Dashboard, WithoutATerminalALineSaysWhy) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  const TrainingHistory history = made_history();
  {
    TrainingConsole console({.style = ConsoleStyle::dashboard, .out = file.get()}, 10);
    EXPECT_TRUE(console.wants_dashboard());
    console.draw(made_figures(history));
    EXPECT_FALSE(console.wants_dashboard());
    console.end_epoch(history, history.epochs[0]);
  }
  std::rewind(file.get());
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  EXPECT_THAT(text, StartsWith("no dashboard: the output is no terminal\nepoch 1/10  loss"));
}

// ---- in a terminal ----

void throw_what_nobody_catches() {
  throw std::runtime_error("nobody catches this");
}
void end_by_exception() noexcept {
  throw_what_nobody_catches();
}

/// A program with a dashboard behind a pseudo terminal. It executes commands of single letters and
/// answers each with a byte.
class OnATerminal : public ::testing::Test {
 protected:
  static constexpr const char* kEnter = "\x1b[?1049h";
  static constexpr const char* kLeave = "\x1b[?1049l";
  static constexpr const char* kShowCursor = "\x1b[?25h";
  /// The child writes this after each drawing: a title that is not shown.
  static constexpr std::string_view kDrawn = "\x1b]2;drawn\x07";

  void start(const char* kind = "xterm-256color") {
    int asked[2];
    int answered[2];
    ASSERT_EQ(pipe2(asked, O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(answered, O_CLOEXEC), 0);
    winsize size{.ws_row = 30, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    std::fflush(nullptr);  // the child would write what this process has buffered
    child_ = forkpty(&terminal_, nullptr, nullptr, &size);
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      setenv("TERM", kind, 1);         // NOLINT(concurrency-mt-unsafe): the child's own
      unsetenv("HEARTH_CONSOLE");      // NOLINT(concurrency-mt-unsafe): the same
      setenv("LC_ALL", "C.UTF-8", 1);  // NOLINT(concurrency-mt-unsafe): the same
      _exit(run_child(asked[0], answered[1]));
    }
    ASSERT_EQ(tcgetattr(terminal_, &before_), 0);
    ask_ = asked[1];
    answer_ = answered[0];
    close(asked[0]);
    close(answered[1]);
  }
  void TearDown() override {
    close(terminal_);
    close(ask_);
    close(answer_);
  }

  /// Sends a command and reads the terminal's output until the answer arrives or the child ends.
  void ask(char what) {
    const std::size_t before = output_.size();
    ASSERT_EQ(write(ask_, &what, 1), 1);
    read_until([this] {
      char answer = 0;
      return read(answer_, &answer, 1) >= 0;
    });
    // A terminal may deliver the drawing late.
    while (output_.find(kDrawn, before) == std::string::npos && read_some()) {
    }
  }
  /// The exit status, after all output is read.
  int end() {
    read_until([] { return false; });
    int status = 0;
    waitpid(child_, &status, 0);
    record_modes();
    return status;
  }
  /// Expects the original state of the terminal.
  void expect_restored() {
    EXPECT_THAT(output_, HasSubstr(kEnter));
    const std::size_t left = output_.rfind(kLeave);
    ASSERT_NE(left, std::string::npos);
    EXPECT_EQ(output_.find(kEnter, left), std::string::npos);
    EXPECT_NE(output_.rfind(kShowCursor), std::string::npos);
    EXPECT_EQ(is_echoing_, true) << "the modes are those of before";
  }

  std::string output_;

  int terminal_ = -1;
  pid_t child_ = -1;

 private:
  template <class Answered>
  void read_until(const Answered& answered) {
    std::array<pollfd, 2> sources{pollfd{.fd = terminal_, .events = POLLIN, .revents = 0},
                                  pollfd{.fd = answer_, .events = POLLIN, .revents = 0}};
    while (poll(sources.data(), sources.size(), -1) > 0) {
      if ((sources[0].revents & (POLLIN | POLLHUP)) != 0) {
        if (!read_some()) {
          return;
        }
        continue;
      }
      if ((sources[1].revents & POLLIN) != 0 && answered()) {
        return;
      }
      if ((sources[1].revents & POLLHUP) != 0) {
        sources[1].fd = -1;
      }
    }
  }

  /// Returns false if the child has ended.
  bool read_some() {
    std::array<char, 4096> bytes{};
    const ssize_t count = read(terminal_, bytes.data(), bytes.size());
    if (count <= 0) {
      return false;
    }
    output_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
  }

  void record_modes() {
    termios now{};
    is_echoing_ = tcgetattr(terminal_, &now) == 0 &&
                  (now.c_lflag & (ECHO | ICANON)) == (before_.c_lflag & (ECHO | ICANON));
  }

  // Each signal comes later than the pause after the previous one.
  static std::chrono::nanoseconds next_time() noexcept {
    static std::atomic<std::int64_t> time_ns{0};
    return std::chrono::nanoseconds(time_ns += std::chrono::nanoseconds(kInterruptPause).count());
  }

  static int run_child(int asked, int answered) {
    const TrainingHistory history = made_history();
    detail::exchange_interrupt_clock(next_time);
    try {
      const InterruptScope interrupt;
      TrainingConsole console({.style = ConsoleStyle::dashboard, .out = stdout}, 10);
      const auto next = [asked] {  // a change of the terminal's size interrupts it
        char what = 0;
        ssize_t count = 0;
        do {
          count = read(asked, &what, 1);
        } while (count < 0 && errno == EINTR);
        return count == 1 ? what : char{0};
      };
      for (char what = next(); what != 0; what = next()) {
        switch (what) {
          case 'd':
            console.draw(made_figures(history));
            break;
          case 'l':
            TrainingConsole({.style = ConsoleStyle::live, .out = stdout}, 10)
                .show({.epoch = 3, .batch = 5, .batch_count = 10}, 0.25, 1000);
            break;
          case 'v':
            TrainingConsole({.style = ConsoleStyle::live, .out = stdout}, 10)
                .show_validation({.epoch = 3, .batch = 60, .batch_count = 120});
            break;
          case 'p': {
            TrainingConsole by_terminal({.out = stdout}, 10);
            by_terminal.show({.epoch = 3, .batch = 5, .batch_count = 10}, 0.25, 1000);
            by_terminal.end_epoch(history, history.epochs[0]);
            break;
          }
          case 'e':
            console.end_epoch(history, history.epochs[0]);
            break;
          case 'x':
            throw std::runtime_error("the data are gone");
          case 'a':
            std::abort();
          case 'i':
            std::raise(SIGINT);
            if (!interrupt.is_requested()) {
              return 9;
            }
            break;
          case 't':
            std::raise(SIGTERM);
            break;
          case 'u':
            end_by_exception();
            break;
          default:
            return 0;
        }
        static_cast<void>(!write(STDOUT_FILENO, kDrawn.data(), kDrawn.size()));
        static_cast<void>(!write(answered, &what, 1));
      }
    } catch (const std::exception& error) {
      std::printf("caught: %s\n", error.what());
      std::fflush(stdout);
      return 3;
    }
    return 0;
  }

  termios before_{};
  int ask_ = -1;
  int answer_ = -1;
  bool is_echoing_ = false;
};

TEST_F(OnATerminal, TheScreenIsDrawnAndGivenBackWithTheLinesOfEpochs) {
  start();
  ask('d');
  EXPECT_THAT(output_, HasSubstr("Digits"));
  EXPECT_THAT(output_, HasSubstr("█")) << "more than ASCII, though the program set no locale";
  EXPECT_THAT(output_, Not(HasSubstr(kLeave)));
  ask('e');
  ask('q');
  EXPECT_EQ(end(), 0);
  expect_restored();
  EXPECT_NE(output_.find("epoch 1/10  loss 1.0000", output_.rfind(kLeave)), std::string::npos);
}

TEST_F(OnATerminal, ADashboardFollowsTheSizeOfTheTerminal) {
  start();
  ask('d');
  const std::size_t before = output_.size();
  const winsize size{.ws_row = 12, .ws_col = 60, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(terminal_, TIOCSWINSZ, &size), 0);
  ask('d');
  EXPECT_NE(output_.find("Digits", before), std::string::npos) << "drawn anew, all of it";
  const std::string redrawn = output_.substr(before);
  const std::regex move("\x1b\\[([0-9]+)(;[0-9]+H|d)");
  for (std::sregex_iterator at(redrawn.begin(), redrawn.end(), move), none; at != none; ++at) {
    EXPECT_LE(std::stoi((*at)[1].str()), 12);
  }
  ask('q');
  EXPECT_EQ(end(), 0);
  expect_restored();
}

TEST_F(OnATerminal, ALiveLineIsNoWiderThanTheTerminal) {
  start();
  const auto drawn_in = [this](unsigned short columns) {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(ioctl(terminal_, TIOCSWINSZ, &size), 0);
    output_.clear();
    ask('l');
    return output_.substr(0, output_.find(kDrawn));
  };
  EXPECT_EQ(drawn_in(80), "epoch 3/10 [##########..........] 5/10  loss 0.2500  1000 samples/s");
  EXPECT_EQ(drawn_in(60), "epoch 3/10 [##########..........] 5/10  loss 0.2500");
  EXPECT_EQ(drawn_in(50), "epoch 3/10 5/10  loss 0.2500  1000 samples/s");
  EXPECT_EQ(drawn_in(30), "epoch 3/10 5/10  loss 0.2500");
  EXPECT_EQ(drawn_in(10), "epoch 3/1");
  ask('q');
  EXPECT_EQ(end(), 0);
}

TEST_F(OnATerminal, ALiveLineShowsHowFarAValidationIs) {
  start();
  ask('v');
  EXPECT_THAT(output_, StartsWith("epoch 3/10 [##########..........] validating 60/120"));
  ask('q');
  EXPECT_EQ(end(), 0);
}

class OnAPlainTerminal : public OnATerminal, public ::testing::WithParamInterface<const char*> {};

TEST_P(OnAPlainTerminal, NoLineIsDrawnAgain) {
  start(GetParam());
  ask('p');
  ask('q');
  EXPECT_EQ(end(), 0);
  EXPECT_THAT(output_, HasSubstr("epoch 1/10  loss"));
  EXPECT_THAT(output_, Not(HasSubstr("\x1b[K")));
  EXPECT_THAT(output_, Not(HasSubstr("5/10"))) << "the live line";
}
INSTANTIATE_TEST_SUITE_P(Term, OnAPlainTerminal, ::testing::Values("dumb", ""));

TEST_F(OnATerminal, AnExceptionGivesTheTerminalBack) {
  start();
  ask('d');
  ask('x');
  EXPECT_EQ(WEXITSTATUS(end()), 3);
  expect_restored();
  EXPECT_NE(output_.find("caught: the data are gone", output_.rfind(kLeave)), std::string::npos);
}

TEST_F(OnATerminal, AnExceptionThatNobodyCatchesGivesItBackBeforeItsMessage) {
  start();
  ask('d');
  ask('u');
  EXPECT_EQ(WTERMSIG(end()), SIGABRT);
  expect_restored();
  EXPECT_NE(output_.find("nobody catches this", output_.rfind(kLeave)), std::string::npos);
}

TEST_F(OnATerminal, AbortGivesItBack) {
  start();
  ask('d');
  ask('a');
  EXPECT_EQ(WTERMSIG(end()), SIGABRT);
  expect_restored();
}

TEST_F(OnATerminal, OneCtrlCIsAWishAndTheSecondOneGivesItBack) {
  start();
  ask('d');
  ask('i');
  EXPECT_THAT(output_, Not(HasSubstr(kLeave)));
  ask('d');
  ask('i');
  EXPECT_EQ(WTERMSIG(end()), SIGINT);
  expect_restored();
}

TEST_F(OnATerminal, SigtermAfterCtrlCGivesItBack) {
  start();
  ask('d');
  ask('i');
  ask('t');
  EXPECT_EQ(WTERMSIG(end()), SIGTERM);
  expect_restored();
}

TEST_F(OnATerminal, OneThatCannotMoveItsCursorGetsALine) {
  start("dumb");
  ask('d');
  ask('q');
  EXPECT_EQ(end(), 0);
  EXPECT_THAT(output_, HasSubstr("no dashboard: the terminal cannot move its cursor (TERM=dumb)"));
  EXPECT_THAT(output_, Not(HasSubstr(kEnter)));
}

}  // namespace
}  // namespace hearth
