#include <hearth/parallel/process_group.hpp>
#include <hearth/runtime/base/pending.hpp>

#include "fake_network.hpp"

#include "tests/support/environment_variable.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using std::chrono::milliseconds;
using testing::as_processes;
using ::testing::ElementsAre;
using testing::EnvironmentVariable;
using testing::FakeNetwork;
using ::testing::HasSubstr;

const ProcessGroupOptions kImpatient{.deadline = milliseconds(2000)};

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& exception) {
    return std::string(name(exception.code())) + ": " + exception.error().text;
  }
  return "no error";
}

TEST(ProcessGroup, GathersTheTextsOfAllProcessesInTheirOrder) {
  FakeNetwork network(3);
  as_processes(network, 3, [](const ProcessGroup& group) {
    EXPECT_EQ(group.size(), 3);
    EXPECT_EQ(group.local_rank(), group.rank());
    const std::string own(static_cast<std::size_t>(group.rank()) * 1000, 'x');
    EXPECT_THAT(group.gather(own), ElementsAre("", std::string(1000, 'x'), std::string(2000, 'x')));
    EXPECT_THAT(group.gather(std::to_string(group.rank())), ElementsAre("0", "1", "2"));
  });
  EXPECT_EQ(network.whole_ends(), 3);
}

TEST(ProcessGroup, AloneNeedsNobody) {
  EXPECT_THAT(ProcessGroup::alone().gather("text"), ElementsAre("text"));
  EXPECT_TRUE(ProcessGroup::alone().is_chosen());
  EXPECT_FALSE(ProcessGroup().is_chosen());
  EXPECT_TRUE(ProcessGroup().is_first());
}

TEST(ProcessGroup, ProcessesThatMakeDifferentCallsFailWithBoth) {
  FakeNetwork network(2);
  as_processes(network, 2, [](const ProcessGroup& group) {
    const std::string error =
        error_of([&] { static_cast<void>(group.gather("", group.is_first() ? "tea" : "milk")); });
    EXPECT_THAT(error, HasSubstr("collective_failed"));
    EXPECT_THAT(error, HasSubstr("'tea'"));
    EXPECT_THAT(error, HasSubstr("'milk'"));
  });
}

TEST(ProcessGroup, AProcessThatLeavesFailsTheNextCallOfTheOthers) {
  FakeNetwork network(3);
  as_processes(network, 3, [](ProcessGroup group) {
    static_cast<void>(group.gather("", "the last common call"));
    if (group.rank() == 1) {
      return;
    }
    EXPECT_THAT(error_of([&] { static_cast<void>(group.gather("", "one call more")); }),
                HasSubstr("one call more: process 1"));
  });
  EXPECT_EQ(network.whole_ends(), 0);
}

TEST(ProcessGroup, AStoppedProcessFailsTheOthersWithinTheDeadline) {
  FakeNetwork network(3);
  as_processes(
      network,
      3,
      [&](const ProcessGroup& group) {
        static_cast<void>(group.gather(""));
        if (group.rank() == 2) {
          network.stop(2);
        }
        const std::string error = error_of([&] { static_cast<void>(group.gather("")); });
        EXPECT_THAT(error, HasSubstr("no sign of life"));
        if (group.rank() != 2) {
          EXPECT_THAT(error, HasSubstr("process 2"));
        }
        // The group is of no use any more.
        EXPECT_EQ(error_of([&] { static_cast<void>(group.gather("")); }), error);
      },
      kImpatient);
}

TEST(ProcessGroup, AnAbsentProcessThatGivesSignsOfLifeHasTheCallsLimit) {
  FakeNetwork network(2);
  Promise<void> given_up;
  const Pending<void> is_given_up = given_up.pending();
  as_processes(network,
               2,
               [&](const ProcessGroup& group) {
                 if (group.is_first()) {
                   EXPECT_THAT(error_of([&] { static_cast<void>(group.gather("", "supper")); }),
                               HasSubstr("supper: process 1"));
                   given_up.set_value();
                 } else {
                   EXPECT_TRUE(is_given_up.wait().has_value());
                   const auto sup = [&] { static_cast<void>(group.gather("", "supper")); };
                   static_cast<void>(error_of(sup));  // process 0 had sent its part of it
                   EXPECT_THAT(error_of(sup), HasSubstr("did not take part within 500"));
                 }
               },
               {.deadline = std::chrono::seconds(20), .call_limit = milliseconds(500)});
}

