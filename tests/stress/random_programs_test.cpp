// Random programs on two cpu devices against the reference. RANDOM_PROGRAMS sets the number (1,000
// by default), RANDOM_FIRST the first seed, RANDOM_BYTES the bytes of a single program.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/recording.hpp>
#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/support/random_graph.hpp"
#include "tests/support/random_program.hpp"
#include "tests/support/value_judge.hpp"

namespace hearth::testing {
namespace {

/// Reads the options: the first byte selects the values, the other bytes are the program.
ProgramOptions options_of(ByteReader& bytes) {
  const Values values = bytes.pick(4) == 0 ? Values::exact : Values::smooth;
  return {.values = values, .graphs = values == Values::exact};
}

std::vector<std::string> run_program(const Runtime& runtime,
                                     std::span<const std::byte> input,
                                     ValueTally& tally,
                                     RandomProgram::Coverage& coverage) {
  ByteReader bytes(input);
  const ProgramOptions options = options_of(bytes);
  RandomProgram program(
      bytes.rest(), {runtime.device("cpu:0"), runtime.device("cpu:1")}, nullptr, options);
  program.run();
  for (const auto& [what, times] : program.coverage()) {
    coverage[what] += times;
  }
  return judge_values(program, options.values, runtime.device("reference:0"), tally);
}

// Saves a failing program as a recording, whole and reduced, for hearth-bench replay.
void keep_failure(const Runtime& runtime, const Bytes& bytes) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  ValueTally tally;
  RandomProgram::Coverage coverage;
  {
    const RecordScope scope(runtime, folder / "random_program.trace");
    static_cast<void>(run_program(runtime, bytes, tally, coverage));
  }
  const auto failure =
      reduce_recording(folder / "random_program.trace",
                       folder / "random_program.min.trace",
                       runtime.device("cpu:0"),
                       {.against = runtime.device("reference:0"), .tolerance = 2e-5});
  std::printf("random_program.trace in %s, %s\n",
              folder.c_str(),
              failure ? ("cut down to random_program.min.trace: " + failure->to_string()).c_str()
                      : "which agrees when it is replayed");
}

void print(const RandomProgram::Coverage& coverage) {
  for (const auto& [what, times] : coverage) {
    std::printf("%8lu %s\n", times, what.c_str());
  }
}

TEST(RandomPrograms, CpuAgreesWithReference) {
  const Runtime runtime(
      {.devices = {{.name = "cpu:0"}, {.name = "cpu:1"}, {.name = "reference:0"}}});
  ValueTally tally;
  RandomProgram::Coverage coverage;
  const Bytes failed = run_seeded(
      {.count_variable = "RANDOM_PROGRAMS", .count = 1000, .least_bytes = 60, .most_bytes = 500},
      [&](auto bytes) { return run_program(runtime, bytes, tally, coverage); });
  if (!failed.empty()) {
    keep_failure(runtime, failed);
  }
  if (number_from("RANDOM_COVERAGE", 0) != 0) {
    print(coverage);
  }
  std::printf("%lu values compared, %lu skipped\n", tally.compared, tally.skipped);
  EXPECT_GT(tally.compared, 20 * tally.skipped);
  for (const char* cpu : {"cpu:0", "cpu:1"}) {
    EXPECT_EQ(runtime.device(cpu).memory().live_tensor_count, 0) << cpu;
    EXPECT_EQ(runtime.device(cpu).memory().live_bytes, 0) << cpu;
  }
}

/// The program's reads on cpu devices with or without fusion.
std::vector<Bytes> seen_by(const Runtime& runtime, std::span<const std::byte> input) {
  ByteReader bytes(input);
  ProgramOptions options = options_of(bytes);
  options.graphs = true;
  RandomProgram program(
      bytes.rest(), {runtime.device("cpu:0"), runtime.device("cpu:1")}, nullptr, options);
  program.run();
  std::vector<Bytes> seen;
  for (const Observation& each : program.observations()) {
    make_nans_one(each.dtype, seen.emplace_back(each.bytes));
  }
  return seen;
}

// The ends of windows depend on time, but results must not.
TEST(RandomPrograms, FusedOpsHaveTheBitsOfSingleOnes) {
  const std::vector<DeviceOptions> devices = {{.name = "cpu:0"}, {.name = "cpu:1"}};
  const Runtime singly({.devices = devices, .fusion = Fusion::off});
  const Runtime fused({.devices = devices, .fusion = Fusion::on, .round_intermediates = true});
  static_cast<void>(run_seeded(
      {.count_variable = "RANDOM_FUSED", .count = 400, .least_bytes = 60, .most_bytes = 500},
      [&](auto bytes) {
        const bool is_same = seen_by(singly, bytes) == seen_by(fused, bytes);
        return is_same ? std::vector<std::string>() : std::vector<std::string>{"other bits"};
      }));
  const DeviceStatistics done = fused.device("cpu:0").statistics();
  EXPECT_GT(done.fused_ops, done.fused_kernels);
  std::printf(
      "%lu ops in %lu kernels, %lu plans\n", done.fused_ops, done.fused_kernels, done.plans);
}

// Dropout takes its random words by the index in the tensor, whatever the kernel and the layout.
TEST(RandomPrograms, AFusedDropoutHasTheBitsOfASingleOne) {
  const Runtime singly({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::off});
  const Runtime fused(
      {.devices = {{.name = "cpu:0"}}, .fusion = Fusion::on, .round_intermediates = true});
  const auto seen_on = [](const Runtime& runtime, const Shape& shape, DType dtype) {
    const Device device = runtime.device("cpu:0");
    Generator generator(11);
    const Tensor x = random_normal(device, shape, generator, 1, 1, dtype);
    const Tensor turned = shape.rank() > 1 ? transpose(x) : x;
    const Tensor y = dropout(relu(dropout(turned * 2, 0.5, generator) + 1), 0.25, generator);
    return cast(y, DType::f64).to_vector<double>();
  };
  const auto fused_kernels = [&] { return fused.device("cpu:0").statistics().fused_kernels; };
  // The ends of windows depend on time: on a busy machine one round fuses less.
  for (int round = 0; round < 10 && fused_kernels() <= 20; ++round) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const Shape& shape :
           {Shape{1}, Shape{7}, Shape{65, 33}, Shape{3, 1, 1000}, Shape{40'003}, Shape{300, 401}}) {
        EXPECT_EQ(seen_on(singly, shape, dtype), seen_on(fused, shape, dtype))
            << describe(dtype, shape);
      }
    }
  }
  EXPECT_GT(fused_kernels(), 20U);
}

