#include "loop_watch.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::vulkan {
namespace {

constexpr std::string_view kMain = "void main()";
/// The declaration by glsl_parameters(), up to its members and behind them.
constexpr std::string_view kBlock = "layout(push_constant, scalar) uniform ";
constexpr std::string_view kEndOfBlock = "} p;";
constexpr std::string_view kEndOfRoot = "};";

// The bound is two, a value that compilers cannot infer. A program's own text must avoid these
// names.
constexpr std::string_view kTwoSteps = R"(
layout(buffer_reference, scalar, buffer_reference_align = 4) writeonly buffer WatchedWord {
  uint watched_word;
};
void main() {
  watched_main();
  uint watched_steps = 0u;
  [[dont_unroll]] for (uint watched = 0u; watched < min(gl_NumWorkGroups.x, 1u) + 1u; ++watched) {
    ++watched_steps;
  }
  if (watched_steps < 2u) {
    WatchedWord(WATCHED_AT).watched_word = 1u;
  }
}
)";

// Unrolled loops have no steps.
bool has_loops(std::string_view text) noexcept {
  constexpr std::string_view kUnrolled = "[[unroll]] ";
  for (std::size_t at = text.find("for ("); at != std::string_view::npos;
       at = text.find("for (", at + 1)) {
    if (!text.substr(0, at).ends_with(kUnrolled)) {
      return true;
    }
  }
  return text.find("while (") != std::string_view::npos;
}

}  // namespace

Result<std::unique_ptr<LoopWatch>> LoopWatch::make(const VulkanDevice& device) {
  if (!device.limits().is_cpu) {
    return std::unique_ptr<LoopWatch>();
  }
  HEARTH_TRY(Buffer word, device.make_buffer(sizeof(std::uint32_t), gpu::MemoryPlace::shared));
  std::memset(word.host(), 0, sizeof(std::uint32_t));
  return std::unique_ptr<LoopWatch>(new LoopWatch(std::move(word)));  // NOLINT
}

// The word's address is no constant of the shader: a constant would miss the driver's cache in each
// run.
std::string LoopWatch::watched(std::string_view text, bool may_hide_loops) {
  const std::size_t block = text.find(kBlock);
  const std::size_t main = text.rfind(kMain);  // a program's own text may contain one, too
  if (block == std::string_view::npos || main == std::string_view::npos ||
      (!may_hide_loops && !has_loops(text))) {
    return std::string(text);
  }
  const bool is_root = text.substr(block + kBlock.size()).starts_with("Root ");
  const std::size_t end = text.find(is_root ? kEndOfRoot : kEndOfBlock, block);
  const std::string_view last = is_root ? kEndOfRoot : kEndOfBlock;
  std::string out(text.substr(0, end));
  out +=
      fmt::format("layout(offset = {}) uint64_t watched_at; {}\n#define WATCHED_AT {}watched_at\n",
                  gpu::kPushBytes,
                  last,
                  is_root ? "" : "p.");
  const std::size_t behind = end + last.size();
  out += text.substr(behind, main - behind);
  out += "void watched_main()";
  out += text.substr(main + kMain.size());
  out += kTwoSteps;
  return out;
}

bool LoopWatch::has_seen_any() const noexcept {
  std::uint32_t word = 0;
  std::memcpy(&word, word_.host(), sizeof word);
  return word != 0;
}

}  // namespace hearth::vulkan
