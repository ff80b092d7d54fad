// Shared by the tests of limits: the ways to cancel the work of a stream, and the work that waits
// meanwhile. Threads: the test's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <stop_token>
#include <string>

#include <hearth/runtime/update_group.hpp>

#include "runtime/client/device_endpoint.hpp"
#include "stepped_runtime.hpp"

namespace hearth::testing {

[[nodiscard]] inline std::uint64_t kernels(const World& world) {
  return world.device.statistics().kernels;
}

/// Three kernels.
[[nodiscard]] inline Tensor request(const World& world) {
  return relu(world.f32({1, 2}) * 2 + 1);
}

/// A stream that is the current one, and held up by a loan until held.unblock().
struct HeldClient {
  explicit HeldClient(const World& world)
      : stream(world.device), scope(stream), held(world.device) {}

  Stream stream;
  StreamScope scope;
  HeldStream held;
};

/// A tensor of {1, 2} from a separate stream that is computed once unblock() is called.
class LateTensor {
 public:
  explicit LateTensor(const World& world) : stream_(world.device) {
    const StreamScope scope(stream_);
    held_.emplace(world.device);
    tensor = world.f32({1, 2});
  }
  void unblock() { held_->unblock(); }

 private:
  Stream stream_;
  std::optional<HeldStream> held_;

 public:
  Tensor tensor;
};

/// A parameter of {1, 2}; its update with `gradient` and rate 1 gives {0, 1}.
struct Trained {
  explicit Trained(const World& world) : parameter(world.f32({1, 2})), gradient(world.f32({1, 1})) {
    world.device.sync();
  }
  void add_to(UpdateGroup& group, Tensor& other) const {
    Tensor none;
    group.sgd(other, gradient, none, {.learning_rate = 1});
  }
  void add_to(UpdateGroup& group) { add_to(group, parameter); }

  Tensor parameter;
  Tensor gradient;
};

/// A way to cancel the work of a stream. All ways behave alike.
struct Way {
  std::string name;
  ErrorCode code;
  const char* text;
  /// Sets the limit up, before any work is submitted; returns the function that cancels.
  std::function<std::function<void()>(Stream&)> arm;

  // NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
  friend void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
};

[[nodiscard]] inline auto every_way() {
  return ::testing::Values(
      Way{"cancel",
          ErrorCode::cancelled,
          "its stream was cancelled",
          [](Stream& stream) { return [&stream] { stream.cancel(); }; }},
      Way{"stop",
          ErrorCode::cancelled,
          "a stop was requested",
          [](Stream& stream) {
            auto stop = std::make_shared<std::stop_source>();
            stream.set_limits({.stop = stop->get_token()});
            return [stop] { stop->request_stop(); };
          }},
      Way{"deadline",
          ErrorCode::deadline_exceeded,
          "the deadline of its stream has passed",
          [](Stream& stream) {
            stream.set_limits({.deadline = Deadline::in(std::chrono::milliseconds(5))});
            return [] { pass(std::chrono::milliseconds(6)); };
          }});
}

[[nodiscard]] inline std::string name_of_way(const ::testing::TestParamInfo<Way>& way) {
  return way.param.name;
}

}  // namespace hearth::testing
