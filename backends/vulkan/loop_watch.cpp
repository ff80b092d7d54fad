#include "loop_watch.hpp"

#include <cstring>
#include <utility>

namespace hearth::vulkan {
namespace {

constexpr std::string_view kMain = "void main()";

// The bound is two, which no compiler knows. A program's own text may have any names but these.
constexpr std::string_view kTwoSteps = R"(
layout(constant_id = 110) const uint watched_low = 0u;
layout(constant_id = 111) const uint watched_high = 0u;
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
    WatchedWord(packUint2x32(uvec2(watched_low, watched_high))).watched_word = 1u;
  }
}
)";

// Loops that compilers unroll have no steps.
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
  HEARTH_TRY(Buffer word, device.make_buffer(sizeof(std::uint32_t), BufferPlace::shared));
  std::memset(word.host(), 0, sizeof(std::uint32_t));
  return std::unique_ptr<LoopWatch>(new LoopWatch(std::move(word)));  // NOLINT
}

LoopWatch::LoopWatch(Buffer word) noexcept : word_(std::move(word)) {
  constexpr std::uint32_t kFirstConstant = 110;
  address_ = {static_cast<std::uint32_t>(word_.address()),
              static_cast<std::uint32_t>(word_.address() >> 32U)};
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    constexpr auto kSize = static_cast<std::uint32_t>(sizeof(std::uint32_t));
    entries_[i] = {.constantID = kFirstConstant + i, .offset = i * kSize, .size = kSize};
  }
  constants_ = {.mapEntryCount = static_cast<std::uint32_t>(entries_.size()),
                .pMapEntries = entries_.data(),
                .dataSize = sizeof address_,
                .pData = address_.data()};
}

std::string LoopWatch::watched(std::string_view text) {
  const std::size_t at = text.find(kMain);
  if (at == std::string_view::npos || !has_loops(text)) {
    return std::string(text);
  }
  std::string out(text.substr(0, at));
  out += "void watched_main()";
  out += text.substr(at + kMain.size());
  out += kTwoSteps;
  return out;
}

bool LoopWatch::has_seen_any() const noexcept {
  std::uint32_t word = 0;
  std::memcpy(&word, word_.host(), sizeof word);
  return word != 0;
}

}  // namespace hearth::vulkan
