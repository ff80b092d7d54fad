// Traces of programs with layers: the contents of their files, and the sums over them.
#include <hearth/runtime/trace_scope.hpp>

#include <hearth/modules/adam.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/multi_head_attention.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/memory_trace.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

#include "bench/trace_table.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/trace_schema.hpp"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace hearth {

struct TwoLayers {
  Linear inner;
  Linear outer;
  HEARTH_MODULE(TwoLayers, inner, outer)

  TwoLayers(const Device& device, Generator& generator)
      : inner({.in = 8, .out = 16}, device, generator),
        outer({.in = 16, .out = 4}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return outer.forward(relu(inner.forward(x)));
  }
};

namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using Json = nlohmann::json;

class LookingInside : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path file(const char* name) const { return folder_.path() / name; }
  [[nodiscard]] Json read(const char* name) const {
    std::ifstream input(file(name));
    return Json::parse(input);
  }
  /// The spans of a track, by the name of its kind.
  static std::vector<Json> spans_of(const Json& trace, const std::string& track) {
    std::vector<Json> spans;
    for (const Json& event : trace.at("traceEvents")) {
      if (event.at("ph") == "X" && event.at("cat") == track) {
        spans.push_back(event);
      }
    }
    return spans;
  }
  static std::set<std::string> facts(const std::vector<Json>& spans, const char* fact) {
    std::set<std::string> all;
    for (const Json& span : spans) {
      const Json args = span.value("args", Json::object());
      if (args.contains(fact)) {
        all.insert(args.at(fact).get<std::string>());
      }
    }
    return all;
  }

  TemporaryFolder folder_;
};

void train_step(const Device& device, TwoLayers& model, Adam& adam) {
  Generator generator(2);
  const Tensor x = random_normal(device, {32, 8}, generator);
  const Tensor targets = zeros(device, {32}, DType::i64);
  auto [loss, gradients] = value_and_grad(
      model, [&](const TwoLayers& tracked) { return cross_entropy(tracked.forward(x), targets); });
  adam.step(model, std::move(gradients)).get();
  static_cast<void>(loss.item());
}

TEST_F(LookingInside, ATraceOfATrainingStepIsOneThatPerfettoShows) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  TwoLayers model(device, generator);
  Adam adam({.learning_rate = 1e-3});
  {
    const TraceScope trace(runtime, file("step.json"));
    const Tensor fed = Tensor::from(device, {1.0, 2.0, 3.0}, {3});
    static_cast<void>((fed + 1).to_vector<float>());
    for (int i = 0; i < 3; ++i) {
      const TracePart part(device, "step");
      train_step(device, model, adam);
    }
  }
  const Json trace = read("step.json");
  EXPECT_EQ(testing::schema_faults(trace), std::vector<std::string>{});
  const std::vector<Json> kernels = spans_of(trace, "kernels");
  EXPECT_THAT(facts(kernels, "layer"), IsSupersetOf({"inner", "outer"}));
  EXPECT_THAT(facts(kernels, "shape"), Contains("f32[32, 16]"));
  EXPECT_THAT(facts(kernels, "line"), Contains(HasSubstr("looking_inside_test.cpp:")));
  EXPECT_EQ(spans_of(trace, "parts").size(), 3U);
  EXPECT_FALSE(spans_of(trace, "waits").empty());
  ASSERT_FALSE(spans_of(trace, "uploads").empty());
  EXPECT_EQ(spans_of(trace, "uploads").front().at("args").at("bytes"), 12);
  EXPECT_FALSE(spans_of(trace, "readbacks").empty());
  std::set<std::string> counters;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "C") {
      counters.insert(event.at("name"));
    }
  }
  EXPECT_EQ(counters, (std::set<std::string>{"memory, bytes", "ops"}));
  EXPECT_EQ(trace.at("otherData").at("dropped_events"), 0);
}

