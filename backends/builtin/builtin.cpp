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
                                  .wait_limit = request.wait_limit,
                                  .allows_tf32 = request.allows_tf32});
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

#if defined(HEARTH_BACKEND_VULKAN) || defined(HEARTH_BACKEND_CUDA)
Error of_device(Error error, std::string_view device) {
  error.device = device;
  return error;
}
#endif

// Returns the entry that states the lack of CUDA; empty if there are cards.
#ifdef HEARTH_BACKEND_CUDA
Result<std::optional<BackendOffer>> add_cuda_offers(std::vector<BackendOffer>& offers,
                                                    const OfferQuery& query) {
  const auto devices = cuda::cuda_devices({.looks_for_products = query.loads_libraries});
  if (!devices.has_value()) {
    if (devices.error().code == ErrorCode::invalid_argument) {
      return of_device(devices.error(), "cuda:0");
    }
    return std::optional(
        BackendOffer{.name = "cuda:0", .description = {}, .lack = devices.error().text});
  }
  for (const cuda::CudaDeviceInfo& device : devices.value()) {
    offers.push_back({.name = fmt::format("cuda:{}", offers.size()),
                      .description = fmt::format("{}, {}", device.name, device.driver),
                      .is_gpu = true,
                      .lack = device.lack,
                      .card = device.uuid,
                      .note = device.note});
  }
  return std::optional<BackendOffer>();
}
#else
Result<std::optional<BackendOffer>> add_cuda_offers(std::vector<BackendOffer>& /*offers*/,
                                                    const OfferQuery& /*query*/) {
  return std::optional(BackendOffer{.name = "cuda:0",
                                    .description = {},
                                    .lack = "this build is without CUDA devices",
                                    .is_built = false});
}
#endif

#ifdef HEARTH_BACKEND_VULKAN
Status add_vulkan_offers(std::vector<BackendOffer>& offers) {
  const auto devices = vulkan::vulkan_devices();
  if (!devices.has_value()) {
    if (devices.error().code == ErrorCode::invalid_argument) {
      return of_device(devices.error(), "vulkan:0");
    }
    offers.push_back({.name = "vulkan:0", .description = {}, .lack = devices.error().text});
    return {};
  }
  const std::size_t cuda_count = offers.size();
  int number = 0;
  for (const vulkan::VulkanDeviceInfo& device : devices.value()) {
    BackendOffer& offer = offers.emplace_back();
    offer.name = fmt::format("vulkan:{}", number++);
    offer.description = fmt::format("{}, {}", device.name, device.driver);
    offer.is_gpu = !device.is_cpu;
    offer.lack = device.lack;
    offer.card = device.uuid;
    for (std::size_t i = 0; i < cuda_count && offer.same_card_as.empty(); ++i) {
      if (offers[i].lack.empty() && offers[i].card == offer.card) {
        offer.same_card_as = offers[i].name;
      }
    }
  }
  return {};
}
#else
Status add_vulkan_offers(std::vector<BackendOffer>& offers) {
  offers.push_back({.name = "vulkan:0",
                    .description = {},
                    .lack = "this build is without Vulkan devices",
                    .is_built = false});
  return {};
}
#endif

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

Result<std::vector<BackendOffer>> offered_gpus(const OfferQuery& query) {
  std::vector<BackendOffer> offers;
  HEARTH_TRY(const std::optional<BackendOffer> lack, add_cuda_offers(offers, query));
  HEARTH_TRY_STATUS(add_vulkan_offers(offers));
  if (lack) {
    offers.push_back(*lack);
  }
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
