#include "attention.hpp"

#include "attention_loops.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace hearth::cpu {

namespace {

// So many heads keep the cores busy, each with all of its work; fewer are cut into blocks of
// queries and then into blocks of keys, which makes the weights twice.
constexpr std::int64_t kEnoughUnits = 16;

// The inputs.
constexpr std::size_t kGradient = 0;
constexpr std::size_t kQueries = 1;
constexpr std::size_t kKeys = 2;
constexpr std::size_t kValues = 3;
constexpr std::size_t kResult = 4;
constexpr std::size_t kSums = 5;
constexpr std::size_t kMask = 6;

/// Which gradients a pass makes.
struct Wanted {
  bool of_queries = false;
  bool of_keys = false;  ///< And of values.
};

template <class T>
class Backward {
 public:
  Backward(const KernelCall& call, const KernelContext& context)
      : sizes_(call, kQueries),
        kernels_(tile_kernels<T>(context.isa)),
        loops_(attention_loops(context.isa).of<T>()),
        gradient_(tensor(call, kGradient)),
        q_(tensor(call, kQueries)),
        k_(tensor(call, kKeys)),
        v_(tensor(call, kValues)),
        result_(tensor(call, kResult)),
        sums_(call.inputs[kSums], call.inputs[kQueries].shape(), false),
        outputs_{call.outputs[0], call.outputs[1], call.outputs[2]} {
    if (call.inputs.size() > kMask) {
      mask_ = tensor(call, kMask);
    }
    row_blocks_ = (sizes_.rows() + kAttentionRows - 1) / kAttentionRows;
    key_blocks_ = (sizes_.keys + kAttentionKeys - 1) / kAttentionKeys;
    block_rows_ = std::min(sizes_.rows(), kAttentionRows);
    block_keys_ = std::min(sizes_.keys, kAttentionKeys);
    by_units_ = sizes_.unit_count() >= kEnoughUnits || (row_blocks_ <= 1 && key_blocks_ <= 1);
    accumulates_apart_ = outputs_[1].dtype != dtype_of<T>;
    product_bytes_ = whole_lines(
        product_scratch_bytes<T>(sizes_, 5, kernels_, [this](BlockSize size, int index) {
          return product(size, static_cast<Product>(index));
        }));
  }

  Status run(KernelContext& context) {
    const auto scores =
        static_cast<double>(sizes_.unit_count() * sizes_.rows()) * static_cast<double>(sizes_.keys);
    const double flops = scores * static_cast<double>(6 * sizes_.width + 4 * sizes_.value_width);
    if (by_units_) {
      return run_pass(context,
                      flops,
                      sizes_.unit_count(),
                      sizes_.keys,
                      [this](const Memory& memory, std::int64_t unit) {
                        run_keys(memory, unit, 0, sizes_.keys, {true, true});
                      });
    }
    HEARTH_TRY_STATUS(run_pass(context,
                               flops / 2,
                               sizes_.unit_count() * row_blocks_,
                               0,
                               [this](const Memory& memory, std::int64_t block) {
                                 run_rows(memory,
                                          block / row_blocks_,
                                          block % row_blocks_ * kAttentionRows,
                                          0,
                                          sizes_.keys,
                                          {true, false});
                               }));
    return run_pass(context,
                    flops / 2,
                    sizes_.unit_count() * key_blocks_,
                    block_keys_,
                    [this](const Memory& memory, std::int64_t block) {
                      const std::int64_t first = block % key_blocks_ * kAttentionKeys;
                      run_keys(memory,
                               block / key_blocks_,
                               first,
                               std::min(first + kAttentionKeys, sizes_.keys),
                               {false, true});
                    });
  }

 private:
  enum class Product : std::uint8_t { scores, of_weights, of_queries, of_keys, of_values };

