#include "spirv_compiler.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>
#include <spirv-tools/libspirv.hpp>
#include <spirv-tools/optimizer.hpp>

#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::vulkan {
namespace {

constexpr spv_target_env kEnvironment = SPV_ENV_VULKAN_1_2;

// glslang counts its initialisations. The tables of the first one live until the last is finalised,
// so the first is never finalised.
void start_compiler() {
  static const bool has_started = glslang::InitializeProcess();
  static_cast<void>(has_started);
}

Error wrong_kernel(std::string_view name, std::string_view step, std::string_view what) {
  return {.code = ErrorCode::internal, .text = fmt::format("shader {}: {}: {}", name, step, what)};
}

// Numbers the lines, so that a reader can match the compiler's messages.
std::string numbered(const std::string& text) {
  std::string out;
  int number = 1;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = text.find('\n', begin);
    end = end == std::string::npos ? text.size() : end;
    out += fmt::format("\n{:4} {}", number++, text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

// Returns line `number` of a text, from 1; empty where the text has fewer lines.
std::string_view line_of(std::string_view text, int number) {
  for (; number > 1 && !text.empty(); --number) {
    const std::size_t end = text.find('\n');
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Returns the last line that is not blank.
std::string_view last_line_of(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  return text.substr(text.rfind('\n') + 1);
}

// The compiler quotes unknown characters byte by byte, which may split a UTF-8 sequence.
std::string without_letters_beyond_ascii(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(
      out, [](char c) { return (static_cast<unsigned char>(c) & 0x80U) != 0; }, '?');
  return out;
}

// Finds errors of the text as a whole, which glslang reports at the lines behind it, which call its
// kernel(), or when linking. Returns an empty string for other errors.
std::string wrong_whole(std::string_view log, std::string_view own) {
  const auto is_said = [&](std::string_view words) {
    return log.find(words) != std::string_view::npos;
  };
  if (is_said("ERROR: 2:1: '' :  syntax error")) {
    const std::string_view last =
        trimmed(last_line_of(own.substr(0, own.find(gpu::kProgramLinesEnd))));
    return fmt::format(
        " it ends too early: a brace, a bracket or a semicolon is missing, at its "
        "end or before\n    {}",
        last);
  }
  if (is_said("Only one push_constant block")) {
    return " it declares push constants, which are Hearth's own: a kernel has its operands and "
           "numbers";
  }
  if (is_said("missing #endif")) {
    return " an #if, #ifdef or #ifndef has no #endif";
  }
  if (is_said("'kernel' : no matching overloaded function")) {
    return " it has no function 'void kernel()', without parameters, which is what runs";
  }
  if (is_said("'main' : function already has a body")) {
    return " it has a function 'main', which is Hearth's own: call it 'kernel'";
  }
  // glslang writes "Recursion detected:", and on separate lines "f(f1; calling g(f1;"
  constexpr std::string_view kRecursion = "Recursion detected:";
  if (const std::size_t at = log.find(kRecursion); at != std::string_view::npos) {
    std::string_view calls = log.substr(at + kRecursion.size());
    calls.remove_prefix(std::min(calls.find_first_not_of(" \t\r\n"), calls.size()));
    return fmt::format(
        " the function '{}' calls itself, or others that call it, and GLSL has no "
        "recursion",
        calls.substr(0, calls.find('(')));
  }
  return "";
}

// The compiler writes "ERROR: STRING:LINE: words"; string 1 is the program's text. Errors of other
// lines follow from those, and matter only where the program's text has none. An error at the first
// line behind the program's text means that a construct in it has no end.
std::optional<Error> wrong_program_text(std::string_view log, std::string_view text) {
  const std::size_t begin = text.find(gpu::kProgramLines);
  if (begin == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view own = text.substr(begin + gpu::kProgramLines.size());
  constexpr std::string_view kMark = "ERROR: 1:";
  std::string what;
  for (std::string_view rest = log; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view said = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!said.starts_with(kMark)) {
      continue;
    }
    const std::size_t colon = std::min(said.find(':', kMark.size()), said.size());
    const int number = std::atoi(std::string(said.substr(kMark.size(), colon)).c_str());  // NOLINT
    what += fmt::format(
        "\n  line {}: {}\n    {}",
        number,
        without_letters_beyond_ascii(trimmed(said.substr(std::min(colon + 1, said.size())))),
        trimmed(line_of(own, number)));
  }
  if (what.empty()) {
    what = wrong_whole(log, own);
  }
  return Error{.code = ErrorCode::kernel_failed,
               .text = "the GLSL text does not compile:" +
                       (what.empty() ? " " + std::string(trimmed(log)) : what)};
}

}  // namespace

std::uint32_t glsl_compiler_version() noexcept {
  const glslang::Version version = glslang::GetVersion();
  return static_cast<std::uint32_t>(version.major) << 20U |
         static_cast<std::uint32_t>(version.minor) << 10U |
         static_cast<std::uint32_t>(version.patch);
}

Result<SpirvModule> compile_glsl(std::string_view name,
                                 const std::string& kernel,
                                 SpirvOptions options) {
  start_compiler();
  const std::string text = gpu::glsl_text(kernel);
  glslang::TShader shader(EShLangCompute);
  const char* const source = text.c_str();
  shader.setStrings(&source, 1);
  const std::string defines = fmt::format("{}{}",
                                          options.converts_f16 ? "#define CONVERTS_F16\n" : "",
                                          options.has_long_grids ? "#define LONG_GRIDS\n" : "");
  shader.setPreamble(defines.c_str());
  shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
  shader.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_2);
  shader.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_5);
  const auto messages = static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules);
  if (!shader.parse(GetDefaultResources(), 460, false, messages)) {
    if (std::optional<Error> own = wrong_program_text(shader.getInfoLog(), text)) {
      return *std::move(own);
    }
    return wrong_kernel(name, "glslang", fmt::format("{}{}", shader.getInfoLog(), numbered(text)));
  }
  glslang::TProgram program;
  program.addShader(&shader);
  if (!program.link(messages)) {
    if (std::optional<Error> own = wrong_program_text(program.getInfoLog(), text)) {
      return *std::move(own);
    }
    return wrong_kernel(name, "glslang, linking", program.getInfoLog());
  }
  SpirvModule module;
  glslang::SpvOptions spv_options;
  spv_options.disableOptimizer = true;
  glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), module, &spv_options);
  std::string said;
  const auto listen =
      [&said](spv_message_level_t, const char*, const spv_position_t&, const char* message) {
        said += message;
      };
  if (options.validate) {
    spvtools::SpirvTools tools(kEnvironment);
    tools.SetMessageConsumer(listen);
    spvtools::ValidatorOptions rules;
    rules.SetScalarBlockLayout(true);
    if (!tools.Validate(module.data(), module.size(), rules)) {
      return wrong_kernel(name, "spirv-val", said + numbered(text));
    }
  }
  if (options.optimise) {
    spvtools::Optimizer optimizer(kEnvironment);
    optimizer.SetMessageConsumer(listen);
    optimizer.RegisterPerformancePasses();
    spvtools::ValidatorOptions rules;
    rules.SetScalarBlockLayout(true);
    spvtools::OptimizerOptions with;
    with.set_validator_options(rules);
    with.set_run_validator(false);
    SpirvModule optimised;
    if (!optimizer.Run(module.data(), module.size(), &optimised, with)) {
      return wrong_kernel(name, "spirv-opt", said);
    }
    module = std::move(optimised);
  }
  return module;
}

}  // namespace hearth::vulkan
