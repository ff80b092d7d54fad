// Identifies the build of this library. Files on disk whose names come from its code are valid for
// that build alone. Threads: any.
#pragma once

#include <cstdint>

namespace hearth::gpu {

/// A hash of the linker's build id (the note NT_GNU_BUILD_ID) of the program or shared library that
/// contains this code; 0 if there is none.
[[nodiscard]] std::uint64_t build_id();

}  // namespace hearth::gpu
