// MpiTransport: messages by OpenMPI, on a communicator of its own.
// Owned by a ProcessGroup's thread, which makes all its calls. A program that has called MPI_Init
// itself also calls MPI_Finalize; without MPI_THREAD_MULTIPLE it makes no MPI call while the group
// exists. Private to parallel.
// Invariant: after a failure there is no further MPI call, MPI_Finalize included, since that would
// wait for the process that is missing.
#pragma once

#include <hearth/parallel/process_transport.hpp>

#include <memory>
#include <string>

namespace hearth::detail {

/// Initialises MPI if the program has not. `size`: the number of processes that the environment
/// names. Blocks as long as MPI does.
///
/// Errors: those of MpiLibrary::find(); unsupported if MPI finds another number of processes, or
/// was ended already; collective_failed with MPI's text.
[[nodiscard]] Result<std::unique_ptr<ProcessTransport>> open_mpi_transport(
    const std::string& library, int size, const std::string& launched);

}  // namespace hearth::detail