// Without fusion, so that no kernel holds ops of two layers.
TEST_F(LookingInside, GradientsAndUpdatesCountToTheLayerOfTheirOp) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::off});
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  TwoLayers model(device, generator);
  set_paths(model);
  Adam adam({.learning_rate = 1e-3});
  {
    const TraceScope trace(runtime, file("step.json"));
    train_step(device, model, adam);
  }
  std::map<std::string, int> products;
  std::map<std::string, int> updates;
  for (const Json& kernel : spans_of(read("step.json"), "kernels")) {
    const std::string layer = kernel.at("args").value("layer", "");
    const std::string name = kernel.at("name");
    products[layer] += name == "matmul" ? 1 : 0;
    updates[layer] += name.find("adam") != std::string::npos ? 1 : 0;
  }
  // Forward and the weight's gradient; for the outer layer also that of its input.
  EXPECT_EQ(products["inner"], 2);
  EXPECT_EQ(products["outer"], 3);
  EXPECT_EQ(products[""], 0);
  EXPECT_EQ(updates["inner"], 2) << "weight and bias";
  EXPECT_EQ(updates["outer"], 2);
}

TEST_F(LookingInside, TheMiddleOfAnAttentionIsOfTheAttention) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::off});
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  MultiHeadAttention layer({.width = 16, .heads = 2}, device, generator);
  set_paths(layer, "blocks.3.attention");
  const Tensor x = random_normal(device, {2, 5, 16}, generator);
  {
    const TraceScope trace(runtime, file("attention.json"));
    static_cast<void>(layer.forward(x).to_vector<float>());
  }
  std::set<std::string> layers;
  for (const Json& kernel : spans_of(read("attention.json"), "kernels")) {
    if (kernel.at("name") == "attention") {
      layers.insert(kernel.at("args").value("layer", ""));
    }
  }
  EXPECT_EQ(layers, std::set<std::string>{"blocks.3.attention"});
}

TEST_F(LookingInside, AnAsynchronousDevicesWorkEndsWhenItIsSeenTo) {
  const Runtime runtime({.devices = {{.name = "sim:0", .sim_schedule = SimSchedule{}}}});
  const Device device = runtime.device("sim:0");
  {
    const TraceScope trace(runtime, file("async.json"));
    Tensor x = Tensor::from<float>(device, std::vector<float>(64, 1.0F), {64});
    for (int i = 0; i < 20; ++i) {
      x = exp(-x);
      static_cast<void>(sum(x).item());
    }
  }
  const Json trace = read("async.json");
  EXPECT_EQ(testing::schema_faults(trace), std::vector<std::string>{});
  EXPECT_GE(spans_of(trace, "kernels").size(), 20U);
  EXPECT_EQ(spans_of(trace, "uploads").size(), 1U);
  EXPECT_EQ(spans_of(trace, "readbacks").size(), 20U);
}

// The sim takes 2 us for a launch, plus the time for its flops or bytes.
TEST_F(LookingInside, EachKernelOfADeviceWithAClockHasItsOwnTime) {
  const Runtime runtime(
      {.devices = {{.name = "sim:0", .sim_schedule = SimSchedule{}}}, .fusion = Fusion::off});
  const Device device = runtime.device("sim:0");
  {
    const TraceScope trace(runtime, file("times.json"));
    const Tensor x = ones(device, {64, 64});
    const Tensor product = matmul(x, x);
    const Tensor row = slice(product, 0, {.start = 0, .stop = 1});
    static_cast<void>((exp(row) + 1).to_vector<float>());
  }
  std::map<std::string, double> times;
  for (const Json& kernel : spans_of(read("times.json"), "kernels")) {
    times[kernel.at("name")] = kernel.at("dur");
    EXPECT_TRUE(kernel.at("args").value("device_clock", false)) << kernel;
    EXPECT_FALSE(kernel.at("args").value("shared_out", false)) << kernel;
  }
  EXPECT_NEAR(times["matmul"], 2 + 2.0 * 64 * 64 * 64 / 100e9 * 1e6, 0.002);
  EXPECT_NEAR(times["exp"], 2 + 2.0 * 64 * 4 / 10e9 * 1e6, 0.002);
  const bench::TraceTable table =
      bench::read_trace(file("times.json"), {.key = bench::TraceKey::op});
  EXPECT_EQ(table.rows.front().name, "matmul");
  EXPECT_THAT(table.to_text(bench::TraceKey::op, 30), Not(HasSubstr("share the time")));
}

