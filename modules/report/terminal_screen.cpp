// Loads ncurses by dlopen. Its types come from its header, if the build found one.
#include "terminal_screen.hpp"

#include <dlfcn.h>
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <clocale>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#ifdef HEARTH_NCURSES
#define NCURSES_NOMACROS 1
#include <curses.h>
#endif

namespace hearth::detail {

#ifdef HEARTH_NCURSES

namespace {

// Names of the library on Debian and other systems.
constexpr std::array<const char*, 2> kNames{"libncursesw.so.6", "libncursesw.so"};
// Signals for which ncurses installs handlers.
constexpr std::array<int, 2> kSignals{SIGWINCH, SIGTSTP};

/// Sets the locale for drawing, on this thread only.
class LocaleScope final {
 public:
  explicit LocaleScope(locale_t locale)
      : previous_(locale != nullptr ? uselocale(locale) : nullptr) {}
  LocaleScope(const LocaleScope&) = delete;
  LocaleScope& operator=(const LocaleScope&) = delete;
  ~LocaleScope() {
    if (previous_ != nullptr) {
      uselocale(previous_);
    }
  }

 private:
  locale_t previous_;
};

}  // namespace

struct TerminalScreen::Library {
  void* handle = nullptr;
  decltype(&::newterm) newterm = nullptr;
  decltype(&::delscreen) delscreen = nullptr;
  decltype(&::endwin) endwin = nullptr;
  decltype(&::newwin) newwin = nullptr;
  decltype(&::delwin) delwin = nullptr;
  decltype(&::wresize) wresize = nullptr;
  decltype(&::resizeterm) resizeterm = nullptr;
  decltype(&::wmove) wmove = nullptr;
  int (*waddnwstr)(WINDOW* window, const wchar_t* text, int count) = nullptr;
  decltype(&::wattrset) wattrset = nullptr;
  decltype(&::werase) werase = nullptr;
  decltype(&::wrefresh) wrefresh = nullptr;
  decltype(&::clearok) clearok = nullptr;
  decltype(&::curs_set) curs_set = nullptr;
  decltype(&::cbreak) cbreak = nullptr;
  decltype(&::noecho) noecho = nullptr;
  decltype(&::flushinp) flushinp = nullptr;
  decltype(&::has_colors) has_colors = nullptr;
  decltype(&::start_color) start_color = nullptr;
  decltype(&::use_default_colors) use_default_colors = nullptr;
  decltype(&::init_pair) init_pair = nullptr;
  char* (*tigetstr)(const char*) = nullptr;

  // Returns false if the library is missing or lacks a function.
  bool load() {
    for (const char* name : kNames) {
      handle = handle != nullptr ? handle : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    bool has_all = handle != nullptr;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          has_all ? dlsym(handle, name) : nullptr);  // NOLINT: as POSIX has it
      has_all = has_all && function != nullptr;
    };
    find(newterm, "newterm");
    find(delscreen, "delscreen");
    find(endwin, "endwin");
    find(newwin, "newwin");
    find(delwin, "delwin");
    find(wresize, "wresize");
    find(resizeterm, "resizeterm");
    find(wmove, "wmove");
    find(waddnwstr, "waddnwstr");
    find(wattrset, "wattrset");
    find(werase, "werase");
    find(wrefresh, "wrefresh");
    find(clearok, "clearok");
    find(curs_set, "curs_set");
    find(cbreak, "cbreak");
    find(noecho, "noecho");
    find(flushinp, "flushinp");
    find(has_colors, "has_colors");
    find(start_color, "start_color");
    find(use_default_colors, "use_default_colors");
    find(init_pair, "init_pair");
    find(tigetstr, "tigetstr");
    return has_all;
  }
};

struct TerminalScreen::State {
  Library curses;
  SCREEN* screen = nullptr;
  WINDOW* window = nullptr;
  locale_t locale = nullptr;
  bool is_unicode = false;
  bool has_colors = false;
  int rows = 0;
  int columns = 0;
  std::array<struct sigaction, kSignals.size()> before{};

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (locale != nullptr) {
      freelocale(locale);
    }
  }

  [[nodiscard]] int attributes(TextStyle style) const {
    // The value of COLOR_PAIR, which may be a function instead of a macro.
    const auto color = [&](int pair) {
      return has_colors ? static_cast<int>(NCURSES_BITS(pair, 0)) : 0;
    };
    switch (style) {
      case TextStyle::plain:
        return 0;
      case TextStyle::strong:
        return static_cast<int>(A_BOLD);
      case TextStyle::faint:
        return static_cast<int>(A_DIM);
      case TextStyle::first:
        return color(1);
      case TextStyle::second:
        return color(2);
      case TextStyle::third:
        return color(3);
      case TextStyle::warning:
        return color(4) | static_cast<int>(A_BOLD);
    }
    return 0;
  }
};

namespace {

/// Converts a UTF-8 glyph to a wide character. ncurses' byte functions would depend on the
/// program's own locale.
wchar_t wide(std::string_view glyph, bool is_unicode) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(glyph[at]); };
  if (glyph.size() == 1 && byte(0) < 0x80) {
    return static_cast<wchar_t>(byte(0));
  }
  constexpr std::size_t kMostBytes = 4;
  if (!is_unicode || glyph.size() < 2 || glyph.size() > kMostBytes) {
    return L'?';
  }
  unsigned code = byte(0) & (0x7fU >> glyph.size());
  for (std::size_t at = 1; at < glyph.size(); ++at) {
    code = code << 6U | (byte(at) & 0x3fU);
  }
  return static_cast<wchar_t>(code);
}

