#include "attention.hpp"

#include "attention_loops.hpp"

#include <hearth/streams/op_table.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace hearth::cpu {

template <class T>
void block_product(const Gemm<T>& product, const TileKernels<T>& kernels, std::byte* scratch) {
  if (product.m == 0 || product.n == 0) {
    return;
  }
  if (product.k > 0) {
    run_gemm(product, kernels, scratch, nullptr);
    return;
  }
  for (std::int64_t row = 0; row < product.m && !product.accumulate; ++row) {
    std::fill_n(product.c + row * product.c_step, product.n, T{0});
  }
}
template void block_product<float>(const Gemm<float>&, const TileKernels<float>&, std::byte*);
template void block_product<double>(const Gemm<double>&, const TileKernels<double>&, std::byte*);

namespace {

/// One call, and the memory of its parts.
template <class T>
class Forward {
 public:
  Forward(const KernelCall& call, const KernelContext& context)
      : sizes_(call, 0),
        kernels_(tile_kernels<T>(context.isa)),
        loops_(attention_loops(context.isa).of<T>()),
        q_(call.inputs[0], call.inputs[0].shape(), true),
        k_(call.inputs[1], call.inputs[0].shape(), true),
        v_(call.inputs[2], call.inputs[0].shape(), true),
        out_(call.outputs[0]) {
    if (call.inputs.size() > 3) {
      mask_ = HeadTensor(call.inputs[3], call.inputs[0].shape(), true);
    }
    if (call.outputs.size() > 1) {
      sums_ = call.outputs[1].as<T>();
    }
    blocks_ = (sizes_.rows() + kAttentionRows - 1) / kAttentionRows;
    block_rows_ = std::min(sizes_.rows(), kAttentionRows);
    block_keys_ = std::min(sizes_.keys, kAttentionKeys);
    is_thin_ = sizes_.rows() <= kMaxThinRows && v_.layout().column_step == 1 &&
               k_.layout().column_step == 1;
    product_bytes_ = whole_lines(product_scratch_bytes<T>(
        sizes_, 2, kernels_, [this](BlockSize size, int index) { return product(size, index); }));
  }

