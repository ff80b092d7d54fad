// Programs that mpirun starts, each process for real.
#include "tests/examples/program.hpp"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;
using testing::Outcome;

constexpr const char* kProgram = HEARTH_PROCESSES_PROGRAM;

class Mpirun : public ::testing::Test {
 protected:
  Mpirun() {
    const auto set = [](const char* name, const char* value) { ::setenv(name, value, 1); };
    set("OMPI_MCA_mpi_yield_when_idle", "1");
    set("OMPI_MCA_btl", "self,vader");
    set("OMPI_MCA_btl_vader_single_copy_mechanism", "none");  // containers refuse it, with a line
    set("OMPI_ALLOW_RUN_AS_ROOT", "1");
    set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    set("ASAN_OPTIONS", "detect_leaks=0");  // OpenMPI's own
  }

  /// Runs the program in `processes` processes, or in one without mpirun.
  static Outcome run(int processes,
                     std::vector<std::string> words,
                     const std::vector<std::string>& options = {}) {
    if (processes == 0) {
      return testing::run(kProgram, words);
    }
    std::vector<std::string> all{"-n", std::to_string(processes), "--oversubscribe"};
    all.insert(all.end(), options.begin(), options.end());
    all.emplace_back(kProgram);
    all.insert(all.end(), words.begin(), words.end());
    return testing::run(HEARTH_MPIRUN, all);
  }
};

std::string weights_in(const Outcome& outcome) {
  const std::size_t begin = outcome.out.find("weights:");
  EXPECT_NE(begin, std::string::npos) << outcome.out;
  return begin == std::string::npos
             ? outcome.out
             : outcome.out.substr(begin, outcome.out.find('\n', begin) - begin);
}

std::vector<double> numbers_in(const std::string& line) {
  std::istringstream words(line);
  std::vector<double> numbers;
  std::string word;
  words >> word;
  while (words >> word) {
    numbers.push_back(std::strtod(word.c_str(), nullptr));
  }
  return numbers;
}

TEST_F(Mpirun, TwoProcessesHaveTheWeightsOfOneWithTwoRanksBitByBit) {
  const Outcome one = run(0, {"train=10", "devices=2"});
  const Outcome two = run(2, {"train=10"});
  EXPECT_EQ(two.exit_code, 0) << two.out;
  EXPECT_EQ(weights_in(two), weights_in(one));
}

TEST_F(Mpirun, UnevenShardsHaveTheWeightsOfTheWholeBatch) {
  const Outcome whole = run(0, {"train=10", "drop=no", "shards=24"});
  const Outcome two = run(2, {"train=10", "drop=no", "shards=7,17"});
  EXPECT_EQ(two.exit_code, 0) << two.out;
  EXPECT_EQ(weights_in(two),
            weights_in(run(0, {"train=10", "drop=no", "devices=2", "shards=7,17"})));
  EXPECT_THAT(numbers_in(weights_in(two)),
              ::testing::Pointwise(::testing::DoubleNear(1e-5), numbers_in(weights_in(whole))));
}

TEST_F(Mpirun, ThreeProcessesHaveTheWeightsOfOneWithThreeRanks) {
  const std::string shards = "shards=8,8,8";
  EXPECT_EQ(weights_in(run(3, {"train=10", shards})),
            weights_in(run(0, {"train=10", "devices=3", shards})));
}

TEST_F(Mpirun, AProgramThatCalledMpiInitItselfWorks) {
  const Outcome two = run(2, {"train=10", "group=own"});
  EXPECT_EQ(two.exit_code, 0) << two.out;
  EXPECT_EQ(weights_in(two), weights_in(run(0, {"train=10", "devices=2"})));
}

TEST_F(Mpirun, AnExceptionInOneProcessFailsTheStepInBothAndTheyGoOn) {
  const Outcome two = run(2, {"train=6", "fault=throw"});
  EXPECT_EQ(two.exit_code, 0) << two.out;
  EXPECT_THAT(two.out, HasSubstr("process 0, step 3 failed: process 1 ("));
  EXPECT_THAT(two.out, HasSubstr("process 1, step 3 failed:"));
  EXPECT_THAT(two.out, HasSubstr("weights:"));
}

TEST_F(Mpirun, ALossThatIsNotFiniteFailsTheStepInBothAndTheyGoOn) {
  const Outcome two = run(2, {"train=6", "fault=nan"});
  EXPECT_EQ(two.exit_code, 0) << two.out;
  EXPECT_THAT(two.out, HasSubstr("process 0, step 3 failed: process 1 ("));
  EXPECT_THAT(two.out, HasSubstr("step 3: the loss of rank 1 on cpu:0 is nan"));
  EXPECT_THAT(two.out, HasSubstr("weights:"));
}

TEST_F(Mpirun, AStoppedProcessEndsTheOthersWithinTheDeadline) {
  const Outcome two = run(2, {"train=10", "fault=stop", "deadline=2000"});
  EXPECT_NE(two.exit_code, 0);
  EXPECT_THAT(two.out, HasSubstr("process 0 ends:"));
  EXPECT_THAT(two.out, HasSubstr("gave no sign of life for 2000"));
}

// mpirun would end the others itself; with recovery it leaves that to the library.
TEST_F(Mpirun, AKilledProcessEndsTheOthersWithinTheDeadline) {
  const Outcome two = run(2, {"train=10", "fault=kill", "deadline=2000"}, {"--enable-recovery"});
  EXPECT_THAT(two.out, HasSubstr("process 0 ends: "));
  EXPECT_THAT(two.out, HasSubstr("[collective_failed"));
  EXPECT_NE(run(2, {"train=10", "fault=kill"}).exit_code, 0);
}