  struct Memory {
    T* queries;
    T* gradient;
    T* weights;
    T* of_scores;
    T* of_queries;
    T* of_keys;  // where they are summed before they are rounded
    T* of_values;
    T* row;  // of the result, of the mask
    std::byte* packed;
  };
  struct Rows {
    std::int64_t unit;
    std::int64_t first;
    std::int64_t count;
    std::array<T, kAttentionRows> means;
    std::array<T, kAttentionRows> log_sums;
  };
  /// Where the gradients of a range of keys are summed.
  struct KeySums {
    std::int64_t first;
    T* of_keys;
    T* of_values;
  };

  static HeadTensor tensor(const KernelCall& call, std::size_t input) {
    return {call.inputs[input], call.inputs[kQueries].shape(), true};
  }
  static std::int64_t bytes_of(std::int64_t elements) {
    return whole_lines(elements * static_cast<std::int64_t>(sizeof(T)));
  }

  // summed_keys: of how many keys a task sums gradients.
  Memory lay_out(std::byte* at, std::int64_t summed_keys, std::int64_t* size_bytes) const {
    std::byte* const begin = at;
    const auto take = [&at](std::int64_t elements) {
      T* const piece = reinterpret_cast<T*>(at);
      at += bytes_of(elements);
      return piece;
    };
    const std::int64_t apart = accumulates_apart_ ? summed_keys : 0;
    Memory memory{};
    memory.queries = take(block_rows_ * sizes_.width);
    memory.gradient = take(block_rows_ * sizes_.value_width);
    memory.weights = take(block_rows_ * block_keys_);
    memory.of_scores = take(block_rows_ * block_keys_);
    memory.of_queries = take(block_rows_ * sizes_.width);
    memory.of_keys = take(apart * sizes_.width);
    memory.of_values = take(apart * sizes_.value_width);
    memory.row = take(std::max(block_keys_, sizes_.value_width));
    memory.packed = at;
    *size_bytes = at - begin + product_bytes_;
    return memory;
  }

