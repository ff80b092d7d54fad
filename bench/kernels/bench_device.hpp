// A device of its own for measurements: a backend without an actor. Runs single calls and samples.
// Owned by a command. Threads: the one that opened it.
#pragma once

#include <hearth/autotune/sample.hpp>
#include <hearth/backends/backend.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth::bench {

class BenchDevice final {
 public:
  /// Opens "cpu:0", "vulkan:0", ... `cores`: of a cpu device; on one core kernels run on the
  /// calling thread, whose own time shows disturbances.
  ///
  /// Errors: those of make_backend(); invalid_argument for more cores than the process may use.
  [[nodiscard]] static Result<std::unique_ptr<BenchDevice>> open(const std::string& name,
                                                                 int cores);
  /// Takes a backend; tests pass their own.
  BenchDevice(std::unique_ptr<Backend> backend, detail::SampleSource source);
  BenchDevice(const BenchDevice&) = delete;
  BenchDevice& operator=(const BenchDevice&) = delete;
  ~BenchDevice();

  [[nodiscard]] Backend& backend() noexcept { return *backend_; }
  [[nodiscard]] detail::SampleSource source() const noexcept { return source_; }

  /// Runs one call to its end.
  ///
  /// Errors: those of the kernel; unsupported for a refused pick.
  [[nodiscard]] Status run(const KernelCall& call, detail::CandidateId pick);
  /// Runs `run_count` calls, the i-th of them call_of(i), and waits. GPUs measure by their own
  /// clock where they have one.
  ///
  /// Errors: as run().
  [[nodiscard]] Result<detail::Sample> sample(const std::function<KernelCall(std::size_t)>& call_of,
                                              detail::CandidateId pick,
                                              std::int32_t run_count,
                                              std::int64_t rotated_bytes);

  [[nodiscard]] Status upload(std::byte* to, std::span<const std::byte> from);
  [[nodiscard]] Status download(std::span<std::byte> to, const std::byte* from);

 private:
  [[nodiscard]] Status wait(TimelinePoint point);

  detail::Log log_{detail::LogOptions{}};
  std::unique_ptr<Backend> backend_;
  detail::SampleSource source_;
};

}  // namespace hearth::bench
