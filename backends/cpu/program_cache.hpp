// The tile programs of one CPU device, by kernel: made at first use, and kept. Private to
// backends/cpu. Threads: owner only. Invariant: at most kMostPrograms are kept; the one that was
// used least recently makes room.
#pragma once

#include "tile_program.hpp"

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace hearth::cpu {

class ProgramCache {
 public:
  static constexpr std::size_t kMostPrograms = 512;

  /// The program of a kernel, valid for the next dozen of calls too. `hash` is hash(kernel);
  /// kernels of one hash that differ take turns. Errors: those of make_tile_program().
  [[nodiscard]] Result<const TileProgram*> find(const KernelIR& kernel,
                                                std::uint64_t hash,
                                                IsaLevel isa) {
    HEARTH_TRY(const Kept* const kept, find_kept(kernel, hash, isa));
    return kept->program.get();
  }
  /// The same for a kernel that does not change as long as it lives. Each record of an update asks
  /// for the one that was found last: it is known by its address and hash, as comparing kernels
  /// takes 1,500 instructions. By both: another one may come to lie where a dropped plan's was.
  [[nodiscard]] Result<const TileProgram*> find_lasting(const KernelIR& kernel,
                                                        std::uint64_t hash,
                                                        IsaLevel isa) {
    for (const Lasting& each : lasting_) {
      if (each.kernel == &kernel && each.hash == hash) {
        each.kept->last_use = ++use_count_;
        return each.kept->program.get();
      }
    }
    HEARTH_TRY(Kept* const kept, find_kept(kernel, hash, isa));
    lasting_[next_lasting_] = {&kernel, hash, kept};
    next_lasting_ = (next_lasting_ + 1) % lasting_.size();
    return kept->program.get();
  }
  [[nodiscard]] std::size_t size() const noexcept { return programs_.size(); }

 private:
  struct Kept {
    std::unique_ptr<TileProgram> program;
    std::uint64_t last_use = 0;
  };
  [[nodiscard]] Result<Kept*> find_kept(const KernelIR& kernel, std::uint64_t hash, IsaLevel isa);
  void make_room();

  std::map<std::uint64_t, Kept> programs_;
  // Found last: those of an op, of what makes its input and of what becomes of both. Empty once a
  // program was made, which may have taken the place of one.
  struct Lasting {
    const KernelIR* kernel = nullptr;
    std::uint64_t hash = 0;
    Kept* kept = nullptr;
  };
  std::array<Lasting, 4> lasting_{};
  std::size_t next_lasting_ = 0;
  std::uint64_t use_count_ = 0;
};

}  // namespace hearth::cpu