TEST_F(Mpirun, AProcessThatThrowsBetweenStepsEndsTheOthers) {
  const Outcome two = run(2, {"train=10", "fault=exit"}, {"--enable-recovery"});
  EXPECT_THAT(two.out, HasSubstr("process 1 ends: the data end here"));
  EXPECT_THAT(two.out, ::testing::ContainsRegex("process 0 ends: [^\n]*has left the group"));
  EXPECT_NE(run(2, {"train=10", "fault=exit"}).exit_code, 0);
}

TEST_F(Mpirun, DifferentSettingsAreRejectedByBothWithTheirNames) {
  const Outcome two = run(2, {"train=1", "fault=seed"}, {"--enable-recovery"});
  for (const std::string process : {"process 0", "process 1"}) {
    EXPECT_THAT(two.out, ::testing::ContainsRegex(process + " ends: [^\n]*has seed 6, process 0"));
  }
  EXPECT_NE(run(2, {"train=1", "fault=seed"}).exit_code, 0);
}

TEST_F(Mpirun, AForgottenGroupIsRejected) {
  const Outcome two = run(2, {"train=1", "group=none"});
  EXPECT_NE(two.exit_code, 0);
  EXPECT_THAT(two.out,
              HasSubstr("mpirun started 2 processes (OMPI_COMM_WORLD_SIZE), but it was "
                        "given no ProcessGroup"));
}

TEST_F(Mpirun, WithoutOpenMpisLibraryEndsWithASentence) {
  const Outcome two = run(2, {"train=1", "library=libno_mpi.so.40"});
  EXPECT_NE(two.exit_code, 0);
  EXPECT_THAT(two.out, HasSubstr("OpenMPI is not found"));
}

class MpirunFit : public Mpirun {
 protected:
  MpirunFit() { std::filesystem::remove_all(folder_); }
  ~MpirunFit() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string folder(const std::string& name) const {
    return "folder=" + (folder_ / name).string();
  }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::path(::testing::TempDir()) /
      ("hearth_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
};

// The line that process 0 prints at the end.
std::string result_in(const Outcome& outcome) {
  const std::size_t begin = outcome.out.find("world 2, loss");
  EXPECT_NE(begin, std::string::npos) << outcome.out;
  return begin == std::string::npos
             ? outcome.out
             : outcome.out.substr(begin, outcome.out.find('\n', begin) - begin);
}

TEST_F(MpirunFit, HasTheFiguresOfOneProcessAndPrintsOnce) {
  const Outcome one = run(0, {"fit=2", "devices=2", folder("one")});
  const Outcome two = run(2, {"fit=2", folder("two")});
  EXPECT_EQ(two.exit_code, 0) << two.out;
  EXPECT_EQ(result_in(two), result_in(one));
  const std::size_t first = two.out.find("epoch 1");
  EXPECT_NE(first, std::string::npos) << two.out;
  EXPECT_EQ(two.out.find("epoch 1", first + 1), std::string::npos) << two.out;
}

TEST_F(MpirunFit, AStopInOneProcessEndsBothAfterTheSameStep) {
  const Outcome whole = run(2, {"fit=2", folder("whole")});
  const Outcome halted = run(2, {"fit=2", folder("halted"), "fault=halt"});
  EXPECT_EQ(halted.exit_code, 0) << halted.out;
  EXPECT_THAT(halted.out, HasSubstr("stopped after 3 of 7 batches, saved"));
  const Outcome resumed = run(2, {"fit=2", folder("halted")});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out;
  EXPECT_EQ(result_in(resumed), result_in(whole));
}

TEST_F(MpirunFit, ResumesAfterAProcessWasKilled) {
  const Outcome whole = run(2, {"fit=2", folder("whole")});
  const Outcome killed = run(2, {"fit=2", folder("killed"), "fault=kill", "step=10"});
  EXPECT_NE(killed.exit_code, 0);
  const Outcome resumed = run(2, {"fit=2", folder("killed")});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, HasSubstr("resumed at"));
  EXPECT_EQ(result_in(resumed), result_in(whole));
}

TEST_F(MpirunFit, ResumesAfterAProcessWasStopped) {
  const Outcome whole = run(2, {"fit=2", folder("whole")});
  const Outcome stopped =
      run(2, {"fit=2", folder("stopped"), "fault=stop", "step=10", "deadline=2000"});
  EXPECT_NE(stopped.exit_code, 0);
  EXPECT_THAT(stopped.out, HasSubstr("gave no sign of life"));
  const Outcome resumed = run(2, {"fit=2", folder("stopped")});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out;
  EXPECT_THAT(resumed.out, HasSubstr("resumed at"));
  EXPECT_EQ(result_in(resumed), result_in(whole));
}

// A run of two processes resumes in one process with two ranks, since the state is that of ranks.
TEST_F(MpirunFit, ResumesInOneProcessWithTwoRanks) {
  const Outcome whole = run(2, {"fit=2", folder("whole")});
  EXPECT_EQ(run(2, {"fit=1", folder("half")}).exit_code, 0);
  const Outcome resumed = run(0, {"fit=2", "devices=2", folder("half")});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out;
  EXPECT_EQ(result_in(resumed), result_in(whole));
}

}  // namespace
}  // namespace hearth
