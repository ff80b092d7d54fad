#include "backends/cpu/fused/prologue_rows.hpp"
#include "epilogue.hpp"
#include "matmul_product.hpp"
#include "product_choices.hpp"

#include <algorithm>
#include <array>

namespace hearth::cpu {

namespace {

// Products of a batch at least this large run one after the other, each on all cores.
constexpr double kLargeProductFlops = 64e6;

// The products of a call: the last two axes of each operand, and the steps of the leading axes.
class Batch {
 public:
  Batch(const KernelCall& call, std::byte* result, BlockSink sink, const ProducedRows& rows) {
    const TensorView& a = call.inputs[0];
    const TensorView& b = call.inputs[1];
    const Shape& shape = call.outputs[0].shape();
    const int rank = shape.rank();
    dtype_ = a.dtype;
    result_bytes_ = size_bytes(dtype_ == DType::i8 ? DType::i32 : dtype_);
    first_.m = shape[rank - 2];
    first_.n = shape[rank - 1];
    first_.k = a.shape()[a.shape().rank() - 1];
    first_.a = last_two(a);
    first_.b = last_two(b);
    first_.c = result;
    first_.sink = sink;
    first_.rows = rows;
    if (call.inputs.size() > 2) {
      first_.bias = call.inputs[2].data;
      first_.bias_step = call.inputs[2].strides()[0];
    }
    for (int axis = rank - 3; axis >= 0; --axis) {
      push(shape[axis], step(a, axis, rank), step(b, axis, rank));
    }
  }

  [[nodiscard]] const MatmulProduct& first() const { return first_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] bool is_empty() const { return count_ * first_.m * first_.n == 0; }

  [[nodiscard]] MatmulProduct at(std::int64_t index) const {
    MatmulProduct product = first_;
    product.c += index * first_.m * first_.n * result_bytes_;
    product.sink = first_.sink.at(index * first_.m, 0);
    for (int axis = 0; axis < rank_; ++axis) {
      const Axis& current = axes_[static_cast<std::size_t>(axis)];
      const std::int64_t place = index % current.size;
      index /= current.size;
      product.a.data += place * current.a_step * size_bytes(dtype_);
      product.b.data += place * current.b_step * size_bytes(dtype_);
    }
    return product;
  }

 private:
  struct Axis {
    std::int64_t size = 1;
    std::int64_t a_step = 0;
    std::int64_t b_step = 0;
  };

  static GemmOperand last_two(const TensorView& view) {
    const int rank = view.shape().rank();
    const auto steps = view.strides();
    GemmOperand operand{view.data,
                        view.dtype,
                        steps[static_cast<std::size_t>(rank - 2)],
                        steps[static_cast<std::size_t>(rank - 1)],
                        view.constant};
    // The step of an axis of size 1 is arbitrary; 1 enables the faster forms.
    if (view.shape()[rank - 1] == 1 && operand.row_step != 1) {
      operand.column_step = 1;
    } else if (view.shape()[rank - 2] == 1 && operand.column_step != 1) {
      operand.row_step = 1;
    }
    return operand;
  }

  static std::int64_t step(const TensorView& view, int axis, int rank) {
    const int own = axis - (rank - view.shape().rank());
    return own < 0 || view.shape()[own] == 1 ? 0 : view.strides()[static_cast<std::size_t>(own)];
  }

  // Adds an axis, from the inside. While b has no batch axis and the rows of a continue in equal
  // steps, an axis extends m.
  void push(std::int64_t size, std::int64_t a_step, std::int64_t b_step) {
    if (size == 1) {
      return;
    }
    if (rank_ == 0 && b_step == 0 && (a_step == first_.m * first_.a.row_step || first_.m == 1)) {
      if (first_.m == 1) {
        first_.a.row_step = a_step;
      }
      first_.m *= size;
      return;
    }
    axes_[static_cast<std::size_t>(rank_++)] = {size, a_step, b_step};
    count_ *= size;
  }

  DType dtype_ = DType::f32;
  std::int64_t result_bytes_ = 4;  // bytes of an element of the op's own result
  MatmulProduct first_;
  std::array<Axis, kMaxRank> axes_{};
  int rank_ = 0;
  std::int64_t count_ = 1;
};

Status run_batch(const Batch& batch, KernelContext& context) {
  if (batch.is_empty()) {
    return {};
  }
  const std::int64_t share = matmul_scratch_bytes(batch.first(), context);
  if (batch.count() == 1 || batch.first().flops() >= kLargeProductFlops) {
    HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(share));
    for (std::int64_t index = 0; index < batch.count(); ++index) {
      run_matmul(batch.at(index), context, scratch, &context.arena);
    }
    return {};
  }
  const std::int64_t parts = std::min(
      batch.count(), part_count(batch.first().flops() * static_cast<double>(batch.count()) / 2));
  const std::int64_t grain = (batch.count() + parts - 1) / parts;
  HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(share * parts));
  context.arena.parallel_for(batch.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      run_matmul(batch.at(index), context, scratch + begin / grain * share, nullptr);
    }
  });
  return {};
}

