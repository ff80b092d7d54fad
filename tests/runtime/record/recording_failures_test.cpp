// Failed ops in a recording, and the smallest program with such a failure.
#include <hearth/runtime/recording.hpp>

#include <algorithm>
#include <iterator>
#include <stop_token>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/update_group.hpp>
#include <hearth/streams/trace/op_trace_checker.hpp>
#include <hearth/streams/trace/op_trace_file.hpp>

#include "runtime/device/backend_factory.hpp"
#include "tests/runtime/record/recording_fixture.hpp"

namespace hearth::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Recording = RecordingFixture;

TEST_F(Recording, OfAFailureIsCutDownToTheOpsThatMatter) {
  const OpTrace trace = record([&] {
    Tensor x = f32({1, 2, 3});
    for (int i = 0; i < 60; ++i) {
      x = tanh(std::move(x)) + 0.125;
    }
    const Tensor logits = reshape(x, {1, 3});
    const Tensor targets = Tensor::from(cpu_, std::vector<std::int64_t>{9}, {1});
    const Tensor loss = cross_entropy(logits, targets);
    EXPECT_THROW(static_cast<void>((loss * 2.0).item()), DeviceError);
    static_cast<void>(x.to_vector<float>());
  });
  write_trace(folder_.path() / "long.trace", trace).value();
  const auto failure =
      reduce_recording(folder_.path() / "long.trace", folder_.path() / "short.trace", reference_);
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->to_string(), "cross_entropy: out_of_range");
  const OpTrace small = read_trace(folder_.path() / "short.trace").value();
  EXPECT_LE(small.ops.size(), 6U);
  EXPECT_EQ(failure_of(replay(small, cpu_)), failure);
}

TEST_F(Recording, OfAFailureLeavesTheSmallProgramBesideTheFile) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  const auto program = [&](std::int64_t target) {
    const RecordScope scope(runtime_, file);
    const Tensor logits = tanh(ones(cpu_, {1, 3}) * 0.5);
    const Tensor loss =
        cross_entropy(logits, Tensor::from(cpu_, std::vector<std::int64_t>{target}, {1}));
    static_cast<void>(loss.read_bytes().wait());
  };
  program(1);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run.trace.min"));
  program(9);
  const OpTrace small = read_trace(folder_.path() / "run.trace.min").value();
  EXPECT_EQ(failure_of(replay(small, reference_))->to_string(), "cross_entropy: out_of_range");
  EXPECT_EQ(small.ops.size(), 5U);  // logits, targets, the loss, its mean, the read
}

TEST_F(Recording, OfAFailureThatNobodyReadsLeavesTheSmallProgramToo) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  {
    const RecordScope scope(runtime_, file);
    const Tensor logits = tanh(ones(cpu_, {1, 3}) * 0.5);
    const Tensor there = logits.to(other_);
    static_cast<void>(cross_entropy(logits, Tensor::from(cpu_, std::vector<std::int64_t>{9}, {1})) +
                      1.0);
    static_cast<void>(there.to(cpu_).to_vector<float>());  // the next op moves after the new read
  }
  const OpTrace whole = read_trace(file).value();
  EXPECT_EQ(failure_of(replay(whole, reference_))->to_string(), "cross_entropy: out_of_range");
  EXPECT_EQ(replay(whole, reference_).count(Verdict::same_bits), 1U);
  const OpTrace small = read_trace(folder_.path() / "run.trace.min").value();
  EXPECT_EQ(failure_of(replay(small, reference_))->to_string(), "cross_entropy: out_of_range");
  EXPECT_LE(small.ops.size(), 4U);  // logits, targets, the loss, the read
  EXPECT_EQ(cpu_.failures().unread_count(), 1U) << "a recording reads nothing for its program";
}

