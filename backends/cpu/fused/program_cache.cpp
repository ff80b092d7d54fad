#include "program_cache.hpp"

#include <algorithm>
#include <utility>

namespace hearth::cpu {

Result<ProgramCache::Kept*> ProgramCache::find_kept(const KernelIR& kernel,
                                                    std::uint64_t hash,
                                                    IsaLevel isa) {
  const auto found = programs_.find(hash);
  if (found != programs_.end() && found->second.program->kernel == kernel) {
    found->second.last_use = ++use_count_;
    return &found->second;
  }
  HEARTH_TRY(TileProgram program, make_tile_program(kernel, isa));
  lasting_ = {};
  if (found == programs_.end() && programs_.size() == kMostPrograms) {
    make_room();
  }
  Kept& kept = programs_[hash];
  kept = {std::make_unique<TileProgram>(std::move(program)), ++use_count_};
  return &kept;
}

void ProgramCache::make_room() {
  programs_.erase(std::ranges::min_element(
      programs_, {}, [](const auto& each) { return each.second.last_use; }));
}

}  // namespace hearth::cpu
