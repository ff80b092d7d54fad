#include "mpi_transport.hpp"

#include "mpi_library.hpp"

#include <fmt/format.h>

#include <optional>
#include <unordered_map>
#include <utility>

namespace hearth::detail {
namespace {

class MpiTransport final : public ProcessTransport {
 public:
  MpiTransport(MpiLibrary mpi, MpiLibrary::Handle comm, int rank, int size, bool must_finalize)
      : mpi_(mpi), comm_(comm), rank_(rank), size_(size), must_finalize_(must_finalize) {}

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return size_; }
  [[nodiscard]] Result<Transfer> send(int to,
                                      ProcessChannel channel,
                                      std::span<const std::byte> bytes) override {
    MpiLibrary::Handle request = nullptr;
    const int code = mpi_.isend(bytes.data(),
                                static_cast<int>(bytes.size()),
                                mpi_.byte,
                                to,
                                static_cast<int>(channel),
                                comm_,
                                &request);
    return started("MPI_Isend", code, {.handle = request});
  }
  [[nodiscard]] Result<Transfer> receive(int from,
                                         ProcessChannel channel,
                                         std::span<std::byte> bytes) override {
    MpiLibrary::Handle request = nullptr;
    const int code = mpi_.irecv(bytes.data(),
                                static_cast<int>(bytes.size()),
                                mpi_.byte,
                                from,
                                static_cast<int>(channel),
                                comm_,
                                &request);
    return started("MPI_Irecv", code, {.handle = request, .received_bytes = bytes.size()});
  }
  [[nodiscard]] Result<bool> is_done(Transfer transfer) override {
    const auto found = requests_.find(transfer);
    MpiLibrary::Status status;
    int flag = 0;
    const int code = mpi_.test(&found->second.handle, &flag, &status);
    if (code != MpiLibrary::kSuccess) {
      return mpi_.error_of("MPI_Test", code);
    }
    if (flag == 0) {
      return false;
    }
    const std::optional<std::size_t> wanted = found->second.received_bytes;
    requests_.erase(found);
    if (wanted && status.byte_count != *wanted) {
      return Error{.code = ErrorCode::collective_failed,
                   .text = fmt::format("ProcessGroup: a message has {} bytes in place of {}: the "
                                       "processes must make the same calls",
                                       status.byte_count,
                                       *wanted),
                   .op = "ProcessGroup"};
    }
    return true;
  }
  void close(bool is_whole) override {
    int is_over = 0;
    if (is_whole && must_finalize_ && mpi_.finalized(&is_over) == MpiLibrary::kSuccess &&
        is_over == 0) {
      mpi_.finalize();
    }
  }

 private:
  struct Request {
    MpiLibrary::Handle handle = nullptr;
    std::optional<std::size_t> received_bytes = std::nullopt;  ///< The size that must come.
  };

  [[nodiscard]] Result<Transfer> started(const char* function, int code, Request request) {
    if (code != MpiLibrary::kSuccess) {
      return mpi_.error_of(function, code);
    }
    requests_.emplace(++last_, request);
    return last_;
  }

  const MpiLibrary mpi_;
  const MpiLibrary::Handle comm_;
  const int rank_;
  const int size_;
  const bool must_finalize_;
  Transfer last_ = 0;
  std::unordered_map<Transfer, Request> requests_;
};

Error refused_start(std::string text) {
  return {.code = ErrorCode::unsupported,
          .text = "ProcessGroup: " + std::move(text),
          .op = "ProcessGroup"};
}

}  // namespace

// OpenMPI treats every level below MPI_THREAD_MULTIPLE alike, so a program's own MPI_Init serves as
// well: it may make no call at the same time.
Result<std::unique_ptr<ProcessTransport>> open_mpi_transport(const std::string& library,
                                                             int size,
                                                             const std::string& launched) {
  HEARTH_TRY(const MpiLibrary mpi, MpiLibrary::find(library));
  int is_over = 0;
  int is_begun = 0;
  if (mpi.finalized(&is_over) != MpiLibrary::kSuccess ||
      mpi.initialized(&is_begun) != MpiLibrary::kSuccess || is_over != 0) {
    return refused_start("MPI_Finalize was called already: a process can use MPI only once");
  }
  if (is_begun == 0) {
    int provided = 0;
    const int code = mpi.init_thread(nullptr, nullptr, MpiLibrary::kThreadSerialized, &provided);
    if (code != MpiLibrary::kSuccess) {
      return mpi.error_of("MPI_Init_thread", code);
    }
    if (provided < MpiLibrary::kThreadSerialized) {
      return refused_start("OpenMPI was built without threads (MPI_THREAD_SERIALIZED)");
    }
  }
  int rank = 0;
  int found_size = 0;
  MpiLibrary::Handle comm = nullptr;
  int code = mpi.comm_rank(mpi.world, &rank);
  if (code == MpiLibrary::kSuccess) {
    code = mpi.comm_size(mpi.world, &found_size);
  }
  if (code == MpiLibrary::kSuccess && found_size != size) {
    return refused_start(fmt::format(
        "{}, but MPI finds {}: start the program with OpenMPI's mpirun, or with `srun --mpi=pmix`",
        launched,
        found_size));
  }
  if (code == MpiLibrary::kSuccess) {
    code = mpi.comm_dup(mpi.world, &comm);
  }
  if (code == MpiLibrary::kSuccess) {
    code = mpi.comm_set_errhandler(comm, mpi.errors_return);
  }
  if (code != MpiLibrary::kSuccess) {
    return mpi.error_of("MPI_Comm_dup", code);
  }
  return std::unique_ptr<ProcessTransport>(
      std::make_unique<MpiTransport>(mpi, comm, rank, size, is_begun == 0));
}

}  // namespace hearth::detail
