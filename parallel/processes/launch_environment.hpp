// LaunchEnvironment: the number of processes that a launcher names in the environment.
// A value. Threads: any, while no thread changes the environment. Private to parallel.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::detail {

struct LaunchEnvironment {
  enum class Launcher : std::uint8_t { none, open_mpi, slurm, mpich, nccl };

  Launcher launcher = Launcher::none;
  int size = 1;               ///< Number of processes; 1 without a launcher.
  std::string variable = {};  ///< The variable that names it: "OMPI_COMM_WORLD_SIZE".

  /// Reads the variables of OpenMPI, of a Slurm step, of MPICH, and RANK with WORLD_SIZE.
  [[nodiscard]] static LaunchEnvironment read();
  /// "mpirun started 2 processes (OMPI_COMM_WORLD_SIZE)"
  [[nodiscard]] std::string describe() const;
};

}  // namespace hearth::detail
