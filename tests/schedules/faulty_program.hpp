// A random program of two threads on two devices that is expected to meet failures: ops, views,
// moves, drops, reads, uses across streams, threads and devices. Each op runs on the reference too.
// Threads: the manual executor's. Invariants: (1) equal seeds and schedules make equal programs; (2)
// each op carries the number of its node as the line of its call, so that errors name it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth::testing {

/// One value of a program, on both sides.
struct Node {
  Tensor tested;  ///< Empty when its handle is gone: moved into an op, or dropped.
  Tensor expected;
  std::vector<std::size_t> operands = {};
  std::size_t device = 0;
  [[nodiscard]] bool has_handle() const { return !tested.is_empty(); }
};

/// What a read gave: values like the reference's, other ones, or an error.
struct Observation {
  std::size_t node = 0;
  bool is_right = false;
  ErrorRef error = nullptr;
};

class FaultyProgram {
 public:
  /// The file of all its ops' calls.
  static constexpr const char* kFile = "program";
  /// Where a node stands in it: from line 1 on, as line 0 means that the place is not known.
  static std::uint32_t line_of(std::size_t node) { return static_cast<std::uint32_t>(node) + 1; }

  FaultyProgram(const std::array<Device, 2>& devices,
                const Device& reference,
                ManualExecutor& executor,
                std::uint64_t seed);

  /// From a thread of the executor; waits for the other thread. Reads all that has a handle twice
  /// at the end.
  void run();

  [[nodiscard]] const std::deque<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<Observation>& observations() const { return observations_; }
  /// The observations of the last look at all.
  [[nodiscard]] std::span<const Observation> last_look() const {
    return std::span(observations_).subspan(last_look_);
  }

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  void take_steps();
  void step();
  void make_input(std::size_t device);
  void unary(std::size_t a);
  void binary(std::size_t a);
  void view(std::size_t a);
  void reduce(std::size_t a);
  void product(std::size_t a);
  void select(std::size_t a);
  void cross(std::size_t a);
  void drop(std::size_t i);
  void read(std::size_t i);
  void read_all();
  template <class Fits>
  std::size_t find(const Fits& fits);
  template <class Op>
  void apply(std::vector<std::size_t> operands, const Op& op);
  std::size_t add_node(std::vector<std::size_t> operands, std::size_t device);

  ManualExecutor& executor_;
  std::array<Device, 2> devices_;
  Device reference_;
  std::mt19937_64 random_;
  std::deque<Node> nodes_;  // references stay while it grows
  std::vector<Observation> observations_;
  std::size_t last_look_ = 0;
};

}  // namespace hearth::testing
