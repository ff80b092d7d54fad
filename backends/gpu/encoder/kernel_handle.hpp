// A loaded kernel, as the word by which its driver knows it: a pipeline, a function. A value.
// Threads: any.
#pragma once

#include <cstdint>

namespace hearth::gpu {

enum class KernelHandle : std::uint64_t { none = 0 };

}  // namespace hearth::gpu
