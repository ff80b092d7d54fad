#include "program_errors.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>

namespace hearth::cuda {
namespace {

// with_literals() gives these names to the program's lines, and to those behind them.
constexpr std::string_view kProgram = "text1";
constexpr std::string_view kBegin = "\n#line 1 \"text1\"\n";
constexpr std::string_view kEnd = "\n#line 1 \"text2\"\n";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::string_view line_of(std::string_view text, int number) {
  for (; number > 1 && !text.empty(); --number) {
    const std::size_t end = text.find('\n');
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

struct Message {
  int line = 0;
  std::string_view text;
};

// NVRTC writes "text1(4): error: words", g++ "text1:4:30: error: words".
std::optional<Message> error_in_program(std::string_view said) {
  constexpr std::string_view kMark = " error: ";
  const std::size_t mark = said.find(kMark);
  if (!said.starts_with(kProgram) || said.size() == kProgram.size() ||
      mark == std::string_view::npos) {
    return std::nullopt;
  }
  Message message{.line = 0, .text = trimmed(said.substr(mark + kMark.size()))};
  const char* const begin = said.data() + kProgram.size() + 1;
  const auto [rest, code] = std::from_chars(begin, said.data() + mark, message.line);
  return code == std::errc() ? std::optional(message) : std::nullopt;
}

// Errors of the text as a whole, which compilers report at the lines behind it.
std::string wrong_whole(std::string_view log, std::string_view own) {
  const auto is_said = [&](std::string_view words) {
    return log.find(words) != std::string_view::npos;
  };
  if (is_said("identifier \"kernel\" is undefined") || is_said("'kernel' was not declared")) {
    return " it has no function 'void kernel()', without parameters, which is what runs";
  }
  if (is_said("Kernel::main()") && (is_said("redeclaration") || is_said("cannot be overloaded"))) {
    return " it has a function 'main', which is Hearth's own: call it 'kernel'";
  }
  if (is_said("expected a \"}\"") || is_said("expected '}'") || is_said("unterminated")) {
    const std::string_view text = trimmed(own);
    return fmt::format(
        " it ends too early: a brace, a bracket or an #endif is missing, at its end or before\n"
        "    {}",
        trimmed(text.substr(text.rfind('\n') + 1)));
  }
  return fmt::format(" {}", trimmed(log));
}

}  // namespace

bool has_program_lines(std::string_view text) noexcept {
  return text.find(kBegin) != std::string_view::npos;
}

std::string program_errors(std::string_view log, std::string_view text) {
  const std::size_t at = text.find(kBegin);
  std::string_view own;
  if (at != std::string_view::npos) {
    own = text.substr(at + kBegin.size());
    own = own.substr(0, own.find(kEnd));
  }
  std::string what;
  for (std::string_view rest = log; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (const auto message = error_in_program(rest.substr(0, end))) {
      what += fmt::format("\n  line {}: {}\n    {}",
                          message->line,
                          message->text,
                          trimmed(line_of(own, message->line)));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return "the CUDA text does not compile:" + (what.empty() ? wrong_whole(log, own) : what);
}

}  // namespace hearth::cuda
