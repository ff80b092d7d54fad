// A whole runtime on one OS thread, in virtual time: the test's body is the logical thread "main";
// actors and other users are stepped with it. For tests of runtime/.
// Threads: the test's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/settings.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

#include "runtime/device/backend_factory.hpp"
#include "tests/support/faulty_sim.hpp"

namespace hearth::testing {

[[nodiscard]] inline std::vector<DeviceOptions> two_sims() {
  return {{.name = "sim:0"}, {.name = "sim:1"}};
}
struct SteppedOptions {
  std::vector<DeviceOptions> devices = two_sims();
  /// Faults by sim device, in its first generation only.
  std::map<std::string, FaultPlan, std::less<>> faults = {};
  std::uint64_t seed = 0;
  std::chrono::nanoseconds shutdown_limit = std::chrono::seconds(30);
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  bool eager_reports = false;
  /// Empty: as HEARTH_FUSION sets it.
  std::optional<Fusion> fusion = {};
  std::optional<std::uint64_t> fusion_limit = {};
  bool round_intermediates = false;
  bool deterministic = false;
  /// The factory of the backends, in place of `faults`: stuck(control), for example.
  std::optional<detail::BackendFactory> backends = {};
};

/// The objects that a body uses.
struct World {
  Runtime& runtime;
  ManualExecutor& executor;
  Device device;  ///< the first one

  /// Starts another logical thread; join it before the body ends.
  template <class Fn>
  [[nodiscard]] std::unique_ptr<detail::Joinable> spawn(std::string name, Fn fn) const {
    return executor.spawn({.name = std::move(name)}, std::move(fn));
  }
  [[nodiscard]] Tensor f32(const std::vector<float>& values) const {
    return Tensor::from(device, values, Shape{static_cast<std::int64_t>(values.size())});
  }
};

[[nodiscard]] inline detail::BackendFactory faulty_sims(
    std::map<std::string, FaultPlan, std::less<>> faults) {
  return {.make = [left = std::make_shared<decltype(faults)>(std::move(faults))](
                      const BackendRequest& request) -> std::unique_ptr<Backend> {
    const auto plan = left->extract(request.name);
    if (plan.empty()) {
      return nullptr;
    }
    return make_sim(request, plan.mapped());
  }};
}

/// Whether all sims are asynchronous in this run of the program.
[[nodiscard]] inline bool are_sims_asynchronous() {
  return detail::Settings::from_environment()
      .boolean(detail::Setting::async_sims)
      .value()
      .value_or(false);
}

/// Type-erases a lambda, so that hundreds of tests share one compiled function.
struct SteppedBody {
  void* body;
  void (*call)(void* body, const World& world);
};
inline void run_stepped(const SteppedOptions& options, SteppedBody body) {
  ManualExecutor executor(options.seed, {.max_steps = 5'000'000});
  const detail::BackendFactory factory = options.backends.value_or(faulty_sims(options.faults));
  executor.run([&] {
    Runtime runtime({.devices = options.devices,
                     .shutdown_limit = options.shutdown_limit,
                     .wait_limit = options.wait_limit,
                     .eager_reports = options.eager_reports,
                     .fusion = options.fusion,
                     .fusion_limit = options.fusion_limit,
                     .round_intermediates = options.round_intermediates,
                     .deterministic = options.deterministic,
                     .executor = &executor},
                    factory);
    body.call(body.body, World{runtime, executor, runtime.device(options.devices.front().name)});
  });
}

/// Runs `body` with a runtime, and closes the runtime.
template <class Body>
void stepped(const SteppedOptions& options, Body body) {
  run_stepped(options, {&body, [](void* whole, const World& world) {
                          (*static_cast<Body*>(whole))(world);
                        }});
}
template <class Body>
void stepped(Body body) {
  stepped(SteppedOptions{}, std::move(body));
}

/// Lets virtual time pass; all other threads may run.
inline void pass(std::chrono::nanoseconds duration) {
  const Deadline end = Deadline::in(duration);
  while (!end.has_passed()) {
    detail::current_context().parker().park(end);
  }
}
[[nodiscard]] inline detail::TimePoint now() {
  return detail::current_context().clock().now();
}

/// The calling thread's current stream, held up by a loan until unblock().
class HeldStream {
 public:
  explicit HeldStream(const Device& device, Deadline deadline = Deadline::never()) {
    auto region = std::make_shared<Promise<LentRegion>>();
    Pending<LentRegion> pending = region->pending();
    tensor_ = lend(
        zeros(device, {1}),
        [region](Result<LentRegion> lent) { region->set_value(std::move(lent).value()); },
        deadline);
    region_ = std::move(pending).get();
  }
  void unblock() { region_.done(); }
  [[nodiscard]] LentRegion& region() { return region_; }
  [[nodiscard]] Tensor& tensor() { return tensor_; }

 private:
  Tensor tensor_;
  LentRegion region_;
};

/// The error that a read of the tensor throws; fails the test if the read succeeds.
[[nodiscard]] inline Error read_error(const Tensor& tensor,
                                      std::chrono::nanoseconds limit = std::chrono::hours(1)) {
  try {
    static_cast<void>(tensor.read_bytes().get({.deadline = Deadline::in(limit)}));
  } catch (const Exception& error) {
    return error.error();
  }
  ADD_FAILURE() << "the tensor could be read";
  return {};
}
[[nodiscard]] inline ErrorCode code_of(const Status& status) {
  if (status.has_value()) {
    ADD_FAILURE() << "it succeeded";
    return ErrorCode::internal;
  }
  return status.error().code;
}
/// The number of live tensors, after the other threads' lanes have been consumed too.
[[nodiscard]] inline std::int64_t live_tensors(const Device& device) {
  pass(std::chrono::milliseconds(10));
  return device.memory().live_tensor_count;
}

}  // namespace hearth::testing
