#include "shared_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hearth::cuda {
namespace {

namespace fs = std::filesystem;

std::optional<SharedLibrary> opened(const std::string& file, int flags) {
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  return handle == nullptr ? std::nullopt : std::optional(SharedLibrary{handle, file});
}

std::vector<std::string> parts_of(const std::string& folders) {
  std::vector<std::string> parts;
  std::istringstream all(folders);
  for (std::string part; std::getline(all, part, ':');) {
    if (!part.empty()) {
      parts.push_back(part);
    }
  }
  return parts;
}

// Folders "lib/python3*/{site,dist}-packages/nvidia" below the usual prefixes.
std::vector<std::string> wheel_roots() {
  std::vector<std::string> roots;
  for (const char* const prefix : {"/usr/local", "/usr", "/opt/conda", "/opt/venv"}) {
    for (const char* const lib : {"lib", "lib64"}) {
      std::error_code failed;
      for (const fs::directory_entry& entry :
           fs::directory_iterator(fs::path(prefix) / lib, failed)) {
        if (!entry.path().filename().string().starts_with("python3")) {
          continue;
        }
        for (const char* const packages : {"site-packages", "dist-packages"}) {
          const fs::path root = entry.path() / packages / "nvidia";
          if (fs::is_directory(root, failed)) {
            roots.push_back(root.string());
          }
        }
      }
    }
  }
  std::ranges::sort(roots, std::greater<>());  // the newest Python first
  return roots;
}

std::vector<std::string> searched_folders(const LibrarySearch& search) {
  std::vector<std::string> folders;
  for (const std::string& root : wheel_roots()) {
    for (const char* const folder : search.wheel_folders) {
      folders.push_back(fmt::format("{}/{}", root, folder));
    }
  }
  std::error_code failed;
  std::vector<std::string> toolkits;
  for (const fs::directory_entry& entry : fs::directory_iterator("/usr/local", failed)) {
    if (entry.path().filename().string().starts_with("cuda")) {
      toolkits.push_back((entry.path() / "lib64").string());
    }
  }
  std::ranges::sort(toolkits, std::greater<>());
  folders.insert(folders.end(), toolkits.begin(), toolkits.end());
  return folders;
}

std::optional<SharedLibrary> first_in(const std::vector<std::string>& folders,
                                      std::span<const char* const> names) {
  for (const std::string& folder : folders) {
    for (const char* const name : names) {
      if (auto library = opened(fmt::format("{}/{}", folder, name), 0)) {
        return library;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

void* SharedLibrary::find(const char* function) const noexcept {
  return dlsym(handle, function);
}

Result<SharedLibrary> open_library(const LibrarySearch& search, const std::string& folder) {
  for (const char* const name : search.names) {
    if (auto library = opened(name, RTLD_NOLOAD)) {
      return *std::move(library);
    }
  }
  if (auto library = first_in(parts_of(folder), search.names)) {
    return *std::move(library);
  }
  for (const char* const name : search.names) {
    if (auto library = opened(name, 0)) {
      return *std::move(library);
    }
  }
  const std::vector<std::string> folders = searched_folders(search);
  if (auto library = first_in(folders, search.names)) {
    return *std::move(library);
  }
  return Error{
      .code = ErrorCode::not_found,
      .text = fmt::format("there is no {} on this machine: no {} {}{}on the loader's path{}{}; "
                          "{}{}HEARTH_CUDA_LIBRARY_PATH may name its folder",
                          search.title,
                          fmt::join(search.names, " or "),
                          folder.empty() ? "" : "in " + folder,
                          folder.empty() ? "" : ", ",
                          folders.empty() ? "" : " or in ",
                          fmt::join(folders, ", "),
                          search.remedy,
                          search.remedy.empty() ? "" : ", or ")};
}

// The loader knows a file by its inode, so a link to the same file would be the same library.
Result<SharedLibrary> copy_library(const void* address) {
  const auto failed = [](const std::string& why) {
    return Error{.code = ErrorCode::not_found, .text = "no copy of NVIDIA's library: " + why};
  };
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return failed("the loader does not know its file");
  }
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  std::string file = (folder / "hearth-XXXXXX").string();
  const int handle = error ? -1 : ::mkstemp(file.data());
  if (handle < 0) {
    return failed(fmt::format("no file can be made in {}", folder.string()));
  }
  ::close(handle);
  fs::copy_file(info.dli_fname, file, fs::copy_options::overwrite_existing, error);
  std::optional<SharedLibrary> library;
  if (!error) {
    library = opened(file, 0);
  }
  std::error_code ignored;
  fs::remove(file, ignored);
  if (!library) {
    return failed(error ? error.message() : fmt::format("{} does not load", file));
  }
  library->file = info.dli_fname;
  return *std::move(library);
}

}  // namespace hearth::cuda
