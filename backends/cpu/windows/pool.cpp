#include "backends/cpu/fused/prologue_rows.hpp"
#include "backends/cpu/products/epilogue_rows.hpp"
#include "backends/cpu/products/gemm.hpp"
#include "conv_planes.hpp"
#include "conv_pool.hpp"
#include "pool_loops.hpp"
#include "pool_windows.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace hearth::cpu {

namespace {

// Elements of one part: about 40 µs.
constexpr std::int64_t kPartElements = 1 << 16;
// Enough work to share with an awake thread: about 2 µs.
constexpr std::int64_t kSharedElements = 1 << 13;
// Inputs of at least this size are computed plane by plane: bench BM_Prologue_Pool.
constexpr std::int64_t kMadeBytes = std::int64_t{8} << 20;
constexpr std::int64_t kNoPosition = std::numeric_limits<std::int64_t>::max();

// Returns the first position outside the plane, or kNoPosition.
template <class T>
std::int64_t spread_max(const PoolSizes& sizes,
                        const T* grad,
                        const std::int32_t* positions,
                        T* dx) {
  std::fill_n(dx, sizes.plane(), T{});
  for (std::int64_t i = 0; i < sizes.window_count(); ++i) {
    const std::int64_t place = positions[i];
    if (place < 0 || place >= sizes.plane()) {
      return place;
    }
    dx[place] += grad[i];
  }
  return kNoPosition;
}

template <class T>
void spread_mean(const PoolSizes& sizes, const PoolAttributes& pool, const T* grad, T* dx) {
  std::fill_n(dx, sizes.plane(), T{});
  for (std::int64_t i = 0; i < sizes.rows; ++i) {
    const PoolWindow rows(i, sizes.height, pool, 0);
    for (std::int64_t j = 0; j < sizes.columns; ++j) {
      const PoolWindow columns(j, sizes.width, pool, 1);
      const T share = *grad++ / window_size<T>(rows, columns, pool);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        for (std::int64_t column = columns.begin; column < columns.end; ++column) {
          dx[row * sizes.width + column] += share;
        }
      }
    }
  }
}

