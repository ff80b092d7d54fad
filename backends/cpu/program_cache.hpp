// The tile programs of one CPU device, by kernel: made at first use, and kept. Private to
// backends/cpu. Threads: owner only. Invariant: at most kMostPrograms are kept; the one that was
// used least recently makes room.
#pragma once

#include "tile_program.hpp"

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace hearth::cpu {

class ProgramCache {
 public:
  static constexpr std::size_t kMostPrograms = 512;

  /// The program of a kernel, valid until the next call. `hash` is hash(kernel); kernels of one
  /// hash that differ take turns.
  /// Errors: those of make_tile_program().
  [[nodiscard]] Result<const TileProgram*> find(const KernelIR& kernel,
                                                std::uint64_t hash,
                                                IsaLevel isa);
  [[nodiscard]] std::size_t size() const noexcept { return programs_.size(); }

 private:
  struct Kept {
    std::unique_ptr<TileProgram> program;
    std::uint64_t last_use = 0;
  };
  void make_room();

  std::map<std::uint64_t, Kept> programs_;
  std::uint64_t use_count_ = 0;
};

}  // namespace hearth::cpu
