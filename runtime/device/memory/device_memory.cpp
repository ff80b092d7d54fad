#include "device_memory.hpp"

#include <utility>

namespace hearth {

// The strategy takes pages from the backend, and the backend takes scratch from the strategy. So
// the backend is created first and gets its scratch last.
DeviceMemory::DeviceMemory(std::unique_ptr<Backend> with, const DeviceActorOptions& options)
    : backend(std::move(with)),
      strategy(options.make_memory ? options.make_memory(backend->pages(), options.budget_bytes)
                                   : make_memory_strategy(
                                         options.pooling, backend->pages(), options.budget_bytes)) {
  if (!strategy) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "DeviceOptions: make_memory gave no strategy",
                      .device = backend->info().name});
  }
  scratch = std::make_unique<DeviceScratch>(*strategy);
  backend->use_scratch(*scratch);
}

DeviceMemory::~DeviceMemory() {
  backend->drain();
}

}  // namespace hearth
