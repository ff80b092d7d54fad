#include "scan.hpp"

#include "backends/cpu/elementwise/row_fetch.hpp"
#include "backends/cpu/fused/reduce_loops.hpp"
#include "backends/cpu/machine/collapse.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <type_traits>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kGrain = std::int64_t{1} << 17;  // elements worth a fork
constexpr std::int64_t kPart = std::int64_t{1}
                               << 17;  // elements of one walk; longer lines are cut and joined
constexpr std::int64_t kStrip = 256;

// Sums are f64 for floats, i64 for integers, which wrap.
template <class T>
void add_to(Accumulator& sum, T x) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    sum.real += static_cast<double>(x);
  } else {
    sum.integer = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum.integer) +
                                            static_cast<std::uint64_t>(x));
  }
}

/// Computes the running sums of `count` neighbours, beginning from `sum`, which ends as the last
/// one.
using ScanRow = void (*)(
    Accumulator* sums, Accumulator& sum, const void* in, std::int64_t count, bool is_reverse);
template <class T>
void scan_row(
    Accumulator* sums, Accumulator& sum, const void* in, std::int64_t count, bool is_reverse) {
  const auto* from = static_cast<const T*>(in);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = is_reverse ? count - 1 - i : i;
    add_to(sum, from[at]);
    sums[at] = sum;
  }
}

/// Adds element c to sum c.
using AddRow = void (*)(Accumulator* sums, const void* in, std::int64_t count);
template <class T>
void add_row(Accumulator* sums, const void* in, std::int64_t count) {
  const auto* from = static_cast<const T*>(in);
  for (std::int64_t c = 0; c < count; ++c) {
    add_to(sums[c], from[c]);
  }
}

constexpr ReduceLoops::ByType<ScanRow> kScanRows{scan_row<float>,
                                                 scan_row<double>,
                                                 scan_row<std::int32_t>,
                                                 scan_row<std::int64_t>,
                                                 scan_row<std::uint8_t>,
                                                 scan_row<std::int8_t>};
