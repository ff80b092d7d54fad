// Recordings of programs, and what comes out when they are run again.
#include <hearth/runtime/recording.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/update_group.hpp>
#include <hearth/streams/trace/op_trace_checker.hpp>
#include <hearth/streams/trace/op_trace_file.hpp>

#include "runtime/device/backend_factory.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/faulty_sim.hpp"

namespace hearth::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Recording : public ::testing::Test {
 protected:
  /// Records what `program` does.
  template <class Program>
  OpTrace record(const Program& program, RecordOptions options = {}) {
    RecordScope scope(runtime_, std::move(options));
    program();
    OpTrace trace = scope.take().value();
    check_trace(trace).value();
    return trace;
  }
  static std::size_t count(const OpTrace& trace, OpKind kind) {
    return static_cast<std::size_t>(std::ranges::count_if(
        trace.ops, [&](const TraceOp& op) { return op.record.kind == kind; }));
  }
  Tensor f32(const std::vector<float>& values) const {
    return Tensor::from(cpu_, values, Shape{static_cast<std::int64_t>(values.size())});
  }

  const Runtime runtime_{
      {.devices = {{.name = "cpu:0"}, {.name = "cpu:1"}, {.name = "reference:0"}}}};
  const Device cpu_ = runtime_.device("cpu:0");
  const Device other_ = runtime_.device("cpu:1");
  const Device reference_ = runtime_.device("reference:0");
  const TemporaryFolder folder_;
};

TEST_F(Recording, RunsAgainWithTheSameBits) {
  const OpTrace trace = record([&] {
    Generator generator(7);
    const Tensor a = f32({1, 2, 3});
    const Tensor noise = random_normal(cpu_, {3}, generator);
    Tensor sum = exp(a * 0.5) + noise;
    static_cast<void>(sum.to_vector<float>());
    static_cast<void>(mean(std::move(sum)).item());
  });
  const ReplayReport again = replay(trace, cpu_);
  ASSERT_EQ(again.rows.size(), 2U);
  EXPECT_EQ(again.count(Verdict::same_bits), 2U) << again.to_string(true);
  const ReplayReport oracle = replay(trace, reference_);
  EXPECT_TRUE(oracle.agrees()) << oracle.to_string(true);
  EXPECT_EQ(oracle.count(Verdict::not_compared), 0U);
}

TEST_F(Recording, KeepsTheLineOfTheCall) {
  std::uint32_t line = 0;
  const OpTrace trace = record([&] {
    line = __LINE__ + 1;
    const Tensor sum = f32({1}) + 1.0;
    static_cast<void>(sum.item());
  });
  const ReplayReport report = replay(trace, cpu_);
  ASSERT_EQ(report.rows.size(), 1U);
  EXPECT_THAT(report.rows[0].place, HasSubstr("recording_test.cpp:" + std::to_string(line)));
  EXPECT_EQ(report.rows[0].made_by, "add f32[1] -> f32[1]");
}

TEST_F(Recording, TakesTensorsOfBeforeAsInputs) {
  const Tensor before = f32({3, 4});
  Tensor given = f32({1, 1});
  const OpTrace trace = record([&] {
    const Tensor sum = before + std::move(given);
    static_cast<void>(sum.to_vector<float>());
  });
  EXPECT_EQ(count(trace, OpKind::upload), 2U);
  const ReplayReport report = replay(trace, reference_);
  EXPECT_EQ(report.count(Verdict::same_bits), 1U) << report.to_string(true);
  EXPECT_THAT(before.to_vector<float>(), ElementsAre(3, 4));
}

