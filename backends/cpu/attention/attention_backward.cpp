#include "attention.hpp"

#include "attention_loops.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace hearth::cpu {

namespace {

// With at least this number of heads, each task takes a whole head and all cores are busy. Fewer
// heads are cut into blocks of queries and then into blocks of keys, which computes the weights
// twice.
constexpr std::int64_t kEnoughUnits = 16;

// Input indices.
constexpr std::size_t kGradient = 0;
constexpr std::size_t kQueries = 1;
constexpr std::size_t kKeys = 2;
constexpr std::size_t kValues = 3;
constexpr std::size_t kResult = 4;
constexpr std::size_t kStatistics = 5;
constexpr std::size_t kMask = 6;

/// The gradients that a pass computes.
struct Wanted {
  bool of_queries = false;
  bool of_keys = false;  ///< Gradients of keys and of values.
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
        statistics_(tensor(call, kStatistics)),
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
    score_step_ = score_step<T>(block_keys_);
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
  struct Memory {
    T* queries;
    T* gradient;
    T* weights;
    T* of_scores;
    T* of_queries;
    T* of_keys;  // sums, before they are rounded
    T* of_values;
    T* result;
    T* mask;
    T* panels;
  };
  struct Rows {
    std::int64_t unit;
    std::int64_t first;
    std::int64_t count;
    std::array<T, kAttentionRows> means;
    std::array<T, 2 * kAttentionRows> statistics;
  };
  /// Sums of the gradients of a range of keys.
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

  // summed_keys: number of keys whose gradients a task sums.
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
    memory.weights = take(block_rows_ * score_step_);
    memory.of_scores = take(block_rows_ * score_step_);
    memory.of_queries = take(block_rows_ * sizes_.width);
    memory.of_keys = take(apart * sizes_.width);
    memory.of_values = take(apart * sizes_.value_width);
    memory.result = take(block_rows_ * sizes_.value_width);
    memory.mask = take(block_keys_);
    memory.panels = take(most_panel_elements());
    *size_bytes = at - begin;
    return memory;
  }