  template <class Task>
  Status run_pass(KernelContext& context,
                  double flops,
                  std::int64_t tasks,
                  std::int64_t summed_keys,
                  const Task& task) {
    if (tasks == 0) {
      return {};
    }
    const std::int64_t parts = std::min(part_count(flops), tasks);
    const std::int64_t grain = (tasks + parts - 1) / parts;
    std::int64_t share = 0;
    alignas(64) std::byte nothing[1];
    static_cast<void>(lay_out(nothing, summed_keys, &share));
    HEARTH_TRY(std::byte* const scratch, context.scratch.take_all(share * parts));
    context.arena.parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t ignored = 0;
      const Memory memory = lay_out(scratch + begin / grain * share, summed_keys, &ignored);
      for (std::int64_t at = begin; at < end; ++at) {
        task(memory, at);
      }
    });
    return {};
  }

  // The five products of a block; data and result are filled in where one runs.
  [[nodiscard]] Gemm<T> product(BlockSize size, Product which) const {
    const GemmOperand keys = k_.layout();
    const GemmOperand values = v_.layout();
    const GemmOperand scores{nullptr, dtype_of<T>, size.keys, 1};
    const GemmOperand scores_turned{nullptr, dtype_of<T>, 1, size.keys};
    Gemm<T> gemm;
    switch (which) {
      case Product::scores:  // q kᵀ
        gemm.m = size.rows;
        gemm.n = size.keys;
        gemm.k = sizes_.width;
        gemm.a = {nullptr, dtype_of<T>, sizes_.width, 1};
        gemm.b = {nullptr, keys.dtype, keys.column_step, keys.row_step};
        break;
      case Product::of_weights:  // gradient vᵀ
        gemm.m = size.rows;
        gemm.n = size.keys;
        gemm.k = sizes_.value_width;
        gemm.a = {nullptr, dtype_of<T>, sizes_.value_width, 1};
        gemm.b = {nullptr, values.dtype, values.column_step, values.row_step};
        break;
      case Product::of_queries:  // of_scores k
        gemm.m = size.rows;
        gemm.n = sizes_.width;
        gemm.k = size.keys;
        gemm.a = scores;
        gemm.b = keys;
        gemm.accumulate = true;
        break;
      case Product::of_keys:  // of_scoresᵀ q
        gemm.m = size.keys;
        gemm.n = sizes_.width;
        gemm.k = size.rows;
        gemm.a = scores_turned;
        gemm.b = {nullptr, dtype_of<T>, sizes_.width, 1};
        gemm.accumulate = true;
        break;
      case Product::of_values:  // weightsᵀ gradient
        gemm.m = size.keys;
        gemm.n = sizes_.value_width;
        gemm.k = size.rows;
        gemm.a = scores_turned;
        gemm.b = {nullptr, dtype_of<T>, sizes_.value_width, 1};
        gemm.accumulate = true;
        break;
    }
    gemm.c_step = gemm.n;
    return gemm;
  }

  void multiply(const Memory& memory,
                BlockSize size,
                Product which,
                const void* a,
                const void* b,
                T* c) const {
    Gemm<T> gemm = product(size, which);
    gemm.a.data = static_cast<const std::byte*>(a);
    gemm.b.data = static_cast<const std::byte*>(b);
    gemm.c = c;
    block_product(gemm, kernels_, memory.packed);
  }

  [[nodiscard]] T* sums_in(const TensorView& output,
                           std::int64_t unit,
                           std::int64_t key,
                           std::int64_t columns,
                           T* apart) const {
    return accumulates_apart_ ? apart : output.as<T>() + (unit * sizes_.keys + key) * columns;
  }

  /// All queries, against keys [first, last).
  void run_keys(const Memory& memory,
                std::int64_t unit,
                std::int64_t first,
                std::int64_t last,
                Wanted wanted) const {
    const std::int64_t count = last - first;
    const KeySums sums{first,
                       sums_in(outputs_[1], unit, first, sizes_.width, memory.of_keys),
                       sums_in(outputs_[2], unit, first, sizes_.value_width, memory.of_values)};
    std::fill_n(sums.of_keys, count * sizes_.width, T{0});
    std::fill_n(sums.of_values, count * sizes_.value_width, T{0});
    for (std::int64_t row = 0; row < sizes_.rows(); row += kAttentionRows) {
      run_rows(memory, unit, row, first, last, wanted, &sums);
    }
    if (accumulates_apart_) {
      round(outputs_[1],
            (unit * sizes_.keys + first) * sizes_.width,
            sums.of_keys,
            count * sizes_.width);
      round(outputs_[2],
            (unit * sizes_.keys + first) * sizes_.value_width,
            sums.of_values,
            count * sizes_.value_width);
    }
  }

  void round(const TensorView& to, std::int64_t place, const T* from, std::int64_t count) const {
    kernels_.store(from, to.data + place * size_bytes(to.dtype), to.dtype, count);
  }

  /// A block of queries, against keys [first_key, last_key).
  void run_rows(const Memory& memory,
                std::int64_t unit,
                std::int64_t first,
                std::int64_t first_key,
                std::int64_t last_key,
                Wanted wanted,
                const KeySums* sums = nullptr) const {
    Rows rows{unit, first, std::min(block_rows_, sizes_.rows() - first), {}, {}};
    const std::int64_t end = std::min(last_key, sizes_.visible_keys(first, rows.count));
    if (end > first_key) {
      load(memory, rows);
    }
    if (wanted.of_queries) {
      std::fill_n(memory.of_queries, rows.count * sizes_.width, T{0});
    }
    for (std::int64_t key = first_key; key < end; key += kAttentionKeys) {
      const std::int64_t keys = std::min(kAttentionKeys, sizes_.keys - key);
      run_block(memory, rows, key, keys, wanted, sums);
    }
    if (wanted.of_queries) {
      const std::int64_t count = rows.count * sizes_.width;
      loops_.scale(memory.of_queries, static_cast<T>(sizes_.scale), count);
      round(outputs_[0], (unit * sizes_.rows() + first) * sizes_.width, memory.of_queries, count);
    }
  }

  void load(const Memory& memory, Rows& rows) const {
    const auto each = [&](const HeadTensor& tensor, const auto& body) {
      tensor.each_row(sizes_, rows.unit, rows.first, rows.count, body);
    };
    const std::int64_t width = sizes_.width;
    const std::int64_t value_width = sizes_.value_width;
    each(q_, [&](std::int64_t i, const GemmOperand& row) {
      load_row(row, 0, width, kernels_, memory.queries + i * width);
    });
    loops_.scale(memory.queries, static_cast<T>(sizes_.scale), rows.count * width);
    each(gradient_, [&](std::int64_t i, const GemmOperand& row) {
      load_row(row, 0, value_width, kernels_, memory.gradient + i * value_width);
    });
    each(result_, [&](std::int64_t i, const GemmOperand& row) {
      load_row(row, 0, value_width, kernels_, memory.row);
      const T* const gradient = memory.gradient + i * value_width;
      rows.means[static_cast<std::size_t>(i)] =
          static_cast<T>(loops_.dot(gradient, memory.row, value_width));
    });
    each(sums_, [&](std::int64_t i, const GemmOperand& row) {
      rows.log_sums[static_cast<std::size_t>(i)] = *reinterpret_cast<const T*>(row.data);
    });
  }

  void run_block(const Memory& memory,
                 const Rows& rows,
                 std::int64_t key,
                 std::int64_t keys,
                 Wanted wanted,
                 const KeySums* sums) const {
    const BlockSize size{rows.count, keys};
    const std::byte* const k = block_of(k_, rows.unit, key);
    const std::byte* const v = block_of(v_, rows.unit, key);
    multiply(memory, size, Product::scores, memory.queries, k, memory.weights);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      T* const row = memory.weights + i * keys;
      const std::int64_t seen =
          std::clamp<std::int64_t>(sizes_.visible_keys(rows.first + i) - key, 0, keys);
      const T* const mask =
          mask_row(mask_, sizes_, rows.unit, rows.first + i, key, seen, kernels_, memory.row);
      loops_.weigh_again(row, mask, seen, rows.log_sums[static_cast<std::size_t>(i)]);
      std::fill(row + seen, row + keys, T{0});
    }
    if (wanted.of_keys) {
      multiply(memory,
               size,
               Product::of_values,
               memory.weights,
               memory.gradient,
               sums->of_values + (key - sums->first) * sizes_.value_width);
    }
    multiply(memory, size, Product::of_weights, memory.gradient, v, memory.of_scores);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      loops_.of_scores(memory.of_scores + i * keys,
                       memory.weights + i * keys,
                       keys,
                       rows.means[static_cast<std::size_t>(i)]);
    }
    if (wanted.of_queries) {
      multiply(memory, size, Product::of_queries, memory.of_scores, k, memory.of_queries);
    }
    if (wanted.of_keys) {
      multiply(memory,
               size,
               Product::of_keys,
               memory.of_scores,
               memory.queries,
               sums->of_keys + (key - sums->first) * sizes_.width);
    }
  }

  [[nodiscard]] const std::byte* block_of(const HeadTensor& tensor,
                                          std::int64_t unit,
                                          std::int64_t key) const {
    const GemmOperand matrix = tensor.head(unit / sizes_.key_heads, unit % sizes_.key_heads);
    return matrix.data + key * matrix.row_step * size_bytes(matrix.dtype);
  }

  AttentionSizes sizes_;
  const TileKernels<T>& kernels_;
  const AttentionLoops<T>& loops_;
  HeadTensor gradient_;
  HeadTensor q_;
  HeadTensor k_;
  HeadTensor v_;
  HeadTensor result_;
  HeadTensor sums_;
  HeadTensor mask_;
  std::array<TensorView, 3> outputs_;
  std::int64_t row_blocks_ = 0;
  std::int64_t key_blocks_ = 0;
  std::int64_t block_rows_ = 0;
  std::int64_t block_keys_ = 0;
  std::int64_t product_bytes_ = 0;
  bool by_units_ = false;
  bool accumulates_apart_ = false;
};

}  // namespace

Status run_attention_backward(const KernelCall& call, KernelContext& context) {
  return call.inputs[0].dtype == DType::f64 ? Backward<double>(call, context).run(context)
                                            : Backward<float>(call, context).run(context);
}

}  // namespace hearth::cpu
