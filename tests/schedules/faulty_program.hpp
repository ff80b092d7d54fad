// A random program of two threads on two devices that is expected to meet failures: ops, views,
// moves, drops, reads, uses across streams, threads and devices; where asked, gradients, optimizer
// steps and a restart of the first device. What each tensor should be is reckoned on the reference
// when all is over and the steps that happened are known.
// Threads: the manual executor's. Invariants: (1) equal seeds and schedules make equal programs;
// (2) each op carries the number of its node as the line of its call, so that errors name it; a
// sweep or a step carries that of its first node.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <stop_token>
#include <vector>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth::testing {

/// One value of a program.
struct Node {
  Tensor tested;  ///< Empty when its handle is gone: moved into an op, or dropped.
  /// Whose poison it takes over; of a step's result, the tensor that it replaces.
  std::vector<std::size_t> operands = {};
  std::size_t device = 0;
  bool is_new = false;       ///< Made after the restart.
  bool is_gradient = false;  ///< Need not depend on each operand.
  [[nodiscard]] bool has_handle() const { return !tested.is_empty(); }
};

/// An optimizer step: an update group.
struct Step {
  struct Member {
    std::size_t parameter = 0;
    std::size_t gradient = 0;
    std::optional<std::size_t> momentum = {};
    std::size_t first_result = 0;  ///< The new parameter; behind it the new momentum.
  };
  std::vector<Member> members = {};
  bool is_committed = false;  ///< By the program; else it was discarded.
  Pending<void> done = {};
  bool is_known = false;  ///< What became of it.
  ErrorRef error = {};
};

/// What a read gave: bytes, or an error.
struct Observation {
  std::size_t node = 0;
  std::vector<std::byte> bytes = {};
  ErrorRef error = {};
};

struct FaultyProgramOptions {
  std::uint64_t seed = 0;
  bool trains = false;    ///< Gradients and optimizer steps.
  bool restarts = false;  ///< The first device, when the threads are done; then they work on.
  bool gives_up = false;  ///< Streams get deadlines and stops, and are cancelled.
};

class FaultyProgram {
 public:
  /// The file of all its ops' calls.
  static constexpr const char* kFile = "program";
  /// Where a node stands in it: from line 1 on, as line 0 means that the place is not known.
  static std::uint32_t line_of(std::size_t node) { return static_cast<std::uint32_t>(node) + 1; }

  FaultyProgram(const std::array<Device, 2>& devices,
                ManualExecutor& executor,
                const FaultyProgramOptions& options);

  /// From a thread of the executor; waits for the other thread. Reads all that has a handle twice
  /// at the end.
  void run();

  [[nodiscard]] const std::deque<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const std::deque<Step>& steps() const { return steps_; }
  [[nodiscard]] const std::vector<Observation>& observations() const { return observations_; }
  /// The observations of the last look at all.
  [[nodiscard]] std::span<const Observation> last_look() const {
    return std::span(observations_).subspan(last_look_);
  }
  /// Those after the restart; none when there was none.
  [[nodiscard]] std::span<const Observation> after_restart() const {
    return std::span(observations_).subspan(restarted_at_.value_or(observations_.size()));
  }

  /// What each node should hold, when of each step so many members happened. From a thread of the
  /// executor.
  [[nodiscard]] std::vector<Tensor> expected(const Device& reference,
                                             const std::vector<std::size_t>& updated) const;

 private:
  using Tensors = std::vector<Tensor>;
  /// What makes nodes from others, for the reference.
  struct Work {
    std::vector<std::size_t> operands;
    std::size_t first_result = 0;
    std::function<Tensors(const Device& reference, const Tensors& operands, std::size_t updated)>
        make;
    std::optional<std::size_t> step = {};
  };

  int pick(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  void run_threads();
  void take_steps();
  void step();
  void limit(Stream& stream);
  void make_input(std::size_t device);
  void unary(std::size_t a);
  void binary(std::size_t a);
  void view(std::size_t a);
  void reduce(std::size_t a);
  void product(std::size_t a);
  void select(std::size_t a);
  void cross(std::size_t a);
  void differentiate(std::size_t a);
  void update(std::size_t a);
  [[nodiscard]] Step pick_step(std::size_t a);
  void note_step(Step step);
  void learn(Step& step);
  void drop(std::size_t i);
  void read(std::size_t i);
  void read_all();
  void restart();
  /// A node that still has its handle and fits; nodes_.size() when chance finds none.
  template <class Fits>
  std::size_t find(const Fits& fits) {
    for (int tries = 0; tries < 12; ++tries) {
      const auto i = static_cast<std::size_t>(pick(static_cast<int>(nodes_.size())));
      if (nodes_[i].has_handle() && fits(nodes_[i])) {
        return i;
      }
    }
    return nodes_.size();
  }
  /// Another one of this shape on this device, or `a` itself.
  std::size_t find_like(std::size_t a);
  template <class Op>
  void apply(std::vector<std::size_t> operands, const Op& op);
  std::size_t add_node(std::vector<std::size_t> operands, std::size_t device);

  ManualExecutor& executor_;
  std::array<Device, 2> devices_;
  const FaultyProgramOptions options_;
  std::mt19937_64 random_;
  std::deque<Node> nodes_;  // references stay while it grows
  std::deque<Step> steps_;
  std::deque<Work> works_;
  std::deque<std::stop_source> stops_;  // of streams of either thread
  std::vector<Observation> observations_;
  std::size_t last_look_ = 0;
  std::optional<std::size_t> restarted_at_;
};

}  // namespace hearth::testing
