// The names in the text around a program's custom kernel, compared with those that custom_op
// refuses.
#include "backends/gpu/pointwise/custom.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/vulkan/pipelines/loop_watch.hpp"
#include "backends/vulkan/spirv/spirv_compiler.hpp"

#include <hearth/runtime/custom_kernel.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::gpu {
namespace {

using namespace vulkan;

/// Keeps the dispatched text.
class OneText final : public KernelEncoder {
 public:
  [[nodiscard]] const DeviceLimits& limits() const noexcept override { return limits_; }
  [[nodiscard]] Status dispatch(const KernelKey& /*key*/,
                                KernelText make,
                                const ParameterBlock& /*parameters*/,
                                Grid /*grid*/) override {
    text = make();
    return {};
  }
  void barrier() override {}
  [[nodiscard]] Result<std::uint64_t> scratch(std::int64_t /*size_bytes*/) override { return 0; }
  [[nodiscard]] std::uint64_t error_cell() const noexcept override { return 0; }
  [[nodiscard]] std::uint64_t guard() const noexcept override { return 0; }
  [[nodiscard]] std::span<const std::int8_t> keeps() const noexcept override { return {}; }

  std::string text;

 private:
  DeviceLimits limits_;
};

std::vector<CustomInput> inputs_of(int count) {
  std::vector<CustomInput> inputs;
  inputs.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    inputs.push_back({"in" + std::to_string(i)});
  }
  return inputs;
}

// The whole text of a kernel, as for a driver in software.
std::string whole_text(int input_count,
                       std::string program = "// not void main()\nvoid kernel() {}") {
  CustomCode code;
  code.name = "k";
  code.inputs = inputs_of(input_count);
  code.outputs = {"y"};
  code.glsl.text = std::move(program);
  const hearth::detail::Layout layout(Shape{2, 3, 4, 5});
  const std::vector<TensorView> views(static_cast<std::size_t>(input_count) + 1,
                                      TensorView{nullptr, &layout, DType::f32});
  const OpRecord record;
  OneText encoder;
  const Status status = encode_custom({.op = OpView(record, nullptr),
                                       .inputs = std::span(views).subspan(1),
                                       .outputs = std::span(views).first(1),
                                       .custom = &code},
                                      encoder);
  EXPECT_TRUE(status.has_value());
  return glsl_text(LoopWatch::watched(encoder.text, true));
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  std::erase_if(words, [](const std::string& word) {
    return word.empty() || std::isdigit(static_cast<unsigned char>(word[0])) != 0 || word[0] == '_';
  });
  return words;
}

// Words of the text that can collide with a name of the program: macros, declarations outside
// braces, and members of blocks without an instance name. The body of a macro without parameters
// can collide only with a named number, because that is a macro too.
struct TextNames {
  std::set<std::string> all;
  std::set<std::string> in_macros;
};

void record_macro(const std::string& line, TextNames& names) {
  const std::size_t begin = line.find(' ') + 1;
  const std::size_t end = std::min(line.find_first_of(" (", begin), line.size());
  names.all.insert(line.substr(begin, end - begin));
  if (!line.substr(end).starts_with('(')) {
    const std::vector<std::string> body = words_of(line.substr(end));
    names.in_macros.insert(body.begin(), body.end());
  }
}

// The text with the vocabulary's declarations expanded, each on a line of its own.
std::string with_declarations(std::string text) {
  text = std::regex_replace(
      text, std::regex(R"((^|\n)(READ_|WRITE_)?BUFFER(_ONE|_HALVES|_OF)?\((\w+),[^)]*\))"), "\n$4");
  text =
      std::regex_replace(text, std::regex(R"(\n(LONG_)?PARAMETERS )"), "\nuniform Parameters {\n");
  text = std::regex_replace(
      text, std::regex("END_LONG_PARAMETERS\n"), "}\nuniform Root { Parameters p; PUSHED };\n");
  return std::regex_replace(text, std::regex("END_PARAMETERS\n"), "} p;\n");
}

