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
  /// The same for a kernel that does not change as long as it lives. Each record of an update asks
  /// for the one that was found last: it is known by its address and hash, as comparing kernels
  /// takes 1,500 instructions. By both: another one may come to lie where a dropped plan's was.
  [[nodiscard]] Result<const TileProgram*> find_lasting(const KernelIR& kernel,
                                                        std::uint64_t hash,
                                                        IsaLevel isa) {
    if (&kernel != last_lasting_ || hash != last_hash_) {
      HEARTH_TRY(last_program_, find(kernel, hash, isa));
      last_lasting_ = &kernel;
      last_hash_ = hash;
    }
    return last_program_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return programs_.size(); }

 private:
  struct Kept {
    std::unique_ptr<TileProgram> program;
    std::uint64_t last_use = 0;
  };
  void make_room();

  std::map<std::uint64_t, Kept> programs_;
  const KernelIR* last_lasting_ = nullptr;  // null once another was found
  std::uint64_t last_hash_ = 0;
  const TileProgram* last_program_ = nullptr;
  std::uint64_t use_count_ = 0;
};

}  // namespace hearth::cpu
