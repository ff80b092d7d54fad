// The actor's side of its open lanes, by id. Ids are never reused: what is kept of lanes that have ended is a pointer for every kChunk.
// Private to runtime. Owned by the device actor, touched by the token holder only.
// Invariant: a LaneState stays where it is until erase().
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "lane_state.hpp"

namespace hearth {

class LaneStates {
 public:
  /// nullptr when the actor has not met the lane, or it has ended.
  [[nodiscard]] LaneState* find(LaneId id) const noexcept {
    const std::size_t index = id.value / kChunk;
    return index < chunks_.size() && chunks_[index]
               ? chunks_[index]->states[id.value % kChunk].get()
               : nullptr;
  }
  LaneState& make(Lane& lane) {
    const std::size_t index = lane.id().value / kChunk;
    if (index >= chunks_.size()) {
      chunks_.resize(index + 1);
    }
    if (!chunks_[index]) {
      chunks_[index] = std::make_unique<Chunk>();
    }
    std::unique_ptr<LaneState>& place = chunks_[index]->states[lane.id().value % kChunk];
    place = std::make_unique<LaneState>(lane);
    ++chunks_[index]->count;
    return *place;
  }
  /// Of a lane that is here.
  void erase(LaneId id) noexcept {
    std::unique_ptr<Chunk>& chunk = chunks_[id.value / kChunk];
    chunk->states[id.value % kChunk].reset();
    // The newest chunk stays: its other ids are the next to come.
    if (--chunk->count == 0 && &chunk != &chunks_.back()) {
      chunk.reset();
    }
  }
  /// In the order of their ids.
  template <class Fn>
  void for_each(const Fn& fn) const {
    for (const std::unique_ptr<Chunk>& chunk : chunks_) {
      for (std::size_t i = 0; chunk && i < kChunk; ++i) {
        if (chunk->states[i]) {
          fn(*chunk->states[i]);
        }
      }
    }
  }

 private:
  static constexpr std::size_t kChunk = 256;
  struct Chunk {
    std::array<std::unique_ptr<LaneState>, kChunk> states;
    std::size_t count = 0;
  };

  std::vector<std::unique_ptr<Chunk>> chunks_;
};

}  // namespace hearth
