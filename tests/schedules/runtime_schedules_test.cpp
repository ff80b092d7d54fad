// Small programs of threads that share tensors, under many schedules of users and actors: each read
// value is right, nothing hangs, and no tensor is left.
#include "tests/support/explore.hpp"

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/update_group.hpp>

#include <algorithm>
#include <array>
#include <stop_token>
#include <vector>

#include <gtest/gtest.h>

namespace hearth::testing {
namespace {

using Values = std::vector<float>;

Runtime runtime_of(ManualExecutor& executor) {
  return Runtime({.devices = {{.name = "sim:0"}, {.name = "sim:1"}}, .executor = &executor});
}

/// Waits a little, because the drops of ended streams arrive late.
void require_empty(const Runtime& runtime) {
  const Deadline end = Deadline::in(std::chrono::milliseconds(10));
  while (!end.has_passed()) {
    detail::current_context().parker().park(end);
  }
  for (const Device& device : runtime.devices()) {
    require(device.memory().live_tensor_count == 0, "a tensor is left on " + device.name());
  }
}

// One thread drops its handle while the other uses and reads its own.
void drop_while_used(ManualExecutor& executor) {
  const Runtime runtime = runtime_of(executor);
  const Device device = runtime.device("sim:0");
  {
    Tensor shared = Tensor::from(device, Values{1, 2, 3}, Shape{3});
    const auto other = executor.spawn({.name = "other"}, [copy = shared] {
      const Tensor twice = copy + copy;
      require((twice + 1.0).to_vector<float>() == Values{3, 5, 7}, "wrong sums");
    });
    const Tensor negated = -shared;
    shared = Tensor();
    require(negated.to_vector<float>() == Values{-1, -2, -3}, "wrong signs");
    other->join();
  }
  require_empty(runtime);
}

// The last handle moves into an op on a thread that did not make it.
void hand_over(ManualExecutor& executor) {
  const Runtime runtime = runtime_of(executor);
  const Device device = runtime.device("sim:0");
  Tensor made = Tensor::from(device, Values{4, 5}, Shape{2}) * 2.0;
  const Tensor seen = made + 1.0;
  made.publish();
  const auto other = executor.spawn({.name = "other"}, [moved = std::move(made)]() mutable {
    moved.adopt();
    moved = std::move(moved) + 3.0;
    require(std::move(moved).to_vector<float>() == Values{11, 13}, "wrong in place");
  });
  require(seen.to_vector<float>() == Values{9, 11}, "a use was overtaken");
  other->join();
}

// Each device waits for the other's result.
void cross(ManualExecutor& executor) {
  const Runtime runtime = runtime_of(executor);
  const std::array<Device, 2> devices{runtime.device("sim:0"), runtime.device("sim:1")};
  const auto swap_on = [&devices](std::size_t own) {
    Tensor value = Tensor::from(devices.at(own), Values{1, 2}, Shape{2});
    for (int hop = 0; hop < 3; ++hop) {
      value = (value * 2.0).to(devices.at(1 - own)).to(devices.at(own));
    }
    require(value.to_vector<float>() == Values{8, 16}, "wrong after the hops");
  };
  const auto other = executor.spawn({.name = "other"}, [&] { swap_on(1); });
  swap_on(0);
  other->join();
  require_empty(runtime);
}

// More ops than the lane holds, and a concurrent reader.
void fill_a_lane(ManualExecutor& executor) {
  const Runtime runtime = runtime_of(executor);
  const Device device = runtime.device("sim:0");
  const auto other = executor.spawn({.name = "other"}, [&] {
    for (int i = 0; i < 3; ++i) {
      require((Tensor::from(device, Values{2}, Shape{1}) * 2.0).item() == 4, "wrong product");
    }
  });
  Tensor sum = Tensor::from(device, Values{0}, Shape{1});
  constexpr int kOps = 300;
  for (int i = 0; i < kOps; ++i) {
    sum = std::move(sum) + 1.0;
  }
  require(sum.item() == kOps, "an op was lost");
  other->join();
}

// The runtime closes while a thread still reads: the reader gets the value or the error of a closed
// runtime.
void close_while_read(ManualExecutor& executor) {
  std::unique_ptr<detail::Joinable> other;
  {
    const Runtime runtime = runtime_of(executor);
    const Tensor value = Tensor::from(runtime.device("sim:0"), Values{1, 2}, Shape{2}) * 2.0;
    other = executor.spawn({.name = "other"}, [value] {
      try {
        require((value + 1.0).to_vector<float>() == Values{3, 5}, "wrong values");
      } catch (const DeviceError& error) {
        require(error.code() == ErrorCode::device_closed, error.what());
      }
    });
    detail::schedule_point();
  }
  other->join();
}

/// Requires that a read returns the expected values or reports cancelled work.
template <class Read>
void require_right_or_given_up(const Read& read, const Values& expected) {
  try {
    require(read() == expected, "wrong values");
  } catch (const DeviceError& error) {
    require(error.code() == ErrorCode::cancelled, error.what());
  }
}

// A thread works on a stream while another cancels its work at any step. Values are right or
// cancelled, an update is whole or has not happened, moves between streams stay consistent, and the
// stream runs later work.
void give_up_at_any_step(ManualExecutor& executor, bool by_stop) {
  const Runtime runtime = runtime_of(executor);
  const Device device = runtime.device("sim:0");
  {
    Stream stream(device);
    std::stop_source stop;
    Tensor parameter = Tensor::from(device, Values{1, 2}, Shape{2});
    Tensor handed = Tensor::from(device, Values{3, 4}, Shape{2}) * 2.0;
    const Tensor seen = handed + 1.0;
    handed.publish();
    const auto other = executor.spawn({.name = "other"}, [&stream, &stop, by_stop] {
      by_stop ? static_cast<void>(stop.request_stop()) : stream.cancel();
    });
    const StreamScope scope(stream);
    stream.set_limits({.stop = stop.get_token()});
    const Tensor sum = seen + parameter;
    Tensor none;
    UpdateGroup group(device);
    group.sgd(parameter, Tensor::from(device, Values{1, 1}, Shape{2}), none, {.learning_rate = 1});
    const Pending<void> done = group.commit();
    handed.adopt();
    handed = std::move(handed) + 1.0;
    const Tensor there = sum.to(runtime.device("sim:1"));
    require_right_or_given_up([&] { return sum.to_vector<float>(); }, Values{8, 11});
    require_right_or_given_up([&] { return handed.to_vector<float>(); }, Values{7, 9});
    require_right_or_given_up([&] { return there.to_vector<float>(); }, Values{8, 11});
    other->join();
    stream.set_limits({});
    const bool has_happened = done.wait().has_value();
    require(parameter.to_vector<float>() == (has_happened ? Values{0, 1} : Values{1, 2}),
            "half an update");
    require(seen.to_vector<float>() == Values{7, 9}, "another stream's value is gone");
    require((parameter * 0.0 + 5.0).to_vector<float>() == Values{5, 5}, "the stream is of no use");
  }
  require_empty(runtime);
}
void cancel_at_any_step(ManualExecutor& executor) {
  give_up_at_any_step(executor, false);
}
void stop_at_any_step(ManualExecutor& executor) {
  give_up_at_any_step(executor, true);
}

// A cancel while the lane waits for another lane's op, or its producer for room.
void cancel_what_waits(ManualExecutor& executor) {
  const Runtime runtime = runtime_of(executor);
  const Device device = runtime.device("sim:0");
  {
    Stream stream(device);
    Tensor needed;
    const auto producer = executor.spawn({.name = "maker"}, [&] {
      Tensor made = Tensor::from(device, Values{0}, Shape{1});
      for (int i = 0; i < 40; ++i) {
        made = std::move(made) + 1.0;
      }
      needed = std::move(made);
    });
    producer->join();
    const auto other = executor.spawn({.name = "other"}, [&stream] { stream.cancel(); });
    const StreamScope scope(stream);
    const Tensor waits = needed + 1.0;
    std::vector<Tensor> kept;
    for (int i = 0; i < 260; ++i) {
      kept.push_back(waits + 1.0);
    }
    require_right_or_given_up([&] { return waits.to_vector<float>(); }, Values{41});
    require_right_or_given_up([&] { return kept.back().to_vector<float>(); }, Values{42});
    other->join();
    require(needed.item() == 40, "another stream's value is gone");
  }
  require_empty(runtime);
}

struct Scenario {
  std::string name;
  void (*program)(ManualExecutor&);