TEST_F(Recording, WithoutBytesStillRuns) {
  const auto program = [&] {
    const Tensor x = f32({1, 2}) * 2.0;
    static_cast<void>(x.to_vector<float>());
  };
  const OpTrace bare = record(program, {.bytes = RecordedBytes::none});
  EXPECT_TRUE(bare.data.empty());
  EXPECT_EQ(replay(bare, cpu_).count(Verdict::not_compared), 1U);
  const ReplayReport both = replay(bare, cpu_, {.against = reference_});
  EXPECT_EQ(both.count(Verdict::same_bits), 1U) << both.to_string(true);
  const OpTrace inputs = record(program, {.bytes = RecordedBytes::inputs});
  EXPECT_EQ(inputs.data.size(), 1U);
  EXPECT_EQ(replay(inputs, cpu_).count(Verdict::not_compared), 1U);
}

TEST_F(Recording, FollowsUpdateGroupsViewsAndDrops) {
  const OpTrace trace = record([&] {
    Tensor parameter = f32({1, 2});
    Tensor momentum = f32({0, 0});
    for (int step = 0; step < 3; ++step) {
      const std::vector<Tensor> gradients =
          grad([](const std::vector<Tensor>& p) { return sum(square(p[0])); }, {parameter});
      UpdateGroup group(cpu_);
      group.sgd(parameter,
                gradients[0],
                momentum,
                {.learning_rate = 0.25, .momentum = 0.5, .first = step == 0});
      group.commit().get();
    }
    {
      Tensor kept = parameter;
      UpdateGroup group(cpu_);
      Tensor none;
      group.sgd(kept, ones(cpu_, {2}), none, {.learning_rate = 1});
    }
    static_cast<void>(slice(parameter, 0, {.step = -1}).to_vector<float>());
  });
  EXPECT_EQ(count(trace, OpKind::group_begin), 4U);
  const ReplayReport report = replay(trace, reference_);
  EXPECT_TRUE(report.agrees()) << report.to_string(true);
  EXPECT_GE(report.count(Verdict::same_bits) + report.count(Verdict::close), 1U);
}

TEST_F(Recording, FollowsThreadsStreamsAndCopiesBetweenDevices) {
  const OpTrace trace = record([&] {
    const Tensor x = f32({1, 2, 3});
    Tensor y;
    std::thread worker([&] {
      Stream stream(cpu_);
      const StreamScope scope(stream);
      y = x * 2.0;
      y.publish();
    });
    worker.join();
    y.adopt();
    const Tensor z = (std::move(y) + 1.0).to(other_);
    static_cast<void>((z * z).to_vector<float>());
  });
  EXPECT_EQ(count(trace, OpKind::upload), 2U);
  const ReplayReport one = replay(trace, cpu_);
  EXPECT_EQ(one.count(Verdict::same_bits), 1U) << one.to_string(true);
  EXPECT_EQ(one.rows.size(), 1U);
  EXPECT_TRUE(replay(trace, reference_).agrees());
}

TEST_F(Recording, KnowsWhatABorrowerMadeOfTheBytes) {
  const OpTrace trace = record([&] {
    const Tensor lent = lend(
        f32({1, 2}),
        [](Result<LentRegion> region) {
          LentRegion taken = std::move(region).value();
          const float value = 5;
          std::memcpy(taken.bytes().data(), &value, sizeof value);
          taken.done();
        },
        Deadline::in(std::chrono::seconds(30)));
    EXPECT_THAT((lent + 1.0).to_vector<float>(), ElementsAre(6, 3));
  });
  const ReplayReport report = replay(trace, reference_);
  EXPECT_EQ(report.count(Verdict::same_bits), report.rows.size()) << report.to_string(true);
}

TEST_F(Recording, RemembersHowReadsFailed) {
  const OpTrace trace = record([&] {
    const Tensor targets = Tensor::from(cpu_, std::vector<std::int64_t>{9}, {1});
    const Tensor loss = cross_entropy(ones(cpu_, {1, 3}), targets);
    EXPECT_THROW(static_cast<void>(loss.item()), DeviceError);
  });
  const ReplayReport report = replay(trace, reference_);
  ASSERT_EQ(report.count(Verdict::same_error), 1U) << report.to_string(true);
  EXPECT_EQ(report.rows[0].error->code, ErrorCode::out_of_range);
  EXPECT_TRUE(report.agrees());
}

