#include "launch_environment.hpp"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

namespace hearth::detail {
namespace {

using Launcher = LaunchEnvironment::Launcher;

// The value of a count; 0 if the variable is missing or no count.
int count_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) {
    return 0;
  }
  const std::string_view digits(text);
  int count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  return error == std::errc() && end == digits.data() + digits.size() ? count : 0;
}

}  // namespace

// mpirun within a Slurm job sets both, and its own variables hold. SLURM_NTASKS is no sign: a batch
// script has it too, and runs once.
LaunchEnvironment LaunchEnvironment::read() {
  struct Sign {
    Launcher launcher;
    const char* variable;
  };
  static constexpr std::array<Sign, 4> kSigns{{{Launcher::open_mpi, "OMPI_COMM_WORLD_SIZE"},
                                               {Launcher::slurm, "SLURM_STEP_NUM_TASKS"},
                                               {Launcher::mpich, "PMI_SIZE"},
                                               {Launcher::nccl, "WORLD_SIZE"}}};
  for (const Sign& sign : kSigns) {
    const int count = count_in(sign.variable);
    const bool is_complete = sign.launcher != Launcher::nccl || std::getenv("RANK") != nullptr;
    if (count > 1 && is_complete) {
      return {.launcher = sign.launcher, .size = count, .variable = sign.variable};
    }
  }
  return {};
}

std::string LaunchEnvironment::describe() const {
  std::string_view who = "the environment names";
  switch (launcher) {
    case Launcher::none:
      return "no launcher named several processes";
    case Launcher::open_mpi:
      who = "mpirun started";
      break;
    case Launcher::slurm:
      who = "Slurm started";
      break;
    case Launcher::mpich:
      who = "MPICH's mpiexec started";
      break;
    case Launcher::nccl:
      break;
  }
  return fmt::format("{} {} processes ({})", who, size, variable);
}

}  // namespace hearth::detail
