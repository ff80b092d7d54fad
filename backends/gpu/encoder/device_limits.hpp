// Properties of the device that kernels depend on. A value. Threads: any.
#pragma once

#include <cstdint>

namespace hearth::gpu {

/// Loop steps of one thread that every driver in software takes; kernels split their work to stay
/// below.
inline constexpr std::int64_t kSoftwareLoopSteps = 60000;

struct DeviceLimits {
  std::uint32_t subgroup_size = 32;
  std::int64_t shared_bytes = 32768;       ///< Shared memory of a workgroup.
  std::uint32_t most_group_threads = 256;  ///< Threads of a workgroup.
  /// Groups of a grid; along the second axis at least 65,535.
  std::uint32_t most_groups_x = 65535;
  bool is_cpu = false;              ///< A software driver: few threads, cheap loops.
  bool has_f64 = false;             ///< Doubles in shaders.
  bool has_f16_arithmetic = false;  ///< float16_t values in shaders.
  bool is_exact_f16 = false;        ///< f16 conversions round to nearest even and keep denormals.
  /// Sum of the float widths whose infinities, NaNs and signs of zero the driver can preserve.
  std::uint32_t special_widths = 0;
  bool has_cooperative_matrix = false;  ///< f16 to f32, 16x16x16.
  bool has_khr_matrices = false;  ///< The matrices are KHR's, so shaders are rewritten; else NV's.
  bool has_cooperative_bf16 = false;  ///< bfloat16 to f32 by KHR, 16x16x16.
  bool has_cooperative_i8 = false;    ///< i8 to i32 by KHR, 16x16x32.
  /// The texts' load_matrices(), multiply_f16() and multiply_bf16(): 16 x 8 x 16, by a warp.
  bool has_warp_products = false;
  bool sums_f16 = false;  ///< f16 products are summed in f16, as the program allows.
  /// Runs the kernels of matrix units without such units: see product.cpp.
  bool emulates_matrix_units = false;
  bool allows_tf32 = false;  ///< A library's f32 products round factors to TF32, as programs allow.
  bool takes_cuda = false;   ///< Kernels of programs are in CUDA C++; else in GLSL.
  bool has_product_library = false;  ///< KernelEncoder::product_by_library() may take products.
  std::uint32_t timestamp_bits = 0;  ///< Bits of the compute queue's timestamps; 0: none.
  double timestamp_ns = 1;           ///< Duration of a timestamp tick.
  int multiprocessors = 1;           ///< Approximate number of workgroups that run at a time.
  /// Elements of a normalised row that a thread keeps, before more threads share the row.
  std::int64_t row_elements = 32;
  /// The shortest part of a product's depth on tiles without matrix units: shorter parts cost more
  /// than they gain.
  std::int64_t least_part = 256;
  /// Multiplications above which a product's sizes become constants of its text: 4 to 33 % faster
  /// on an H200, at the cost of a shader for each size.
  double baked_from = 0x1p33;
  /// Multiplications above which a product copies operands whose lines do not begin at whole words.
  double copied_from = 0x1p27;
  bool interprets_always =
      false;           ///< For tests: pointwise kernels never get pipelines of their own.
  int only_tile = -1;  ///< For measurements: the number of the tile for all products.

  /// True if f16 conversions use the hardware's instructions. Drivers in software use the
  /// prelude's.
  [[nodiscard]] bool converts_f16() const noexcept {
    return has_f16_arithmetic && is_exact_f16 && !is_cpu;
  }
  /// True if one axis is long enough for any grid, so that shaders need no query of its length.
  [[nodiscard]] bool has_long_grids() const noexcept { return most_groups_x == 0x7fffffffU; }
};

}  // namespace hearth::gpu
