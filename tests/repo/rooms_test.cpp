// Rooms are the folders of a floor that its README lists. A room includes only rooms listed above
// it, and no folder has too many sources.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "source_tree.hpp"

namespace hearth::repo {
namespace {

constexpr std::size_t kMaxFiles = 45;

// The exception: runtime's own folder has its public headers.
const std::set<std::string, std::less<>> kLargeFolders{"runtime"};

class Rooms : public ::testing::Test {
 protected:
  const std::vector<SourceFile> tree = load_source_tree();

  // The rooms of each floor with a list, in the order of its README.
  [[nodiscard]] std::map<std::string, std::vector<std::string>> rooms_of_floors() const {
    const std::regex row(R"(\| \[`([a-z_0-9]+)`\]\(\1/README\.md\) \|.*)");
    std::map<std::string, std::vector<std::string>> rooms;
    for (const SourceFile& file : tree) {
      if (file.name() != "README.md") {
        continue;
      }
      for (const std::string& line : file.lines) {
        std::smatch match;
        if (std::regex_match(line, match, row)) {
          rooms[file.folder()].push_back(match[1]);
        }
      }
    }
    return rooms;
  }

  // The folder of <hearth/folder/file.hpp>, or of the includer's "path/file.hpp"; empty outside the
  // tree.
  [[nodiscard]] std::string folder_of_included(const SourceFile& includer,
                                               const std::string& line) const {
    constexpr std::string_view kPublic = "<hearth/";
    std::string_view path = included_path(line);
    if (path.empty()) {
      return {};
    }
    const bool is_public = path.starts_with(kPublic);
    path.remove_prefix(is_public ? kPublic.size() : 1);
    std::string wanted(path);
    if (wanted.find('/') == std::string::npos) {
      wanted = includer.folder() + "/" + wanted;
    }
    const std::size_t slash = wanted.rfind('/');
    const std::string floor = wanted.substr(0, slash);
    const std::string name = wanted.substr(slash + 1);
    for (const SourceFile& file : tree) {
      const std::string folder = file.folder();
      const bool is_room_of_floor = is_public && folder.starts_with(floor + "/") &&
                                    folder.find('/', floor.size() + 1) == std::string::npos;
      if (file.name() == name && (folder == floor || is_room_of_floor)) {
        return folder;
      }
    }
    return {};
  }
};

TEST_F(Rooms, IncludeRoomsAboveThemOnly) {
  std::size_t include_count = 0;
  for (const auto& [floor, rooms] : rooms_of_floors()) {
    std::map<std::string, std::size_t> places;
    for (const std::string& room : rooms) {
      EXPECT_TRUE(places.emplace(floor + "/" + room, places.size()).second)
          << floor << ": " << room;
    }
    for (const SourceFile& file : tree) {
      const auto own = places.find(file.folder());
      if (!file.is_cpp() || !is_library(file) || own == places.end()) {
        continue;
      }
      for (const std::string& line : file.code) {
        const std::string folder = folder_of_included(file, line);
        EXPECT_NE(folder, floor) << file.path << " includes what stands above its room: " << line;
        const auto other = places.find(folder);
        if (other != places.end()) {
          ++include_count;
          EXPECT_LE(other->second, own->second) << file.path << ": " << line;
        }
      }
    }
  }
  EXPECT_GT(include_count, 500U);
}

TEST_F(Rooms, StandInTheReadmeOfTheirFloor) {
  const auto rooms = rooms_of_floors();
  std::set<std::string> folders;
  for (const SourceFile& file : tree) {
    if (file.is_cpp() && is_library(file)) {
      folders.insert(file.folder());
    }
  }
  for (const auto& [floor, listed] : rooms) {
    for (const std::string& room : listed) {
      EXPECT_TRUE(folders.contains(floor + "/" + room)) << floor << " lists " << room;
    }
    for (const std::string& folder : folders) {
      if (folder.starts_with(floor + "/") &&
          folder.find('/', floor.size() + 1) == std::string::npos) {
        EXPECT_TRUE(std::ranges::find(listed, folder.substr(floor.size() + 1)) != listed.end())
            << floor << "/README.md does not list " << folder;
      }
    }
  }
}

TEST_F(Rooms, HaveASizeThatOneCanRead) {
  std::map<std::string, std::size_t> counts;
  for (const SourceFile& file : tree) {
    if (file.is_cpp() && is_library(file)) {
      ++counts[file.folder()];
    }
  }
  for (const auto& [folder, count] : counts) {
    if (kLargeFolders.contains(folder)) {
      EXPECT_GT(count, kMaxFiles) << folder << " is no exception any more";
    } else {
      EXPECT_LE(count, kMaxFiles) << folder;
    }
  }
}

// What an identifier or a path of Vulkan looks like: VkBuffer, vkCmdDispatch, VK_SUCCESS,
// VulkanDevice, vulkan::Buffer, <vulkan/vulkan_core.h>, "backends/vulkan/...". `code` has no
// comments and no literals, but the paths of its includes.
bool names_vulkan(const std::string& code) {
  static const std::regex vulkan(R"(\b(Vk|vk|Vulkan)[A-Z]|\bVK_|\bvulkan\b|\bvulkan_)");
  return std::regex_search(code, vulkan);
}

TEST_F(Rooms, OfGpusNameNoVulkan) {
  std::size_t gpu_lines = 0;
  std::size_t vulkan_lines = 0;
  for (const SourceFile& file : tree) {
    const bool is_gpu = file.is_in("backends/gpu");
    for (const std::string& line : file.code) {
      const bool is_named = names_vulkan(line);
      EXPECT_FALSE(is_gpu && is_named) << file.path << ": " << line;
      gpu_lines += is_gpu ? 1U : 0U;
      vulkan_lines += file.is_in("backends/vulkan") && is_named ? 1U : 0U;
    }
  }
  EXPECT_GT(gpu_lines, 10000U);   // the test looks at the folder
  EXPECT_GT(vulkan_lines, 500U);  // and finds what it looks for
}

TEST_F(Rooms, NamesOfVulkanAreRecognised) {
  for (const char* const code : {"VkBuffer buffer;",
                                 "vkCmdDispatch(commands, 1, 1, 1);",
                                 "return VK_ERROR_DEVICE_LOST;",
                                 "const VulkanDevice& device",
                                 "namespace hearth::vulkan {",
                                 "vulkan::Buffer words_;",
                                 "#include <vulkan/vulkan_core.h>",
                                 "#include \"vulkan_device.hpp\"",
                                 "#include \"backends/vulkan/device/vulkan_device.hpp\""}) {
    EXPECT_TRUE(names_vulkan(code)) << code;
  }
  for (const char* const code :
       {"DeviceBytes words_;", "make_vk(2)", "Revk x;", "not_vulkan_ = 1"}) {
    EXPECT_FALSE(names_vulkan(code)) << code;
  }
}

}  // namespace
}  // namespace hearth::repo
