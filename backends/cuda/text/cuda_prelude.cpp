#include "cuda_prelude.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/text/glsl_prelude.hpp"
#include "machine_text.hpp"
#include "types_text.hpp"

namespace hearth::cuda {
namespace {

bool is_word(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

// The end of a number that begins at `at`: digits, letters, points, and signs of exponents.
std::size_t end_of_number(std::string_view text, std::size_t at) noexcept {
  const bool is_hex = text.substr(at).starts_with("0x");
  std::size_t end = at;
  while (end < text.size()) {
    const char c = text[end];
    const bool is_sign = (c == '+' || c == '-') && !is_hex && end > at &&
                         (text[end - 1] == 'e' || text[end - 1] == 'E');
    if (!is_word(c) && c != '.' && !is_sign) {
      break;
    }
    ++end;
  }
  return end;
}

std::string literal(std::string_view number) {
  if (number.starts_with("0x")) {
    return std::string(number);
  }
  if (number.ends_with("lf")) {
    return std::string(number.substr(0, number.size() - 2));
  }
  const bool is_real = number.find_first_of(".e") != std::string_view::npos;
  return is_real && !number.ends_with('f') ? fmt::format("{}f", number) : std::string(number);
}

// A program's own lines are CUDA C++ already: 1.0 is a double there.
std::string body_of(std::string_view body) {
  const std::size_t at = body.find(gpu::kProgramLines);
  if (at == std::string_view::npos) {
    return with_literals(body);
  }
  const std::size_t begin = at + gpu::kProgramLines.size();
  const std::size_t end = std::min(body.find(gpu::kProgramLinesEnd, begin), body.size());
  return fmt::format("{}{}{}",
                     with_literals(body.substr(0, begin)),
                     body.substr(begin, end - begin),
                     with_literals(body.substr(end)));
}

}  // namespace

std::string with_literals(std::string_view text) {
  constexpr std::string_view kLine = "#line ";
  std::string out;
  out.reserve(text.size() + text.size() / 16);
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with(kLine) && (at == 0 || text[at - 1] == '\n')) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      const std::size_t name = text.rfind(' ', end);
      out += fmt::format(
          "{} \"text{}\"", text.substr(at, name - at), text.substr(name + 1, end - name - 1));
      at = end;
      continue;
    }
    const bool begins =
        is_digit(text[at]) || (text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]));
    if (!begins) {
      // A word or a member is no number, whatever digits it has.
      const std::size_t begin = at++;
      while (is_word(text[begin]) && at < text.size() && is_word(text[at])) {
        ++at;
      }
      out += text.substr(begin, at - begin);
      continue;
    }
    const std::size_t end = end_of_number(text, at);
    out += literal(text.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string cuda_text(std::string_view text) {
  const std::size_t at = text.find(gpu::kPreludePlace);
  const std::string_view front = text.substr(0, at);
  const std::string_view body = text.substr(at + gpu::kPreludePlace.size());
  return fmt::format("{}{}{}{}{}struct Kernel {{\n{}{}}};\n}}  // namespace hearth_kernel\n{}",
                     front,
                     kMachine,
                     kTypes,
                     kWords,
                     kMath,
                     with_literals(gpu::prelude_functions()),
                     body_of(body),
                     kEntry);
}

}  // namespace hearth::cuda
