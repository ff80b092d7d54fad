#include "attention.hpp"

#include "attention_loops.hpp"
#include "backends/cpu/fused/prologue_rows.hpp"
#include "backends/cpu/products/epilogue_rows.hpp"

#include <hearth/streams/op_table.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace hearth::cpu {

namespace {

/// The kernel of one call, and the memory of its parts.
template <class T>
class Forward {
 public:
  Forward(const KernelCall& call, const KernelContext& context)
      : sizes_(call, 0),
        kernels_(tile_kernels<T>(context.isa)),
        loops_(attention_loops(context.isa).of<T>()),
        call_(call),
        q_(call.inputs[0], call.inputs[0].shape(), true),
        k_(call.inputs[1], call.inputs[0].shape(), true),
        v_(call.inputs[2], call.inputs[0].shape(), true),
        dtype_(call.inputs[0].dtype) {
    if (call.inputs.size() > 3) {
      mask_ = HeadTensor(call.inputs[3], call.inputs[0].shape(), true);
    }
    if (call.outputs.size() > 1 && call.epilogue == nullptr) {
      statistics_ = call.outputs[1].as<T>();
    }
    blocks_ = (sizes_.rows() + kAttentionRows - 1) / kAttentionRows;
    block_rows_ = std::min(sizes_.rows(), kAttentionRows);
    block_keys_ = std::min(sizes_.keys, kAttentionKeys);
    // The gradient computes its scores by tiles, and the statistics must come from equal scores.
    is_thin_ = sizes_.rows() <= kMaxThinRows && v_.layout().column_step == 1 &&
               k_.layout().column_step == 1 && statistics_ == nullptr;
    score_step_ = score_step<T>(block_keys_);
  }