// Producer of the rows of the left side. If the producer works on rows, its rows are those of the
// left side.
class RowProducer {
 public:
  [[nodiscard]] Status start(const KernelCall& call, const KernelContext& context) {
    row_elements_ = last_size(call.inputs[0]);
    threads_ = context.arena.core_count();
    const std::int64_t count = call.inputs[0].element_count();
    for (const TensorView& each : call.prologue->call->inputs) {
      if (each.layout->contiguous && each.element_count() == count) {
        origins_[origin_count_++] = {each.data, row_elements_ * size_bytes(each.dtype)};
      }
    }
    return producer_.start(call.prologue, context);
  }
  [[nodiscard]] static std::int64_t last_size(const TensorView& view) {
    return view.shape()[view.shape().rank() - 1];
  }
  [[nodiscard]] ProducedRows rows() const {
    if (!producer_.is_there()) {
      return {};
    }
    return {.make = &make,
            .context = this,
            .memory_bytes = whole_lines(producer_.part_bytes()),
            .threads = threads_,
            .grain = std::max<std::int64_t>(
                1, producer_.grain() / std::max<std::int64_t>(row_elements_, 1)),
            .origins = std::span(origins_).first(origin_count_)};
  }

 private:
  static void make(
      const void* context, std::byte* memory, std::byte* to, std::int64_t begin, std::int64_t end) {
    const auto* const self = static_cast<const RowProducer*>(context);
    PrologueRows::Part(self->producer_, memory)
        .make(to, begin * self->row_elements_, end * self->row_elements_);
  }

  PrologueRows producer_;
  std::int64_t row_elements_ = 0;
  std::int64_t threads_ = 1;
  std::size_t origin_count_ = 0;
  /// Only the first origin_count_ are set.
  std::array<RowOrigin, TileProgram::kMostInputs> origins_;
};

Status matmul(const KernelCall& call, KernelContext& context) {
  RowProducer producer;
  if (call.prologue != nullptr) {
    HEARTH_TRY_STATUS(producer.start(call, context));
  }
  if (call.epilogue == nullptr) {
    return run_batch(Batch(call, call.outputs[0].data, {}, producer.rows()), context);
  }
  HEARTH_TRY(const EpilogueBlocks blocks, EpilogueBlocks::make(call, context));
  return run_batch(Batch(call, blocks.result(), blocks.sink(), producer.rows()), context);
}

// Requires one product: all leading axes of the left side merge into its rows.
Support supports_matmul_producer(const KernelCall& call, const KernelContext& context) {
  if (call.inputs[0].dtype == DType::i8) {
    return {.yes = false, .reason = "the left side of a product of i8 has a kernel of its own"};
  }
  const Shape& b = call.inputs[1].shape();
  for (int axis = 0; axis < b.rank() - 2; ++axis) {
    if (b[axis] != 1) {
      return {.yes = false, .reason = "the left side of several products has a kernel of its own"};
    }
  }
  return PrologueRows::supports(*call.prologue, RowProducer::last_size(call.inputs[0]), context);
}

// A thin product computes each row on its own, so a row's bits do not depend on the others.
std::int64_t joinable_matmuls(const KernelCall& call) noexcept {
  const TensorView& a = call.inputs[0];
  const TensorView& b = call.inputs[1];
  if (a.dtype == DType::i8 || a.shape().rank() != 2 || b.shape().rank() != 2 ||
      call.outputs[0].element_count() == 0) {
    return 1;
  }
  const std::int64_t rows = b.strides()[0] == 1   ? kMaxDotRows
                            : b.strides()[1] == 1 ? kMaxThinRows
                                                  : 0;
  return std::max<std::int64_t>(1, rows / a.shape()[0]);
}

// The first product of the call stands for all; they differ in their bytes alone. Fused calls and
// empty ones have no choice.
bool has_choice(const KernelCall& call) noexcept {
  return call.epilogue == nullptr && call.prologue == nullptr &&
         call.outputs[0].element_count() != 0;
}

std::vector<detail::Candidate> matmul_candidates(const KernelCall& call,
                                                 const KernelContext& context) {
  return has_choice(call) ? product_candidates(Batch(call, nullptr, {}, {}).first(), context)
                          : std::vector<detail::Candidate>();
}

bool allows_matmul_pick(const KernelCall& call, const KernelContext& context) noexcept {
  const ProductChoice* const choice = choice_of(context.pick);
  return choice != nullptr && has_choice(call) &&
         allows(Batch(call, nullptr, {}, {}).first(), context, *choice);
}

constexpr std::array kMatmulProducers = {OpKind::expression};

constexpr KernelRow kMatmulRows[] = {{.kind = OpKind::matmul,
                                      .run = &matmul,
                                      .supports = nullptr,
                                      .joinable_calls = &joinable_matmuls,
                                      .takes_epilogue = true,
                                      .producers = kMatmulProducers,
                                      .supports_prologue = &supports_matmul_producer,
                                      .candidates = &matmul_candidates,
                                      .allows_pick = &allows_matmul_pick}};

}  // namespace

std::span<const KernelRow> matmul_rows() noexcept {
  return kMatmulRows;
}

}  // namespace hearth::cpu
