#include "conformance_suite.hpp"

#include <hearth/backends/cuda/cuda_backend.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <cstdlib>
#include <iostream>

namespace hearth::conformance {

// Runs on the host's driver, or on a card if HEARTH_CUDA_LIBRARY_PATH names the folder of NVRTC.
std::unique_ptr<Backend> make_backend() {
  const char* const folder = std::getenv("HEARTH_CUDA_LIBRARY_PATH");
  static auto* const executor = new ThreadExecutor();  // outlives every backend
  Result<std::unique_ptr<Backend>> backend = cuda::CudaBackend::open(
      {.nvidia_folders = folder == nullptr ? HEARTH_HOST_CUDA : folder, .executor = executor});
  if (!backend.has_value()) {
    std::cerr << backend.error().text << "\n";
    std::exit(1);
  }
  return std::move(backend).value();
}

Target make_target(Backend& backend) {
  return precompiling_target_of(backend);
}

}  // namespace hearth::conformance
