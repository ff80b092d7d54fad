#include "mpi_library.hpp"

#include <dlfcn.h>

#include <array>
#include <utility>

#include <fmt/format.h>

namespace hearth::detail {
namespace {

constexpr const char* kWorld = "ompi_mpi_comm_world";

Error refused(ErrorCode code, std::string text) {
  return {.code = code, .text = "ProcessGroup: " + std::move(text), .op = "ProcessGroup"};
}

// dlerror() is null when another call took the message.
std::string loader_message() {
  const char* const message = ::dlerror();
  return message == nullptr ? "the loader gives no reason" : message;
}

// Sets function pointers, and keeps the name of the first symbol that is missing.
class Symbols final {
 public:
  explicit Symbols(void* handle) : handle_(handle) {}

  template <class Function>
  void set(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(address(name));
  }
  [[nodiscard]] void* address(const char* name) {
    void* const found = ::dlsym(handle_, name);
    if (found == nullptr && missing_.empty()) {
      missing_ = name;
    }
    return found;
  }
  [[nodiscard]] const std::string& missing() const noexcept { return missing_; }

 private:
  void* handle_;
  std::string missing_;
};

}  // namespace

// OpenMPI's components look for its symbols among the global ones, hence RTLD_GLOBAL. It also makes
// the symbols of an earlier local dlopen visible.
Result<MpiLibrary> MpiLibrary::find(const std::string& name) {
  if (::dlsym(RTLD_DEFAULT, "MPI_Init") != nullptr && ::dlsym(RTLD_DEFAULT, kWorld) == nullptr) {
    return refused(ErrorCode::unsupported,
                   "the program is linked with another MPI than OpenMPI (MPICH, for example), "
                   "whose binary interface differs: link it with OpenMPI, or with none");
  }
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    return refused(
        ErrorCode::not_found,
        fmt::format("OpenMPI is not found: {}; install it (Debian: openmpi-bin), or name "
                    "its library in ProcessGroupOptions::library",
                    loader_message()));
  }
  Symbols symbols(handle);
  MpiLibrary mpi;
  mpi.world = symbols.address(kWorld);
  if (mpi.world == nullptr) {
    return refused(ErrorCode::unsupported,
                   fmt::format("{} is not OpenMPI's: it has no {} (MPICH's binary interface "
                               "differs)",
                               name,
                               kWorld));
  }
  mpi.byte = symbols.address("ompi_mpi_byte");
  mpi.errors_return = symbols.address("ompi_mpi_errors_return");
  symbols.set(mpi.init_thread, "MPI_Init_thread");
  symbols.set(mpi.initialized, "MPI_Initialized");
  symbols.set(mpi.finalized, "MPI_Finalized");
  symbols.set(mpi.finalize, "MPI_Finalize");
  symbols.set(mpi.comm_rank, "MPI_Comm_rank");
  symbols.set(mpi.comm_size, "MPI_Comm_size");
  symbols.set(mpi.comm_dup, "MPI_Comm_dup");
  symbols.set(mpi.comm_set_errhandler, "MPI_Comm_set_errhandler");
  symbols.set(mpi.isend, "MPI_Isend");
  symbols.set(mpi.irecv, "MPI_Irecv");
  symbols.set(mpi.test, "MPI_Test");
  symbols.set(mpi.error_string, "MPI_Error_string");
  if (!symbols.missing().empty()) {
    return refused(
        ErrorCode::unsupported,
        fmt::format("{} has no {}: it is no OpenMPI 2 or later", name, symbols.missing()));
  }
  return mpi;
}

Error MpiLibrary::error_of(const char* function, int code) const {
  std::array<char, kTextBytes> text{};
  int length = 0;
  const bool has_text = error_string(code, text.data(), &length) == kSuccess;
  return {.code = ErrorCode::collective_failed,
          .text = fmt::format("{}: {}", function, has_text ? text.data() : "unknown error"),
          .op = "ProcessGroup"};
}

}  // namespace hearth::detail