// The generator covers each op, type and way of life.
TEST(RandomPrograms, ReachEveryOpTypeAndWayOfLife) {
  const Runtime runtime(
      {.devices = {{.name = "cpu:0"}, {.name = "cpu:1"}, {.name = "reference:0"}}});
  ValueTally tally;
  RandomProgram::Coverage coverage;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    static_cast<void>(run_program(runtime, bytes_of_seed(seed, 60, 500), tally, coverage));
  }
  for (const RandomOp::Family family : {RandomOp::Family::map,
                                        RandomOp::Family::pair,
                                        RandomOp::Family::view,
                                        RandomOp::Family::fold}) {
    for (const Values values : {Values::exact, Values::smooth}) {
      for (const RandomOp* op : random_ops(family, values)) {
        EXPECT_GE(coverage["op " + std::string(op->name)], 5U) << op->name;
      }
    }
  }
  for (const char* what : {"dtype f32",        "dtype f64",  "dtype f16", "dtype bf16", "dtype i32",
                           "dtype i64",        "dtype bool", "size zero", "rank 0",     "rank 5",
                           "copy to a device", "graph",      "loan",      "moved in",   "new home",
                           "refused",          "right",      "step",      "sweep",      "sync"}) {
    EXPECT_GE(coverage[what], 5U) << what;
  }
  const auto in_place = runtime.device("cpu:0").memory().in_place_count;
  EXPECT_GT(in_place, 100);
}

}  // namespace
}  // namespace hearth::testing
