#include "listed_devices.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/settings.hpp>

namespace hearth::cuda {
namespace {

constexpr int kLeastArchitecture = 70;  // independent threads of a warp

std::string hex(const CUuuid& uuid) {
  std::string text;
  for (const char byte : uuid.bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

Error wrong(const DriverApi& api, std::string_view call, CUresult result) {
  return {.code = ErrorCode::not_found,
          .text = fmt::format("CUDA's {} gave {}", call, api.text_of(result))};
}

std::string lack_of(const ListedDevice& device, bool has_pages) {
  if (device.architecture < kLeastArchitecture) {
    return fmt::format("{} is of sm_{}; Hearth's kernels need a card of sm_{} or later",
                       device.name,
                       device.architecture,
                       kLeastArchitecture);
  }
  return has_pages ? ""
                   : fmt::format(
                         "{} has no virtual memory management, which memory of CUDA "
                         "devices needs: install a newer driver",
                         device.name);
}

Result<ListedDevice> described(const DriverApi& api, int number) {
  ListedDevice device;
  char name[256] = {};
  CUuuid uuid{};
  int major = 0;
  int minor = 0;
  int has_pages = 0;
  CUresult result = api.cuDeviceGet(&device.handle, number);
  result = result != kSuccess ? result : api.cuDeviceGetName(name, sizeof name - 1, device.handle);
  result = result != kSuccess ? result : api.cuDeviceGetUuid_v2(&uuid, device.handle);
  for (const auto& [which, to] :
       {std::pair(Attribute::compute_capability_major, &major),
        std::pair(Attribute::compute_capability_minor, &minor),
        std::pair(Attribute::virtual_memory_management_supported, &has_pages)}) {
    result = result != kSuccess
                 ? result
                 : api.cuDeviceGetAttribute(to, static_cast<int>(which), device.handle);
  }
  if (result != kSuccess) {
    return wrong(api, fmt::format("description of device {}", number), result);
  }
  device.name = name;
  device.uuid = hex(uuid);
  device.architecture = major * 10 + minor;
  device.lack = lack_of(device, has_pages != 0);
  return device;
}

// "0 is NVIDIA H200, and 1 is NVIDIA H200".
std::string numbers_of(const std::vector<ListedDevice>& all) {
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string_view between = i == 0 ? "" : i + 1 == all.size() ? ", and " : ", ";
    out += fmt::format("{}{} is {}", between, i, all[i].name);
  }
  return out.empty() ? "are none" : out;
}

// Parses "0,0,2": indices into the driver's list.
Result<std::vector<ListedDevice>> chosen(const std::vector<ListedDevice>& all,
                                         const std::string& text) {
  std::vector<ListedDevice> devices;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::size_t number = 0;
    const auto [rest, code] = std::from_chars(text.data() + begin, text.data() + end, number);
    if (code != std::errc() || rest != text.data() + end || number >= all.size()) {
      return Error{.code = ErrorCode::invalid_argument,
                   .text = fmt::format("HEARTH_CUDA_DEVICES={}: expected numbers of CUDA's devices "
                                       "with commas between them; here {}",
                                       text,
                                       numbers_of(all))};
    }
    devices.push_back(all[number]);
    begin = end + 1;
  }
  return devices;
}

}  // namespace

Result<std::vector<ListedDevice>> list_devices(const DriverApi& api) {
  int count = 0;
  if (const CUresult result = api.cuDeviceGetCount(&count); result != kSuccess) {
    return wrong(api, "cuDeviceGetCount", result);
  }
  std::vector<ListedDevice> devices;
  for (int i = 0; i < count; ++i) {
    HEARTH_TRY(ListedDevice device, described(api, i));
    devices.push_back(std::move(device));
  }
  using hearth::detail::Setting;
  const hearth::detail::Settings settings = hearth::detail::Settings::from_environment();
  const auto& numbers = settings.text(Setting::cuda_devices);
  return numbers ? chosen(devices, *numbers) : devices;
}

std::string describe(const std::vector<ListedDevice>& devices) {
  std::string out;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    out += fmt::format("{}cuda:{} is {}", i == 0 ? "" : ", ", i, devices[i].name);
  }
  return out.empty() ? "none" : out;
}

}  // namespace hearth::cuda