// Runs plane by plane: loads each plane contiguously as T and stores its result, for any layout and
// dtype of the tensors.
template <class T>
class Pooling {
 public:
  Pooling(const KernelCall& call, const KernelContext& context)
      : call_(call),
        pool_(call.op.attributes<PoolAttributes>()),
        kernels_(tile_kernels<T>(context.isa)),
        loops_(pool_loops(context.isa)) {
    const bool forward =
        call.op.kind() == OpKind::max_pool2d || call.op.kind() == OpKind::avg_pool2d;
    sizes_ = sizes_of(forward ? call.inputs[0].shape() : call.outputs[0].shape(),
                      forward ? call.outputs[0].shape() : call.inputs[0].shape());
    const std::int64_t elements = sizes_.plane() + sizes_.window_count();
    const std::int64_t wanted = sizes_.planes * elements / kPartElements;
    if (forward && wanted <= 1 && sizes_.planes * elements >= kSharedElements) {
      awake_threads_ = context.arena.awake_threads();
    }
    parts_ = std::clamp<std::int64_t>(
        std::max<std::int64_t>(wanted, awake_threads_), 1, std::min(kMaxParts, sizes_.planes));
    // Each part: first bad position | a plane | its windows | positions | planes of results for the
    // epilogue | planes of the input, computed by the prologue.
    constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(T));
    plane_at_ = 64;
    windows_at_ = plane_at_ + whole_lines(sizes_.plane() * kElementBytes);
    positions_at_ = windows_at_ + whole_lines(sizes_.window_count() * kElementBytes);
    piece_at_ =
        positions_at_ + whole_lines(sizes_.window_count() * std::int64_t{sizeof(std::int32_t)});
    part_bytes_ = piece_at_;
    if (call.epilogue != nullptr) {
      const std::int64_t plane_bytes = sizes_.window_count() * size_bytes(call.inputs[0].dtype);
      piece_planes_ = std::max<std::int64_t>(1, EpilogueRows::kPieceBytes / plane_bytes);
      part_bytes_ += whole_lines(piece_planes_ * plane_bytes);
    }
    made_at_ = part_bytes_;
    if (call.prologue != nullptr) {
      const std::int64_t plane_bytes = sizes_.plane() * size_bytes(call.inputs[0].dtype);
      made_planes_ = std::max<std::int64_t>(1, EpilogueRows::kPieceBytes / plane_bytes);
      part_bytes_ += whole_lines(made_planes_ * plane_bytes);
    }
  }

  Status run(KernelContext& context) {
    HEARTH_TRY_STATUS(epilogue_.start(call_, context));
    HEARTH_TRY_STATUS(producer_.start(call_.prologue, context));
    HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(parts_ * part_bytes_));
    const std::int64_t grain = (sizes_.planes + parts_ - 1) / parts_;
    if (awake_threads_ > 1) {
      context.arena.share(
          awake_threads_,
          sizes_.planes,
          Arena::shared_grain(awake_threads_, sizes_.planes, 1),
          [&](std::int64_t begin, std::int64_t end, int thread) {
            static_cast<void>(run_planes(begin, end, scratch + thread * part_bytes_));
          });
      return {};  // only max_pool2d_backward can fail
    }
    context.arena.parallel_for(sizes_.planes, grain, [&](std::int64_t begin, std::int64_t end) {
      std::byte* own = scratch + begin / grain * part_bytes_;
      *reinterpret_cast<std::int64_t*>(own) = run_planes(begin, end, own);
    });
    for (std::int64_t part = 0; part * grain < sizes_.planes; ++part) {
      const std::int64_t bad = *reinterpret_cast<const std::int64_t*>(scratch + part * part_bytes_);
      if (bad != kNoPosition) {
        return Error{.code = ErrorCode::out_of_range,
                     .text = fmt::format(
                         "max_pool2d_backward: position {} is outside a plane of {} elements",
                         bad,
                         sizes_.plane()),
                     .op = "max_pool2d_backward"};
      }
    }
    return {};
  }

 private:
  // Returns the first bad position, or kNoPosition.
  std::int64_t run_planes(std::int64_t begin, std::int64_t end, std::byte* own) const {
    if (!epilogue_.is_there()) {
      return run_planes(begin, end, own, call_.outputs[0].data + begin * result_bytes());
    }
    EpilogueRows::Part part(epilogue_);
    for (std::int64_t first = begin; first < end; first += piece_planes_) {
      const std::int64_t last = std::min(end, first + piece_planes_);
      static_cast<void>(run_planes(first, last, own, own + piece_at_));
      part.run(own + piece_at_, first * sizes_.window_count(), last * sizes_.window_count());
    }
    return kNoPosition;  // no backward kernel has an epilogue
  }

  // The input, or a range of its planes beginning with plane `first`.
  struct Source {
    TensorView view = {};
    std::int64_t first = 0;
  };

  // Stores results to `to`, plane by plane.
  std::int64_t run_planes(std::int64_t begin,
                          std::int64_t end,
                          std::byte* own,
                          std::byte* to) const {
    if (!producer_.is_there()) {
      return run_planes({call_.inputs[0]}, begin, end, own, to);
    }
    PrologueRows::Part producer(producer_,
                                nullptr);  // a producer without row buffers needs no memory
    Source made{call_.inputs[0]};
    made.view.data = own + made_at_;
    for (made.first = begin; made.first < end; made.first += made_planes_) {
      const std::int64_t last = std::min(end, made.first + made_planes_);
      producer.make(made.view.data, made.first * sizes_.plane(), last * sizes_.plane());
      producer_.ask_for(last * sizes_.plane(), std::min(end, last + made_planes_) * sizes_.plane());
      static_cast<void>(run_planes(made, made.first, last, own, to));
      to += (last - made.first) * result_bytes();
    }
    return kNoPosition;  // no backward kernel has a prologue
  }

  std::int64_t run_planes(const Source& from,
                          std::int64_t begin,
                          std::int64_t end,
                          std::byte* own,
                          std::byte* to) const {
    if (joins_planes()) {
      max_of_planes(from, begin, end, to);
      return kNoPosition;
    }
    std::int64_t bad = kNoPosition;
    for (std::int64_t plane = begin; plane < end && bad == kNoPosition; ++plane) {
      bad = run_plane(from, plane, own, to);
      to += result_bytes();
    }
    return bad;
  }

  [[nodiscard]] bool is_forward() const noexcept {
    return call_.op.kind() == OpKind::max_pool2d || call_.op.kind() == OpKind::avg_pool2d;
  }

  [[nodiscard]] std::int64_t result_count() const noexcept {
    return is_forward() ? sizes_.window_count() : sizes_.plane();
  }
  /// Bytes of a plane of the result.
  [[nodiscard]] std::int64_t result_bytes() const noexcept {
    return result_count() * size_bytes(call_.inputs[0].dtype);
  }

  std::int64_t run_plane(const Source& source,
                         std::int64_t plane,
                         std::byte* own,
                         std::byte* to_bytes) const {
    T* const plane_values = reinterpret_cast<T*>(own + plane_at_);
    T* const window_values = reinterpret_cast<T*>(own + windows_at_);
    const bool forward = is_forward();
    const TensorView& input = call_.inputs[0];
    const T* from = read(source.view, plane - source.first, forward ? plane_values : window_values);
    const bool direct = input.dtype == dtype_of<T>;
    T* const to =
        direct ? reinterpret_cast<T*>(to_bytes) : (forward ? window_values : plane_values);
    std::int64_t bad = kNoPosition;
    switch (call_.op.kind()) {
      case OpKind::max_pool2d:
        max_forward(from,
                    to,
                    has_positions()
                        ? call_.outputs[1].as<std::int32_t>() + plane * sizes_.window_count()
                        : nullptr);
        break;
      case OpKind::max_pool2d_backward:
        bad = max_backward(
            from, read_positions(plane, reinterpret_cast<std::int32_t*>(own + positions_at_)), to);
        break;
      case OpKind::avg_pool2d:
        mean_windows(sizes_, pool_, from, to);
        break;
      default:
        spread_mean(sizes_, pool_, from, to);
        break;
    }
    if (!direct) {
      kernels_.store(to, to_bytes, input.dtype, result_count());
    }
    return bad;
  }

  [[nodiscard]] bool has_positions() const noexcept {
    return call_.outputs.size() > 1 && !epilogue_.is_there();
  }

  // Whether planes can be processed as one, because no gap separates the last pair of rows of a
  // plane from the first of the next.
  [[nodiscard]] bool joins_planes() const {
    return sizeof(T) == sizeof(float) && call_.op.kind() == OpKind::max_pool2d &&
           !has_positions() && is_pairs(pool_) && sizes_.height == 2 * sizes_.rows &&
           call_.inputs[0].layout->contiguous && call_.inputs[0].dtype == dtype_of<T>;
  }

  void max_of_planes(const Source& from,
                     std::int64_t begin,
                     std::int64_t end,
                     std::byte* to) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      const PairRow first{.width = sizes_.width, .columns = sizes_.columns};
      loops_.max_pairs(first,
                       (end - begin) * sizes_.rows,
                       from.view.template as<const T>() + (begin - from.first) * sizes_.plane(),
                       reinterpret_cast<T*>(to),
                       nullptr);
    }
  }

  void max_forward(const T* x, T* y, std::int32_t* positions) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (is_pairs(pool_)) {
        const PairRow first{.width = sizes_.width, .columns = sizes_.columns};
        loops_.max_pairs(first, sizes_.rows, x, y, positions);
        return;
      }
    }
    max_windows(sizes_, pool_, x, y, positions);
  }

  std::int64_t max_backward(const T* grad, const std::int32_t* positions, T* dx) const {
    if constexpr (sizeof(T) == sizeof(float)) {
      if (is_pairs(pool_) && spread_pairs(grad, positions, dx)) {
        return kNoPosition;
      }
    }
    return spread_max(sizes_, grad, positions, dx);
  }

  // Returns false if a position lies outside its window; the caller then spreads them one by one.
  bool spread_pairs(const T* grad, const std::int32_t* positions, T* dx) const {
    bool inside = true;
    for (std::int64_t i = 0; i < sizes_.rows && inside; ++i) {
      const PairRow row{
          .width = sizes_.width, .columns = sizes_.columns, .place = 2 * i * sizes_.width};
      inside = loops_.max_pairs_backward(
          row, grad + i * sizes_.columns, positions + i * sizes_.columns, dx + row.place);
      for (std::int64_t line = 0; line < 2; ++line) {
        T* const begin = dx + row.place + line * sizes_.width;
        std::fill(begin + 2 * sizes_.columns, begin + sizes_.width, T{});
      }
    }
    std::fill(dx + 2 * sizes_.rows * sizes_.width, dx + sizes_.plane(), T{});
    return inside;
  }

  [[nodiscard]] const T* read(const TensorView& view, std::int64_t plane, T* to) const {
    const Shape& shape = view.shape();
    const Strides& steps = view.strides();
    const std::byte* from =
        view.data +
        (plane / shape[1] * steps[0] + plane % shape[1] * steps[1]) * size_bytes(view.dtype);
    const bool gapless =
        (steps[3] == 1 || shape[3] == 1) && (steps[2] == shape[3] || shape[2] == 1);
    if (gapless && view.dtype == dtype_of<T>) {
      return reinterpret_cast<const T*>(from);
    }
    for (std::int64_t row = 0; row < shape[2]; ++row) {
      gather(kernels_,
             from + row * steps[2] * size_bytes(view.dtype),
             view.dtype,
             steps[3],
             to + row * shape[3],
             shape[3]);
    }
    return to;
  }

  [[nodiscard]] const std::int32_t* read_positions(std::int64_t plane, std::int32_t* to) const {
    const TensorView& view = call_.inputs[1];
    const Shape& shape = view.shape();
    const Strides& steps = view.strides();
    const std::int32_t* from =
        view.as<const std::int32_t>() + plane / shape[1] * steps[0] + plane % shape[1] * steps[1];
    if (view.layout->contiguous) {
      return from;
    }
    std::int32_t* out = to;
    for (std::int64_t row = 0; row < shape[2]; ++row) {
      for (std::int64_t column = 0; column < shape[3]; ++column) {
        *out++ = from[row * steps[2] + column * steps[3]];
      }
    }
    return to;
  }

  const KernelCall& call_;
  PoolAttributes pool_;
  const TileKernels<T>& kernels_;
  const PoolLoops& loops_;
  EpilogueRows epilogue_;
  PrologueRows producer_;
  PoolSizes sizes_{};
  std::int64_t parts_ = 1;
  int awake_threads_ = 1;  // threads that share work too short to wake others
  std::int64_t plane_at_ = 0;
  std::int64_t windows_at_ = 0;
  std::int64_t positions_at_ = 0;
  std::int64_t piece_at_ = 0;
  std::int64_t piece_planes_ = 0;
  std::int64_t made_at_ = 0;
  std::int64_t made_planes_ = 0;
  std::int64_t part_bytes_ = 0;
};

