// UpdateDecision: the one decision on update groups that wait on several devices: all of them run,
// or none. Shared by the groups and by the code that decides; one for each step. Threads: any.
// Invariant: the first decision is final, for every holder.
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

  /// Commits. Returns true if the groups run, false if the decision was already aborted.
  [[nodiscard]] bool commit() noexcept;
  /// Aborts for this reason. Returns true if the groups do not run, false if the decision was
  /// already committed.
  bool abort(ErrorRef error);

  [[nodiscard]] bool is_open() const noexcept;
  [[nodiscard]] bool is_committed() const noexcept;
  /// The first reason to abort; nullptr if not aborted.
  [[nodiscard]] ErrorRef error() const noexcept;

 private:
  const ErrorRef yes_ = nullptr;                ///< Its address marks a commit.
  std::atomic<const ErrorRef*> word_{nullptr};  ///< nullptr: open; else yes_ or the reason, owned.
};

}  // namespace hearth