bool is_terminal(std::FILE* out) {
  return out != nullptr && isatty(fileno(out)) == 1;
}

}  // namespace

// Phases: check for a terminal; load the library; take the locale's character set; open the screen,
// which must support cursor movement.
std::unique_ptr<TerminalScreen> TerminalScreen::open(std::FILE* out, std::string& why) {
  if (!is_terminal(out)) {
    why = "the output is no terminal";
    return nullptr;
  }
  auto state = std::make_unique<State>();
  if (!state->curses.load()) {
    why = "ncurses is not installed here (libncursesw6)";
    return nullptr;
  }
  const char* const kind = std::getenv("TERM");  // NOLINT: no code here changes it
  if (kind == nullptr || *kind == '\0') {
    why = "TERM is not set: the capabilities of the terminal are unknown";
    return nullptr;
  }
  std::unique_ptr<TerminalScreen> screen(new TerminalScreen(std::move(state), fileno(out)));
  State& own = *screen->state_;
  own.locale = newlocale(LC_CTYPE_MASK, "", nullptr);
  const LocaleScope locale(own.locale);
  own.is_unicode = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &own.before[i]);
  }
  own.screen = own.curses.newterm(nullptr, out, stdin);
  if (own.screen == nullptr) {
    why = fmt::format("ncurses has no description of this terminal (TERM={})", kind);
    return nullptr;
  }
  if (own.curses.tigetstr("cup") == nullptr) {
    why = fmt::format("the terminal cannot move its cursor (TERM={})", kind);
    return nullptr;
  }
  own.curses.cbreak();
  own.curses.noecho();
  own.curses.curs_set(0);
  own.has_colors = own.curses.has_colors() && own.curses.start_color() == OK;
  if (own.has_colors) {
    const auto back = static_cast<short>(own.curses.use_default_colors() == OK ? -1 : COLOR_BLACK);
    own.curses.init_pair(1, COLOR_CYAN, back);
    own.curses.init_pair(2, COLOR_YELLOW, back);
    own.curses.init_pair(3, COLOR_GREEN, back);
    own.curses.init_pair(4, COLOR_RED, back);
  }
  own.window = own.curses.newwin(0, 0, 0, 0);
  if (own.window == nullptr) {
    why = "ncurses has no memory for its window";
    return nullptr;
  }
  return screen;
}

TerminalScreen::TerminalScreen(std::unique_ptr<State> state, int file)
    : guard_(file), file_(file), state_(std::move(state)) {}

TerminalScreen::~TerminalScreen() {
  State& own = *state_;
  if (own.window != nullptr) {
    own.curses.flushinp();  // discards keys that were pressed meanwhile
    own.curses.delwin(own.window);
  }
  if (own.screen != nullptr) {
    own.curses.endwin();
    own.curses.delscreen(own.screen);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &own.before[i], nullptr);
    }
  }
}

void TerminalScreen::measure(int& rows, int& columns) const {
  winsize size{};
  const bool is_known = ioctl(file_, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  rows = is_known ? size.ws_row : 24;
  columns = is_known ? size.ws_col : 80;
}

bool TerminalScreen::is_unicode() const noexcept {
  return state_->is_unicode;
}

void TerminalScreen::show(const TextPicture& picture) {
  State& own = *state_;
  const LocaleScope locale(own.locale);
  if (picture.rows() != own.rows || picture.columns() != own.columns) {
    own.curses.resizeterm(picture.rows(), picture.columns());
    own.curses.wresize(own.window, picture.rows(), picture.columns());
    own.curses.clearok(own.window, true);
    own.rows = picture.rows();
    own.columns = picture.columns();
  }
  own.curses.werase(own.window);
  for (int row = 0; row < picture.rows(); ++row) {
    own.curses.wmove(own.window, row, 0);
    for (int column = 0; column < picture.columns();) {
      const TextStyle style = picture.at(row, column).style;
      std::wstring text;
      for (; column < picture.columns() && picture.at(row, column).style == style; ++column) {
        text += wide(picture.at(row, column).glyph, own.is_unicode);
      }
      own.curses.wattrset(own.window, own.attributes(style));
      own.curses.waddnwstr(own.window, text.c_str(), static_cast<int>(text.size()));
    }
  }
  own.curses.wrefresh(own.window);
}

#else

struct TerminalScreen::Library {};
struct TerminalScreen::State {};

std::unique_ptr<TerminalScreen> TerminalScreen::open(std::FILE* /*out*/, std::string& why) {
  why = "Hearth was built without the header of ncurses (libncurses-dev)";
  return nullptr;
}
TerminalScreen::TerminalScreen(std::unique_ptr<State> state, int file)
    : guard_(file), file_(file), state_(std::move(state)) {}
TerminalScreen::~TerminalScreen() = default;
void TerminalScreen::measure(int& rows, int& columns) const {
  rows = 24;
  columns = 80;
}
bool TerminalScreen::is_unicode() const noexcept {
  return false;
}
void TerminalScreen::show(const TextPicture& /*picture*/) {}

#endif

}  // namespace hearth::detail
