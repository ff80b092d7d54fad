// Whether the results of a launch count: a word on the device for a list of error cells, which is
// not 0 when one of them has a failure. One small kernel makes it for all launches that share the
// list. Owner only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <hearth/backends/backend.hpp>

#include "kernel_encoder.hpp"
#include "vulkan_device.hpp"

namespace hearth::vulkan {

class Guards final {
 public:
  Guards() = default;
  /// Errors: out_of_memory; what Vulkan refuses.
  [[nodiscard]] Status open(const VulkanDevice& device);
  /// The word of the list that was looked at last, or 0 when this is another list.
  [[nodiscard]] std::uint64_t known(std::span<const ErrorCell> cells) const noexcept;
  /// The address of the word that look() will write for a new list.
  [[nodiscard]] std::uint64_t next_word() noexcept;
  /// Dispatches the kernel that writes `word`; `cells_address` is where cell 0 lies.
  [[nodiscard]] Status look(std::span<const ErrorCell> cells,
                            std::uint64_t cells_address,
                            std::uint64_t word,
                            KernelEncoder& encoder);
  /// A cell is used anew: what was looked at may no longer hold.
  void forget() noexcept { known_.clear(); }

 private:
  /// More lists than batches that can be under way at a time: a word is not written anew while a
  /// kernel may still read it, which the order of the bytes would see to anyway.
  static constexpr std::uint32_t kWords = 256;

  Buffer words_;
  std::uint32_t next_ = 0;
  std::vector<ErrorCell> known_;
  std::uint64_t known_word_ = 0;
};

}  // namespace hearth::vulkan
