#include "physical_list.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/settings.hpp>

namespace hearth::vulkan {
namespace {

// "0 is NVIDIA H200, and 1 is llvmpipe".
std::string numbers_of(const std::vector<PhysicalDevice>& all) {
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string_view between = i == 0 ? "" : i + 1 == all.size() ? ", and " : ", ";
    out += fmt::format("{}{} is {}", between, i, all[i].name);
  }
  return out.empty() ? "are none" : out;
}

// Parses "0,0,2": indices into Vulkan's list.
Result<std::vector<PhysicalDevice>> chosen(const std::vector<PhysicalDevice>& all,
                                           const std::string& text) {
  std::vector<PhysicalDevice> devices;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::size_t number = 0;
    const auto [rest, code] = std::from_chars(text.data() + begin, text.data() + end, number);
    if (code != std::errc() || rest != text.data() + end || number >= all.size()) {
      return Error{
          .code = ErrorCode::invalid_argument,
          .text = fmt::format("HEARTH_VULKAN_DEVICES={}: expected numbers of Vulkan's devices "
                              "with commas between them; here {}",
                              text,
                              numbers_of(all))};
    }
    devices.push_back(all[number]);
    begin = end + 1;
  }
  return devices;
}

// Checks "VK_KHR_a,VK_EXT_b", the form that VulkanDevice reads.
Status check_names(std::string_view text) {
  std::string_view rest = text;
  for (bool has_more = true; has_more;) {
    const std::size_t end = rest.find(',');
    if (const std::string_view name = rest.substr(0, end);
        !name.starts_with("VK_") || name.find(' ') != std::string_view::npos) {
      return Error{.code = ErrorCode::invalid_argument,
                   .text = fmt::format("HEARTH_VULKAN_WITHOUT={}: expected names of extensions, "
                                       "VK_..., with commas and nothing else between them",
                                       text)};
    }
    has_more = end != std::string_view::npos;
    rest.remove_prefix(has_more ? end + 1 : 0);
  }
  return {};
}

}  // namespace

Result<PhysicalList> list_physical() {
  PhysicalList list;
  const hearth::detail::Settings settings = hearth::detail::Settings::from_environment();
  if (const auto& text = settings.text(hearth::detail::Setting::vulkan_without)) {
    HEARTH_TRY_STATUS(check_names(*text));
  }
  HEARTH_TRY(list.instance, VulkanInstance::open());
  list.devices = list.instance->devices();
  if (const auto& text = settings.text(hearth::detail::Setting::vulkan_devices)) {
    HEARTH_TRY(list.devices, chosen(list.devices, *text));
  }
  return list;
}

std::string describe(const PhysicalList& list) {
  std::string out;
  for (std::size_t i = 0; i < list.devices.size(); ++i) {
    const PhysicalDevice& device = list.devices[i];
    out += fmt::format("{}vulkan:{} is {}", i == 0 ? "" : ", ", i, device.name);
    if (!device.lack.empty()) {
      out += fmt::format(" ({})", device.lack);
    }
  }
  return out;
}

}  // namespace hearth::vulkan
