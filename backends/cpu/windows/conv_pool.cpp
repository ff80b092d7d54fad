#include "conv_pool.hpp"

#include "backends/cpu/products/epilogue_rows.hpp"
#include "backends/cpu/products/gemm.hpp"
#include "conv.hpp"
#include "pool_loops.hpp"
#include "pool_windows.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <algorithm>

namespace hearth::cpu {

namespace {

/// Returns the unit of rows at whose multiples planes may be cut, because no window crosses them;
/// 0: none.
std::int64_t row_unit(const PoolAttributes& pool) {
  return pool.padding[0] == 0 && pool.kernel[0] <= pool.stride[0] ? pool.stride[0] : 0;
}

template <class T>
class ConvPool {
 public:
  ConvPool(const KernelCall& call, const KernelContext& context)
      : call_(call),
        producer_(*call.prologue->call),
        dtype_(producer_.inputs[0].dtype),
        pool_(call.op.attributes<PoolAttributes>()),
        sizes_(sizes_of(call.inputs[0].shape(), call.outputs[0].shape())),
        kernels_(tile_kernels<T>(context.isa)),
        loops_(pool_loops(context.isa)) {}

  Status run(KernelContext& context) {
    HEARTH_TRY_STATUS(before_.start(producer_, context));
    HEARTH_TRY_STATUS(behind_.start(call_, context));
    const TensorView y{nullptr, producer_.outputs[0].layout, dtype_};
    return run_convolution(producer_,
                           y,
                           nullptr,
                           {.take = &take,
                            .context = this,
                            .row_unit = row_unit(pool_),
                            .memory_bytes = &memory_bytes},
                           context);
  }

 private:
  // Layout of a block's memory: rows as the convolution rounds them | windows | windows as stored.
  struct Room {
    std::int64_t windows_at = 0;
    std::int64_t stored_at = 0;
    std::int64_t bytes = 0;
  };

  [[nodiscard]] bool is_direct() const { return dtype_ == dtype_of<T>; }

  [[nodiscard]] Room room_of(std::int64_t planes, std::int64_t rows) const {
    const std::int64_t windows = planes * windows_in(rows) * sizes_.columns;
    const std::int64_t size = size_bytes(dtype_);
    Room room;
    room.windows_at = is_direct() ? 0 : whole_lines(planes * rows * sizes_.width * size);
    room.stored_at = room.windows_at + whole_lines(windows * static_cast<std::int64_t>(sizeof(T)));
    room.bytes = room.stored_at + (is_direct() ? 0 : whole_lines(windows * size));
    return room;
  }
  static std::int64_t memory_bytes(const void* context, std::int64_t planes, std::int64_t rows) {
    return static_cast<const ConvPool*>(context)->room_of(planes, rows).bytes;
  }
  // Number of window rows that begin in `rows` rows, counted from a multiple of the unit, or in the
  // whole plane.
  [[nodiscard]] std::int64_t windows_in(std::int64_t rows) const {
    return rows == sizes_.height
               ? sizes_.rows
               : std::min(sizes_.rows, (rows + pool_.stride[0] - 1) / pool_.stride[0]);
  }

  static void take(const void* context, const PlaneSink::Block& block, std::byte* memory) {
    static_cast<const ConvPool*>(context)->pool(block, memory);
  }

  // Phases: round rows as the separate calls would store them; compute the windows; store them.
  void pool(const PlaneSink::Block& block, std::byte* memory) const {
    const std::int64_t count = block.planes * block.rows * sizes_.width;
    T* const x = reinterpret_cast<T*>(block.made);
    if (is_direct()) {
      finish(block, block.made);
    } else {
      kernels_.store(x, memory, dtype_, count);
      finish(block, memory);
      kernels_.load(memory, dtype_, x, count);
    }
    const bool is_whole = block.rows == sizes_.height;
    const std::int64_t first = is_whole ? 0 : block.first_row / pool_.stride[0];
    const std::int64_t rows = std::min(windows_in(block.rows), sizes_.rows - first);
    if (rows <= 0) {
      return;
    }
    const Room room = room_of(block.planes, block.rows);
    const std::int64_t windows = rows * sizes_.columns;
    const std::int64_t place = block.first_plane * sizes_.window_count() + first * sizes_.columns;
    std::byte* const to = call_.outputs[0].data + place * size_bytes(dtype_);
    if (is_direct() && !behind_.is_there()) {
      make_windows(block, rows, x, reinterpret_cast<T*>(to), sizes_.window_count());
      return;
    }
    T* const y = reinterpret_cast<T*>(memory + room.windows_at);
    make_windows(block, rows, x, y, windows);
    store(block.planes, windows, place, y, memory + room.stored_at);
  }

