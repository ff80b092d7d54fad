#include "argmax.hpp"
#include "backends/cpu/elementwise/row_fetch.hpp"
#include "backends/cpu/fused/fold_loops.hpp"
#include "backends/cpu/fused/reduce_loops.hpp"
#include "backends/cpu/machine/collapse.hpp"
#include "backends/cpu/machine/kernel_table.hpp"
#include "reduction_input.hpp"
#include "reduction_plan.hpp"
#include "scan.hpp"
#include "topk.hpp"

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace hearth::cpu {

namespace {

constexpr std::int64_t kReductionGrain = std::int64_t{1} << 18;  // elements worth a fork
constexpr std::int64_t kPart =
    std::int64_t{1} << 17;  // elements of one accumulator; longer reductions are cut and joined
constexpr std::int64_t kWideStrip = 1024;  // columns per step
constexpr std::int64_t kBuffered = 256;    // columns per step when rows go through buffers
// Elements of a buffered row per step: the block of sum_of(), for equal bits.
constexpr std::int64_t kRowPiece = kSumBlock;

Error nothing_to_reduce(OpKind kind, const Shape& shape) {
  const std::string_view op = name(kind);
  return Error{.code = ErrorCode::invalid_argument,
               .text = fmt::format("{}: no elements to choose from in {}", op, shape.to_string()),
               .op = std::string(op)};
}

class Reduction {
 public:
  Reduction(const KernelCall& call, KernelContext& context)
      : kind_(call.op.kind()),
        call_(call),
        context_(context),
        out_(call.outputs[0]),
        plan_(call.inputs[0], call.op.attributes<ReduceAttributes>().axes),
        source_(call.inputs[0], plan_.inner_step, context.isa),
        slot_type_(is_float(source_.type) ? DType::f64 : DType::i64),
        store_(cast_loops(context.isa).at(slot_type_, out_.dtype)),
        strip_(source_.is_direct() ? kWideStrip : kBuffered),
        loops_(fold_loops(kind_, source_.type, slot_type_, context.isa)) {}

  Status run() {
    const std::int64_t width = plan_.inner_is_kept ? plan_.inner_size : 1;
    const std::int64_t strip = std::min(width, strip_);
    strips_ = (width + strip - 1) / strip;
    // A part is a range of elements of a reduced row, or of whole rows of a strip.
    const std::int64_t length =
        plan_.inner_is_kept ? plan_.fold_count : plan_.fold_count * plan_.inner_size;
    const std::int64_t part = std::max<std::int64_t>(kPart / strip, kRowBatch);
    parts_ = (length + part - 1) / part;
    partial_width_ = plan_.keep_count * width;
    const std::int64_t tasks = plan_.keep_count * strips_ * parts_;
    HEARTH_TRY_STATUS(producer_.start(call_.prologue, context_));
    makes_pieces_ = producer_.is_there() && may_make_pieces(tasks);
    HEARTH_TRY_STATUS(take_scratch());
    const std::int64_t per_task = std::max<std::int64_t>(std::min(length, part) * strip, 1);
    const std::int64_t worth_a_fork = makes_pieces_ ? producer_.grain() : kReductionGrain;
    const std::int64_t grain = std::max<std::int64_t>(1, worth_a_fork / per_task);
    context_.arena.parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
      if (plan_.inner_is_kept) {
        run_columns(begin, end, strip, part);
      } else {
        run_rows(begin, end, part);
      }
    });
    if (parts_ > 1) {
      join_parts();
    }
    return {};
  }

 private:
  // Whether each task computes the input that it folds, which needs enough tasks for all threads.
  // The bits of float folds other than sums depend on the cut of a row, so those are excluded. So
  // are losses, whose rows of logits are long.
  [[nodiscard]] bool may_make_pieces(std::int64_t tasks) const noexcept {
    const bool is_sum = kind_ == OpKind::reduce_sum || kind_ == OpKind::reduce_mean;
    return (is_sum || !is_float(source_.type)) && !producer_.makes_losses() &&
           tasks >= context_.arena.core_count();
  }

  // Takes memory for partial results and, if the input is computed whole first, for the input.
  Status take_scratch() {
    const TensorView& input = call_.inputs[0];
    const std::int64_t size = size_bytes(input.dtype);
    const bool makes_whole = producer_.is_there() && !makes_pieces_;
    const std::int64_t partial_bytes =
        parts_ > 1 ? parts_ * partial_width_ * std::int64_t{sizeof(Accumulator)} : 0;
    const std::int64_t bytes = partial_bytes + (makes_whole ? input.element_count() * size : 0);
    if (bytes == 0) {
      return {};
    }
    HEARTH_TRY(std::byte * memory, context_.scratch.take_all(bytes));
    partials_ = reinterpret_cast<Accumulator*>(memory);
    if (makes_whole) {
      std::byte* const made = memory + partial_bytes;
      context_.arena.parallel_for(
          input.element_count(), producer_.grain(), [&](std::int64_t begin, std::int64_t end) {
            ReductionInput::Part(producer_).make(made + begin * size, begin, end);
          });
      source_.data = made;
    }
    return {};
  }

  [[nodiscard]] Accumulator first() const noexcept { return fold_start(kind_, slot_type_); }

  // Task: output · parts + part.
  void run_rows(std::int64_t begin, std::int64_t end, std::int64_t part) {
    RowBuffer<kRowPiece> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled first
    Accumulator sums[kBuffered];
    std::int64_t held = 0;
    Place keep(plan_.keep, begin / parts_);
    std::optional<ReductionInput::Part> producer;
    if (makes_pieces_) {
      producer.emplace(producer_);
    }
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t first_element = task % parts_ * part;
      const std::int64_t length = plan_.fold_count * plan_.inner_size;
      sums[held] = first();
      fold_row(&sums[held],
               keep.offset[0],
               first_element,
               std::min(part, length - first_element),
               buffer,
               producer.has_value() ? &*producer : nullptr);
      if (parts_ > 1) {
        partials_[task % parts_ * partial_width_ + task / parts_] = sums[held];
      } else if (++held == kBuffered || task + 1 == end) {
        store(sums, task + 1 - held, held);
        held = 0;
      }
      if ((task + 1) % parts_ == 0) {
        keep.advance();
      }
    }
  }

  void fold_row(Accumulator* into,
                std::int64_t offset,
                std::int64_t begin,
                std::int64_t count,
                RowBuffer<kRowPiece>& buffer,
                ReductionInput::Part* producer) {
    Place fold(plan_.fold, begin / plan_.inner_size);
    std::int64_t column = begin % plan_.inner_size;
    while (count > 0) {
      const std::int64_t rest = std::min(plan_.inner_size - column, count);
      const std::int64_t place = offset + fold.offset[0] + column * source_.step;
      const std::int64_t piece = source_.is_direct() ? rest : std::min(rest, kRowPiece);
      if (producer == nullptr) {
        loops_.row(into, buffer.fetch(source_, place, piece), piece);
      } else {
        make_and_fold(into, place, piece, buffer, *producer);
      }
      count -= piece;
      column += piece;
      if (column == plan_.inner_size) {
        column = 0;
        fold.advance();
      }
    }
  }

  // Sums each block on its own, as sum_of() does for contiguous input.
  void make_and_fold(Accumulator* into,
                     std::int64_t begin,
                     std::int64_t count,
                     RowBuffer<kRowPiece>& buffer,
                     ReductionInput::Part& producer) {
    Accumulator run = first();
    for (std::int64_t done = 0; done < count; done += kRowPiece) {
      const std::int64_t piece = std::min(count - done, kRowPiece);
      std::byte* const made = buffer.room(source_);
      producer.make(made, begin + done, begin + done + piece);
      loops_.row(&run, buffer.as_read(source_, made, piece), piece);
    }
    const void* const rows[] = {&run};
    loops_.join(into, rows, 1, 1);
  }

  // Task: (output row · strips + strip) · parts + part.
  void run_columns(std::int64_t begin, std::int64_t end, std::int64_t strip, std::int64_t part) {
    RowBuffer<kBuffered> buffers[kRowBatch];
    alignas(64) Accumulator sums[kWideStrip];
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t row = task / parts_ / strips_;
      const std::int64_t column = task / parts_ % strips_ * strip;
      const std::int64_t width = std::min(strip, plan_.inner_size - column);
      const std::int64_t first_row = task % parts_ * part;
      const Place keep(plan_.keep, row);
      std::fill_n(sums, width, first());
      fold_columns(sums,
                   keep.offset[0] + column * source_.step,
                   width,
                   first_row,
                   std::min(part, plan_.fold_count - first_row),
                   buffers);
      if (parts_ > 1) {
        std::copy_n(sums,
                    width,
                    partials_ + task % parts_ * partial_width_ + row * plan_.inner_size + column);
      } else {
        store(sums, row * plan_.inner_size + column, width);
      }
    }
  }

  void fold_columns(Accumulator* sums,
                    std::int64_t offset,
                    std::int64_t width,
                    std::int64_t first_row,
                    std::int64_t row_count,
                    RowBuffer<kBuffered>* buffers) {
    Place fold(plan_.fold, first_row);
    const void* rows[kRowBatch];
    for (std::int64_t done = 0; done < row_count;) {
      const std::int64_t batch = std::min(kRowBatch, row_count - done);
      for (std::int64_t r = 0; r < batch; ++r) {
        rows[r] = buffers[r].fetch(source_, offset + fold.offset[0], width);
        fold.advance();
      }
      loops_.columns(sums, rows, batch, width);
      done += batch;
    }
  }

  void join_parts() {
    const std::int64_t grain = std::max<std::int64_t>(kWideStrip, kReductionGrain / parts_);
    context_.arena.parallel_for(partial_width_, grain, [&](std::int64_t begin, std::int64_t end) {
      alignas(64) Accumulator sums[kWideStrip];
      for (std::int64_t at = begin; at < end; at += kWideStrip) {
        const std::int64_t width = std::min(kWideStrip, end - at);
        std::fill_n(sums, width, first());
        const void* rows[kRowBatch];
        for (std::int64_t part = 0; part < parts_;) {
          const std::int64_t batch = std::min(kRowBatch, parts_ - part);
          for (std::int64_t r = 0; r < batch; ++r) {
            rows[r] = partials_ + (part + r) * partial_width_ + at;
          }
          loops_.join(sums, rows, batch, width);
          part += batch;
        }
        store(sums, at, width);
      }
    });
  }

  // Rounds accumulators into results [begin, begin + count), counted in the order of the plan.
  void store(Accumulator* sums, std::int64_t begin, std::int64_t count) {
    if (kind_ == OpKind::reduce_mean) {
      const auto n =
          static_cast<double>(plan_.fold_count * (plan_.inner_is_kept ? 1 : plan_.inner_size));
      for (std::int64_t i = 0; i < count; ++i) {
        sums[i].real /= n;
      }
    }
    const std::int64_t size = size_bytes(out_.dtype);
    if (is_float(out_.dtype) && size == 2) {  // through f32, like the folds of a fused kernel
      for (std::int64_t i = 0; i < count; ++i) {
        sums[i].real = static_cast<double>(static_cast<float>(sums[i].real));
      }
    }
    if (plan_.results_are_in_order) {
      store_(out_.data + begin * size, sums, count);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      store_(out_.data + plan_.result_offset(begin + i) * size, sums + i, 1);
    }
  }

  OpKind kind_;
  const KernelCall& call_;
  KernelContext& context_;
  const TensorView& out_;
  ReductionPlan plan_;
  RowSource source_;
  DType slot_type_;
  CastLoop store_;
  std::int64_t strip_;
  FoldLoops loops_;
  std::int64_t strips_ = 1;
  std::int64_t parts_ = 1;
  std::int64_t partial_width_ = 0;   ///< Accumulators of one part of all results.
  Accumulator* partials_ = nullptr;  ///< [part][result]
  ReductionInput producer_;
  bool makes_pieces_ = false;  ///< False: the input is computed whole, in scratch memory.
};

