#include "custom_names.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "glsl_words.hpp"

namespace hearth::detail {
namespace {

bool is_identifier(std::string_view name) {
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  return !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0 &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || c == '_'; }) &&
         name.find("__") == std::string_view::npos;
}

// Checks the names of a kernel and those derived from them: all must be distinct.
class NameCheck final {
 public:
  NameCheck(const CustomKernelConfig& config, SourceLoc loc)
      : op_(config.name), has_cuda_(!config.cuda.text.empty()), loc_(loc) {}

  void take(const std::string& name, std::string_view what) {
    if (!is_identifier(name)) {
      refuse("'{}' is no name for {}: letters, digits and single _, a letter first", name, what);
    }
    // The text also appends _ to names, and gl_ is GLSL's own prefix.
    if (name == "gl" || name == "GL" || is_glsl_word(name)) {
      refuse("'{}' is a word of GLSL's own, no name for {}", name, what);
    }
    if (is_frame_word(name)) {
      refuse("'{}' is a word of the text around each kernel, no name for {}", name, what);
    }
    if (has_cuda_ && is_cuda_word(name)) {
      refuse("'{}' is a word of CUDA C++ or of the text around it, no name for {}", name, what);
    }
    if (!taken_.emplace(name, what).second) {
      refuse("the name '{}' is taken, for {}", name, what);
    }
  }
  /// Adds the names derived from an operand. Call after all take() calls.
  void make(const std::string& operand, bool is_result) {
    const std::vector<std::string> names = names_made_of(operand, is_result);
    for (const std::string& name : names) {
      if (const auto found = taken_.find(name); found != taken_.end()) {
        refuse("'{}' is no name for {} beside '{}', whose text has {}",
               name,
               found->second,
               operand,
               fmt::join(names, ", "));
      }
      if (const auto [producer, is_new] = producers_.emplace(name, operand); !is_new) {
        refuse("'{}' and '{}' are no names beside one another: the text has '{}' for both",
               producer->second,
               operand,
               name);
      }
    }
  }
  template <class... Values>
  [[noreturn]] void refuse(fmt::format_string<Values...> text, Values&&... values) const {
    refuse_as(ErrorCode::invalid_argument, fmt::format(text, std::forward<Values>(values)...));
  }

  [[noreturn]] void refuse_as(ErrorCode code, std::string_view what) const {
    throw_error(
        Error{.code = code, .text = fmt::format("{}: {}", op_, what), .op = op_, .location = loc_});
  }

 private:
  const std::string& op_;
  bool has_cuda_;
  SourceLoc loc_;
  std::map<std::string, std::string> taken_;      // what each name denotes
  std::map<std::string, std::string> producers_;  // the operand from which each name is derived
};

}  // namespace

void check_names(const CustomKernelConfig& config, SourceLoc loc) {
  NameCheck names(config, loc);
  for (const CustomInput& input : config.inputs) {
    names.take(input.name, "an input");
    if (is_glsl_function(input.name)) {
      names.refuse("'{}' is a function of GLSL's own, no name for an input", input.name);
    }
  }
  for (const std::string& output : config.outputs) {
    names.take(output, "a result");
  }
  for (const CustomNumber& number : config.numbers) {
    names.take(number.name, "a number");
    if (!config.glsl.text.empty() && is_macro_word(number.name)) {
      names.refuse("'{}' is a part of ID, GROUP and THREAD, no name for a number", number.name);
    }
    if (number.dtype != DType::f32 && number.dtype != DType::i32) {
      names.refuse_as(
          ErrorCode::dtype_mismatch,
          fmt::format(
              "the number '{}' is {}; f32 and i32 are possible", number.name, name(number.dtype)));
    }
  }
  for (const CustomInput& input : config.inputs) {
    names.make(input.name, false);
  }
  for (const std::string& output : config.outputs) {
    names.make(output, true);
  }
}

}  // namespace hearth::detail
