#include "scan.hpp"

#include "backends/cpu/elementwise/row_fetch.hpp"
#include "backends/cpu/fused/fold_loops.hpp"
#include "backends/cpu/fused/reduce_loops.hpp"
#include "backends/cpu/machine/collapse.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <type_traits>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kScanGrain = std::int64_t{1} << 17;  // elements worth a fork
constexpr std::int64_t kScanPart = std::int64_t{1}
                                   << 17;  // elements of one walk; longer lines are cut and joined
constexpr std::int64_t kScanStrip = 256;

// The reduction of a line up to each element.
OpKind reduction_of(OpKind scan) noexcept {
  switch (scan) {
    case OpKind::cumprod:
      return OpKind::reduce_prod;
    case OpKind::cummax:
      return OpKind::reduce_max;
    case OpKind::cummin:
      return OpKind::reduce_min;
    default:
      return OpKind::reduce_sum;
  }
}

// Joins two values in f64 for floats and in i64 for integers, which wrap. The first NaN stays, and
// of equal values the first.
template <OpKind reduction, class T>
T joined(T so_far, T x) noexcept {
  if constexpr (reduction == OpKind::reduce_max) {
    return x > so_far || x != x ? x : so_far;
  } else if constexpr (reduction == OpKind::reduce_min) {
    return x < so_far || x != x ? x : so_far;
  } else if constexpr (std::is_floating_point_v<T>) {
    return reduction == OpKind::reduce_prod ? so_far * x : so_far + x;
  } else {
    const auto left = static_cast<std::uint64_t>(so_far);
    const auto right = static_cast<std::uint64_t>(x);
    return static_cast<T>(reduction == OpKind::reduce_prod ? left * right : left + right);
  }
}
template <OpKind reduction, class T>
void join(Accumulator& so_far, T x) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    so_far.real = joined<reduction>(so_far.real, static_cast<double>(x));
  } else {
    so_far.integer = joined<reduction>(so_far.integer, static_cast<std::int64_t>(x));
  }
}

/// Scans `count` neighbours, beginning from `so_far`, which ends as the last result.
using ScanRow = void (*)(
    Accumulator* results, Accumulator& so_far, const void* in, std::int64_t count, bool is_reverse);
template <OpKind reduction, class T>
void scan_row(Accumulator* results,
              Accumulator& so_far,
              const void* in,
              std::int64_t count,
              bool is_reverse) {
  const auto* from = static_cast<const T*>(in);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = is_reverse ? count - 1 - i : i;
    join<reduction>(so_far, from[at]);
    results[at] = so_far;
  }
}

/// Joins element c to result c.
using JoinRow = void (*)(Accumulator* results, const void* in, std::int64_t count);
template <OpKind reduction, class T>
void join_row(Accumulator* results, const void* in, std::int64_t count) {
  const auto* from = static_cast<const T*>(in);
  for (std::int64_t c = 0; c < count; ++c) {
    join<reduction>(results[c], from[c]);
  }
}

struct ScanLoops {
  ReduceLoops::ByType<ScanRow> rows;
  ReduceLoops::ByType<JoinRow> across;
};
template <OpKind reduction>
constexpr ScanLoops kLoops{{scan_row<reduction, float>,
                            scan_row<reduction, double>,
                            scan_row<reduction, std::int32_t>,
                            scan_row<reduction, std::int64_t>,
                            scan_row<reduction, std::uint8_t>,
                            scan_row<reduction, std::int8_t>},
                           {join_row<reduction, float>,
                            join_row<reduction, double>,
                            join_row<reduction, std::int32_t>,
                            join_row<reduction, std::int64_t>,
                            join_row<reduction, std::uint8_t>,
                            join_row<reduction, std::int8_t>}};
const ScanLoops& loops_of(OpKind reduction) noexcept {
  switch (reduction) {
    case OpKind::reduce_prod:
      return kLoops<OpKind::reduce_prod>;
    case OpKind::reduce_max:
      return kLoops<OpKind::reduce_max>;
    case OpKind::reduce_min:
      return kLoops<OpKind::reduce_min>;
    default:
      return kLoops<OpKind::reduce_sum>;
  }
}

Shape without_axis(Shape shape, int axis) {
  shape.set(axis, 1);
  return shape;
}

// Walks lines one by one if the axis is the innermost one of the contiguous result, else strips of
// neighbouring lines together.
class Scan {
 public:
  Scan(const KernelCall& call, const ScanAttributes& attributes, KernelContext& context)
      : context_(context),
        in_(call.inputs[0]),
        out_(call.outputs[0]),
        is_reverse_(attributes.reverse != 0),
        type_(is_float(in_.dtype) ? DType::f64 : DType::i64),
        reduction_(reduction_of(call.op.kind())),
        loops_(loops_of(reduction_)),
        start_(fold_start(reduction_, type_)),
        length_(in_.shape()[attributes.axis]),
        in_step_(in_.strides()[static_cast<std::size_t>(attributes.axis)]),
        out_step_(out_.strides()[static_cast<std::size_t>(attributes.axis)]),
        kept_(without_axis(in_.shape(), attributes.axis)),
        strides_{in_.strides(), out_.strides()},
        keep_(kept_, strides_) {}

