// An asynchronous sim with tensors of four f32 in its own page, for tests that drive it by hand.
// Values; one thread at a time, except for wait().
#pragma once

#include <array>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/backends/sim/async_sim.hpp>

#include "small_call.hpp"

namespace hearth::sim {

using std::chrono::nanoseconds;
using Four = std::array<float, 4>;
using Points = std::initializer_list<TimelinePoint>;

inline constexpr Four kOnes{1, 2, 3, 4};

/// Every op takes 100 ns, every byte of a copy 1 ns.
inline AsyncSimOptions in_round_figures(AsyncSimOptions options = {}) {
  options.cost = fixed_cost(nanoseconds(100));
  options.copy_bytes_per_second = 1e9;
  return options;
}

/// The error cell and the guards of an op.
struct LateFailure {
  ErrorCell cell = 0;
  std::vector<ErrorCell> guards = {};
  std::vector<std::int8_t> keeps = {};
  DType dtype = DType::f32;
};

class AsyncWorld {
 public:
  explicit AsyncWorld(AsyncSimOptions options = in_round_figures())
      : sim(std::move(options)), page_(sim.pages().allocate_page(4096).value()) {}
  AsyncWorld(const AsyncWorld&) = delete;
  AsyncWorld& operator=(const AsyncWorld&) = delete;
  ~AsyncWorld() {
    if (page_.data != nullptr) {
      free_page();
    }
  }

  [[nodiscard]] TensorView at(int place, DType dtype = DType::f32) const {
    return {page_.data + place * 64, &layout_, dtype};
  }
  /// The bytes of the place's memory, even while a command uses them.
  [[nodiscard]] Four bytes_at(int place) const {
    Four values{};
    std::memcpy(values.data(), at(place).data, sizeof values);
    return values;
  }
  /// Uploads the values, which must outlive the returned point.
  TimelinePoint put(int place, const Four& values, Points after = {}) {
    return sim.upload(at(place).data, std::as_bytes(std::span(values)), after).value().point;
  }
  TimelinePoint get(int place, Four& values, Points after = {}) {
    return sim.download(std::as_writable_bytes(std::span(values)), at(place).data, after)
        .value()
        .point;
  }
  Issue run(const Launch& launch, Points after = {}) { return sim.submit({&launch, 1}, after); }
  Issue run(OpKind kind, const std::vector<int>& from, int to, Points after = {}) {
    return run(kind, from, to, LateFailure{}, after);
  }
  Issue run(OpKind kind,
            const std::vector<int>& from,
            int to,
            const LateFailure& late,
            Points after = {}) {
    std::vector<TensorView> inputs;
    for (const int place : from) {
      inputs.push_back(at(place, late.dtype));
    }
    const testing::SmallCall call(kind, std::move(inputs), {at(to, late.dtype)});
    return run({.call = call.call(), .cell = late.cell, .guards = late.guards, .keeps = late.keeps},
               after);
  }
  TimelinePoint negate(int from, int to, Points after = {}) {
    const Issue issue = run(OpKind::neg, {from}, to, after);
    EXPECT_TRUE(issue.status.has_value()) << issue.status.error().text;
    return issue.point;
  }
  /// The text of the error with which submit refuses the op.
  std::string refused(OpKind kind, const std::vector<int>& from, int to, Points after) {
    const Issue issue = run(kind, from, to, after);
    EXPECT_EQ(issue.issued, 0U);
    return issue.status.has_value() ? "" : issue.status.error().text;
  }
  Status wait(TimelinePoint point, Deadline deadline = Deadline::never()) {
    return sim.wait({&point, 1}, deadline);
  }
  void free_page() { sim.pages().free_page(std::exchange(page_, Page{})); }

  AsyncSim sim;

 private:
  Page page_;
  detail::Layout layout_{Shape{4}};
};

}  // namespace hearth::sim