TEST_F(Recording, OfAnUpdateWhoseKernelFailsReadsBehindTheGroup) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  sim::FaultPlan faults;
  faults.failing_submits = {3};
  const detail::BackendFactory factory{.make = [&](const BackendRequest& request) {
    return std::make_unique<sim::SimBackend>(
        sim::SimOptions{.name = request.name, .faults = faults});
  }};
  const Runtime runtime({.devices = {{.name = "sim:0"}}}, factory);
  const Device sim = runtime.device("sim:0");
  {
    const RecordScope scope(runtime, file);
    Tensor weight = ones(sim, {2});
    Tensor none;
    UpdateGroup group(sim);
    group.sgd(weight, ones(sim, {2}), none, {});
    static_cast<void>(group.commit());
  }
  const OpTrace trace = read_trace(file).value();
  check_trace(trace).value();
  const auto is_failed_read = [](const TraceOp& op) {
    return op.record.kind == OpKind::readback && op.outcome == TraceOutcome::failed;
  };
  const auto read = std::ranges::find_if(trace.ops, is_failed_read);
  ASSERT_NE(read, trace.ops.end());
  EXPECT_EQ(read->error, ErrorCode::kernel_failed);
  EXPECT_EQ(std::prev(read)->record.kind, OpKind::group_end);
}

// No op of the group ran, so no value carries its failure.
TEST_F(Recording, OfAnUpdateThatFailsBeforeItRunsDoesNotSayThatItWasTriedAgain) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  ::testing::internal::CaptureStderr();
  {
    const RecordScope scope(runtime_, file);
    Stream stream(cpu_);
    const StreamScope current(stream);
    Tensor weight = ones(cpu_, {2});
    const Tensor gradient = ones(cpu_, {2});
    Tensor none;
    std::stop_source stop;
    stop.request_stop();
    stream.set_limits({.stop = stop.get_token()});
    UpdateGroup group(cpu_);
    group.sgd(weight, gradient, none, {});
    EXPECT_EQ(group.commit().wait().error().code, ErrorCode::cancelled);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("record: an update failed before any of it ran"));
  EXPECT_THAT(log, Not(HasSubstr("does not fail again")));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run.trace.min"));
}

TEST_F(Recording, OfAReadThatWasGivenUpDoesNotSayThatItsOpFailed) {
  const OpTrace trace = record([&] {
    Stream stream(cpu_);
    const StreamScope scope(stream);
    const Tensor value = f32({1, 2}) + 1.0;
    EXPECT_EQ(value.to_vector<float>().size(), 2U);
    std::stop_source stop;
    stop.request_stop();
    stream.set_limits({.stop = stop.get_token()});
    EXPECT_EQ(
        value.read_bytes().wait({.deadline = Deadline::in(std::chrono::seconds(60))}).error().code,
        ErrorCode::cancelled);
    stream.set_limits({});
  });
  std::vector<TraceOutcome> outcomes;
  for (const TraceOp& op : trace.ops) {
    if (op.record.kind == OpKind::readback) {
      outcomes.push_back(op.outcome);
    }
  }
  EXPECT_THAT(outcomes, ElementsAre(TraceOutcome::ok, TraceOutcome::unknown));
}

TEST_F(Recording, OfAnOversizedOpSpoilsNoEarlierFailure) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  {
    const RecordScope scope(runtime_, file);
    const Tensor loss =
        cross_entropy(ones(cpu_, {1, 3}), Tensor::from(cpu_, std::vector<std::int64_t>{9}, {1}));
    EXPECT_THROW(static_cast<void>(loss.item()), DeviceError);
    EXPECT_THROW(static_cast<void>(sum(zeros(cpu_, {std::int64_t{1} << 45})).item()), OutOfMemory);
  }
  const OpTrace small = read_trace(folder_.path() / "run.trace.min").value();
  EXPECT_EQ(failure_of(replay(small, reference_))->to_string(), "cross_entropy: out_of_range");
}

