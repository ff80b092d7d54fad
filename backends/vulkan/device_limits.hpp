// What kernels need to know of the device that they will run on. A value. Threads: any.
#pragma once

#include <cstdint>

namespace hearth::vulkan {

struct DeviceLimits {
  std::uint32_t subgroup_size = 32;
  std::int64_t shared_bytes = 32768;       ///< Of a workgroup.
  std::uint32_t most_group_threads = 256;  ///< Of a workgroup.
  std::uint32_t most_groups_x = 65535;     ///< Of a grid; along the second axis at least 65,535.
  bool is_cpu = false;                     ///< A software driver: few threads, cheap loops.
  bool has_f64 = false;                    ///< Doubles in shaders.
  bool has_f16_arithmetic = false;         ///< float16_t values in shaders.
  bool is_exact_f16 = false;  ///< It can round them to nearest even, and keep the smallest.
  bool has_cooperative_matrix = false;  ///< f16 to f32, 16x16x16.
  bool has_khr_matrices = false;        ///< By KHR, so that shaders are rewritten; else by NV.
  bool has_cooperative_bf16 = false;    ///< The same by KHR, with bfloat16 factors.
  bool has_cooperative_i8 = false;      ///< By KHR, i8 to i32, 16x16x32.
  bool sums_f16 = false;  ///< Products of f16 are summed in f16 there: the program allows it.
  bool emulates_matrix_units = false;  ///< Runs their kernels without them: see product.cpp.
  std::uint32_t timestamp_bits = 0;    ///< Of the compute queue; 0: it has none.
  double timestamp_ns = 1;             ///< What one of their ticks is.
  int multiprocessors = 1;             ///< About how many workgroups run at a time.
  /// Multiplications from which on a product's sizes become part of its text: 4 to 33 % faster on
  /// an H200, and a shader for each size.
  double baked_from = 0x1p33;
  /// Multiplications from which on a product copies sides whose lines do not begin at whole words.
  double copied_from = 0x1p27;
  bool interprets_always =
      false;           ///< For tests: pointwise kernels never get pipelines of their own.
  int only_tile = -1;  ///< For measurements: the number of the tile that products take.

  /// Whether conversions of f16 are the hardware's; those of a driver in software are ours.
  [[nodiscard]] bool converts_f16() const noexcept {
    return has_f16_arithmetic && is_exact_f16 && !is_cpu;
  }
  /// Whether one axis is long enough for any grid, so that shaders need not ask how long it is.
  [[nodiscard]] bool has_long_grids() const noexcept { return most_groups_x == 0x7fffffffU; }
};

}  // namespace hearth::vulkan