TextNames names_in(const std::string& whole) {
  const std::string text = with_declarations(whole);
  TextNames names;
  std::string outside;
  int depth = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find("//"));
    if (line.starts_with("#define ") || line.starts_with("#ifdef ")) {
      record_macro(line, names);
    }
    if (line.starts_with('#')) {
      continue;
    }
    const bool is_root = line.find("uniform Root {") != std::string::npos;
    for (const char c : line) {
      const bool is_open = c == '(' || (c == '{' && !is_root);
      const bool is_end = c == ')' || (c == '}' && !is_root);
      depth += is_open ? 1 : is_end ? -1 : 0;
      outside += depth == 0 ? c : ' ';
    }
    outside += '\n';
  }
  for (const std::string& word : words_of(outside)) {
    names.all.insert(word);
  }
  return names;
}

// Whether a kernel may use the name besides its inputs and y.
bool is_refused(const std::string& name, int input_count, bool as_number) {
  CustomKernelConfig config{.name = "k", .inputs = inputs_of(input_count)};
  config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> { return {in[0]}; };
  config.glsl.text = "void kernel() {}";
  if (as_number) {
    config.numbers = {{name}};
  } else {
    config.inputs.push_back({name});
  }
  try {
    static_cast<void>(custom_op(config));
    return false;
  } catch (const ArgumentError&) {
    return true;
  }
}

// Words of the elementary functions' texts, which a program's text does not need.
TEST(CustomText, LeavesNamesOfFunctionsToTheProgram) {
  for (const std::string name : {"mul_add", "mul_sub", "near_div", "m_div_by", "CHOOSE"}) {
    const std::string text =
        whole_text(1,
                   "float " + name + "(float a, float b, float c) { return a * b + c; }\n" +
                       "void kernel() { set_y(ID, " + name + "(in0(ID), 2.0, 1.0)); }");
    const Result<SpirvModule> module = compile_glsl("custom", text, {.validate = true});
    EXPECT_TRUE(module.has_value()) << module.error().text;
  }
}

TEST(CustomText, HasNoNamesThatAProgramMayUse) {
  for (const int input_count : {1, 7}) {  // parameters as push constants, and in memory
    const std::string text = whole_text(input_count);
    const TextNames names = names_in(text);
    EXPECT_EQ(names.all.contains("Root"), input_count == 7);
    for (const char* const name : {"Words32f",
                                   "is_nan",
                                   "load_f32",
                                   "in0_size",
                                   "set_y",
                                   "kernel",
                                   "watched_main",
                                   "WATCHED_AT",
                                   "Parameters",
                                   "p"}) {
      EXPECT_TRUE(names.all.contains(name)) << name << " was not found in\n" << text;
    }
    for (const std::string& name : names.all) {
      EXPECT_TRUE(is_refused(name, input_count, true)) << name;
      EXPECT_TRUE(is_refused(name, input_count, false)) << name;
    }
    for (const std::string& name : names.in_macros) {
      EXPECT_TRUE(is_refused(name, input_count, true)) << name;
    }
  }
}

TEST(CustomText, CompilesWhereItIsWatched) {
  const auto module = compile_glsl("custom", whole_text(2), {.validate = true});
  EXPECT_TRUE(module.has_value()) << module.error().text;
}

// glslang stops in the middle of a declaration here, and must leave the memory of the next text
// whole.
TEST(CustomText, ADoubledMemberIsAnErrorOfItsLine) {
  for (const char* const text : {"struct S {\n  float a;\n  float a;\n};\nvoid kernel() {}",
                                 "buffer B { float a; float a; };\nvoid kernel() {}",
                                 "layout(buffer_reference) buffer B { float a; float a; };\n"
                                 "void kernel() {}"}) {
    const auto module = compile_glsl("custom", whole_text(1, text), {.validate = true});
    ASSERT_FALSE(module.has_value()) << text;
    EXPECT_EQ(module.error().code, ErrorCode::kernel_failed);
    EXPECT_NE(module.error().text.find("duplicate member name: a"), std::string::npos)
        << module.error().text;
    EXPECT_TRUE(compile_glsl("custom", whole_text(2), {}).has_value());
  }
}

}  // namespace
}  // namespace hearth::gpu