TEST_F(Recording, OfAnOversizedOpThatNobodyReadsLeavesItAlone) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  {
    const RecordScope scope(runtime_, file);
    static_cast<void>(f32({1, 2}) + 1.0);
    const Tensor unread = zeros(cpu_, {std::int64_t{1} << 45}) * 2.0;
    cpu_.catch_up_later().wait().value();
  }
  constexpr std::int64_t kAny = std::int64_t{1} << 50;
  const OpTrace small = read_trace(folder_.path() / "run.trace.min",
                                   {.value_bytes = kAny, .live_bytes = kAny, .work = 1e18})
                            .value();
  ASSERT_EQ(small.ops.size(), 2U);
  EXPECT_EQ(small.ops[0].record.kind, OpKind::fill);
  EXPECT_EQ(small.ops[1].error, ErrorCode::out_of_memory);
}

TEST_F(Recording, OfAFailureThatComesAgainIsCutDownBesideOneThatDoesNot) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  sim::FaultPlan faults;
  faults.failing_submits = {2};
  const detail::BackendFactory factory{.make = [&](const BackendRequest& request) {
    return std::make_unique<sim::SimBackend>(
        sim::SimOptions{.name = request.name, .faults = faults});
  }};
  const Runtime runtime({.devices = {{.name = "sim:0"}}}, factory);
  const Device sim = runtime.device("sim:0");
  {
    const RecordScope scope(runtime, file);
    EXPECT_THROW(static_cast<void>((ones(sim, {1, 3}) * 2.0).to_vector<float>()), DeviceError);
    const Tensor loss =
        cross_entropy(ones(sim, {1, 3}), Tensor::from(sim, std::vector<std::int64_t>{9}, {1}));
    EXPECT_THROW(static_cast<void>(loss.item()), DeviceError);
  }
  const OpTrace small = read_trace(folder_.path() / "run.trace.min").value();
  EXPECT_EQ(failure_of(replay(small, reference_))->to_string(), "cross_entropy: out_of_range");
}

// Without a runtime in the parent: the dying program is a fork of this one.
TEST(RecordingDeathTest, OfAProgramThatDiesOfAnExceptionIsKept) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer knows no threads in a fork";
#endif
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "run.trace";
  EXPECT_DEATH(
      [&]() noexcept {
        const Runtime runtime({.devices = {{.name = "cpu:0"}}, .record_file = file.string()});
        const Device cpu = runtime.device("cpu:0");
        const Tensor loss = cross_entropy(tanh(ones(cpu, {1, 3}) * 0.5),
                                          Tensor::from(cpu, std::vector<std::int64_t>{9}, {1}));
        static_cast<void>(loss.item());
      }(),
      "out_of_range|outside");
  const OpTrace small = read_trace(folder.path() / "run.trace.min").value();
  const Runtime runtime({.devices = {{.name = "reference:0"}}});
  EXPECT_EQ(failure_of(replay(small, runtime.device("reference:0")))->to_string(),
            "cross_entropy: out_of_range");
  EXPECT_GT(read_trace(file).value().ops.size(), small.ops.size());
}

TEST_F(Recording, OfAFailureThatDoesNotComeAgainLeavesNoSmallProgram) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  sim::FaultPlan faults;
  faults.failing_submits = {2};
  const detail::BackendFactory factory{.make = [&](const BackendRequest& request) {
    return std::make_unique<sim::SimBackend>(
        sim::SimOptions{.name = request.name, .faults = faults});
  }};
  {
    const Runtime runtime({.devices = {{.name = "sim:0"}}, .record_file = file.string()}, factory);
    const Tensor x = ones(runtime.device("sim:0"), {2}) * 2.0;
    EXPECT_FALSE(x.read_bytes().wait().has_value());
  }
  EXPECT_TRUE(std::filesystem::exists(file));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "run.trace.min"));
}

TEST_F(Recording, WithoutAFailureIsNotCutDown) {
  const OpTrace trace = record([&] { static_cast<void>(sum(f32({1, 2})).item()); });
  EXPECT_FALSE(reduce_recording(trace, cpu_).has_value());
}

}  // namespace
}  // namespace hearth::testing
