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

/// Where a library may be: its name in a sentence, names of its file from the newest on, and
/// folders below a Python installation's site-packages/nvidia.
struct LibrarySearch {
  std::string_view title;  ///< "NVRTC, which compiles kernels"
  std::span<const char* const> names;
  std::span<const char* const> wheel_folders;
};

/// Opens a library: the copy in this process, or else the first in `folder`, on the loader's path,
/// in the Python wheels of NVIDIA, in the toolkit's folder. `folder`: that of
/// HEARTH_CUDA_LIBRARY_PATH, several with colons between them; may be empty.
/// Errors: not_found, with the places where it was looked for.
[[nodiscard]] Result<SharedLibrary> open_library(const LibrarySearch& search,
                                                 const std::string& folder);

}  // namespace hearth::cuda