  friend void PrintTo(const Scenario& scenario, std::ostream* out) { *out << scenario.name; }
};

class RuntimeSchedules : public ::testing::TestWithParam<Scenario> {};

TEST_P(RuntimeSchedules, EveryOneIsRight) {
  std::uint64_t schedules = 0;
  std::uint64_t steps = 0;
  for (const Strategy strategy : {Strategy::random, Strategy::pct, Strategy::exhaustive}) {
    const Exploration found = explore({.name = GetParam().name,
                                       .strategy = strategy,
                                       .schedules = schedule_count(40),
                                       .max_preemptions = 1,
                                       .max_steps = 1'000'000},
                                      GetParam().program);
    EXPECT_FALSE(found.failure.has_value()) << found.failure->text;
    schedules += found.schedules;
    steps += found.steps;
  }
  std::printf("%s: %lu schedules, %lu steps\n", GetParam().name.c_str(), schedules, steps);
}

INSTANTIATE_TEST_SUITE_P(Programs,
                         RuntimeSchedules,
                         ::testing::Values(Scenario{"drop_while_used", &drop_while_used},
                                           Scenario{"hand_over", &hand_over},
                                           Scenario{"cross", &cross},
                                           Scenario{"fill_a_lane", &fill_a_lane},
                                           Scenario{"cancel_at_any_step", &cancel_at_any_step},
                                           Scenario{"stop_at_any_step", &stop_at_any_step},
                                           Scenario{"cancel_what_waits", &cancel_what_waits},
                                           Scenario{"close_while_read", &close_while_read}),
                         [](const auto& scenario) { return scenario.param.name; });

}  // namespace
}  // namespace hearth::testing