TEST_F(Recording, OneAtATime) {
  RecordScope first(runtime_);
  EXPECT_THROW(RecordScope second(runtime_), ArgumentError);
  static_cast<void>(first.take().value());
  EXPECT_FALSE(first.stop().has_value());
  RecordScope third(runtime_);
  EXPECT_TRUE(third.stop().has_value());
}

TEST_F(Recording, EndsEarlyWhenItGrowsTooLarge) {
  const OpTrace trace = record(
      [&] {
        Tensor x = f32({1, 2});
        for (int i = 0; i < 1000; ++i) {
          x = std::move(x) + 1.0;
        }
        static_cast<void>(x.to_vector<float>());
      },
      {.limit_bytes = 10'000});
  EXPECT_LT(trace.ops.size(), 100U);
  EXPECT_THAT(trace.notes.at("ended early"), HasSubstr("more than the limit of 10000"));
  EXPECT_TRUE(replay(trace, cpu_).agrees());
}

TEST_F(Recording, LeavesOutTheOpThatAFullStreamRefused) {
  std::size_t made = 0;
  const OpTrace trace = record([&] {
    Stream stream(cpu_);
    const StreamScope scope(stream);
    Promise<LentRegion> promise;
    Pending<LentRegion> pending = promise.pending();
    const Tensor lent = lend(
        zeros(cpu_, {1}),
        [&](Result<LentRegion> region) { promise.set_value(std::move(region).value()); },
        Deadline::never());
    LentRegion held = std::move(pending).get();  // the stream waits for it
    std::stop_source stop;
    stop.request_stop();
    stream.set_limits({.stop = stop.get_token()});
    std::vector<Tensor> kept;
    EXPECT_THROW(
        while (kept.size() < 10'000) { kept.push_back(ones(cpu_, {1})); }, DeviceError);
    made = kept.size();
    held.done();
  });
  EXPECT_GT(made, 0U);
  EXPECT_EQ(count(trace, OpKind::fill), made + 1) << "with the lent zeros";
}

TEST_F(Recording, GoesToTheFileAlsoWhenTheProgramThrows) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  try {
    const RecordScope scope(runtime_, file, {.notes = {{"seed", "3"}}});
    static_cast<void>(f32({1, 2}).to_vector<float>());
    throw std::runtime_error("the program failed");
  } catch (const std::runtime_error&) {
  }
  const ReplayReport report = replay(file, cpu_);
  EXPECT_EQ(report.notes.at("seed"), "3");
  EXPECT_EQ(report.count(Verdict::same_bits), 1U);
}

TEST_F(Recording, OfAWholeRunGoesToTheFileOfTheOptions) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  {
    const Runtime recorded({.devices = {{.name = "cpu:0"}}, .record_file = file.string()});
    const Tensor x = ones(recorded.device("cpu:0"), {4});
    static_cast<void>(sum(x).item());
  }
  EXPECT_EQ(replay(file, reference_).count(Verdict::same_bits), 1U);
}

TEST_F(Recording, ToAFolderThatIsNotThereIsRefusedBeforeTheRun) {
  const std::filesystem::path file = folder_.path() / "none" / "run.trace";
  EXPECT_THROW(Runtime({.devices = {{.name = "cpu:0"}}, .record_file = file.string()}), FileError);
}

TEST_F(Recording, ToADeviceLeavesNothingBesideIt) {
  const std::filesystem::path link = folder_.path() / "null";
  std::filesystem::create_symlink("/dev/null", link);
  {
    const RecordScope scope(runtime_, link);
    const Tensor loss =
        cross_entropy(ones(cpu_, {1, 3}), Tensor::from(cpu_, std::vector<std::int64_t>{9}, {1}));
    EXPECT_THROW(static_cast<void>(loss.item()), DeviceError);
  }
  const auto names = std::filesystem::directory_iterator(folder_.path());
  EXPECT_EQ(std::distance(begin(names), end(names)), 1) << "the link alone";
}

TEST_F(Recording, AFileThatCannotBeWrittenNamesTheSettingThatNamesIt) {
  const std::filesystem::path file = folder_.path() / "none" / "run.trace";
  const auto refusal = [&](const RuntimeOptions& options) -> std::string {
    try {
      const Runtime runtime(options);
    } catch (const FileError& error) {
      return error.error().text;
    }
    return "nothing was refused";
  };
  EXPECT_THAT(refusal({.devices = {{.name = "cpu:0"}}, .record_file = file.string()}),
              StartsWith("RuntimeOptions::record_file: file /"));
  for (const std::string variable : {"HEARTH_RECORD_FILE", "HEARTH_TRACE_FILE"}) {
    ASSERT_EQ(setenv(variable.c_str(), file.c_str(), 1),
              0);  // NOLINT(concurrency-mt-unsafe): one thread
    EXPECT_THAT(refusal({.devices = {{.name = "cpu:0"}}}), StartsWith(variable + ": file /"));
    ASSERT_EQ(unsetenv(variable.c_str()), 0);  // NOLINT(concurrency-mt-unsafe): one thread
  }
}

TEST_F(Recording, OfAWholeRunGoesToTheFileOfTheEnvironment) {
  const std::filesystem::path file = folder_.path() / "run.trace";
  ASSERT_EQ(setenv("HEARTH_RECORD_FILE", file.c_str(), 1),
            0);  // NOLINT(concurrency-mt-unsafe): one thread
  {
    const Runtime recorded({.devices = {{.name = "cpu:0"}}});
    static_cast<void>(sum(ones(recorded.device("cpu:0"), {4})).item());
  }
  ASSERT_EQ(unsetenv("HEARTH_RECORD_FILE"), 0);  // NOLINT(concurrency-mt-unsafe): one thread
  EXPECT_EQ(replay(file, reference_).count(Verdict::same_bits), 1U);
}

TEST_F(Recording, RefusesAFileThatIsNoRecordingOrAsksForTooMuch) {
  const std::filesystem::path file = folder_.path() / "bad.trace";
  { std::ofstream(file) << "HTRACE"; }
  EXPECT_THROW(static_cast<void>(replay(file, cpu_)), FileError);
  const OpTrace large = record([&] { static_cast<void>(mean(ones(cpu_, {1000})).item()); });
  EXPECT_THROW(static_cast<void>(replay(large, cpu_, {.memory_limit_bytes = 3999})), DeviceError);
  EXPECT_TRUE(replay(large, cpu_, {.memory_limit_bytes = 5000}).agrees());
}

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
    static_cast<void>(there.to(cpu_).to_vector<float>());  // what follows moves behind the new read
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
  FaultPlan faults;
  faults.failing_submits = {3};
  const BackendFactory factory{
      .make = [&](const BackendRequest& request) { return testing::make_sim(request, faults); }};
  const Runtime runtime({.devices = {{.name = "sim:0"}}, .backend_factory = &factory});
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

// Nothing of the group ran, so no value carries its failure.
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
    EXPECT_EQ(value.read_bytes().wait(Deadline::in(std::chrono::seconds(60))).error().code,
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
    static_cast<void>(zeros(cpu_, {std::int64_t{1} << 45}) * 2.0);
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
  FaultPlan faults;
  faults.failing_submits = {2};
  const BackendFactory factory{
      .make = [&](const BackendRequest& request) { return testing::make_sim(request, faults); }};
  const Runtime runtime({.devices = {{.name = "sim:0"}}, .backend_factory = &factory});
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

// Without a runtime outside: the dying program is a fork of this one.
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
  FaultPlan faults;
  faults.failing_submits = {2};
  const BackendFactory factory{
      .make = [&](const BackendRequest& request) { return testing::make_sim(request, faults); }};
  {
    const Runtime runtime({.devices = {{.name = "sim:0"}},
                           .record_file = file.string(),
                           .backend_factory = &factory});
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
