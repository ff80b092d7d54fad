// The cache of tile programs of one CPU device, by kernel: a program is compiled at first use.
// Private to backends/cpu. Threads: owner only. Invariant: at most kMostPrograms are kept; the
// least recently used one is evicted.
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

  /// Returns the program of a kernel, valid for the next dozen calls too. `hash` is hash(kernel);
  /// different kernels of one hash evict each other. Errors: those of make_tile_program().
  [[nodiscard]] Result<const TileProgram*> find(const KernelIR& kernel,
                                                std::uint64_t hash,
                                                IsaLevel isa) {
    HEARTH_TRY(const Kept* const kept, find_kept(kernel, hash, isa));
    return kept->program.get();
  }
  /// Returns the program of a kernel that never changes while it lives. Each record of an update
  /// requests the program that was found last, so address and hash identify it: comparing kernels
  /// takes 1,500 instructions. The address alone would not do, because another kernel may reuse
  /// that of a dropped plan.
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
  // The programs found last: those of an op, of its prologue and of its epilogue. Cleared when a
  // program is compiled, which may evict one of them.
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