TEST_F(LookingInside, ATableSaysWhatItsTimesAreAndWhichDevicesWorked) {
  const auto event = [](const std::string& rest) {
    return R"({"ph":"X","cat":"kernels","tid":1,"ts":0,)" + rest + "}";
  };
  const auto process = [](int number, const std::string& name) {
    return R"({"ph":"M","name":"process_name","pid":)" + std::to_string(number) +
           R"(,"tid":0,"args":{"name":")" + name + R"("}},)";
  };
  std::ofstream(file("clocks.json"))
      << R"({"traceEvents":[)" << process(1, "host") << process(2, "cpu:0")
      << process(3, "vulkan:0") << process(4, "vulkan:1")
      << event(R"("name":"sum","pid":3,"dur":30,"args":{"side_by_side":true})") << ","
      << event(R"("name":"add","pid":3,"dur":10,"args":{"side_by_side":true})") << ","
      << event(R"("name":"exp","pid":4,"dur":20,"args":{"as_seen":true,"shared_out":true})") << ","
      << R"({"ph":"C","name":"ops","pid":2,"tid":0,"ts":0,"args":{"waiting in streams":0}})"
      << R"(],"otherData":{"writer":"hearth","version":1,"dropped_events":0}})";
  const bench::TraceTable table = bench::read_trace(file("clocks.json"), {});
  EXPECT_EQ(table.busy_devices.size(), 2U) << "cpu:0 did nothing";
  const std::string text = table.to_text(bench::TraceKey::op, 30);
  EXPECT_THAT(text, HasSubstr("Kernels took 133.3 % of that on vulkan:0. Kernels took 66.7 %"));
  EXPECT_THAT(text, Not(HasSubstr("cpu:0")));
  EXPECT_THAT(text, HasSubstr("2 kernels may have overlapped others"));
  EXPECT_THAT(text, HasSubstr("1 kernel ran on a device without timers"));
  EXPECT_THAT(text, HasSubstr("1 kernel share the time"));
}

TEST_F(LookingInside, BytesOnLoanAreOnATrackOfTheirOwn) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  {
    const TraceScope trace(runtime, file("loan.json"));
    Promise<LentRegion> lent(PendingOptions{.subject = "a region"});
    Pending<LentRegion> region = lent.pending();
    const Tensor result = lend(
        ones(device, {256}) + 1,
        [promise = std::move(lent)](Result<LentRegion> ready) mutable {
          promise.set_value(std::move(ready).value());
        },
        Deadline::never());
    LentRegion bytes = std::move(region).get();
    bytes.run_on_device([] {});
    bytes.done();
    EXPECT_EQ(sum(result).item(), 512.0);
  }
  const Json trace = read("loan.json");
  EXPECT_EQ(testing::schema_faults(trace), std::vector<std::string>{});
  std::set<std::string> names;
  for (const Json& span : spans_of(trace, "collectives")) {
    names.insert(span.at("name"));
  }
  EXPECT_EQ(names, (std::set<std::string>{"combine", "lend"}));
}

TEST_F(LookingInside, IsOneTraceAtATimeAndNothingOutsideOfIt) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  static_cast<void>(sum(ones(device, {3})).item());
  TraceScope trace(runtime, file("first.json"));
  EXPECT_THROW(static_cast<void>(TraceScope(runtime, file("second.json"))), ArgumentError);
  EXPECT_THROW(static_cast<void>(TraceScope(runtime, file("none") / "third.json")), FileError);
  EXPECT_TRUE(trace.stop().has_value());
  EXPECT_EQ(trace.stop().error().code, ErrorCode::invalid_argument);
  static_cast<void>(sum(ones(device, {3})).item());
  EXPECT_TRUE(spans_of(read("first.json"), "kernels").empty());
  EXPECT_FALSE(std::filesystem::exists(file("second.json")));
}

TEST_F(LookingInside, AScopeHasAllThatItsThreadSubmitted) {
  const Runtime runtime({.devices = {{.name = "sim:0", .sim_schedule = SimSchedule{}}}});
  const Device device = runtime.device("sim:0");
  Tensor x = ones(device, {64});
  {
    const TraceScope trace(runtime, file("unread.json"));
    x = softmax(x, -1);
  }
  EXPECT_THAT(facts(spans_of(read("unread.json"), "kernels"), "shape"), Contains("f32[64]"));
}

TEST_F(LookingInside, AScopeDoesNotWaitForeverForADevice) {
  const Runtime runtime({.devices = {{.name = "sim:0",
                                      .faults = FaultPlan{.hanging_submit = 2},
                                      .sim_schedule = SimSchedule{}}},
                         .shutdown_limit = std::chrono::milliseconds(100),
                         .wait_limit = std::chrono::milliseconds(100)});
  const Device device = runtime.device("sim:0");
  const Tensor x = ones(device, {64});
  TraceScope trace(runtime, file("hung.json"));
  const Tensor y = softmax(x, -1);
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(trace.stop().has_value());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("a trace lacks the unfinished work of sim:0: "));
  EXPECT_TRUE(std::filesystem::exists(file("hung.json")));
}

