// NVRTC on the host: libnvrtc.so for machines without NVIDIA's. Its compiler is g++, and its
// "cubins" are libraries for host_driver.cpp. HEARTH_HOST_NVRTC_FLAGS: more options of g++, such as
// -fsanitize=address.
#include "backends/cuda/driver/cuda_types.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace {

struct Program {
  std::string text;
  std::string log;
  std::string image;
};

Program* program_of(hearth::cuda::nvrtcProgram program) {
  return reinterpret_cast<Program*>(program);
}

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

bool is_known(std::string_view option) {
  return option.starts_with("--gpu-architecture=sm_") || option == "--std=c++17" ||
         option == "--fmad=false" || option == "-default-device" || option == "--minimal";
}

}  // namespace

extern "C" {

using hearth::cuda::nvrtcProgram;
using hearth::cuda::nvrtcResult;

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return 0;
}
nvrtcResult nvrtcGetSupportedArchs(int* architectures) {
  *architectures = 90;
  return 0;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program,
                               const char* text,
                               const char* /*name*/,
                               int /*header_count*/,
                               const char* const* /*headers*/,
                               const char* const* /*header_names*/) {
  *program = reinterpret_cast<nvrtcProgram>(new Program{.text = text, .log = {}, .image = {}});
  return 0;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete program_of(*program);
  return 0;
}

// Phases: the options; files; the compiler; the library behind the number of its bytes.
nvrtcResult nvrtcCompileProgram(nvrtcProgram handle, int option_count, const char* const* options) {
  Program& program = *program_of(handle);
  for (int i = 0; i < option_count; ++i) {
    if (!is_known(options[i])) {
      program.log = std::string("unknown option ") + options[i];
      return 5;
    }
  }
  const bool is_minimal = std::any_of(options, options + option_count, [](std::string_view option) {
    return option == "--minimal";
  });
  char folder[] = "/tmp/hearth-host-nvrtc-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    return 1;
  }
  const std::filesystem::path place(folder);
  std::ofstream(place / "kernel.cpp") << program.text;
  const char* const more = std::getenv("HEARTH_HOST_NVRTC_FLAGS");
  // Unique symbols would give kernels of equal names one shared memory, of the first one's size.
  const std::string command =
      std::string(
          "LC_ALL=C " HEARTH_HOST_COMPILER
          " -shared -fPIC -O1 -std=c++17 -w -ffp-contract=off -fno-strict-aliasing -fno-gnu-unique "
          "-DHEARTH_MACHINE='\"" HEARTH_HOST_MACHINE "\"' ") +
      (is_minimal ? "-D__CUDACC_RTC_MINIMAL__ " : "") + (more == nullptr ? "" : more) + " -o " +
      (place / "kernel.so").string() + " " + (place / "kernel.cpp").string() + " > " +
      (place / "log").string() + " 2>&1";
  const int failed = std::system(command.c_str());
  program.log = contents(place / "log");
  if (failed == 0) {
    const std::string library = contents(place / "kernel.so");
    const std::uint64_t size = library.size();
    program.image.assign(reinterpret_cast<const char*>(&size), sizeof size);
    program.image += library;
  }
  std::filesystem::remove_all(place);
  return failed == 0 ? 0 : 6;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, std::size_t* size) {
  *size = program_of(program)->image.size();
  return 0;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* bytes) {
  std::memcpy(bytes, program_of(program)->image.data(), program_of(program)->image.size());
  return 0;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, std::size_t* size) {
  *size = program_of(program)->log.size() + 1;
  return 0;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* text) {
  std::strcpy(text, program_of(program)->log.c_str());
  return 0;
}

}  // extern "C"
