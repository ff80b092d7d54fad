// A sim device whose kernels take virtual time. On demand kernel number `stuck_at` does not return
// before `release`, downloads throw, and that kernel fails.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/runtime/base/pending.hpp>

#include "runtime/device/backend_factory.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth::testing {

struct StuckControl {
  explicit StuckControl(std::uint64_t at = 0) : stuck_at(at) {}

  std::uint64_t stuck_at;
  bool throws_at_download = false;
  bool fails_when_released = false;
  std::chrono::nanoseconds kernel_time = {};  ///< Time of each kernel, on the clock of its thread.
  Promise<void> release;
  Pending<void> released = release.pending();
  Promise<void> entered;
  Pending<void> is_in = entered.pending();
};

class StuckBackend final : public ForwardingBackend {
 public:
  StuckBackend(std::string name, StuckControl* control)
      : ForwardingBackend(
            std::make_unique<sim::SimBackend>(sim::SimOptions{.name = std::move(name)})),
        control_(control) {}

  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    for (const Deadline end = Deadline::in(control_->kernel_time); !end.has_passed();) {
      detail::current_context().parker().park(end);
    }
    if (++count_ == control_->stuck_at) {
      control_->entered.set_value();
      static_cast<void>(control_->released.wait({.deadline = Deadline::never()}));
      if (control_->fails_when_released) {
        return refused(
            {.code = ErrorCode::kernel_failed, .text = "the kernel that was stuck failed"});
      }
    }
    return ForwardingBackend::submit_one(launch, after);
  }
  [[nodiscard]] Result<CopyPart> download(std::span<std::byte> to,
                                          const std::byte* from,
                                          Points after) override {
    if (control_->throws_at_download) {
      throw std::runtime_error("the cable was pulled");
    }
    return ForwardingBackend::download(to, from, after);
  }

 private:
  StuckControl* control_;
  std::uint64_t count_ = 0;
};

/// A factory in which `name` is such a device and all others are regular ones.
inline detail::BackendFactory stuck(StuckControl& control, std::string name = "sim:0") {
  return {.make = [&control, name = std::move(name)](
                      const BackendRequest& request) -> std::unique_ptr<Backend> {
    if (request.name != name) {
      return nullptr;
    }
    return std::make_unique<StuckBackend>(request.name, &control);
  }};
}

}  // namespace hearth::testing