TEST_F(LookingInside, TheFileSaysWhatThereWasNoRoomFor) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::off});
  const Device device = runtime.device("cpu:0");
  {
    const TraceScope trace(runtime, file("short.json"), {.max_events = 1});
    Tensor x = ones(device, {2});
    for (std::size_t i = 0; i < 3 * detail::Trace::kChunkEvents; ++i) {
      x = x + 1;
    }
    static_cast<void>(x.to_vector<float>());
  }
  const Json other = read("short.json").at("otherData");
  EXPECT_LE(other.at("events").get<std::size_t>(), detail::Trace::kChunkEvents);
  EXPECT_GT(other.at("dropped_events").get<std::size_t>(), detail::Trace::kChunkEvents);
}

TEST_F(LookingInside, TheEnvironmentTracesAWholeRun) {
  ASSERT_EQ(setenv("HEARTH_TRACE_FILE", file("run.json").c_str(), 1),
            0);  // NOLINT(concurrency-mt-unsafe): one thread
  {
    // Deterministic, because a delay of the program would change the kernels.
    const Runtime runtime({.devices = {{.name = "cpu:0"}}, .deterministic = true});
    const Tensor x = ones(runtime.device("cpu:0"), {4});
    static_cast<void>(sum(x).item());
    static_cast<void>((exp(x * 2) + x - 1).to_vector<float>());
  }
  ASSERT_EQ(unsetenv("HEARTH_TRACE_FILE"), 0);  // NOLINT(concurrency-mt-unsafe): one thread
  const Json trace = read("run.json");
  EXPECT_EQ(testing::schema_faults(trace), std::vector<std::string>{});
  std::vector<std::string> names;
  for (const Json& span : spans_of(trace, "kernels")) {
    names.push_back(span.at("name").get<std::string>());
  }
  // The device closed, and with it the group's plan, before the file was written.
  EXPECT_THAT(names, ::testing::IsSupersetOf({"sum", "mul+exp+add+sub"}));
}

TEST_F(LookingInside, ATableAddsUpLayersOpsAndLines) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::off});
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  TwoLayers model(device, generator);
  set_paths(model);
  Adam adam({.learning_rate = 1e-3});
  {
    const TraceScope trace(runtime, file("step.json"));
    train_step(device, model, adam);
  }
  const bench::TraceTable layers = bench::read_trace(file("step.json"), {});
  double sum = 0;
  std::set<std::string> names;
  for (const bench::TraceRow& row : layers.rows) {
    sum += row.seconds;
    names.insert(row.name);
  }
  EXPECT_NEAR(sum, layers.kernel_seconds, 1e-9);
  EXPECT_THAT(names, IsSupersetOf({"inner", "outer", ""}));
  EXPECT_THAT(layers.devices, ElementsAre("cpu:0"));
  const std::string text = layers.to_text(bench::TraceKey::layer, 30);
  EXPECT_THAT(text, HasSubstr("(no layer)"));
  EXPECT_THAT(text, HasSubstr("Without a layer: "));
  const bench::TraceTable ops =
      bench::read_trace(file("step.json"), {.key = bench::TraceKey::op, .device = "cpu:0"});
  EXPECT_THAT(ops.to_text(bench::TraceKey::op, 1), HasSubstr(" more"));
  const bench::TraceTable lines =
      bench::read_trace(file("step.json"), {.key = bench::TraceKey::line});
  EXPECT_THAT(lines.to_text(bench::TraceKey::line, 30), HasSubstr("looking_inside_test.cpp:"));
  EXPECT_THROW((void)bench::read_trace(file("step.json"), {.device = "cpu:7"}), std::runtime_error);
  EXPECT_THROW((void)bench::read_trace(file("none.json"), {}), std::runtime_error);
}

