#include "softmax.hpp"

#include "backends/cpu/elementwise/move_loops.hpp"
#include "backends/cpu/fused/row_loops.hpp"
#include "row_operands.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kSoftmaxGrain = std::int64_t{1}
                                       << 16;  // elements worth a fork: each needs an exponential

std::int64_t softmax_grain(std::int64_t elements, DType type) noexcept {
  const std::int64_t grain = type == DType::f64 ? kSoftmaxGrain / 8 : kSoftmaxGrain;
  return std::max<std::int64_t>(1, grain / std::max<std::int64_t>(elements, 1));
}

/// Calls body(offset) for each row, or body(offset, width) for each strip; offsets in elements.
template <class Rows, class Strips>
void for_lines(const LineSpace& lines,
               DType type,
               KernelContext& context,
               const Rows& rows,
               const Strips& strips) {
  if (lines.step == 1) {
    context.arena.parallel_for(
        lines.outer, softmax_grain(lines.length, type), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            rows(row * lines.length);
          }
        });
    return;
  }
  const std::int64_t per_outer = (lines.step + kMaxStrip - 1) / kMaxStrip;
  const std::int64_t grain = softmax_grain(lines.length * std::min(lines.step, kMaxStrip), type);
  context.arena.parallel_for(
      lines.outer * per_outer, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t strip = begin; strip < end; ++strip) {
          const std::int64_t column = strip % per_outer * kMaxStrip;
          strips(strip / per_outer * lines.length * lines.step + column,
                 std::min(kMaxStrip, lines.step - column));
        }
      });
}

/// Destination of a row's result: in place or, if all results together are large, in a buffer from
/// which it is stored past the caches.
template <class T>
class RowTarget {
 public:
  RowTarget(T* out, const LineSpace& lines, const void* in, KernelContext& context) noexcept
      : out_(out),
        length_(lines.length),
        moves_(move_loops(context.isa)),
        streams_(lines.step == 1 && lines.length <= static_cast<std::int64_t>(kRow) && out != in &&
                 lines.outer * lines.length * static_cast<std::int64_t>(sizeof(T)) >=
                     MoveLoops::kStreamBytes) {}

  /// Calls body(to) for the row at `offset`.
  template <class Body>
  void make(std::int64_t offset, const Body& body) const {
    if (!streams_) {
      body(out_ + offset);
      return;
    }
    alignas(64) T row[kRow];
    body(row);
    moves_.stream(reinterpret_cast<std::byte*>(out_ + offset),
                  reinterpret_cast<const std::byte*>(row),
                  length_ * static_cast<std::int64_t>(sizeof(T)));
    moves_.fence();
  }

 private:
  static constexpr std::size_t kRow = 16384 / sizeof(T);
  T* out_;
  std::int64_t length_;
  const MoveLoops& moves_;
  bool streams_;
};

template <class T>
void softmax_forward(const RowOperands& operands,
                     const LineSpace& lines,
                     bool is_log,
                     KernelContext& context) {
  const RowLoops<T>& loops = row_loops(context.isa).of<T>();
  const T* const in = operands.input<T>(0);
  T* const out = operands.output<T>();
  const auto strip = is_log ? loops.log_softmax_strip : loops.softmax_strip;
  const RowTarget<T> target(out, lines, in, context);
  for_lines(
      lines,
      operands.type(),
      context,
      [&](std::int64_t at) {
        target.make(at, [&](T* to) {
          if (is_log) {
            loops.log_softmax(to, in + at, lines.length);
          } else {
            loops.softmax(to, in + at, lines.length);
          }
        });
      },
      [&](std::int64_t at, std::int64_t width) {
        strip(out + at, in + at, lines.length, lines.step, width);
      });
}

template <class T>
void softmax_backward(const RowOperands& operands,
                      const LineSpace& lines,
                      bool is_log,
                      KernelContext& context) {
  const RowLoops<T>& loops = row_loops(context.isa).of<T>();
  const T* const grad = operands.input<T>(0);
  const T* const y = operands.input<T>(1);
  T* const out = operands.output<T>();
  const auto row = is_log ? loops.log_softmax_backward : loops.softmax_backward;
  const RowTarget<T> target(out, lines, grad == out ? grad : y, context);
  const auto strip = is_log ? loops.log_softmax_backward_strip : loops.softmax_backward_strip;
  for_lines(
      lines,
      operands.type(),
      context,
      [&](std::int64_t at) {
        target.make(at, [&](T* to) { row(to, grad + at, y + at, lines.length); });
      },
      [&](std::int64_t at, std::int64_t width) {
        strip(out + at, grad + at, y + at, lines.length, lines.step, width);
      });
}

}  // namespace

Status run_softmax(const KernelCall& call, KernelContext& context) {
  if (call.outputs[0].element_count() == 0) {
    return {};
  }
  const OpKind kind = call.op.kind();
  const bool is_backward = call.inputs.size() > 1;
  const bool is_log = kind == OpKind::log_softmax || kind == OpKind::log_softmax_backward;
  const LineSpace lines(call.outputs[0].shape(), call.op.attributes<AxisAttributes>().axis);
  RowOperands operands;
  HEARTH_TRY_STATUS(operands.prepare(call, 0, call.inputs.size(), call.outputs[0], context));
  if (operands.type() == DType::f64) {
    (is_backward ? softmax_backward<double>
                 : softmax_forward<double>)(operands, lines, is_log, context);
  } else {
    (is_backward ? softmax_backward<float>
                 : softmax_forward<float>)(operands, lines, is_log, context);
  }
  operands.finish(context);
  return {};
}

std::span<const KernelRow> row_rows() noexcept {
  static constexpr KernelRow kRows[] = {
      {OpKind::softmax, run_softmax, nullptr, 1},
      {OpKind::log_softmax, run_softmax, nullptr, 1},
      {OpKind::softmax_backward, run_softmax, nullptr, 3},
      {OpKind::log_softmax_backward, run_softmax, nullptr, 3},
      {.kind = OpKind::cross_entropy,
       .run = run_cross_entropy,
       .supports = nullptr,
       .takes_epilogue = true},
      {OpKind::cross_entropy_backward, run_cross_entropy_backward, nullptr, 2},
  };
  return kRows;
}

}  // namespace hearth::cpu
