// Hashes of the texts of all kernels and of their compiled modules, which a refactoring must not
// change. golden/kernels.txt has a line for each text: limits, kind, number of the text, hash of
// the text, hash of its module. Modules are compared only under the compilers named in the first
// line.
#include "backends/vulkan/spirv/spirv_compiler.hpp"
#include "bench/gpu/large_gpu.hpp"
#include "tests/backends/kernel_texts.hpp"
#include "tests/streams/kernel/golden.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spirv-tools/libspirv.h>
#include <hearth/runtime/base/checked_file.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::gpu {
namespace {

using namespace vulkan;
using namespace testing;

using conformance::CallSpec;
using conformance::LayoutKind;
using conformance::OpCase;

std::uint64_t hash_of(std::string_view text) {
  return hearth::xxh64(std::as_bytes(std::span(text)));
}

// Collects a line for each new text of a device with these limits.
class HashList final {
 public:
  HashList(std::string_view name, const DeviceLimits& limits) : name_(name), limits_(limits) {}

  void add(std::string_view kind, std::span<const std::string> texts) {
    for (const std::string& text : texts) {
      if (!known_.insert(text).second) {
        continue;
      }
      const Result<SpirvModule> module = compile_glsl(kind,
                                                      text,
                                                      {.validate = true,
                                                       .converts_f16 = limits_.converts_f16(),
                                                       .has_long_grids = limits_.has_long_grids()});
      ASSERT_TRUE(module.has_value()) << kind << ": " << module.error().text;
      lines_ += fmt::format("{} {} {} {:016x} {:016x}\n",
                            name_,
                            kind,
                            known_.size(),
                            hash_of(text),
                            hearth::xxh64(std::as_bytes(std::span(module.value()))));
    }
  }
  [[nodiscard]] const std::string& lines() const noexcept { return lines_; }

 private:
  std::string_view name_;
  DeviceLimits limits_;
  std::set<std::string, std::less<>> known_;
  std::string lines_;
};

// Adds kernels on emulated matrix units, which only large calls have. Takes the first kMostCalls of
// these calls for each layout.
void add_emulated(const OpCase& each, DType dtype, HashList& list, TextKeeper& keeper) {
  for (const LayoutKind layout : {LayoutKind::dense, LayoutKind::transposed}) {
    std::size_t calls = 0;
    for (const CallSpec& spec : each.calls) {
      if ((spec.dtypes & dtype_bit(dtype)) == 0 || calls == kMostCalls) {
        continue;
      }
      encode_call(each.kind, spec, dtype, layout, keeper);
      std::erase_if(keeper.texts, [](const std::string& text) {
        return text.find("struct Fragment") == std::string::npos;
      });
      calls += keeper.texts.empty() ? 0U : 1U;
      list.add(op_info(each.kind).name, keeper.texts);
    }
  }
}

// `limits` are those of a driver that emulates matrix units.
std::string emulated_lines(std::string_view name, const DeviceLimits& limits) {
  HashList list(name, limits);
  TextKeeper keeper(limits);
  for (const OpCase& each : conformance::op_cases()) {
    for (const DType dtype : each.dtypes()) {
      if (dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::i8) {
        add_emulated(each, dtype, list, keeper);
      }
    }
  }
  return list.lines();
}

std::string lines_of(std::string_view name, const DeviceLimits& limits) {
  HashList list(name, limits);
  take_texts(limits, [&list](std::string_view kind, std::span<const std::string> texts) {
    list.add(kind, texts);
  });
  return list.lines();
}

std::string compilers() {
  return fmt::format("glslang {:08x}, {}", glsl_compiler_version(), spvSoftwareVersionString());
}

// Without the last word of each line, the module's hash.
std::string texts_only(const std::string& lines) {
  std::string out;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string line = lines.substr(begin, end - begin);
    out += line.substr(0, line.rfind(' ')) + "\n";
    begin = end + 1;
  }
  return out;
}

TEST(KernelHashes, AreThoseThatWereKept) {
  DeviceLimits short_sums = kSoftware;
  short_sums.sums_f16 = true;
  const std::string now = lines_of("software", kSoftware) + lines_of("large_gpu", kLargeGpu) +
                          emulated_lines("emulated", kSoftware) +
                          emulated_lines("emulated_f16_sums", short_sums);
  const std::string all = compilers() + "\n" + now;
  if (hearth::testing::updates_golden()) {
    hearth::testing::expect_golden("kernels.txt", all);
    return;
  }
  const std::string kept = hearth::testing::golden("kernels.txt");
  if (kept.starts_with(compilers() + "\n")) {
    EXPECT_EQ(all, kept);
  } else {
    EXPECT_EQ(texts_only(now), texts_only(kept.substr(kept.find('\n') + 1)));
  }
}

}  // namespace
}  // namespace hearth::gpu
