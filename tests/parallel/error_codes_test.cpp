// Every ErrorCode, provoked as a program meets it. A new code does not compile until it has a case
// here.
#include "loan_desk.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/modules/idx.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/metrics.hpp>
#include <hearth/modules/safetensors.hpp>
#include <hearth/parallel/inproc_collective.hpp>
#include <hearth/parallel/model_server.hpp>
#include <hearth/parallel/worker.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/stream.hpp>

#include "runtime/device/backend_factory.hpp"
#include "tests/support/faulty_sim.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <stdexcept>

namespace hearth {
namespace {

using testing::LoanDesk;
using testing::Outcome;

/// A sim device with this fault.
class FaultyDevice {
 public:
  explicit FaultyDevice(FaultPlan plan, std::int64_t budget_bytes = std::int64_t{8} << 20)
      : factory_{.make = [plan](const BackendRequest& request) -> std::unique_ptr<Backend> {
          return testing::make_sim(request, plan);
        }},
        runtime_({.devices = {{.name = "sim:0", .memory_budget_bytes = budget_bytes}}}, factory_) {}

  [[nodiscard]] Device device() const { return runtime_.device("sim:0"); }

 private:
  detail::BackendFactory factory_;
  Runtime runtime_;
};

void read(const Tensor& tensor) {
  static_cast<void>(tensor.read_bytes().get());
}

/// A loan of `count` ones.
LentRegion borrow(const Device& device, std::int64_t count, Tensor& result) {
  const auto promise = std::make_shared<Promise<LentRegion>>();
  Pending<LentRegion> region = promise->pending();
  result = lend(
      ones(device, {count}),
      [promise](Result<LentRegion> lent) { promise->set_value(std::move(lent).value()); },
      Deadline::in(kDefaultWait));
  return std::move(region).get();
}

// An engine gets bytes of a device that has closed.
void reduce_after_the_end() {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  std::optional<Runtime> other;
  other.emplace(RuntimeOptions{.devices = {{.name = "cpu:0"}},
                               .shutdown_limit = std::chrono::nanoseconds(0)});
  constexpr std::int64_t kCount = 40'013;  // so that both devices get work
  std::vector<Tensor> results(2);
  std::vector<LentRegion> regions;
  regions.push_back(borrow(runtime.device("cpu:0"), kCount, results[0]));
  regions.push_back(borrow(other->device("cpu:0"), kCount, results[1]));
  other.reset();
  Outcome outcome;
  InprocCollective().all_reduce(std::move(regions), ReduceOp::sum, outcome.finished());
  outcome.wait().value();
}

void use_a_stream_twice(const Device& device, detail::Executor& executor) {
  Stream stream(device);
  const StreamScope scope(stream);
  ErrorRef seen;
  executor
      .spawn({.name = "intruder"},
             [&] {
               try {
                 const StreamScope intrusion(stream);
               } catch (const Exception& error) {
                 seen = error.shared_error();
               }
             })
      ->join();
  if (seen) {
    throw_error(seen);
  }
}

// A server whose only forward pass waits has room for one more request.
void ask_too_much(const Runtime& runtime, const Device& device) {
  Generator generator(1);
  Promise<void> door;
  const Pending<void> opened = door.pending();
  ModelServer<Linear> server(runtime,
                             freeze(Linear({.in = 3, .out = 2}, device, generator)),
                             {.max_batch = 1, .max_waiting_rows = 1},
                             [&](const Linear& linear, std::span<const Tensor> in) {
                               opened.wait().value();
                               return std::vector<Tensor>{linear.forward(in[0])};
                             });
  std::vector<Pending<Answer>> answers;
  for (int i = 0; i < 3; ++i) {
    answers.push_back(server.ask({{std::vector<float>{1, 2, 3}, {1, 3}}}));
  }
  door.set_value();
  for (Pending<Answer>& answer : answers) {
    static_cast<void>(answer.get());
  }
}

void provoke(ErrorCode code) {
  const LoanDesk desk(2);
  const Runtime& runtime = desk.runtime();
  const Device here = desk.device(0);
  const Tensor x = ones(here, {2, 3});
  const TemporaryFolder folder;
  switch (code) {
    case ErrorCode::shape_mismatch:
      static_cast<void>(matmul(x, x));
      return;
    case ErrorCode::dtype_mismatch:
      static_cast<void>(x.to_vector<double>());
      return;
    case ErrorCode::device_mismatch:
      static_cast<void>(x + ones(desk.device(1), {2, 3}));
      return;
    case ErrorCode::invalid_argument:
      static_cast<void>(Tensor() + x);
      return;
    case ErrorCode::out_of_range:
      read(cross_entropy(x, Tensor::from<std::int64_t>(here, {0, 3}, {2})));
      return;
    case ErrorCode::stream_misuse:
      use_a_stream_twice(here, runtime.executor());
      return;
    case ErrorCode::unsupported: {
      std::vector<Tensor> flags;
      flags.push_back(x == x);
      std::vector<Tensor> results;
      Outcome outcome;
      InprocCollective().all_reduce(
          desk.borrow(std::move(flags), results), ReduceOp::sum, outcome.finished());
      outcome.wait().value();
      return;
    }
    case ErrorCode::out_of_memory:
      read(zeros(FaultyDevice({}).device(), {4 << 20}));
      return;
    case ErrorCode::kernel_failed:
      read(zeros(FaultyDevice({.failing_submits = {1}}).device(), {1}));
      return;
    case ErrorCode::non_finite:
      require_finite(std::nan(""), 7);
      return;
    case ErrorCode::device_lost:
      read(zeros(FaultyDevice({.lost_at_submit = 1}).device(), {1}));
      return;
    case ErrorCode::device_closed: {
      LoanDesk closed(1);
      const Tensor left = ones(closed.device(0), {1});
      closed.end();
      read(left);
      return;
    }
    case ErrorCode::not_found:
      static_cast<void>(runtime.device("abacus:0"));
      return;
    case ErrorCode::deadline_exceeded: {
      std::vector<Tensor> given;
      given.push_back(x);
      std::vector<Tensor> results;
      const auto regions =
          desk.borrow(std::move(given), results, Deadline::in(std::chrono::milliseconds(1)));
      read(results[0]);
      return;
    }
    case ErrorCode::cancelled: {
      Pending<int> result;
      {
        DeviceWorker worker(runtime, here);
        worker.stop();
        result = worker.run([](WorkerContext&) { return 1; });
      }
      static_cast<void>(result.get());
      return;
    }
    case ErrorCode::worker_failed: {
      DeviceWorker worker(runtime, here);
      static_cast<void>(
          worker.run([](WorkerContext&) -> int { throw std::runtime_error("no"); }).get());
      return;
    }
    case ErrorCode::collective_failed:
      reduce_after_the_end();
      return;
    case ErrorCode::io_error:
      static_cast<void>(read_idx(folder.path()));
      return;
    case ErrorCode::bad_format: {
      const auto file = folder.path() / "weights.safetensors";
      std::ofstream(file) << "these are no weights at all";
      static_cast<void>(SafetensorsFile::read(file));
      return;
    }
    case ErrorCode::overloaded:
      ask_too_much(runtime, here);
      return;
    case ErrorCode::internal: {
      ManualExecutor deadlocked;
      deadlocked.run([] { detail::current_context().parker().park(Deadline::never()); });
      return;
    }
  }
}

TEST(ErrorCodes, EachHasANameASentenceAndAProgramThatMeetsIt) {
  std::set<std::string_view> names;
  std::set<std::string_view> sentences;
  for (int number = 0; number <= static_cast<int>(ErrorCode::overloaded); ++number) {
    const auto code = static_cast<ErrorCode>(number);
    EXPECT_TRUE(names.insert(name(code)).second) << name(code);
    EXPECT_TRUE(sentences.insert(describe(code)).second) << describe(code);
    try {
      provoke(code);
      ADD_FAILURE() << name(code) << " was not provoked";
    } catch (const Exception& error) {
      EXPECT_EQ(name(error.code()), name(code)) << error.what();
      EXPECT_NE(std::string(error.what()).find(name(code)), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace hearth