  // Applies the convolution's epilogue in place. Parts of planes run in one go only if the epilogue
  // reads no other operand.
  void finish(const PlaneSink::Block& block, std::byte* made) const {
    if (!before_.is_there()) {
      return;
    }
    EpilogueRows::Part part(before_);
    const std::int64_t count = block.rows * sizes_.width;
    if (block.rows == sizes_.height || producer_.epilogue->inputs.empty()) {
      const std::int64_t begin =
          block.rows == sizes_.height ? block.first_plane * sizes_.plane() : 0;
      part.run(made, made, begin, begin + block.planes * count);
      return;
    }
    for (std::int64_t plane = 0; plane < block.planes; ++plane) {
      const std::int64_t begin =
          (block.first_plane + plane) * sizes_.plane() + block.first_row * sizes_.width;
      part.run(made, made, begin, begin + count);
      made += count * size_bytes(dtype_);
    }
  }

  // Computes the windows of each plane, `step` elements apart.
  void make_windows(
      const PlaneSink::Block& block, std::int64_t rows, const T* x, T* y, std::int64_t step) const {
    PoolSizes sizes = sizes_;
    sizes.height = block.rows;
    sizes.rows = rows;
    const bool is_max = call_.op.kind() == OpKind::max_pool2d;
    if constexpr (sizeof(T) == sizeof(float)) {
      if (is_max && is_pairs(pool_)) {
        // Planes without gaps are processed as one.
        const bool is_one = sizes.height == 2 * rows && step == sizes.window_count();
        const std::int64_t planes = is_one ? 1 : block.planes;
        for (std::int64_t plane = 0; plane < planes; ++plane) {
          loops_.max_pairs({.width = sizes.width, .columns = sizes.columns},
                           is_one ? rows * block.planes : rows,
                           x + plane * sizes.plane(),
                           y + plane * step,
                           nullptr);
        }
        return;
      }
    }
    for (std::int64_t plane = 0; plane < block.planes; ++plane) {
      if (is_max) {
        max_windows(sizes, pool_, x, y, nullptr);
      } else {
        mean_windows(sizes, pool_, x, y);
      }
      x += sizes.plane();
      y += step;
    }
  }

  // Stores the windows of some planes, `count` of each: directly, or through the pool's epilogue.
  void store(std::int64_t planes,
             std::int64_t count,
             std::int64_t place,
             const T* y,
             std::byte* stored) const {
    const std::byte* from = reinterpret_cast<const std::byte*>(y);
    const std::int64_t size = size_bytes(dtype_);
    if (!is_direct() && behind_.is_there()) {
      kernels_.store(y, stored, dtype_, planes * count);
      from = stored;
    }
    if (count == sizes_.window_count()) {  // contiguous
      count *= planes;
      planes = 1;
    }
    if (!behind_.is_there()) {
      for (std::int64_t plane = 0; plane < planes; ++plane) {
        kernels_.store(y + plane * count,
                       call_.outputs[0].data + (place + plane * sizes_.window_count()) * size,
                       dtype_,
                       count);
      }
      return;
    }
    EpilogueRows::Part part(behind_);
    for (std::int64_t plane = 0; plane < planes; ++plane) {
      const std::int64_t begin = place + plane * sizes_.window_count();
      part.run(from + plane * count * size, begin, begin + count);
    }
  }

  const KernelCall& call_;
  const KernelCall& producer_;
  DType dtype_;
  PoolAttributes pool_;
  PoolSizes sizes_;
  const TileKernels<T>& kernels_;
  const PoolLoops& loops_;
  EpilogueRows before_;  ///< Epilogue of the convolution.
  EpilogueRows behind_;  ///< Epilogue of the pool.
};

}  // namespace

Support supports_conv_pool(const KernelCall& call, const KernelContext& context) {
  const KernelCall& producer = *call.prologue->call;
  if (call.op.record().output_count != 1) {
    return {.yes = false, .reason = "a pool with positions reads its input from memory"};
  }
  if (producer.outputs[0].shape() != call.inputs[0].shape() ||
      producer.inputs[0].dtype != producer.outputs[0].dtype) {
    return {.yes = false, .reason = "a pool takes a convolution's planes as they are"};
  }
  if (row_unit(call.op.attributes<PoolAttributes>()) == 0 &&
      !plane_cut(producer).is_whole(context.arena.core_count())) {
    return {.yes = false,
            .reason = "windows share rows, and planes are too large or too few to stay whole"};
  }
  return {};
}

Status run_conv_pool(const KernelCall& call, KernelContext& context) {
  return call.inputs[0].dtype == DType::f64 ? ConvPool<double>(call, context).run(context)
                                            : ConvPool<float>(call, context).run(context);
}

}  // namespace hearth::cpu
