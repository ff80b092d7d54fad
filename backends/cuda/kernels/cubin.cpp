#include "cubin.hpp"

#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "program_errors.hpp"

namespace hearth::cuda {
namespace {

// Destroys a program of NVRTC.
struct Program {
  const NvrtcApi& api;
  nvrtcProgram handle = nullptr;

  explicit Program(const NvrtcApi& its_api) noexcept : api(its_api) {}
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (handle != nullptr) {
      api.nvrtcDestroyProgram(&handle);
    }
  }

  [[nodiscard]] std::string log() const {
    std::size_t size = 0;
    if (api.nvrtcGetProgramLogSize(handle, &size) != 0 || size == 0) {
      return {};
    }
    std::string text(size, '\0');
    static_cast<void>(api.nvrtcGetProgramLog(handle, text.data()));
    text.resize(std::strlen(text.c_str()));
    return text;
  }
};

// NVRTC from 12.4 on compiles without the types of textures and of CUDA's runtime, which kernels of
// programs may name. The first step of a GPT-2 took 2.3 s in place of 2.8 on an H200.
bool is_minimal(const NvrtcApi& api, std::string_view text) {
  constexpr int kFirstWithMinimal = 12040;
  return api.version >= kFirstWithMinimal && !has_program_lines(text);
}

}  // namespace

// Cubins of sm_90 alone may use what the letter stands for.
std::string architecture_of(int number) {
  return fmt::format("sm_{}{}", number, number == 90 ? "a" : "");
}

Cubin compile_text(const NvrtcApi& api, const std::string& architecture, const std::string& text) {
  Program program(api);
  if (api.nvrtcCreateProgram(&program.handle, text.c_str(), "kernel.cu", 0, nullptr, nullptr) !=
      0) {
    return {.log = "no program"};
  }
  const std::string target = fmt::format("--gpu-architecture={}", architecture);
  std::vector<const char*> options = {
      target.c_str(), "--std=c++17", "--fmad=false", "-default-device"};
  if (is_minimal(api, text)) {
    options.push_back("--minimal");
  }
  if (api.nvrtcCompileProgram(program.handle, static_cast<int>(options.size()), options.data()) !=
      0) {
    return {.log = program.log()};
  }
  std::size_t size = 0;
  if (api.nvrtcGetCUBINSize(program.handle, &size) != 0 || size == 0) {
    return {.log = "no cubin"};
  }
  Cubin cubin{.bytes = std::vector<char>(size)};
  if (api.nvrtcGetCUBIN(program.handle, cubin.bytes.data()) != 0) {
    return {.log = "no cubin"};
  }
  return cubin;
}

}  // namespace hearth::cuda
