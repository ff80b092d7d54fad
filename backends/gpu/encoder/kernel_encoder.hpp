// Receives the dispatches of a kernel, with their parameters, for the open batch. The launch
// stream orders the launches of a batch. The kernel orders the dispatches of its launch, by
// barrier(). Threads: owner only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/result.hpp>

#include "device_limits.hpp"
#include "kernel_key.hpp"
#include "library_product.hpp"
#include "parameter_block.hpp"

namespace hearth::gpu {

/// Threads of a workgroup of a kernel that needs no other number.
inline constexpr int kGroupThreads = 256;

/// Number of workgroups along each axis.
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
  /// Adds a dispatch. Calls `text` only for an unknown key, and compiles the result. A grid without
  /// groups dispatches nothing.
  ///
  /// Errors: internal, if the text does not compile; kernel_failed, if the driver refuses it.
  [[nodiscard]] virtual Status dispatch(const KernelKey& key,
                                        KernelText text,
                                        const ParameterBlock& parameters,
                                        Grid grid) = 0;
  /// Adds a dispatch of a kernel that stands in for one in the making. Returns false, and adds
  /// nothing, if the kernel itself is not made yet, or cannot be made.
  [[nodiscard]] virtual Result<bool> dispatch_made(const KernelKey& key,
                                                   KernelText text,
                                                   const ParameterBlock& parameters,
                                                   Grid grid) {
    HEARTH_TRY_STATUS(dispatch(key, text, parameters, grid));
    return true;
  }
  /// dispatch(), but while other threads make the pipeline, `meanwhile(encoder)` may do the work
  /// instead; it returns whether it did.
  template <class Meanwhile>
  [[nodiscard]] Status dispatch_or(const KernelKey& key,
                                   KernelText text,
                                   const ParameterBlock& parameters,
                                   Grid grid,
                                   const Meanwhile& meanwhile) {
    if (!is_compiled_later(key, text)) {
      return dispatch(key, text, parameters, grid);
    }
    HEARTH_TRY(const bool is_done, meanwhile());
    return is_done ? Status() : dispatch(key, text, parameters, grid);
  }
  /// Begins to make the launch's first pipeline on another thread. Returns true while it is not
  /// made.
  [[nodiscard]] virtual bool is_compiled_later(const KernelKey& key, KernelText text) {
    static_cast<void>(key);
    static_cast<void>(text);
    return false;
  }
  /// The workspace, in bytes, of a product by the library of the device's maker. None: there is no
  /// library, or it does not take the product.
  [[nodiscard]] virtual std::optional<std::int64_t> product_workspace(
      const LibraryProduct& product) {
    static_cast<void>(product);
    return std::nullopt;
  }
  /// Adds such a product. `workspace`: the address of its bytes, a multiple of 256.
  ///
  /// Errors: those of the device.
  [[nodiscard]] virtual Status product_by_library(const LibraryProduct& product,
                                                  std::uint64_t workspace) {
    static_cast<void>(product);
    static_cast<void>(workspace);
    return Error{.code = ErrorCode::internal, .text = "there is no library of products"};
  }
  /// Makes the launch's writes so far visible to its later dispatches.
  virtual void barrier() = 0;
  /// Address of memory that belongs to the launch until its end; 64-aligned, not cleared. One piece
  /// a launch: a second call may return the same bytes.
  ///
  /// Errors: out_of_memory.
  [[nodiscard]] virtual Result<std::uint64_t> scratch(std::int64_t size_bytes) = 0;
  /// The cell where a kernel reports a failure (error_cells.hpp); 0: failures are not reported.
  [[nodiscard]] virtual std::uint64_t error_cell() const noexcept = 0;
  /// Address of the launch's guard word. If the word is not 0, the outputs have to keep the
  /// elements of the inputs that keeps() names. 0: the results always count.
  [[nodiscard]] virtual std::uint64_t guard() const noexcept = 0;
  [[nodiscard]] virtual std::span<const std::int8_t> keeps() const noexcept = 0;

  /// A grid of `groups` in total, for shaders that use GROUP. It may have more groups than that, so
  /// the shader checks.
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

}  // namespace hearth::gpu
