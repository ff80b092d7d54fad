// Finds shaders whose loops a driver has ended early. llvmpipe lets a shader's loops take 65,535
// steps in all and then leaves them, without a word: what it computes is wrong. So on drivers in
// software each shader with loops runs two steps more at its end, and says where they were not
// taken. Owned by PipelineMaker. Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "vulkan_device.hpp"

namespace hearth::vulkan {

/// Steps of all loops of a thread that a driver in software surely takes: the kernels' work is cut
/// so that they are enough.
inline constexpr std::int64_t kSoftwareLoopSteps = 60000;

class LoopWatch final {
 public:
  /// Null for drivers that end no loop.
  ///
  /// Errors: out_of_memory; what Vulkan refuses.
  [[nodiscard]] static Result<std::unique_ptr<LoopWatch>> make(const VulkanDevice& device);
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;
  ~LoopWatch() = default;

  /// The text, with the two steps where it has loops, or may have some that are not written as ours
  /// are: a program's own text.
  [[nodiscard]] static std::string watched(std::string_view text, bool may_hide_loops);
  /// Where its shaders leave word: what they find behind their push constants.
  [[nodiscard]] std::uint64_t address() const noexcept { return word_.address(); }
  /// Whether a shader that has ended was left early.
  [[nodiscard]] bool has_seen_any() const noexcept;

 private:
  explicit LoopWatch(Buffer word) noexcept : word_(std::move(word)) {}

  Buffer word_;
};

}  // namespace hearth::vulkan