  Status run() {
    store_ = cast_loops(context_.isa).at(type_, out_.dtype);
    if (keep_.inner_size() > 1 && keep_.inner_stride(1) == 1) {
      run_strips();
      return {};
    }
    return run_lines();
  }

 private:
  // Phases: the reductions of all parts of each line; the start of each part; the walk.
  Status run_lines() {
    const RowSource source(in_, in_step_, context_.isa);
    const std::int64_t lines = kept_.element_count();
    const std::int64_t parts = (length_ + kScanPart - 1) / kScanPart;
    Accumulator* starts = nullptr;
    if (parts > 1) {
      const auto bytes = lines * parts * static_cast<std::int64_t>(sizeof(Accumulator));
      HEARTH_TRY(std::byte * memory, context_.scratch.take_all(bytes));
      starts = reinterpret_cast<Accumulator*>(memory);
      context_.arena.parallel_for(lines * parts, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task) {
          starts[task] = start_;
          walk(source, task / parts, task % parts, starts[task], false);
        }
      });
      for (std::int64_t line = 0; line < lines; ++line) {
        begin_parts(starts + line * parts, parts);
      }
    }
    const std::int64_t grain = std::max<std::int64_t>(1, kScanGrain / std::min(length_, kScanPart));
    context_.arena.parallel_for(lines * parts, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        Accumulator so_far = starts != nullptr ? starts[task] : start_;
        walk(source, task / parts, task % parts, so_far, true);
      }
    });
    return {};
  }

  // Converts the reduction of each part to that of the parts before it.
  void begin_parts(Accumulator* parts, std::int64_t count) const {
    const JoinRow join = ReduceLoops::at(loops_.across, type_);
    Accumulator so_far = start_;
    for (std::int64_t i = 0; i < count; ++i) {
      const Accumulator part = parts[i];
      parts[i] = so_far;
      join(&so_far, &part, 1);
    }
  }

  // Part 0 is the part where the walk of the line begins.
  void walk(const RowSource& source,
            std::int64_t line,
            std::int64_t part,
            Accumulator& so_far,
            bool keeps) const {
    RowBuffer<kScanStrip>
        buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): fetch() fills it
    Accumulator results[kScanStrip];
    const ScanRow scan = ReduceLoops::at(loops_.rows, source.type);
    const std::int64_t inner = keep_.inner_size();
    const Place place(keep_, line / inner);
    const std::int64_t column = line % inner;
    const std::int64_t in_first = place.offset[0] + column * keep_.inner_stride(0);
    const std::int64_t out_first = place.offset[1] + column * keep_.inner_stride(1);
    const std::int64_t end = std::min(length_, (part + 1) * kScanPart);
    for (std::int64_t done = part * kScanPart; done < end; done += kScanStrip) {
      const std::int64_t count = std::min(kScanStrip, end - done);
      const std::int64_t at = is_reverse_ ? length_ - done - count : done;
      scan(results,
           so_far,
           buffer.fetch(source, in_first + at * in_step_, count),
           count,
           is_reverse_);
      if (keeps) {
        store_(out_.data + (out_first + at * out_step_) * size_bytes(out_.dtype), results, count);
      }
    }
  }

  void run_strips() const {
    const RowSource source(in_, keep_.inner_stride(0), context_.isa);
    const JoinRow join = ReduceLoops::at(loops_.across, source.type);
    const std::int64_t inner = keep_.inner_size();
    const std::int64_t strips = (inner + kScanStrip - 1) / kScanStrip;
    const std::int64_t tasks = kept_.element_count() / inner * strips;
    const std::int64_t grain =
        std::max<std::int64_t>(1, kScanGrain / (length_ * std::min(inner, kScanStrip)));
    context_.arena.parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
      RowBuffer<kScanStrip>
          buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): fetch() fills it
      alignas(64) Accumulator results[kScanStrip];
      for (std::int64_t task = begin; task < end; ++task) {
        const Place place(keep_, task / strips);
        const std::int64_t column = task % strips * kScanStrip;
        const std::int64_t width = std::min(kScanStrip, inner - column);
        std::fill_n(results, width, start_);
        for (std::int64_t i = 0; i < length_; ++i) {
          const std::int64_t at = is_reverse_ ? length_ - 1 - i : i;
          const std::int64_t from = place.offset[0] + column * source.step + at * in_step_;
          const std::int64_t to = place.offset[1] + column + at * out_step_;
          join(results, buffer.fetch(source, from, width), width);
          store_(out_.data + to * size_bytes(out_.dtype), results, width);
        }
      }
    });
  }

  KernelContext& context_;
  const TensorView& in_;
  const TensorView& out_;
  bool is_reverse_;
  DType type_;  // in which elements are joined
  OpKind reduction_;
  const ScanLoops& loops_;
  Accumulator start_;
  std::int64_t length_;
  std::int64_t in_step_;
  std::int64_t out_step_;
  Shape kept_;
  std::array<Strides, 2> strides_;
  Collapsed keep_;
  CastLoop store_ = nullptr;
};

}  // namespace

Status run_scan(const KernelCall& call, KernelContext& context) {
  if (call.outputs[0].element_count() == 0) {
    return {};
  }
  return Scan(call, call.op.attributes<ScanAttributes>(), context).run();
}

}  // namespace hearth::cpu