TEST_F(LookingInside, ATableByLayerAddsUpPathsToADepth) {
  std::string events;
  for (const char* layer : {"layers.0.norm", "layers.0.linear", "layers.1.norm", "head"}) {
    events += std::string(events.empty() ? "" : ",") +
              R"({"ph":"X","name":"add","cat":"kernels","pid":1,"tid":1,"ts":1,"dur":2,)" +
              R"("args":{"layer":")" + layer + R"("}})";
  }
  {
    std::ofstream(file("made.json"))
        << R"({"traceEvents":[)" << events
        << R"(],"otherData":{"writer":"hearth","version":1,"dropped_events":0}})";
  }
  const auto names = [&](std::size_t depth) {
    std::map<std::string, std::int64_t> kernels;
    for (const bench::TraceRow& row : bench::read_trace(file("made.json"), {.depth = depth}).rows) {
      kernels[row.name] = row.kernel_count;
    }
    return kernels;
  };
  using Counts = std::map<std::string, std::int64_t>;
  EXPECT_EQ(names(1), (Counts{{"layers", 3}, {"head", 1}}));
  EXPECT_EQ(names(2), (Counts{{"layers.0", 2}, {"layers.1", 1}, {"head", 1}}));
  EXPECT_EQ(names(3), names(0));
  EXPECT_EQ(names(0).size(), 4U);
}

TEST_F(LookingInside, AFileWithAZeroByteIsRefusedWithItsPlace) {
  const std::string whole =
      R"({"traceEvents":[],"otherData":{"writer":"hearth","dropped_events":0}})";
  const auto said = [&](const std::string& text) -> std::string {
    {
      std::ofstream output(file("zero.json"), std::ios::binary);
      output << text;
    }
    try {
      (void)bench::read_trace(file("zero.json"), {});
      return "nothing";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(said(whole), "nothing");
  const std::string zero(1, '\0');
  EXPECT_THAT(said(whole + zero + "[]"), HasSubstr("byte " + std::to_string(whole.size()) + " is"));
  EXPECT_THAT(said(R"({"traceEvents":)" + zero + "[]}"), HasSubstr("byte 15 is zero"));
  EXPECT_THAT(said(whole + "[]"), HasSubstr("column"));
  EXPECT_THAT(said("{\"traceEvents\":[\"\xff\"]}"), HasSubstr("column 18"));
}

// ---- memory ----

std::set<std::string> names_of(const MemoryTrace& trace) {
  std::set<std::string> names;
  for (const MemoryEvent& event : trace) {
    names.insert(event.tensor.origin.module_path);
  }
  return names;
}

TEST_F(LookingInside, MemoryHasTheNamesOfParametersMeansAndVariances) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  TwoLayers model(device, generator);
  Adam adam({.learning_rate = 1e-3});
  train_step(device, model, adam);
  {
    const MemoryTraceScope trace(runtime, file("step.memory.json"));
    train_step(device, model, adam);
  }
  const std::vector<DeviceMemoryTrace> traces =
      read_memory_traces(file("step.memory.json")).value();
  ASSERT_EQ(traces.size(), 1U);
  EXPECT_EQ(traces[0].device, "cpu:0");
  EXPECT_THAT(names_of(traces[0].events),
              IsSupersetOf({"inner.weight",
                            "inner.bias",
                            "outer.weight",
                            "mean.inner.weight",
                            "variance.inner.weight",
                            "mean.outer.bias",
                            "variance.outer.bias"}));
  for (const MemoryEvent& event : traces[0].events) {
    if (event.tensor.is_exclusive) {
      EXPECT_NE(event.tensor.origin.module_path, "") << event.tensor.origin.to_string();
    }
  }
}

TEST_F(LookingInside, MemoryOfAModelThatIsOnlyUsedHasNamesToo) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  const TwoLayers model(device, generator);
  set_paths(model);
  {
    const MemoryTraceScope trace(runtime, file("infer.memory.json"));
    static_cast<void>(model.forward(ones(device, {2, 8})).to_vector<float>());
  }
  const std::vector<DeviceMemoryTrace> traces =
      read_memory_traces(file("infer.memory.json")).value();
  EXPECT_THAT(names_of(traces.at(0).events), IsSupersetOf({"inner.weight", "outer.bias"}));
}

TEST_F(LookingInside, OneMemoryTraceAtATime) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  {
    MemoryTraceScope trace(runtime, file("outer.memory.json"));
    EXPECT_THROW(static_cast<void>(MemoryTraceScope(runtime, file("inner.memory.json"))),
                 ArgumentError);
    const Tensor held = ones(device, {64});
    device.sync();
    ASSERT_TRUE(trace.stop().has_value());
    EXPECT_FALSE(trace.stop().has_value());
  }
  EXPECT_EQ(read_memory_traces(file("outer.memory.json")).value().size(), 1U);
  EXPECT_TRUE(MemoryTraceScope(runtime, file("next.memory.json")).stop().has_value());
}

