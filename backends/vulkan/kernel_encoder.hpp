// What a kernel of this backend writes to: dispatches of shaders with their parameters, into the
// batch that is open. Order between the launches of a batch is the command stream's business; order
// between the dispatches of one launch is the kernel's: barrier().
// Threads: owner only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/result.hpp>

#include "device_limits.hpp"
#include "parameter_block.hpp"
#include "shader_key.hpp"

namespace hearth::vulkan {

/// How many workgroups along each axis.
struct Grid {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
};

class KernelEncoder {
 public:
  KernelEncoder() = default;
  KernelEncoder(const KernelEncoder&) = delete;
  KernelEncoder& operator=(const KernelEncoder&) = delete;
  virtual ~KernelEncoder() = default;

  [[nodiscard]] virtual const DeviceLimits& limits() const noexcept = 0;
  /// Adds a dispatch. `text` is made for a key that is not known yet, and compiled. A grid without
  /// groups dispatches nothing.
  ///
  /// Errors: internal, a text that does not compile; kernel_failed, what the driver refuses.
  [[nodiscard]] virtual Status dispatch(const ShaderKey& key,
                                        ShaderText text,
                                        const ParameterBlock& parameters,
                                        Grid grid) = 0;
  /// The same by a kernel that stands in for one that is being made: false, and nothing is added,
  /// where it is itself not made yet, or cannot be made.
  [[nodiscard]] virtual Result<bool> dispatch_made(const ShaderKey& key,
                                                   ShaderText text,
                                                   const ParameterBlock& parameters,
                                                   Grid grid) {
    HEARTH_TRY_STATUS(dispatch(key, text, parameters, grid));
    return true;
  }
  /// dispatch(), but where the pipeline is being made by others, `meanwhile(encoder)` may do the
  /// work in its place: whether it has.
  template <class Meanwhile>
  [[nodiscard]] Status dispatch_or(const ShaderKey& key,
                                   ShaderText text,
                                   const ParameterBlock& parameters,
                                   Grid grid,
                                   const Meanwhile& meanwhile) {
    if (!is_made_later(key, text)) {
      return dispatch(key, text, parameters, grid);
    }
    HEARTH_TRY(const bool is_done, meanwhile());
    return is_done ? Status() : dispatch(key, text, parameters, grid);
  }
  /// Whether another thread is making, from now on or already, what this launch begins with.
  [[nodiscard]] virtual bool is_made_later(const ShaderKey& key, ShaderText text) {
    static_cast<void>(key);
    static_cast<void>(text);
    return false;
  }
  /// What this launch dispatches from here on sees what it has written so far.
  virtual void barrier() = 0;
  /// The address of memory that is this launch's until it ends; 64-aligned, not cleared. One piece
  /// a launch: a second call may give the same bytes.
  ///
  /// Errors: out_of_memory.
  [[nodiscard]] virtual Result<std::uint64_t> scratch(std::int64_t size_bytes) = 0;
  /// Where a kernel that may fail says so (error_cells.hpp); 0 where nobody asks.
  [[nodiscard]] virtual std::uint64_t error_cell() const noexcept = 0;
  /// The address of a word that says whether the launch's results count: not 0 when the outputs
  /// have to keep the elements of the inputs that keeps() names. 0: they count anyway.
  [[nodiscard]] virtual std::uint64_t guard() const noexcept = 0;
  [[nodiscard]] virtual std::span<const std::int8_t> keeps() const noexcept = 0;

  /// A grid of so many groups in all, for shaders that ask for GROUP; some at its end may be too
  /// many, so the shader checks.
  [[nodiscard]] Grid linear(std::int64_t groups) const noexcept {
    const std::int64_t most = limits().most_groups_x;
    if (groups <= most) {
      return {static_cast<std::uint32_t>(groups), 1, 1};
    }
    const std::int64_t rows = (groups + most - 1) / most;
    if (limits().has_long_grids()) {
      return {limits().most_groups_x, static_cast<std::uint32_t>(rows), 1};
    }
    return {static_cast<std::uint32_t>((groups + rows - 1) / rows),
            static_cast<std::uint32_t>(rows),
            1};
  }
};

}  // namespace hearth::vulkan
