// A random program of the public API on two devices, from bytes: equal bytes, devices and schedule
// give equal programs. It has ops, views, copies, moves, drops, reads, loans, hand-overs, and uses
// across streams, threads and devices. Options add gradients, optimizer steps, a restart of the
// first device, and limits on streams. The program may meet failures: after it, the reference
// computes the expected tensors from the steps that happened.
// Threads: one at a time; with several threads, those of a ManualExecutor.
// Invariants: (1) each op carries the number of its node as the line of its call, so that errors
// name it; a sweep or a step carries that of its first node. (2) An op that does not fit its
// operands is refused.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/executor.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/tensor.hpp>

#include "tests/support/random_bytes.hpp"
#include "tests/support/random_ops.hpp"

namespace hearth::testing {

/// One value of a program.
struct Node {
  Tensor tested;  ///< Empty if its handle was moved into an op or dropped, or never made.
  /// Nodes whose poison it inherits; for a step's result, the replaced tensor.
  std::vector<std::size_t> operands = {};
  std::size_t device = 0;
  bool is_new = false;       ///< Made after the restart.
  bool is_gradient = false;  ///< Need not depend on each operand.
  [[nodiscard]] bool has_handle() const { return tested.is_valid(); }
};

/// An optimizer step: an update group.
struct Step {
  struct Member {
    std::size_t parameter = 0;
    std::size_t gradient = 0;
    std::optional<std::size_t> momentum = {};
    std::size_t first_result = 0;  ///< The new parameter; the new momentum follows.
  };
  std::vector<Member> members = {};
  bool is_committed = false;  ///< By the program; otherwise discarded.
  Pending<void> done = {};
  bool is_known = false;  ///< Its outcome is known.
  ErrorRef error = {};
};

/// The result of a read: bytes, or an error.
struct Observation {
  std::size_t node = 0;
  DType dtype = DType::f32;
  std::vector<std::byte> bytes = {};
  ErrorRef error = {};
};

struct ProgramOptions {
  Values values = Values::smooth;
  bool trains = true;     ///< Uses gradients and optimizer steps.
  bool restarts = false;  ///< Restarts the first device after the threads, which then continue.
  bool checks = false;    ///< Gradients pass kernels that may fail while they run.
  /// Steps include graphs of ops. Their smooth values need devices with equal bits, because a
  /// rounding can make them jump.
  bool graphs = false;
  bool cancels = false;  ///< Streams get deadlines and stops, and are cancelled.
  int most_threads = 1;  ///< Concurrent threads, at most.
};

/// A disturbance relative to each input; exact inputs stay.
struct Noise {
  double scale = 0;
  std::uint64_t seed = 0;
};

class RandomProgram {
 public:
  /// Counts of a program's features by name: "op tanh", "dtype f16", "size zero".
  using Coverage = std::map<std::string, std::uint64_t>;

  /// The source file of all its calls.
  static constexpr const char* kFile = "program";
  /// The line of a node in that file, from 1 on, because line 0 means an unknown place.
  static std::uint32_t line_of(std::size_t node) { return static_cast<std::uint32_t>(node) + 1; }

  /// `executor` spawns the further threads.
  RandomProgram(std::span<const std::byte> bytes,
                const std::array<Device, 2>& devices,
                detail::Executor* executor,
                const ProgramOptions& options);

  /// Runs the program. At the end reads every tensor with a handle twice.
  void run();

  [[nodiscard]] const std::deque<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const std::deque<Step>& steps() const { return steps_; }
  [[nodiscard]] const std::vector<Observation>& observations() const { return observations_; }
  /// The observations of the final reads.
  [[nodiscard]] std::span<const Observation> last_look() const {
    return std::span(observations_).subspan(last_look_);
  }
  /// The observations after the restart; none if there was none.
  [[nodiscard]] std::span<const Observation> after_restart() const {
    return std::span(observations_).subspan(restarted_at_.value_or(observations_.size()));
  }
  /// Fitting ops that were refused, misfits that were accepted, and refusals without a rule.
  [[nodiscard]] const std::vector<std::string>& wrong() const { return wrong_; }
  [[nodiscard]] const Coverage& coverage() const { return coverage_; }

  /// The number of members of each step if nothing fails.
  [[nodiscard]] std::vector<std::size_t> all_updated() const;
  /// The expected value of each node, given the number of members of each step that happened.
  /// Threads: the thread that ran the program.
  [[nodiscard]] std::vector<Tensor> expected(const Device& reference,
                                             const std::vector<std::size_t>& updated,
                                             const Noise& noise = {}) const;

 private:
  using Tensors = std::vector<Tensor>;
  using NodePredicate = std::function<bool(const Node&)>;
  /// State of the reference's computation.
  struct Evaluation {
    Device device;
    Noise noise;
    std::mt19937_64 random;
  };
  /// Computes nodes from others on the reference; empty for an op that was refused.
  struct Work {
    std::vector<std::size_t> operands;
    std::size_t first_result = 0;
    std::function<Tensors(Evaluation& in, const Tensors& operands, std::size_t updated)> make;
    std::optional<std::size_t> step = {};
  };

  int pick(int count) { return bytes_.pick(count); }
  std::size_t pick_device() { return static_cast<std::size_t>(pick(2)); }
  void run_threads(std::size_t bytes_to_leave);
  void take_steps(std::size_t bytes_to_leave);
  void step();
  void limit(Stream& stream);
  void make_input(std::size_t device);
  void compute(std::size_t a);
  void apply(const RandomOp& op, std::vector<std::size_t> operands);
  void live(std::size_t a);
  void share(std::size_t a);
  void cross(std::size_t a);
  void lend_out(std::size_t a);
  void spawn(std::size_t a);
  void differentiate(std::size_t a);
  void update(std::size_t a);
  void draw_graph(std::size_t a);
  [[nodiscard]] Step pick_step(std::size_t a);
  void record_step(Step step);
  void learn(Step& step);
  void drop(std::size_t i);
  void read(std::size_t i);
  void read_all();
  void restart();
  void judge_refusal(const RandomOp& op, bool must_take, const std::string& why);
  /// A node with a handle that fits; nodes_.size() if there is none.
  std::size_t find(const NodePredicate& fits);
  /// One of the latest nodes, or another of this shape and type on this device, or `a` itself.
  std::size_t find_like(std::size_t a);
  std::size_t add_node(std::vector<std::size_t> operands, std::size_t device);
  /// Adds a node with the value of `a`.
  std::size_t add_copy(std::size_t a, std::size_t device);
  void set(std::size_t i, Tensor made);

  ByteReader bytes_;
  detail::Executor* executor_;
  std::array<Device, 2> devices_;
  const ProgramOptions options_;
  std::deque<Node> nodes_;  // a deque keeps references while it grows
  std::deque<Step> steps_;
  std::deque<Work> works_;
  std::deque<std::stop_source> stops_;  // of streams of any thread
  std::deque<std::unique_ptr<detail::Joinable>> threads_;
  int running_ = 1;
  std::size_t bytes_to_leave_ = 0;
  std::vector<Observation> observations_;
  std::size_t last_look_ = 0;
  std::optional<std::size_t> restarted_at_;
  std::vector<std::string> wrong_;
  Coverage coverage_;
};

}  // namespace hearth::testing