// The failure of the second device ends the trace on the first.
TEST_F(LookingInside, AMemoryTraceThatDoesNotBeginLeavesNothing) {
  const Runtime runtime({.devices = {{.name = "sim:0"},
                                     {.name = "sim:1", .faults = FaultPlan{.lost_at_submit = 1}}}});
  const Device first = runtime.device("sim:0");
  const Tensor lost = ones(runtime.device("sim:1"), {4});
  EXPECT_THROW(static_cast<void>(MemoryTraceScope(runtime, file("none.memory.json"))), Exception);
  const Tensor held = ones(first, {64});
  first.sync();
  EXPECT_TRUE(first.take_memory_trace().empty()) << "it goes on gathering";
  EXPECT_THROW(static_cast<void>(lost.to_vector<float>()), DeviceError);
}

TEST_F(LookingInside, AMemoryFileComesBackAsItWas) {
  const MemoryTrace events{
      {.what = MemoryEvent::What::made,
       .block = 1,
       .time = detail::TimePoint(std::chrono::nanoseconds(0)),
       .tensor = {.size_bytes = 4096,
                  .is_exclusive = true,
                  .origin = {"fill", "f32[1024]", "a \"b\"", {"x.cpp", 3}}}},
      {.what = MemoryEvent::What::freed,
       .block = 1,
       .time = detail::TimePoint(std::chrono::nanoseconds(1500)),
       .tensor = {.size_bytes = 4096, .origin = {"add", "f32[1024]", "", {"", 0}}}}};
  const DeviceMemoryTrace trace{.device = "cpu:0", .events = events};
  ASSERT_TRUE(write_memory_traces(file("m.json"), {&trace, 1}).has_value());
  const DeviceMemoryTrace read = read_memory_traces(file("m.json")).value().at(0);
  ASSERT_EQ(read.events.size(), 2U);
  EXPECT_EQ(read.events[0].tensor.origin.to_string(), events[0].tensor.origin.to_string());
  EXPECT_TRUE(read.events[0].tensor.is_exclusive);
  EXPECT_EQ(read.events[1].what, MemoryEvent::What::freed);
  EXPECT_EQ(read.events[1].time - read.events[0].time, std::chrono::nanoseconds(1500));
  EXPECT_EQ(read.events[1].tensor.origin.op, "add");
}

TEST_F(LookingInside, WhatIsNoMemoryFileIsRefused) {
  { std::ofstream(file("bad.json")) << R"({"traceEvents":[]})"; }
  const Error error = read_memory_traces(file("bad.json")).status().error();
  EXPECT_EQ(error.code, ErrorCode::bad_format);
  EXPECT_THAT(error.text,
              ::testing::EndsWith("not a memory trace: key 'hearth_memory_trace' not found"));
  EXPECT_EQ(read_memory_traces(file("none.json")).status().error().code, ErrorCode::not_found);
  ASSERT_TRUE(write_memory_traces(file("zero.json"), {}).has_value());
  EXPECT_TRUE(read_memory_traces(file("zero.json")).has_value());
  { std::ofstream(file("zero.json"), std::ios::app) << '\0'; }
  EXPECT_THAT(read_memory_traces(file("zero.json")).status().error().text, HasSubstr("is zero"));
}

// New weights are filled, and copied to each device of a Trainer. Both ops belong to a layer, named
// with the model's path and not only with the weight's own name.
TEST_F(LookingInside, FirstValuesCountToInitialisation) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::off});
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  {
    const TraceScope trace(runtime, file("first.json"));
    TwoLayers model(device, generator);
    Adam adam({.learning_rate = 1e-3});
    train_step(device, model, adam);
  }
  std::map<std::string, std::set<std::string>> layers;  // by op
  for (const Json& kernel : spans_of(read("first.json"), "kernels")) {
    layers[kernel.at("name")].insert(kernel.at("args").value("layer", ""));
  }
  EXPECT_EQ(layers.at("random_uniform"), std::set<std::string>{"initialisation"});
  EXPECT_EQ(layers.at("random_normal"), std::set<std::string>{""}) << "the program's own";
  const std::string text =
      bench::read_trace(file("first.json"), {}).to_text(bench::TraceKey::layer, 30);
  EXPECT_THAT(text, HasSubstr("\ninitialisation "));
}

}  // namespace
}  // namespace hearth