  Status run(KernelContext& context) {
    HEARTH_TRY_STATUS(epilogue_.start(call_, context));
    HEARTH_TRY_STATUS(producer_.start(call_.prologue, context));
    const auto scores =
        static_cast<double>(sizes_.unit_count() * sizes_.rows()) * static_cast<double>(sizes_.keys);
    const double flops = 2 * scores * static_cast<double>(sizes_.width + sizes_.value_width);
    const std::int64_t blocks = sizes_.unit_count() * blocks_;
    const std::int64_t parts = std::min(part_count(flops), blocks);
    const std::int64_t grain = (blocks + parts - 1) / parts;
    const std::int64_t share = scratch_bytes();
    HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(share * parts));
    context.arena.parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      std::optional<EpilogueRows::Part> epilogue;
      if (epilogue_.is_there()) {
        epilogue.emplace(epilogue_);
      }
      std::optional<PrologueRows::Part> producer;
      if (producer_.is_there()) {
        producer.emplace(producer_, nullptr);  // a producer without row buffers needs no memory
      }
      const Memory memory = lay_out(scratch + begin / grain * share);
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t unit = block / blocks_;
        const std::int64_t first = block % blocks_ * kAttentionRows;
        const std::int64_t count = std::min(block_rows_, sizes_.rows() - first);
        if (producer) {
          make_queries(memory, *producer, unit, first, count);
        } else {
          load_queries(memory, unit, first, count);
        }
        run_block(memory, unit, first, count);
        if (epilogue) {
          const std::int64_t row = unit * sizes_.rows() + first;
          const std::int64_t columns = sizes_.value_width;
          epilogue->run(memory.result, row * columns, (row + count) * columns);
        }
      }
    });
    return {};
  }

 private:
  struct Memory {
    T* queries;
    std::byte* made;  // queries computed by the prologue
    T* scores;
    T* sums;     // of weighted values
    T* product;  // of one block that cannot be added in place
    T* mask;
    T* keys;  // in panels
    T* values;
    std::byte* result;  // of one block, read by the epilogue
  };

  [[nodiscard]] std::int64_t scratch_bytes() const {
    std::int64_t size_bytes = 0;
    static_cast<void>(lay_out(nullptr, &size_bytes));
    return size_bytes;
  }
  Memory lay_out(std::byte* at, std::int64_t* size_bytes = nullptr) const {
    std::int64_t offset = 0;
    const auto take = [&](std::int64_t elements) {
      T* const piece = at == nullptr ? nullptr : reinterpret_cast<T*>(at + offset);
      offset += whole_lines(elements * static_cast<std::int64_t>(sizeof(T)));
      return piece;
    };
    Memory memory{};
    memory.queries = take(block_rows_ * sizes_.width);
    memory.made = reinterpret_cast<std::byte*>(memory.queries);
    if (call_.prologue != nullptr && dtype_ != dtype_of<T>) {
      memory.made = reinterpret_cast<std::byte*>(take(block_rows_ * sizes_.width));
    }
    memory.scores = take(block_rows_ * score_step_);
    memory.sums = take(block_rows_ * sizes_.value_width);
    memory.product = take(is_thin_ ? block_rows_ * sizes_.value_width : 0);
    memory.mask = take(block_keys_);
    memory.keys = take(is_thin_ ? 0 : keys_of(block_keys_).elements(kernels_));
    memory.values = take(is_thin_ ? 0 : values_of(block_keys_).elements(kernels_));
    memory.result = reinterpret_cast<std::byte*>(memory.sums);
    if (call_.epilogue != nullptr && dtype_ != dtype_of<T>) {
      memory.result = reinterpret_cast<std::byte*>(take(block_rows_ * sizes_.value_width));
    }
    if (size_bytes != nullptr) {
      *size_bytes = offset;
    }
    return memory;
  }
  [[nodiscard]] BlockPanels<T> keys_of(std::int64_t keys) const { return {sizes_.width, keys}; }
  [[nodiscard]] BlockPanels<T> values_of(std::int64_t keys) const {
    return {keys, sizes_.value_width};
  }

  void load_queries(const Memory& memory,
                    std::int64_t unit,
                    std::int64_t first,
                    std::int64_t count) const {
    q_.each_run(
        sizes_, unit, first, count, [&](std::int64_t i, const GemmOperand& rows, std::int64_t n) {
          load_rows(rows, n, sizes_.width, kernels_, memory.queries + i * sizes_.width);
        });
  }
  // Units are consecutive, as are the rows of each.
  void make_queries(const Memory& memory,
                    PrologueRows::Part& producer,
                    std::int64_t unit,
                    std::int64_t first,
                    std::int64_t count) const {
    const std::int64_t row = unit * sizes_.rows() + first;
    producer.make(memory.made, row * sizes_.width, (row + count) * sizes_.width);
    if (dtype_ != dtype_of<T>) {
      kernels_.load(memory.made, dtype_, memory.queries, count * sizes_.width);
    }
  }

  void run_block(const Memory& memory,
                 std::int64_t unit,
                 std::int64_t first,
                 std::int64_t count) const {
    const std::int64_t width = sizes_.width;
    loops_.scale(memory.queries, static_cast<T>(sizes_.scale), count * width);
    std::fill_n(memory.sums, count * sizes_.value_width, T{0});
    std::array<T, kAttentionRows> tops{};
    tops.fill(-std::numeric_limits<T>::infinity());
    std::array<double, kAttentionRows> totals{};
    const std::int64_t visible = sizes_.visible_keys(first, count);
    for (std::int64_t key = 0; key < visible; key += kAttentionKeys) {
      const std::int64_t keys = std::min(kAttentionKeys, sizes_.keys - key);
      const VisibleKeys key_counts(sizes_, first, count, key, keys);
      make_scores(memory, unit, key_counts, {count, keys}, key);
      for (std::int64_t i = 0; i < count; ++i) {
        weigh_row(memory, unit, first + i, key, key_counts, i, tops, totals);
      }
      add_values(memory, unit, key_counts, {count, keys}, key);
    }
    finish(memory, unit, first, count, tops, totals);
  }

  void make_scores(const Memory& memory,
                   std::int64_t unit,
                   const VisibleKeys& key_counts,
                   BlockSize size,
                   std::int64_t key) const {
    GemmOperand keys = k_.head(unit / sizes_.key_heads, unit % sizes_.key_heads);
    keys.data += key * keys.row_step * size_bytes(keys.dtype);
    if (is_thin_ && sizes_.width > 0) {
      Thin<T> thin;
      thin.x = memory.queries;
      thin.x_step = sizes_.width;
      thin.w = keys.data;
      thin.w_step = keys.row_step;
      thin.y = memory.scores;
      thin.y_step = score_step_;
      thin.depth = sizes_.width;
      thin.columns = size.keys;
      thin.rows = static_cast<int>(size.rows);
      kernels_.thin_dot(thin, keys.dtype);
      return;
    }
    std::swap(keys.row_step, keys.column_step);
    const BlockPanels<T> panels = keys_of(size.keys);
    panels.pack(keys, kernels_, memory.keys);
    if (sizes_.width == 0) {
      std::fill_n(memory.scores, size.rows * score_step_, T{0});
    }
    multiply_block<T>({.rows = size.rows,
                       .a = memory.queries,
                       .a_row_step = sizes_.width,
                       .b = memory.keys,
                       .panels = panels,
                       .c = memory.scores,
                       .c_step = score_step_},
                      kernels_,
                      [&](std::int64_t i, std::int64_t count) {
                        return BlockNeed{0, sizes_.width, key_counts.most_of(i, count)};
                      });
  }

  void weigh_row(const Memory& memory,
                 std::int64_t unit,
                 std::int64_t row,
                 std::int64_t key,
                 const VisibleKeys& key_counts,
                 std::int64_t i,
                 std::array<T, kAttentionRows>& tops,
                 std::array<double, kAttentionRows>& totals) const {
    const auto at = static_cast<std::size_t>(i);
    T* const scores = memory.scores + i * score_step_;
    const std::int64_t seen = key_counts.seen(i);
    const T* const mask = mask_row(mask_, sizes_, unit, row, key, seen, kernels_, memory.mask);
    const T before = tops[at];
    const AttentionRow<T> weighed =
        loops_.weigh(scores, mask, seen, score_step<T>(key_counts.most()), before);
    tops[at] = weighed.top;
    if (weighed.top == before || before == -std::numeric_limits<T>::infinity()) {
      totals[at] += weighed.sum;
      return;
    }
    const T shrink = std::exp(before - weighed.top);
    totals[at] = totals[at] * static_cast<double>(shrink) + weighed.sum;
    loops_.scale(memory.sums + i * sizes_.value_width, shrink, sizes_.value_width);
  }

  void add_values(const Memory& memory,
                  std::int64_t unit,
                  const VisibleKeys& key_counts,
                  BlockSize size,
                  std::int64_t key) const {
    GemmOperand values = v_.head(unit / sizes_.key_heads, unit % sizes_.key_heads);
    values.data += key * values.row_step * size_bytes(values.dtype);
    if (is_thin_ && sizes_.value_width > 0) {
      Thin<T> thin;
      thin.x = memory.scores;
      thin.x_step = score_step_;
      thin.w = values.data;
      thin.w_step = values.row_step;
      thin.y = memory.product;
      thin.y_step = sizes_.value_width;
      thin.depth = key_counts.most();
      thin.columns = sizes_.value_width;
      thin.rows = static_cast<int>(size.rows);
      kernels_.thin_axpy(thin, values.dtype);
      loops_.add(memory.sums, memory.product, size.rows * sizes_.value_width);
      return;
    }
    const BlockPanels<T> panels = values_of(size.keys);
    panels.pack(values, kernels_, memory.values);
    multiply_block<T>({.rows = size.rows,
                       .a = memory.scores,
                       .a_row_step = score_step_,
                       .b = memory.values,
                       .panels = panels,
                       .c = memory.sums,
                       .c_step = sizes_.value_width,
                       .accumulates = true},
                      kernels_,
                      [&](std::int64_t i, std::int64_t count) {
                        return BlockNeed{0, key_counts.most_of(i, count), sizes_.value_width};
                      });
  }

  void finish(const Memory& memory,
              std::int64_t unit,
              std::int64_t first,
              std::int64_t count,
              const std::array<T, kAttentionRows>& tops,
              const std::array<double, kAttentionRows>& totals) const {
    const std::int64_t columns = sizes_.value_width;
    const std::int64_t row_bytes = columns * size_bytes(dtype_);
    for (std::int64_t i = 0; i < count; ++i) {
      const double total = totals[static_cast<std::size_t>(i)];
      const T share = total == 0 ? T{0} : static_cast<T>(1.0 / total);
      T* const row = memory.sums + i * columns;
      loops_.scale(row, share, columns);
      const std::int64_t place = unit * sizes_.rows() + first + i;  // the result is contiguous
      if (!epilogue_.is_there()) {
        kernels_.store(row, call_.outputs[0].data + place * row_bytes, dtype_, columns);
      } else if (dtype_ != dtype_of<T>) {
        kernels_.store(row, memory.result + i * row_bytes, dtype_, columns);
      }
      if (statistics_ != nullptr) {
        statistics_[2 * place] = tops[static_cast<std::size_t>(i)];
        statistics_[2 * place + 1] = share;
      }
    }
  }

  AttentionSizes sizes_;
  const TileKernels<T>& kernels_;
  const AttentionLoops<T>& loops_;
  const KernelCall& call_;
  HeadTensor q_;
  HeadTensor k_;
  HeadTensor v_;
  HeadTensor mask_;
  DType dtype_;  // of the result
  EpilogueRows epilogue_;
  PrologueRows producer_;  ///< Prologue of the queries.
  T* statistics_ = nullptr;
  std::int64_t blocks_ = 0;
  std::int64_t block_rows_ = 0;
  std::int64_t block_keys_ = 0;
  std::int64_t score_step_ = 0;
  bool is_thin_ = false;
};

}  // namespace

