#include <hearth/backends/builtin/builtin.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/backends/reference/reference_backend.hpp>
#include <hearth/backends/sim/async_sim.hpp>
#include <hearth/backends/sim/sim_backend.hpp>

namespace hearth {
namespace {

struct Row {
  std::string_view kind;
  std::unique_ptr<Backend> (*make)(const BackendRequest& request);
};

std::unique_ptr<Backend> make_cpu(const BackendRequest& request) {
  return std::make_unique<cpu::CpuBackend>(
      cpu::CpuOptions{.name = request.name, .cores = request.cores, .serial = request.is_serial});
}

std::unique_ptr<Backend> make_reference(const BackendRequest& request) {
  return std::make_unique<reference::ReferenceBackend>(
      reference::ReferenceOptions{.name = request.name});
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

std::unique_ptr<Backend> make_sim(const BackendRequest& request) {
  if (request.sim_schedule) {
    return make_async_sim(request);
  }
  sim::SimOptions options{
      .name = request.name, .computes = request.sim_computes, .faults = request.faults};
  if (!request.sim_computes) {
    options.cost = nullptr;  // kernels of no cost take no virtual time, and none to reckon it
  }
  return std::make_unique<sim::SimBackend>(std::move(options));
}

constexpr std::array kRows = {
    Row{"cpu", make_cpu}, Row{"reference", make_reference}, Row{"sim", make_sim}};

// As a program would write it: one name a device.
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
        return row.make(request);
      }
    }
  }
  return Error{
      .code = ErrorCode::not_found,
      .text = fmt::format(
          "no device '{}': this build has {}:N", name, fmt::join(backend_kinds(), ":N, "))};
}

std::vector<std::string_view> backend_kinds() {
  std::vector<std::string_view> kinds;
  for (const Row& row : kRows) {
    kinds.push_back(row.kind);
  }
  return kinds;
}

}  // namespace hearth
