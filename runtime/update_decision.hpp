// UpdateDecision: the one word on update groups that wait on several devices: all of them happen,
// or none. Shared by the groups and by the code that decides; one for each step. Threads: any.
// Invariant: the first word counts, for ever and for everyone.
#pragma once

#include <atomic>

#include <hearth/runtime/base/error.hpp>

namespace hearth {

class UpdateDecision final {
 public:
  UpdateDecision() noexcept = default;
  UpdateDecision(const UpdateDecision&) = delete;
  UpdateDecision& operator=(const UpdateDecision&) = delete;
  ~UpdateDecision();

  /// Says yes. True when the groups happen, false when somebody said no before.
  [[nodiscard]] bool commit() noexcept;
  /// Says no, for this reason. True when the groups do not happen, false when somebody said yes
  /// before.
  bool abort(ErrorRef error);

  [[nodiscard]] bool is_open() const noexcept;
  [[nodiscard]] bool is_committed() const noexcept;
  /// The reason that came first; nullptr while nobody has said no.
  [[nodiscard]] ErrorRef error() const noexcept;

 private:
  const ErrorRef yes_ = nullptr;                ///< Its address is the word for yes.
  std::atomic<const ErrorRef*> word_{nullptr};  ///< nullptr: open; else yes_ or the reason, owned.
};

}  // namespace hearth
