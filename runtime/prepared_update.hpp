// PreparedUpdate: an update group that holds all its resources on its device and waits for its
// decision. Held by the code that decides. Threads: move-only; one at a time, any.
// Invariants: (1) the group waits until settle(), or until its deadline, when it aborts unless it
// was committed before; (2) destroying it without settle() aborts.
#pragma once

#include <memory>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/update_decision.hpp>

namespace hearth {

class DeviceEndpoint;

class PreparedUpdate final {
 public:
  PreparedUpdate() noexcept;  ///< Empty: is_valid() is false.
  PreparedUpdate(IntrusivePtr<DeviceEndpoint> endpoint,
                 LaneId lane,
                 std::shared_ptr<UpdateDecision> decision) noexcept;
  PreparedUpdate(PreparedUpdate&& other) noexcept;
  PreparedUpdate& operator=(PreparedUpdate&& other) noexcept;
  PreparedUpdate(const PreparedUpdate&) = delete;
  PreparedUpdate& operator=(const PreparedUpdate&) = delete;
  ~PreparedUpdate();

  [[nodiscard]] bool is_valid() const noexcept { return static_cast<bool>(endpoint_); }
  /// Runs or cancels the group, as decided; without a decision, cancels it.
  void settle();

 private:
  IntrusivePtr<DeviceEndpoint> endpoint_;
  LaneId lane_;
  std::shared_ptr<UpdateDecision> decision_;
};

}  // namespace hearth
