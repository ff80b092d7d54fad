// The library's lock-free parts over the checker's atomics: a parker, a small lane, its doorbell.
// Threads: the checker's.
#pragma once

#include "model.hpp"

#include <hearth/runtime/base/park_word.hpp>

#include "streams/doorbell_definition.hpp"
#include "streams/lane_definition.hpp"

namespace hearth::model {

/// A Parker whose futex is the checker's.
class ModelParker {
 public:
  /// Returns false if the deadline passed, because no other thread could run.
  bool park(Sleep how) {
    if (!word_.announce()) {
      return true;
    }
    for (;;) {
      const bool is_over =
          word_.word().sleep_while(hearth::detail::ParkWord<Atomics>::kParked, how);
      if (word_.has_token() || is_over) {
        return word_.finish();
      }
    }
  }
  void unpark() {
    if (word_.leave_token()) {
      word_.word().wake_one();
    }
  }
  /// Whether the next park() would not sleep.
  [[nodiscard]] bool has_token() const { return word_.has_token(); }
  // Its owner outlives the execution: no count is needed.
  void retain() const noexcept {}
  void release() const noexcept {}

 private:
  hearth::detail::ParkWord<Atomics> word_;
};

/// Two records, one of which may have a blob; room is reported below two.
struct SmallLanePolicy {
  using Atomics = model::Atomics;
  using WaitingParker = ModelParker;
  static constexpr std::uint64_t kCapacity = 2;
  static constexpr std::uint64_t kBlobBytes = 16;
  static constexpr std::uint64_t kLookEvery = 1;

  [[nodiscard]] static ModelParker& current_parker() noexcept { return *producer(); }
  /// The one producer that may wait in an execution.
  static ModelParker*& producer() {
    static ModelParker* parker = nullptr;
    return parker;
  }
};

using SmallLane = BasicLane<SmallLanePolicy>;
using SmallDoorbell = BasicDoorbell<SmallLanePolicy>;

[[nodiscard]] inline OpRecord record_with(std::uint32_t tag) {
  OpRecord record;
  record.source = SourceId{tag};
  return record;
}

}  // namespace hearth::model