void fill_empty(OpKind kind, const TensorView& out, IsaLevel isa) {
  const double value = kind == OpKind::reduce_mean ? std::numeric_limits<double>::quiet_NaN()
                                                   : fold_start(kind, DType::f64).real;
  const CastLoop store = cast_loops(isa).at(DType::f64, out.dtype);
  for (std::int64_t i = 0; i < out.element_count(); ++i) {
    store(out.data + i * size_bytes(out.dtype), &value, 1);
  }
}

Status run_reduce(const KernelCall& call, KernelContext& context) {
  const OpKind kind = call.op.kind();
  const Shape& shape = call.inputs[0].shape();
  if (call.outputs[0].element_count() == 0) {
    return {};
  }
  if (shape.element_count() == 0) {
    if (kind == OpKind::reduce_max || kind == OpKind::reduce_min) {
      return nothing_to_reduce(kind, shape);
    }
    fill_empty(kind, call.outputs[0], context.isa);
    return {};
  }
  return Reduction(call, context).run();
}

// Accepts reductions along rows only: columns would have to be computed in strips.
Support supports_reduction_producer(const KernelCall& call, const KernelContext& context) {
  const TensorView& input = call.inputs[0];
  if (input.element_count() == 0 ||
      ReductionPlan(input, call.op.attributes<ReduceAttributes>().axes).inner_is_kept) {
    return {.yes = false, .reason = "a reduction over columns reads its input from memory"};
  }
  return ReductionInput::supports(call, context);
}

constexpr std::array kReductionProducers = {OpKind::expression, OpKind::cross_entropy};

constexpr KernelRow fold(OpKind kind) {
  return {.kind = kind,
          .run = run_reduce,
          .supports = nullptr,
          .producers = kReductionProducers,
          .supports_prologue = &supports_reduction_producer};
}

}  // namespace

std::span<const KernelRow> reduction_rows() noexcept {
  static constexpr KernelRow kRows[] = {
      fold(OpKind::reduce_sum),
      fold(OpKind::reduce_mean),
      fold(OpKind::reduce_max),
      fold(OpKind::reduce_min),
      fold(OpKind::reduce_prod),
      {OpKind::argmax, run_argmax, nullptr, 0},
      {OpKind::argmin, run_argmax, nullptr, 0},
      {OpKind::cumsum, run_scan, nullptr, 0},
      {OpKind::cumprod, run_scan, nullptr, 0},
      {OpKind::cummax, run_scan, nullptr, 0},
      {OpKind::cummin, run_scan, nullptr, 0},
      {OpKind::topk, run_topk, nullptr, 0},
  };
  return kRows;
}

}  // namespace hearth::cpu
