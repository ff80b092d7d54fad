// The limits of a large GPU, an H100: for generating its kernels' texts on a machine without one.
#pragma once

#include "backends/gpu/encoder/device_limits.hpp"

namespace hearth::gpu {

inline constexpr DeviceLimits kLargeGpu{.subgroup_size = 32,
                                        .shared_bytes = 49152,
                                        .most_group_threads = 1024,
                                        .most_groups_x = 2147483647,
                                        .has_f64 = true,
                                        .has_f16_arithmetic = true,
                                        .has_cooperative_matrix = true,
                                        .has_khr_matrices = true,
                                        .has_cooperative_bf16 = true,
                                        .has_cooperative_i8 = true,
                                        .multiprocessors = 132};

}  // namespace hearth::gpu
