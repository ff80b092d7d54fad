#include "loop_watch.hpp"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::vulkan {
namespace {

constexpr std::string_view kMain = "void main()";
constexpr std::string_view kLongParameters = "\nLONG_PARAMETERS ";
constexpr std::string_view kParameters = "\nPARAMETERS ";

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
  for (std::size_t at = text.find("for ("); at != std::string_view::npos;
       at = text.find("for (", at + 1)) {
    const std::string_view before = text.substr(0, at);
    if (!before.ends_with("UNROLLED ") || before.ends_with("MAYBE_UNROLLED ")) {
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
  const bool is_root = text.find(kLongParameters) != std::string_view::npos;
  const bool has_block = is_root || text.find(kParameters) != std::string_view::npos;
  const std::size_t main = text.rfind(kMain);  // a program's own text may contain one, too
  if (!has_block || main == std::string_view::npos || (!may_hide_loops && !has_loops(text))) {
    return std::string(text);
  }
  return fmt::format(
      "#define PUSHED layout(offset = {}) uint64_t watched_at;\n#define WATCHED_AT {}watched_at\n"
      "{}void watched_main(){}{}",
      gpu::kPushBytes,
      is_root ? "" : "p.",
      text.substr(0, main),
      text.substr(main + kMain.size()),
      kTwoSteps);
}

bool LoopWatch::has_seen_any() const noexcept {
  std::uint32_t word = 0;
  std::memcpy(&word, word_.host(), sizeof word);
  return word != 0;
}

}  // namespace hearth::vulkan