  // Only one right side is packed at a time.
  [[nodiscard]] std::int64_t most_panel_elements() const {
    std::int64_t most = 0;
    for (const std::int64_t columns : {sizes_.width, sizes_.value_width}) {
      for (const BlockPanels<T>& panels : {BlockPanels<T>{columns, block_keys_},
                                           BlockPanels<T>{block_keys_, columns},
                                           BlockPanels<T>{block_rows_, columns}}) {
        most = std::max(most, panels.elements(kernels_));
      }
    }
    return most;
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

  [[nodiscard]] T* sums_in(const TensorView& output,
                           std::int64_t unit,
                           std::int64_t key,
                           std::int64_t columns,
                           T* apart) const {
    return accumulates_apart_ ? apart : output.as<T>() + (unit * sizes_.keys + key) * columns;
  }

  /// Processes all queries against keys [first, last).
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

  /// Processes a block of queries against keys [first_key, last_key).
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
    const auto load_all = [&](const HeadTensor& from, std::int64_t columns, T* to) {
      from.each_run(sizes_,
                    rows.unit,
                    rows.first,
                    rows.count,
                    [&](std::int64_t i, const GemmOperand& run, std::int64_t n) {
                      load_rows(run, n, columns, kernels_, to + i * columns);
                    });
    };
    const std::int64_t value_width = sizes_.value_width;
    load_all(q_, sizes_.width, memory.queries);
    loops_.scale(memory.queries, static_cast<T>(sizes_.scale), rows.count * sizes_.width);
    load_all(gradient_, value_width, memory.gradient);
    load_all(result_, value_width, memory.result);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      rows.means[static_cast<std::size_t>(i)] = static_cast<T>(loops_.dot(
          memory.gradient + i * value_width, memory.result + i * value_width, value_width));
    }
    load_all(statistics_, 2, rows.statistics.data());
  }

  // The five products of a block, and the elementwise steps between them.
  void run_block(const Memory& memory,
                 const Rows& rows,
                 std::int64_t key,
                 std::int64_t keys,
                 Wanted wanted,
                 const KeySums* sums) const {
    const VisibleKeys key_counts(sizes_, rows.first, rows.count, key, keys);
    const std::int64_t seen_step = score_step<T>(key_counts.most());
    const GemmOperand k = block_of(k_, rows.unit, key);
    const GemmOperand v = block_of(v_, rows.unit, key);
    multiply_scores(
        memory, key_counts, {rows.count, keys}, memory.queries, sizes_.width, k, memory.weights);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const T* const mask = mask_row(
          mask_, sizes_, rows.unit, rows.first + i, key, key_counts.seen(i), kernels_, memory.mask);
      loops_.weigh_again(memory.weights + i * score_step_,
                         mask,
                         key_counts.seen(i),
                         seen_step,
                         rows.statistics[static_cast<std::size_t>(2 * i)],
                         rows.statistics[static_cast<std::size_t>(2 * i + 1)]);
    }
    if (wanted.of_keys) {
      add_of_keys(memory,
                  key_counts,
                  {rows.count, keys},
                  memory.weights,
                  memory.gradient,
                  sizes_.value_width,
                  sums->of_values + (key - sums->first) * sizes_.value_width);
    }
    multiply_scores(memory,
                    key_counts,
                    {rows.count, keys},
                    memory.gradient,
                    sizes_.value_width,
                    v,
                    memory.of_scores);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      loops_.of_scores(memory.of_scores + i * score_step_,
                       memory.weights + i * score_step_,
                       key_counts.seen(i),
                       seen_step,
                       rows.means[static_cast<std::size_t>(i)]);
    }
    if (wanted.of_queries) {
      const BlockPanels<T> panels{keys, sizes_.width};
      panels.pack(k, kernels_, memory.panels);
      multiply_block<T>({.rows = rows.count,
                         .a = memory.of_scores,
                         .a_row_step = score_step_,
                         .b = memory.panels,
                         .panels = panels,
                         .c = memory.of_queries,
                         .c_step = sizes_.width,
                         .accumulates = true},
                        kernels_,
                        [&](std::int64_t i, std::int64_t count) {
                          return BlockNeed{0, key_counts.most_of(i, count), sizes_.width};
                        });
    }
    if (wanted.of_keys) {
      add_of_keys(memory,
                  key_counts,
                  {rows.count, keys},
                  memory.of_scores,
                  memory.queries,
                  sizes_.width,
                  sums->of_keys + (key - sums->first) * sizes_.width);
    }
  }

  /// scores = rows·matrixᵀ where a row sees the key. Rows have `width` elements.
  void multiply_scores(const Memory& memory,
                       const VisibleKeys& key_counts,
                       BlockSize size,
                       const T* rows,
                       std::int64_t width,
                       GemmOperand matrix,
                       T* scores) const {
    const BlockPanels<T> panels{width, size.keys};
    std::swap(matrix.row_step, matrix.column_step);
    panels.pack(matrix, kernels_, memory.panels);
    if (width == 0) {
      std::fill_n(scores, size.rows * score_step_, T{0});
    }
    multiply_block<T>({.rows = size.rows,
                       .a = rows,
                       .a_row_step = width,
                       .b = memory.panels,
                       .panels = panels,
                       .c = scores,
                       .c_step = score_step_},
                      kernels_,
                      [&](std::int64_t i, std::int64_t count) {
                        return BlockNeed{0, width, key_counts.most_of(i, count)};
                      });
  }

  /// sums += scoresᵀ·rows, over the rows that see a key.
  void add_of_keys(const Memory& memory,
                   const VisibleKeys& key_counts,
                   BlockSize size,
                   const T* scores,
                   const T* rows,
                   std::int64_t width,
                   T* sums) const {
    const BlockPanels<T> panels{size.rows, width};
    panels.pack(
        {reinterpret_cast<const std::byte*>(rows), dtype_of<T>, width, 1}, kernels_, memory.panels);
    multiply_block<T>({.rows = std::min(size.keys, key_counts.most()),
                       .a = scores,
                       .a_depth_step = score_step_,
                       .b = memory.panels,
                       .panels = panels,
                       .c = sums,
                       .c_step = width,
                       .accumulates = true},
                      kernels_,
                      [&](std::int64_t i, std::int64_t /*count*/) {
                        return BlockNeed{key_counts.first_to_see(i), size.rows, width};
                      });
  }

  [[nodiscard]] GemmOperand block_of(const HeadTensor& tensor,
                                     std::int64_t unit,
                                     std::int64_t key) const {
    GemmOperand matrix = tensor.head(unit / sizes_.key_heads, unit % sizes_.key_heads);
    matrix.data += key * matrix.row_step * size_bytes(matrix.dtype);
    return matrix;
  }

  AttentionSizes sizes_;
  const TileKernels<T>& kernels_;
  const AttentionLoops<T>& loops_;
  HeadTensor gradient_;
  HeadTensor q_;
  HeadTensor k_;
  HeadTensor v_;
  HeadTensor result_;
  HeadTensor statistics_;
  HeadTensor mask_;
  std::array<TensorView, 3> outputs_;
  std::int64_t row_blocks_ = 0;
  std::int64_t key_blocks_ = 0;
  std::int64_t block_rows_ = 0;
  std::int64_t block_keys_ = 0;
  std::int64_t score_step_ = 0;
  bool by_units_ = false;
  bool accumulates_apart_ = false;
};

}  // namespace

Status run_attention_backward(const KernelCall& call, KernelContext& context) {
  return call.inputs[0].dtype == DType::f64 ? Backward<double>(call, context).run(context)
                                            : Backward<float>(call, context).run(context);
}

}  // namespace hearth::cpu
