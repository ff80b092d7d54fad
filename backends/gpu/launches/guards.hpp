// Guard words: one word on the device for a list of error cells, not 0 if one of the cells has a
// failure. One small kernel computes the word for all launches that share the list. Threads: owner
// only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <hearth/backends/backend.hpp>

#include "backends/gpu/encoder/device_bytes.hpp"
#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

class Guards final {
 public:
  /// Device memory that the words need.
  static constexpr std::int64_t kBytes = 1024;

  Guards() = default;
  /// Sets the memory of the words. It outlives this object.
  void open(DeviceBytes words) noexcept { words_ = words; }
  /// The word of the last list, if `cells` is that list; else 0.
  [[nodiscard]] std::uint64_t known(std::span<const ErrorCell> cells) const noexcept;
  /// The address of the word that scan() will write for a new list.
  [[nodiscard]] std::uint64_t next_word() noexcept;
  /// Dispatches the kernel that writes `word`. `cells_address` is the address of cell 0.
  [[nodiscard]] Status scan(std::span<const ErrorCell> cells,
                            std::uint64_t cells_address,
                            std::uint64_t word,
                            KernelEncoder& encoder);
  /// Forgets the last list, because a cell is reused.
  void forget() noexcept { known_.clear(); }

 private:
  /// More lists than batches in flight, so no kernel still reads a word that is written anew. The
  /// order of the bytes would ensure that too.
  static constexpr std::uint32_t kWords = kBytes / 4;

  DeviceBytes words_;
  std::uint32_t next_ = 0;
  std::vector<ErrorCell> known_;
  std::uint64_t known_word_ = 0;
};

}  // namespace hearth::gpu
