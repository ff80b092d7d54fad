#include <hearth/backends/builtin/builtin.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/backends/reference/reference_backend.hpp>
#include <hearth/backends/sim/async_sim.hpp>
#include <hearth/backends/sim/sim_backend.hpp>
#ifdef HEARTH_BACKEND_CUDA
#include <hearth/backends/cuda/cuda_backend.hpp>
#endif
#ifdef HEARTH_BACKEND_VULKAN
#include <hearth/backends/vulkan/vulkan_backend.hpp>
#endif

namespace hearth {
namespace {

using Made = Result<std::unique_ptr<Backend>>;

struct Row {
  std::string_view kind;
  Made (*make)(const BackendRequest& request, int number);
};

Made make_cpu(const BackendRequest& request, int /*number*/) {
  std::unique_ptr<Backend> backend = std::make_unique<cpu::CpuBackend>(
      cpu::CpuOptions{.name = request.name, .cores = request.cores, .serial = request.is_serial});
  return backend;
}

Made make_reference(const BackendRequest& request, int /*number*/) {
  std::unique_ptr<Backend> backend = std::make_unique<reference::ReferenceBackend>(
      reference::ReferenceOptions{.name = request.name});
  return backend;
}

std::unique_ptr<Backend> make_async_sim(const BackendRequest& request) {
  sim::AsyncSimOptions options{.name = request.name,
                               .computes = request.sim_computes,
                               .faults = request.faults,
                               .schedule = *request.sim_schedule};
  if (!request.sim_computes) {
    options.cost = nullptr;
  }
  return std::make_unique<sim::AsyncSim>(std::move(options));
}

Made make_sim(const BackendRequest& request, int /*number*/) {
  if (request.sim_schedule) {
    return make_async_sim(request);
  }
  sim::SimOptions options{
      .name = request.name, .computes = request.sim_computes, .faults = request.faults};
  if (!request.sim_computes) {
    options.cost = nullptr;  // a kernel without a cost takes no virtual time
  }
  std::unique_ptr<Backend> backend = std::make_unique<sim::SimBackend>(std::move(options));
  return backend;
}

#if !defined(HEARTH_BACKEND_VULKAN) || !defined(HEARTH_BACKEND_CUDA)
// `maker` is "Vulkan"; `option` is that of CMake.
Error not_built(const BackendRequest& request, std::string_view maker, std::string_view option) {
  return Error{.code = ErrorCode::not_found,
               .text = fmt::format("no device '{}': this build is without {} devices; configure it "
                                   "with {}=ON",
                                   request.name,
                                   maker,
                                   option),
               .device = request.name};
}
#endif

#ifdef HEARTH_BACKEND_VULKAN
Made make_vulkan(const BackendRequest& request, int number) {
  return vulkan::VulkanBackend::open({.name = request.name,
                                      .index = number,
                                      .executor = request.executor,
                                      .compiles_beside = request.compiles_beside,
                                      .log = request.log,
                                      .faults = request.faults,
                                      .staging = {.threads = request.copy_threads},
                                      .wait_limit = request.wait_limit,
                                      .allows_f16_sums = request.allows_f16_sums});
}
#else
Made make_vulkan(const BackendRequest& request, int /*number*/) {
  return not_built(request, "Vulkan", "HEARTH_BACKEND_VULKAN");
}
#endif

#ifdef HEARTH_BACKEND_CUDA
Made make_cuda(const BackendRequest& request, int number) {
  return cuda::CudaBackend::open({.name = request.name,
                                  .index = number,
                                  .executor = request.executor,
                                  .compiles_beside = request.compiles_beside,
                                  .log = request.log,
                                  .faults = request.faults,
                                  .staging = {.threads = request.copy_threads},
                                  .wait_limit = request.wait_limit});
}
#else
Made make_cuda(const BackendRequest& request, int /*number*/) {
  return not_built(request, "CUDA", "HEARTH_BACKEND_CUDA");
}
#endif

constexpr std::array kRows = {Row{"cpu", make_cpu},
                              Row{"vulkan", make_vulkan},
                              Row{"cuda", make_cuda},
                              Row{"reference", make_reference},
                              Row{"sim", make_sim}};

// Accepts digits without leading zeros: each device has exactly one name.
bool is_number(std::string_view text) {
  constexpr std::size_t kMostDigits = 9;
  return !text.empty() && text.size() <= kMostDigits && (text.size() == 1 || text.front() != '0') &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend(const BackendRequest& request) {
  const std::string_view name(request.name);
  const std::size_t colon = name.find(':');
  if (colon != std::string_view::npos && is_number(name.substr(colon + 1))) {
    for (const Row& row : kRows) {
      if (row.kind == name.substr(0, colon)) {
        return row.make(request, std::stoi(std::string(name.substr(colon + 1))));
      }
    }
  }
  return Error{
      .code = ErrorCode::not_found,
      .text = fmt::format(
          "no device '{}': this build has {}:N", name, fmt::join(backend_kinds(), ":N, "))};
}

Result<std::vector<BackendOffer>> offered_gpus() {
  std::vector<BackendOffer> offers;
#ifdef HEARTH_BACKEND_VULKAN
  const auto devices = vulkan::vulkan_devices();
  if (!devices.has_value()) {
    if (devices.error().code == ErrorCode::invalid_argument) {
      return devices.status();
    }
    offers.push_back({.name = "vulkan:0", .description = {}, .lack = devices.error().text});
    return offers;
  }
  for (const vulkan::VulkanDeviceInfo& device : devices.value()) {
    offers.push_back({.name = fmt::format("vulkan:{}", offers.size()),
                      .description = fmt::format("{}, {}", device.name, device.driver),
                      .is_gpu = !device.is_cpu,
                      .lack = device.lack});
  }
#else
  offers.push_back({.name = "vulkan:0",
                    .description = {},
                    .lack = "this build is without Vulkan devices",
                    .is_built = false});
#endif
  return offers;
}

std::vector<std::string_view> backend_kinds() {
  std::vector<std::string_view> kinds;
  for (const Row& row : kRows) {
    kinds.push_back(row.kind);
  }
  return kinds;
}

}  // namespace hearth
