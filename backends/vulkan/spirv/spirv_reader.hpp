// Iterates over the instructions of a SPIR-V module. Header-only. Threads: owner only. Cost: one
// step each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace hearth::vulkan {

using SpirvWords = std::span<const std::uint32_t>;

inline constexpr std::size_t kSpirvHeaderWords = 5;
/// Word of the header; all ids are below its value.
inline constexpr std::size_t kSpirvBoundWord = 3;

struct SpirvInstruction {
  std::uint32_t code = 0;
  SpirvWords words;  ///< All words, including the first, which holds opcode and count.
};

class SpirvReader final {
 public:
  explicit SpirvReader(SpirvWords module) noexcept : module_(module) {}

  /// Returns the next instruction; nothing at the end, and where no whole instruction follows.
  [[nodiscard]] std::optional<SpirvInstruction> next() noexcept {
    if (at_ >= module_.size()) {
      return std::nullopt;
    }
    const std::size_t count = module_[at_] >> 16U;
    if (count == 0 || count > module_.size() - at_) {
      return std::nullopt;
    }
    const SpirvInstruction instruction{.code = module_[at_] & 0xFFFFU,
                                       .words = module_.subspan(at_, count)};
    at_ += count;
    return instruction;
  }
  /// True after the last next() if words remain, or if the module is too short for a header.
  [[nodiscard]] bool is_damaged() const noexcept { return at_ != module_.size(); }

 private:
  SpirvWords module_;
  std::size_t at_ = kSpirvHeaderWords;
};

/// The text of a literal, up to its terminator or the last word. Lifetime: the words outlive it.
[[nodiscard]] inline std::string_view spirv_text(SpirvWords words) noexcept {
  const auto* const text = reinterpret_cast<const char*>(words.data());  // NOLINT: as SPIR-V has it
  return {text, strnlen(text, words.size_bytes())};
}

}  // namespace hearth::vulkan