Status run_attention(const KernelCall& call, KernelContext& context) {
  const AttentionSizes sizes(call, 0);
  if (sizes.unit_count() == 0 || sizes.rows() == 0) {
    return {};
  }
  return call.inputs[0].dtype == DType::f64 ? Forward<double>(call, context).run(context)
                                            : Forward<float>(call, context).run(context);
}

namespace {

// A prologue may produce the queries: each block of them is read once, while keys and values are
// read once for each block.
Support supports_attention_producer(const KernelCall& call, const KernelContext& context) {
  if (call.op.record().output_count != 1) {
    return {.yes = false,
            .reason = "attention that keeps its statistics reads its queries from memory"};
  }
  return PrologueRows::supports(*call.prologue, 0, context);
}

}  // namespace

std::span<const KernelRow> attention_rows() noexcept {
  static constexpr std::array kProducers = {OpKind::expression};
  static constexpr KernelRow kRows[] = {
      {.kind = OpKind::attention,
       .run = run_attention,
       .supports = nullptr,
       .takes_epilogue = true,
       .producers = kProducers,
       .supports_prologue = &supports_attention_producer},
      {.kind = OpKind::attention_backward, .run = run_attention_backward, .supports = nullptr},
  };
  return kRows;
}

}  // namespace hearth::cpu