constexpr ReduceLoops::ByType<AddRow> kAddRows{add_row<float>,
                                               add_row<double>,
                                               add_row<std::int32_t>,
                                               add_row<std::int64_t>,
                                               add_row<std::uint8_t>,
                                               add_row<std::int8_t>};

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
        length_(in_.shape()[attributes.axis]),
        in_step_(in_.strides()[static_cast<std::size_t>(attributes.axis)]),
        out_step_(out_.strides()[static_cast<std::size_t>(attributes.axis)]),
        kept_(without_axis(in_.shape(), attributes.axis)),
        strides_{in_.strides(), out_.strides()},
        keep_(kept_, strides_) {}

  Status run() {
    const DType type = is_float(in_.dtype) ? DType::f64 : DType::i64;
    store_ = cast_loops(context_.isa).at(type, out_.dtype);
    if (keep_.inner_size() > 1 && keep_.inner_stride(1) == 1) {
      run_strips();
      return {};
    }
    return run_lines();
  }

 private:
  // Phases: the sums of all parts but the last of each line; the start of each part; the walk.
  Status run_lines() {
    const RowSource source(in_, in_step_, context_.isa);
    const std::int64_t lines = kept_.element_count();
    const std::int64_t parts = (length_ + kPart - 1) / kPart;
    Accumulator* starts = nullptr;
    if (parts > 1) {
      const auto bytes = lines * parts * static_cast<std::int64_t>(sizeof(Accumulator));
      HEARTH_TRY(std::byte * memory, context_.scratch.take_all(bytes));
      starts = reinterpret_cast<Accumulator*>(memory);
      context_.arena.parallel_for(lines * parts, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t task = begin; task < end; ++task) {
          starts[task] = Accumulator{};
          walk(source, task / parts, task % parts, starts[task], false);
        }
      });
      for (std::int64_t line = 0; line < lines; ++line) {
        begin_parts(starts + line * parts, parts);
      }
    }
    const std::int64_t grain = std::max<std::int64_t>(1, kGrain / std::min(length_, kPart));
    context_.arena.parallel_for(lines * parts, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t task = begin; task < end; ++task) {
        Accumulator sum = starts != nullptr ? starts[task] : Accumulator{};
        walk(source, task / parts, task % parts, sum, true);
      }
    });
    return {};
  }

  // Converts the sum of each part to the sum of the parts before it.
  void begin_parts(Accumulator* parts, std::int64_t count) const {
    Accumulator sum{};
    for (std::int64_t i = 0; i < count; ++i) {
      const Accumulator part = parts[i];
      parts[i] = sum;
      if (is_float(in_.dtype)) {
        add_to(sum, part.real);
      } else {
        add_to(sum, part.integer);
      }
    }
  }

  // Part 0 is the part where the walk of the line begins.
  void walk(const RowSource& source,
            std::int64_t line,
            std::int64_t part,
            Accumulator& sum,
            bool keeps) const {
    RowBuffer<kStrip> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): fetch() fills it
    Accumulator sums[kStrip];
    const ScanRow scan = ReduceLoops::at(kScanRows, source.type);
    const std::int64_t inner = keep_.inner_size();
    const Place place(keep_, line / inner);
    const std::int64_t column = line % inner;
    const std::int64_t in_first = place.offset[0] + column * keep_.inner_stride(0);
    const std::int64_t out_first = place.offset[1] + column * keep_.inner_stride(1);
    const std::int64_t end = std::min(length_, (part + 1) * kPart);
    for (std::int64_t done = part * kPart; done < end; done += kStrip) {
      const std::int64_t count = std::min(kStrip, end - done);
      const std::int64_t at = is_reverse_ ? length_ - done - count : done;
      scan(sums, sum, buffer.fetch(source, in_first + at * in_step_, count), count, is_reverse_);
      if (keeps) {
        store_(out_.data + (out_first + at * out_step_) * size_bytes(out_.dtype), sums, count);
      }
    }
  }

  void run_strips() const {
    const RowSource source(in_, keep_.inner_stride(0), context_.isa);
    const AddRow add = ReduceLoops::at(kAddRows, source.type);
    const std::int64_t inner = keep_.inner_size();
    const std::int64_t strips = (inner + kStrip - 1) / kStrip;
    const std::int64_t tasks = kept_.element_count() / inner * strips;
    const std::int64_t grain =
        std::max<std::int64_t>(1, kGrain / (length_ * std::min(inner, kStrip)));
    context_.arena.parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
      RowBuffer<kStrip> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): fetch() fills it
      alignas(64) Accumulator sums[kStrip];
      for (std::int64_t task = begin; task < end; ++task) {
        const Place place(keep_, task / strips);
        const std::int64_t column = task % strips * kStrip;
        const std::int64_t width = std::min(kStrip, inner - column);
        std::fill_n(sums, width, Accumulator{});
        for (std::int64_t i = 0; i < length_; ++i) {
          const std::int64_t at = is_reverse_ ? length_ - 1 - i : i;
          const std::int64_t from = place.offset[0] + column * source.step + at * in_step_;
          const std::int64_t to = place.offset[1] + column + at * out_step_;
          add(sums, buffer.fetch(source, from, width), width);
          store_(out_.data + to * size_bytes(out_.dtype), sums, width);
        }
      }
    });
  }

  KernelContext& context_;
  const TensorView& in_;
  const TensorView& out_;
  bool is_reverse_;
  std::int64_t length_;
  std::int64_t in_step_;
  std::int64_t out_step_;
  Shape kept_;
  std::array<Strides, 2> strides_;
  Collapsed keep_;
  CastLoop store_ = nullptr;
};

}  // namespace

Status run_cumsum(const KernelCall& call, KernelContext& context) {
  if (call.outputs[0].element_count() == 0) {
    return {};
  }
  return Scan(call, call.op.attributes<ScanAttributes>(), context).run();
}

}  // namespace hearth::cpu
