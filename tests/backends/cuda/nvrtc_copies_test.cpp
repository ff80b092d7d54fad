// Copies of the compiler: one for each thread that compiles, up to a number, and used again.
#include "backends/cuda/kernels/nvrtc_copies.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/kernels/cubin.hpp"

namespace hearth::cuda {
namespace {

std::shared_ptr<const NvrtcApi> host_compiler() {
  const char* const folders = std::getenv("HEARTH_CUDA_LIBRARY_PATH");
  return NvrtcApi::open(folders == nullptr ? HEARTH_HOST_CUDA : folders).value();
}

TEST(NvrtcCopies, AreLibrariesOfTheirOwn) {
  NvrtcCopies copies(host_compiler());
  std::array<std::unique_ptr<NvrtcCopies::Use>, NvrtcCopies::kMost + 1> uses;
  std::set<const void*> compilers;
  for (auto& use : uses) {
    use.reset(new NvrtcCopies::Use(copies.take(nullptr)));  // NOLINT: it does not move
    compilers.insert(reinterpret_cast<const void*>(use->api().nvrtcCompileProgram));  // NOLINT
    EXPECT_EQ(use->api().version, host_compiler()->version);
    EXPECT_FALSE(use->api().file.empty());
  }
  EXPECT_EQ(compilers.size(), NvrtcCopies::kMost);
}

TEST(NvrtcCopies, AnIdleOneIsUsedAgain) {
  NvrtcCopies copies(host_compiler());
  const void* first = nullptr;
  for (int i = 0; i < 3; ++i) {
    const NvrtcCopies::Use use = copies.take(nullptr);
    const auto* const own = reinterpret_cast<const void*>(use.api().nvrtcCompileProgram);  // NOLINT
    EXPECT_TRUE(first == nullptr || own == first);
    first = own;
  }
}

TEST(NvrtcCopies, ReportWhyALibraryCannotBeCopied) {
  const int on_stack = 0;
  const Result<SharedLibrary> copy = copy_library(&on_stack);
  ASSERT_FALSE(copy.has_value());
  EXPECT_EQ(copy.error().code, ErrorCode::not_found);
  EXPECT_EQ(copy.error().text, "no copy of NVIDIA's library: the loader does not know its file");
}

TEST(NvrtcCopies, AreSharedWithOneWarningWhereNoFileCanBeMade) {
  ::setenv("TMPDIR", "/nonexistent", 1);  // NOLINT(concurrency-mt-unsafe)
  std::vector<std::string> lines;
  hearth::detail::Log log({.output = [&](hearth::detail::LogLevel, std::string_view line) {
    lines.emplace_back(line);
  }});
  {
    NvrtcCopies copies(host_compiler());
    const NvrtcCopies::Use first = copies.take(&log);
    const NvrtcCopies::Use second = copies.take(&log);
    const NvrtcCopies::Use third = copies.take(&log);
    EXPECT_EQ(&first.api(), &second.api());
    EXPECT_EQ(&first.api(), &third.api());
  }
  ::unsetenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe)
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines.front().find("kernels compile slower, since threads share one NVRTC: no copy of "
                               "NVIDIA's library: no file can be made"),
            std::string::npos)
      << lines.front();
}

TEST(NvrtcCopies, TheDevicesOfAProcessShareThem) {
  const std::shared_ptr<const NvrtcApi> original = host_compiler();
  EXPECT_EQ(NvrtcCopies::of(original), NvrtcCopies::of(host_compiler()));
}

}  // namespace
}  // namespace hearth::cuda
