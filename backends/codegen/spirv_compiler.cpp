#include <hearth/backends/codegen/spirv_compiler.hpp>

#include <fmt/format.h>
#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>
#include <spirv-tools/libspirv.hpp>
#include <spirv-tools/optimizer.hpp>

namespace hearth {
namespace {

constexpr spv_target_env kEnvironment = SPV_ENV_VULKAN_1_2;

// glslang counts its processes by itself; the tables that the first one makes stay as long as one
// is left, so the first is never given back.
void start_compiler() {
  static const bool has_started = glslang::InitializeProcess();
  static_cast<void>(has_started);
}

Error wrong(std::string_view name, std::string_view step, std::string_view what) {
  return {.code = ErrorCode::internal, .text = fmt::format("shader {}: {}: {}", name, step, what)};
}

// Numbered, so that a message of the compiler can be read.
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

}  // namespace

Result<SpirvModule> compile_glsl(std::string_view name,
                                 const std::string& text,
                                 SpirvOptions options) {
  start_compiler();
  glslang::TShader shader(EShLangCompute);
  const char* const source = text.c_str();
  shader.setStrings(&source, 1);
  shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
  shader.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_2);
  shader.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_5);
  const auto messages = static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules);
  if (!shader.parse(GetDefaultResources(), 460, false, messages)) {
    return wrong(name, "glslang", fmt::format("{}{}", shader.getInfoLog(), numbered(text)));
  }
  glslang::TProgram program;
  program.addShader(&shader);
  if (!program.link(messages)) {
    return wrong(name, "glslang, linking", program.getInfoLog());
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
      return wrong(name, "spirv-val", said + numbered(text));
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
      return wrong(name, "spirv-opt", said);
    }
    module = std::move(optimised);
  }
  return module;
}

}  // namespace hearth
