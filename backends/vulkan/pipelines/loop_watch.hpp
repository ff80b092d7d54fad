// Detects shaders whose loops a driver has ended early. llvmpipe gives a shader's loops 65,535
// steps in all and then leaves them silently, with a wrong result. On drivers in software each
// shader with loops therefore runs two more steps at its end, and reports if they were not taken.
// Owned by PipelineCompiler. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "backends/vulkan/device/vulkan_device.hpp"

namespace hearth::vulkan {

class LoopWatch final {
 public:
  /// Returns null for drivers that end no loop.
  ///
  /// Errors: out_of_memory; those of Vulkan.
  [[nodiscard]] static Result<std::unique_ptr<LoopWatch>> make(const VulkanDevice& device);
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;
  ~LoopWatch() = default;

  /// The text, with the two steps if it has loops. `may_hide_loops`: the text is a program's own,
  /// whose loops may not be recognised.
  [[nodiscard]] static std::string watched(std::string_view text, bool may_hide_loops);
  /// Address of the word that shaders report to; they read the address behind their push constants.
  [[nodiscard]] std::uint64_t address() const noexcept { return word_.address(); }
  /// True if a shader that has ended was left early.
  [[nodiscard]] bool has_seen_any() const noexcept;

 private:
  explicit LoopWatch(Buffer word) noexcept : word_(std::move(word)) {}

  Buffer word_;
};

}  // namespace hearth::vulkan
