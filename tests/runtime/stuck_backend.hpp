// A sim device whose kernel number `stuck_at` does not come back before `release`, and whose downloads throw, and that kernel fails, on
// demand.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/runtime/base/pending.hpp>

#include "runtime/backend_factory.hpp"

namespace hearth::testing {

struct StuckControl {
  explicit StuckControl(std::uint64_t at = 0) : stuck_at(at) {}

  std::uint64_t stuck_at;
  bool throws_at_download = false;
  bool fails_when_released = false;
  Promise<void> release;
  Pending<void> released = release.pending();
  Promise<void> entered;
  Pending<void> is_in = entered.pending();
};

class StuckBackend final : public Backend {
 public:
  StuckBackend(std::string name, StuckControl* control)
      : control_(control), sim_({.name = std::move(name)}) {}

  [[nodiscard]] const BackendInfo& info() const noexcept override { return sim_.info(); }
  [[nodiscard]] PageProvider& pages() noexcept override { return sim_.pages(); }
  [[nodiscard]] Support supports(const KernelCall& call) const override {
    return sim_.supports(call);
  }
  [[nodiscard]] bool may_alias(OpKind kind, int index) const noexcept override {
    return sim_.may_alias(kind, index);
  }
  [[nodiscard]] Status submit(const KernelCall& call) override {
    if (++count_ == control_->stuck_at) {
      control_->entered.set_value();
      static_cast<void>(control_->released.wait(Deadline::never()));
      if (control_->fails_when_released) {
        return Error{.code = ErrorCode::kernel_failed, .text = "the kernel that was stuck failed"};
      }
    }
    return sim_.submit(call);
  }
  [[nodiscard]] Status upload(std::byte* to, std::span<const std::byte> from) override {
    return sim_.upload(to, from);
  }
  [[nodiscard]] Status download(std::span<std::byte> to, const std::byte* from) override {
    if (control_->throws_at_download) {
      throw std::runtime_error("the cable was pulled");
    }
    return sim_.download(to, from);
  }
  [[nodiscard]] std::uint64_t submitted() const noexcept override { return sim_.submitted(); }
  [[nodiscard]] std::uint64_t completed() noexcept override { return sim_.completed(); }

 private:
  StuckControl* control_;
  sim::SimBackend sim_;
  std::uint64_t count_ = 0;
};

/// `name` is such a device, all others are as they are.
inline BackendFactory stuck(StuckControl& control, std::string name = "sim:0") {
  return {.make = [&control, name = std::move(name)](
                      const BackendRequest& request) -> std::unique_ptr<Backend> {
    if (request.name != name) {
      return nullptr;
    }
    return std::make_unique<StuckBackend>(request.name, &control);
  }};
}

}  // namespace hearth::testing
