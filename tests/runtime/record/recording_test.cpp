// Recordings of programs, and the results of their replays.
#include <hearth/runtime/recording.hpp>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/custom_op.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/update_group.hpp>
#include <hearth/streams/trace/op_trace_checker.hpp>
#include <hearth/streams/trace/op_trace_file.hpp>

#include "tests/runtime/record/recording_fixture.hpp"

namespace hearth::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Recording = RecordingFixture;

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

TEST_F(Recording, OfScansProductsAndPositionsRunsAgain) {
  const OpTrace trace = record([&] {
    const Tensor x = f32({3, -1, 2, 0.5F});
    static_cast<void>(cumsum(log1p(square(x)), 0).to_vector<float>());
    static_cast<void>((min(x) + prod(expm1(x))).item());
    static_cast<void>(argmin(x).item<std::int64_t>());
    const auto slopes = grad(
        [](const std::vector<Tensor>& in) { return sum(square(cumsum(in[0], 0)) * prod(in[0])); },
        {x});
    static_cast<void>(slopes[0].to_vector<float>());
  });
  check_trace(trace).value();
  const ReplayReport again = replay(decode_trace(encode_trace(trace)).value(), cpu_);
  EXPECT_EQ(again.count(Verdict::same_bits), 4U) << again.to_string(true);
  const ReplayReport oracle = replay(trace, reference_);
  EXPECT_TRUE(oracle.agrees()) << oracle.to_string(true);
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

TEST_F(Recording, KeepsUploadsWithoutTheBytesOfOlderTensors) {
  const Tensor before = f32({3, 4});
  const OpTrace trace = record(
      [&] {
        const Tensor sum = before + f32({1, 2});
        static_cast<void>(sum.to_vector<float>());
      },
      {.bytes = RecordedBytes::uploads});
  EXPECT_EQ(count(trace, OpKind::upload), 2U);
  EXPECT_EQ(trace.data.size(), 1U);
}

TEST_F(Recording, NumbersTheValuesOfTensors) {
  const Tensor before = f32({3, 4});
  const Tensor unused = f32({5});
  const Tensor elsewhere = Tensor::from(other_, {1.0F});
  RecordScope scope(cpu_);
  const Tensor sum = before + 1.0;
  static_cast<void>(elsewhere + 1.0);
  const std::uint32_t input = scope.value_of(before).value();
  const std::uint32_t result = scope.value_of(sum).value();
  const std::uint32_t stranger = scope.value_of(unused).value();
  EXPECT_EQ(scope.value_of(unused).value(), stranger);
  EXPECT_EQ(scope.value_of(elsewhere).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(scope.value_of(Tensor()).error().code, ErrorCode::invalid_argument);
  const OpTrace trace = scope.take().value();
  EXPECT_EQ(scope.value_of(sum).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(count(trace, OpKind::add), 1U) << "one device is recorded";
  EXPECT_EQ(count(trace, OpKind::upload), 2U);
  for (const TraceOp& op : trace.ops) {
    if (op.record.kind == OpKind::add) {
      EXPECT_EQ(op.view().input(0).slot.value, input);
      EXPECT_EQ(op.view().output(0).slot.value, result);
    }
  }
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

TEST_F(Recording, CarriesTheExpressionsOfUpdatesAndCustomOps) {
  const CustomOp swish = custom_op(
      "swish", [](const Tensor& x, const Tensor& slope) { return x * sigmoid(slope * x); });
  const OpTrace trace = record([&] {
    Tensor parameter = f32({1, -2});
    Tensor mean = f32({0, 0});
    Tensor variance = f32({0, 0});
    for (int step = 1; step <= 2; ++step) {
      const std::vector<Tensor> gradients =
          grad([&](const std::vector<Tensor>& p) { return sum(swish(p[0], 0.5)); }, {parameter});
      UpdateGroup group(cpu_);
      group.adam(parameter, gradients[0], mean, variance, {.learning_rate = 0.1, .step = step});
      group.commit().get();
    }
    static_cast<void>(parameter.to_vector<float>());
  });
  EXPECT_EQ(trace.expressions.size(), 3U);  // the op, its gradient, the update
  const auto file = folder_.path() / "expressions.trace";
  write_trace(file, trace).value();
  const OpTrace back = read_trace(file).value();
  const ReplayReport again = replay(back, cpu_);
  EXPECT_EQ(again.count(Verdict::same_bits), 1U) << again.to_string(true);
  const ReplayReport oracle = replay(back, reference_);
  EXPECT_TRUE(oracle.agrees()) << oracle.to_string(true);
}

TEST_F(Recording, FollowsOpsByIndex) {
  const OpTrace trace = record([&] {
    const Tensor index = Tensor::from<std::int64_t>(cpu_, {2, 0, 2}, {3, 1});
    const std::vector<Tensor> gradients = grad(
        [&](const std::vector<Tensor>& in) {
          return sum(square(embedding(in[0], index))) + sum(gather(in[0], 0, index));
        },
        {reshape(f32({1, 2, 3, 4, 5, 6}), {3, 2})});
    static_cast<void>(gradients[0].to_vector<float>());
  });
  for (const OpKind kind :
       {OpKind::gather, OpKind::index_select, OpKind::scatter_add, OpKind::index_add}) {
    EXPECT_EQ(count(trace, kind), 1U) << name(kind);
  }
  const Result<OpTrace> read = decode_trace(encode_trace(trace));
  ASSERT_TRUE(read.has_value()) << read.error().text;
  for (const Device& device : {cpu_, reference_}) {
    const ReplayReport again = replay(read.value(), device);
    EXPECT_EQ(again.count(Verdict::same_bits), 1U) << again.to_string(true);
  }
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

}  // namespace
}  // namespace hearth::testing