  Status run(KernelContext& context) {
    const auto scores =
        static_cast<double>(sizes_.unit_count() * sizes_.rows()) * static_cast<double>(sizes_.keys);
    const double flops = 2 * scores * static_cast<double>(sizes_.width + sizes_.value_width);
    const std::int64_t blocks = sizes_.unit_count() * blocks_;
    const std::int64_t parts = std::min(part_count(flops), blocks);
    const std::int64_t grain = (blocks + parts - 1) / parts;
    const std::int64_t share = scratch_bytes();
    HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(share * parts));
    context.arena.parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        run_block(
            block / blocks_, block % blocks_ * kAttentionRows, scratch + begin / grain * share);
      }
    });
    return {};
  }

 private:
  struct Memory {
    T* queries;
    T* scores;
    T* sums;     // of weighted values
    T* product;  // of one block, where it cannot be added in place
    T* mask;
    std::byte* packed;
  };

  [[nodiscard]] std::int64_t scratch_bytes() const {
    return elements_bytes(block_rows_ * sizes_.width) + elements_bytes(block_rows_ * block_keys_) +
           2 * elements_bytes(block_rows_ * sizes_.value_width) + elements_bytes(block_keys_) +
           product_bytes_;
  }
  static std::int64_t elements_bytes(std::int64_t count) {
    return whole_lines(count * static_cast<std::int64_t>(sizeof(T)));
  }
  [[nodiscard]] Memory lay_out(std::byte* at) const {
    const auto take = [&at](std::int64_t elements) {
      T* const piece = reinterpret_cast<T*>(at);
      at += elements_bytes(elements);
      return piece;
    };
    Memory memory{};
    memory.queries = take(block_rows_ * sizes_.width);
    memory.scores = take(block_rows_ * block_keys_);
    memory.sums = take(block_rows_ * sizes_.value_width);
    memory.product = take(block_rows_ * sizes_.value_width);
    memory.mask = take(block_keys_);
    memory.packed = at;
    return memory;
  }

  // The products of a block: scores, and weighted values.
  [[nodiscard]] Gemm<T> product(BlockSize size, int index) const {
    Gemm<T> gemm;
    gemm.m = size.rows;
    if (index == 0) {
      gemm.n = size.keys;
      gemm.k = sizes_.width;
      gemm.a = {nullptr, dtype_of<T>, sizes_.width, 1};
      const GemmOperand keys = k_.layout();
      gemm.b = {nullptr, keys.dtype, keys.column_step, keys.row_step};
      gemm.c_step = size.keys;
    } else {
      gemm.n = sizes_.value_width;
      gemm.k = size.keys;
      gemm.a = {nullptr, dtype_of<T>, size.keys, 1};
      gemm.b = v_.layout();
      gemm.c_step = sizes_.value_width;
      gemm.accumulate = true;
    }
    return gemm;
  }

  void run_block(std::int64_t unit, std::int64_t first, std::byte* scratch) const {
    const Memory memory = lay_out(scratch);
    const std::int64_t count = std::min(block_rows_, sizes_.rows() - first);
    const std::int64_t width = sizes_.width;
    q_.each_row(sizes_, unit, first, count, [&](std::int64_t i, const GemmOperand& row) {
      load_row(row, 0, width, kernels_, memory.queries + i * width);
    });
    loops_.scale(memory.queries, static_cast<T>(sizes_.scale), count * width);
    std::fill_n(memory.sums, count * sizes_.value_width, T{0});
    std::array<T, kAttentionRows> tops{};
    tops.fill(-std::numeric_limits<T>::infinity());
    std::array<double, kAttentionRows> totals{};
    const std::int64_t visible = sizes_.visible_keys(first, count);
    for (std::int64_t key = 0; key < visible; key += kAttentionKeys) {
      const std::int64_t keys = std::min(kAttentionKeys, sizes_.keys - key);
      make_scores(memory, unit, {count, keys}, key);
      for (std::int64_t i = 0; i < count; ++i) {
        weigh_row(memory, unit, first + i, key, keys, i, tops, totals);
      }
      add_values(memory, unit, {count, keys}, key);
    }
    finish(memory, unit, first, count, tops, totals);
  }

  void make_scores(const Memory& memory,
                   std::int64_t unit,
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
      thin.y_step = size.keys;
      thin.depth = sizes_.width;
      thin.columns = size.keys;
      thin.rows = static_cast<int>(size.rows);
      kernels_.thin_dot(thin, keys.dtype);
      return;
    }
    Gemm<T> gemm = product(size, 0);
    gemm.a.data = reinterpret_cast<const std::byte*>(memory.queries);
    gemm.b.data = keys.data;
    gemm.c = memory.scores;
    block_product(gemm, kernels_, memory.packed);
  }

  void weigh_row(const Memory& memory,
                 std::int64_t unit,
                 std::int64_t row,
                 std::int64_t key,
                 std::int64_t keys,
                 std::int64_t i,
                 std::array<T, kAttentionRows>& tops,
                 std::array<double, kAttentionRows>& totals) const {
    const auto at = static_cast<std::size_t>(i);
    T* const scores = memory.scores + i * keys;
    const std::int64_t seen = std::clamp<std::int64_t>(sizes_.visible_keys(row) - key, 0, keys);
    const T* const mask = mask_row(mask_, sizes_, unit, row, key, seen, kernels_, memory.mask);
    const T before = tops[at];
    const AttentionRow<T> weighed = loops_.weigh(scores, mask, seen, before);
    std::fill(scores + seen, scores + keys, T{0});
    tops[at] = weighed.top;
    if (weighed.top == before) {
      totals[at] += weighed.sum;
      return;
    }
    const T shrink = std::exp(before - weighed.top);
    totals[at] = totals[at] * static_cast<double>(shrink) + weighed.sum;
    loops_.scale(memory.sums + i * sizes_.value_width, shrink, sizes_.value_width);
  }

  void add_values(const Memory& memory, std::int64_t unit, BlockSize size, std::int64_t key) const {
    GemmOperand values = v_.head(unit / sizes_.key_heads, unit % sizes_.key_heads);
    values.data += key * values.row_step * size_bytes(values.dtype);
    if (is_thin_ && sizes_.value_width > 0) {
      Thin<T> thin;
      thin.x = memory.scores;
      thin.x_step = size.keys;
      thin.w = values.data;
      thin.w_step = values.row_step;
      thin.y = memory.product;
      thin.y_step = sizes_.value_width;
      thin.depth = size.keys;
      thin.columns = sizes_.value_width;
      thin.rows = static_cast<int>(size.rows);
      kernels_.thin_axpy(thin, values.dtype);
      loops_.add(memory.sums, memory.product, size.rows * sizes_.value_width);
      return;
    }
    Gemm<T> gemm = product(size, 1);
    gemm.a.data = reinterpret_cast<const std::byte*>(memory.scores);
    gemm.b.data = values.data;
    gemm.c = memory.sums;
    block_product(gemm, kernels_, memory.packed);
  }

  void finish(const Memory& memory,
              std::int64_t unit,
              std::int64_t first,
              std::int64_t count,
              const std::array<T, kAttentionRows>& tops,
              const std::array<double, kAttentionRows>& totals) const {
    const std::int64_t columns = sizes_.value_width;
    for (std::int64_t i = 0; i < count; ++i) {
      const double total = totals[static_cast<std::size_t>(i)];
      T* const row = memory.sums + i * columns;
      loops_.scale(row, total == 0 ? T{0} : static_cast<T>(1.0 / total), columns);
      const std::int64_t place = unit * sizes_.rows() + first + i;  // results have no gaps
      kernels_.store(
          row, out_.data + place * columns * size_bytes(out_.dtype), out_.dtype, columns);
      if (sums_ != nullptr) {
        const auto top = static_cast<double>(tops[static_cast<std::size_t>(i)]);
        sums_[place] = static_cast<T>(total == 0 ? -std::numeric_limits<double>::infinity()
                                                 : top + std::log(total));
      }
    }
  }

  AttentionSizes sizes_;
  const TileKernels<T>& kernels_;
  const AttentionLoops<T>& loops_;
  HeadTensor q_;
  HeadTensor k_;
  HeadTensor v_;
  HeadTensor mask_;
  TensorView out_;
  T* sums_ = nullptr;
  std::int64_t blocks_ = 0;
  std::int64_t block_rows_ = 0;
  std::int64_t block_keys_ = 0;
  std::int64_t product_bytes_ = 0;
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

std::span<const KernelRow> attention_rows() noexcept {
  static constexpr KernelRow kRows[] = {
      {.kind = OpKind::attention, .run = run_attention, .supports = nullptr},
      {.kind = OpKind::attention_backward, .run = run_attention_backward, .supports = nullptr},
  };
  return kRows;
}

}  // namespace hearth::cpu
