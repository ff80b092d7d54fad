#include "conformance_suite.hpp"

#include <hearth/backends/cuda/cuda_backend.hpp>

#include <cstdlib>
#include <iostream>

namespace hearth::conformance {

// Runs on the host's driver, or on a card if HEARTH_CUDA_LIBRARY_PATH names the folder of NVRTC.
std::unique_ptr<Backend> make_backend() {
  const char* const folder = std::getenv("HEARTH_CUDA_LIBRARY_PATH");
  Result<std::unique_ptr<Backend>> backend =
      cuda::CudaBackend::open({.nvidia_folders = folder == nullptr ? HEARTH_HOST_CUDA : folder});
  if (!backend.has_value()) {
    std::cerr << backend.error().text << "\n";
    std::exit(1);
  }
  return std::move(backend).value();
}

}  // namespace hearth::conformance
