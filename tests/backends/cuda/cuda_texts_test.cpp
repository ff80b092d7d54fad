// Compiles the texts of all kernels as CUDA C++: by clang's CUDA front end, by g++ as the host's
// NVRTC does, and by NVIDIA's NVRTC where it is found. Takes minutes, so .ci/nightly runs it.
#include "backends/cuda/driver/cuda_api.hpp"
#include "backends/cuda/kernels/cubin.hpp"
#include "backends/cuda/text/cuda_prelude.hpp"
#include "tests/backends/kernel_texts.hpp"

#include <hearth/runtime/base/checked_file.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace hearth::cuda {
namespace {

// The limits of a device of CUDA.
constexpr gpu::DeviceLimits kCard{.subgroup_size = 32,
                                  .shared_bytes = 49152,
                                  .most_group_threads = 1024,
                                  .most_groups_x = 0x7fffffffU,
                                  .has_f64 = true,
                                  .has_f16_arithmetic = true,
                                  .is_exact_f16 = true,
                                  .special_widths = 112,
                                  .has_warp_products = true,
                                  .multiprocessors = 132};

struct Text {
  std::string kind;
  std::string text;
};

// By the hash of the text.
std::map<std::string, Text> all_texts() {
  std::map<std::string, Text> texts;
  gpu::testing::take_texts(kCard, [&](std::string_view kind, std::span<const std::string> some) {
    for (const std::string& each : some) {
      std::string text = cuda_text(each);
      const std::uint64_t hash = xxh64(std::as_bytes(std::span(text)));
      texts.emplace(fmt::format("{:016x}", hash), Text{std::string(kind), std::move(text)});
    }
  });
  return texts;
}

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The output of the compiler; empty if the text compiles.
std::string errors_of(const std::string& compiler, const std::filesystem::path& file) {
  const std::filesystem::path log = file.string() + ".log";
  const std::string command = compiler + " " + file.string() + " > " + log.string() + " 2>&1";
  return std::system(command.c_str()) == 0 ? "" : contents(log).substr(0, 2000);
}

const std::string kClang = HEARTH_CUDA_CLANG
    " -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_80 -std=c++17 "
    "-Wno-unknown-cuda-version -fsyntax-only";
const std::string kHost = HEARTH_HOST_COMPILER
    " -x c++ -std=c++17 -w -fsyntax-only -DHEARTH_MACHINE='\"" HEARTH_HOST_MACHINE "\"'";

std::filesystem::path folder() {
  std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "cuda_texts";
  std::filesystem::create_directories(path);
  return path;
}

TEST(CudaTexts, CompileByClangAndOnTheHost) {
  const std::map<std::string, Text> texts = all_texts();
  ASSERT_GT(texts.size(), 300U);
  for (const auto& [hash, text] : texts) {
    const std::filesystem::path file = folder() / (text.kind + "-" + hash + ".cu");
    std::ofstream(file) << text.text;
    EXPECT_EQ(errors_of(kClang, file), "") << file;
    EXPECT_EQ(errors_of(kHost, file), "") << file;
  }
}

// A process of its own compiles a text, since NVRTC cannot be interrupted.
class Child final {
 public:
  Child(const Text& text, const std::string& folders) : log_(folder() / (text.kind + ".log")) {
    process_ = ::fork();
    if (process_ == 0) {
      const auto nvrtc = NvrtcApi::open(folders);
      const Cubin cubin = compile_text(*nvrtc.value(), architecture_of(90), text.text);
      std::ofstream(log_) << cubin.log;
      ::_exit(cubin.bytes.empty() ? 1 : 0);
    }
  }
  /// Why the text does not compile within the limit; empty if it does.
  std::string wait(std::chrono::seconds limit) const {
    const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process_, 0));
    pollfd end{.fd = handle, .events = POLLIN, .revents = 0};
    const auto limit_ms = static_cast<int>(std::chrono::milliseconds(limit).count());
    const bool has_ended = ::poll(&end, 1, limit_ms) == 1;
    ::close(handle);
    if (!has_ended) {
      ::kill(process_, SIGKILL);
    }
    int status = 0;
    ::waitpid(process_, &status, 0);
    if (!has_ended) {
      return fmt::format("takes more than {} s", limit.count());
    }
    return status == 0 ? "" : fmt::format("status {}: {}", status, contents(log_));
  }

 private:
  std::filesystem::path log_;
  ::pid_t process_ = -1;
};

TEST(CudaTexts, CompileByNvrtcWithinALimit) {
  constexpr auto kLimit = std::chrono::seconds(60);
  const char* const variable = std::getenv("HEARTH_CUDA_LIBRARY_PATH");
  const std::string folders = variable == nullptr ? "/usr/local/cuda/lib64" : variable;
  if (const auto nvrtc = NvrtcApi::open(folders); !nvrtc.has_value()) {
    GTEST_SKIP() << nvrtc.error().text;
  }
  for (const auto& [hash, text] : all_texts()) {
    const std::string why = Child(text, folders).wait(kLimit);
    if (!why.empty()) {
      const std::filesystem::path file = folder() / (text.kind + "-" + hash + ".cu");
      std::ofstream(file) << text.text;
      ADD_FAILURE() << file << " " << why;
    }
  }
}

}  // namespace
}  // namespace hearth::cuda
