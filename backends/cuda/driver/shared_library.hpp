// A library of NVIDIA's, found at run time. Lifetime: it stays loaded until the process ends,
// because drivers leave threads and exit handlers whose code must stay. A value. Threads: any.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth::cuda {

struct SharedLibrary {
  void* handle = nullptr;
  std::string file;  ///< The name or path by which it was found.

  /// The function's address; null if the library lacks it.
  [[nodiscard]] void* find(const char* function) const noexcept;
};

/// Places of a library.
struct LibrarySearch {
  std::string_view title;              ///< "NVRTC, which compiles kernels"
  std::span<const char* const> names;  ///< Names of its file, the newest first.
  /// Folders below a Python installation's site-packages/nvidia.
  std::span<const char* const> wheel_folders;
  std::string_view remedy;  ///< "install NVIDIA's driver"
};

/// Opens a library: the copy in this process, or else the first one that it finds. It looks into
/// `folder`, the loader's path, NVIDIA's wheels for Python, then the toolkit's folder. `folder` may
/// be empty, or several with colons between them.
/// Errors: not_found, with the places where it was looked for.
[[nodiscard]] Result<SharedLibrary> open_library(const LibrarySearch& search,
                                                 const std::string& folder);

/// Loads a copy of the library that has this address, with variables of its own. The copy's file is
/// deleted once it is loaded.
/// Errors: not_found, if the file cannot be copied, or the copy does not load.
[[nodiscard]] Result<SharedLibrary> copy_library(const void* address);

}  // namespace hearth::cuda