Status pool(const KernelCall& call, KernelContext& context) {
  if (call.outputs[0].element_count() == 0) {
    return {};
  }
  if (call.prologue != nullptr && call.prologue->call->op.kind() == OpKind::conv2d) {
    return run_conv_pool(call, context);
  }
  return call.inputs[0].dtype == DType::f64 ? Pooling<double>(call, context).run(context)
                                            : Pooling<float>(call, context).run(context);
}

// Refuses producers of rows, which would have to compute their rows whole: the input is computed
// plane by plane. An input that fits the caches stays there until the pool reads it; pieces would
// only cost time.
Support supports_pool_producer(const KernelCall& call, const KernelContext& context) {
  if (call.prologue->call->op.kind() == OpKind::conv2d) {
    return supports_conv_pool(call, context);
  }
  if (call.op.record().output_count != 1) {
    return {.yes = false, .reason = "a pool with positions reads its input from memory"};
  }
  if (call.inputs[0].element_count() * size_bytes(call.inputs[0].dtype) < kMadeBytes) {
    return {.yes = false, .reason = "a pool's input that fits the caches has a kernel of its own"};
  }
  return PrologueRows::supports(*call.prologue, 0, context);
}

constexpr std::array kPoolProducers = {OpKind::expression, OpKind::conv2d};

constexpr KernelRow kPoolRows[] = {
    {.kind = OpKind::max_pool2d,
     .run = &pool,
     .supports = nullptr,
     .takes_epilogue = true,
     .producers = kPoolProducers,
     .supports_prologue = &supports_pool_producer},
    {.kind = OpKind::max_pool2d_backward, .run = &pool, .supports = nullptr},
    {.kind = OpKind::avg_pool2d,
     .run = &pool,
     .supports = nullptr,
     .takes_epilogue = true,
     .producers = kPoolProducers,
     .supports_prologue = &supports_pool_producer},
    {.kind = OpKind::avg_pool2d_backward, .run = &pool, .supports = nullptr},
};

}  // namespace

std::span<const KernelRow> pool_rows() noexcept {
  return kPoolRows;
}

}  // namespace hearth::cpu
