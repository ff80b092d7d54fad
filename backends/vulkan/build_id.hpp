// Which build of this library runs: what is kept on disk by names that its code gives is good for
// that build alone. Threads: any.
#pragma once

#include <cstdint>

namespace hearth::vulkan {

/// A hash of the linker's build id (the note NT_GNU_BUILD_ID) of the program or shared library that
/// this code lies in; 0 where it has none.
[[nodiscard]] std::uint64_t build_id();

}  // namespace hearth::vulkan