TEST(ProcessGroup, RejectsLimitsThatAreNotAboveZero) {
  EXPECT_THAT(error_of([] {
                static_cast<void>(ProcessGroup::from_environment({.deadline = milliseconds(0)}));
              }),
              HasSubstr("must be above 0"));
}

class LaunchedProcess : public ::testing::Test {
 protected:
  const EnvironmentVariable open_mpi_{"OMPI_COMM_WORLD_SIZE", ""};
  const EnvironmentVariable slurm_{"SLURM_STEP_NUM_TASKS", ""};
  const EnvironmentVariable mpich_{"PMI_SIZE", ""};
  const EnvironmentVariable world_{"WORLD_SIZE", ""};
  const EnvironmentVariable rank_{"RANK", ""};
};

TEST_F(LaunchedProcess, WithoutALauncherIsAlone) {
  EXPECT_EQ(ProcessGroup::from_environment().size(), 1);
  const EnvironmentVariable ompi_comm_world_size("OMPI_COMM_WORLD_SIZE", "1");
  const EnvironmentVariable slurm_ntasks("SLURM_NTASKS",
                                         "4");  // a batch script has it, and runs once
  EXPECT_EQ(ProcessGroup::from_environment().size(), 1);
}

TEST_F(LaunchedProcess, WithoutOpenMpiSaysWhatToInstall) {
  const EnvironmentVariable ompi_comm_world_size("OMPI_COMM_WORLD_SIZE", "2");
  const std::string error = error_of(
      [] { static_cast<void>(ProcessGroup::from_environment({.library = "libno_mpi.so.40"})); });
  EXPECT_THAT(error, HasSubstr("not_found: ProcessGroup: OpenMPI is not found"));
  EXPECT_THAT(error, HasSubstr("openmpi-bin"));
}

TEST_F(LaunchedProcess, RejectsALibraryThatIsNotOpenMpis) {
  const EnvironmentVariable slurm_step_num_tasks("SLURM_STEP_NUM_TASKS", "2");
  EXPECT_THAT(
      error_of([] { static_cast<void>(ProcessGroup::from_environment({.library = "libm.so.6"})); }),
      HasSubstr("is not OpenMPI's: it has no ompi_mpi_comm_world"));
}

TEST_F(LaunchedProcess, OfMpichIsRejected) {
  const EnvironmentVariable pmi_size("PMI_SIZE", "3");
  EXPECT_THAT(error_of([] { static_cast<void>(ProcessGroup::from_environment()); }),
              HasSubstr("MPICH's mpiexec started 3 processes (PMI_SIZE): only OpenMPI"));
}

TEST_F(LaunchedProcess, OfNcclsVariablesIsRejectedForNow) {
  const EnvironmentVariable world_size("WORLD_SIZE", "2");
  const EnvironmentVariable rank("RANK", "0");
  EXPECT_THAT(error_of([] { static_cast<void>(ProcessGroup::from_environment()); }),
              HasSubstr("names 2 processes (WORLD_SIZE) without MPI, which needs NCCL"));
}

TEST_F(LaunchedProcess, NeedsAChosenGroup) {
  EXPECT_EQ(error_of([] { detail::require_chosen({}, "DataParallel", {}); }), "no error");
  const EnvironmentVariable ompi_comm_world_size("OMPI_COMM_WORLD_SIZE", "2");
  EXPECT_THAT(error_of([] { detail::require_chosen({}, "DataParallel", {}); }),
              HasSubstr("mpirun started 2 processes (OMPI_COMM_WORLD_SIZE), but it was given no "
                        "ProcessGroup"));
  EXPECT_EQ(error_of([] { detail::require_chosen(ProcessGroup::alone(), "DataParallel", {}); }),
            "no error");
}

}  // namespace
}  // namespace hearth
