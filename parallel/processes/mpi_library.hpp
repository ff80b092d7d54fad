// MpiLibrary: the functions of OpenMPI that the library calls, found at run time, with declarations
// of its binary interface (libmpi.so.40: OpenMPI 2 to 5).
// Loaded once, never unloaded. A value. Threads: find() any; the functions as MPI allows.
#pragma once

#include <hearth/runtime/base/result.hpp>

#include <cstddef>
#include <string>

namespace hearth::detail {

struct MpiLibrary {
  // OpenMPI's handles are addresses of its own objects.
  using Handle = void*;
  struct Status {
    int source = 0;
    int tag = 0;
    int error = 0;
    int cancelled = 0;
    std::size_t byte_count = 0;
  };

  int (*init_thread)(int* argc, char*** argv, int required, int* provided) = nullptr;
  int (*initialized)(int* flag) = nullptr;
  int (*finalized)(int* flag) = nullptr;
  int (*finalize)() = nullptr;
  int (*comm_rank)(Handle comm, int* rank) = nullptr;
  int (*comm_size)(Handle comm, int* size) = nullptr;
  int (*comm_dup)(Handle comm, Handle* copy) = nullptr;
  int (*comm_set_errhandler)(Handle comm, Handle handler) = nullptr;
  int (*isend)(const void* bytes,
               int count,
               Handle type,
               int to,
               int tag,
               Handle comm,
               Handle* request) = nullptr;
  int (*irecv)(void* bytes,
               int count,
               Handle type,
               int from,
               int tag,
               Handle comm,
               Handle* request) = nullptr;
  int (*test)(Handle* request, int* flag, Status* status) = nullptr;
  int (*error_string)(int code, char* text, int* length) = nullptr;

  Handle world = nullptr;          ///< MPI_COMM_WORLD
  Handle byte = nullptr;           ///< MPI_BYTE
  Handle errors_return = nullptr;  ///< MPI_ERRORS_RETURN

  static constexpr int kSuccess = 0;
  static constexpr int kThreadSerialized = 2;
  /// Length of the buffers that MPI's texts need, rounded up.
  static constexpr std::size_t kTextBytes = 1024;

  /// Opens the library, or finds the one in this process.
  ///
  /// Errors: not_found without the library; unsupported if it is another MPI's, or the program is
  /// linked with another MPI.
  [[nodiscard]] static Result<MpiLibrary> find(const std::string& name);
  /// "MPI_Isend: MPI_ERR_RANK: invalid rank"
  [[nodiscard]] Error error_of(const char* function, int code) const;
};

}  // namespace hearth::detail
