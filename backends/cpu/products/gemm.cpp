#include "gemm.hpp"

#include "backends/cpu/fused/ahead.hpp"
#include "backends/cpu/machine/part_memory.hpp"
#include "gemm_plan.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

namespace hearth::cpu {

namespace {

// A part must take longer than waking a core (34 µs).
constexpr double kPartFlops = 8e6;
constexpr std::int64_t kPanelGroup = GemmPlan::kPanelGroup;
// Elements packed by one task: about 40 µs.
constexpr std::int64_t kPackElements = 1 << 17;
// Larger products are cut into pieces of these sides, which bounds the packed copies.
constexpr std::int64_t kPiece = 2048;

// Memory of each thread for computed rows of a: the rows before packing, and the buffers of their
// producer.
template <class T>
std::int64_t made_bytes(const GemmPlan& plan, const Gemm<T>& gemm, std::int64_t k) {
  const bool is_laid_out = plan.produces_before && plan.reads_a;  // memory for all of a
  return gemm.rows.memory_bytes +
         (is_laid_out ? 0 : whole_lines(plan.produced_rows() * k * size_bytes(gemm.a.dtype)));
}

template <class T>
class Piece {
 public:
  Piece(const Gemm<T>& gemm, const TileKernels<T>& kernels, std::byte* scratch)
      : gemm_(gemm),
        kernels_(kernels),
        plan_(gemm.m, gemm.n, gemm.k, gemm.sink.done != nullptr, gemm, kernels) {
    a_ = reinterpret_cast<T*>(scratch);
    scratch += whole_lines(plan_.a_elements(gemm.k) * static_cast<std::int64_t>(sizeof(T)));
    b_ = packed_b_ = reinterpret_cast<T*>(scratch);
    left_ = {gemm.a};
    if (gemm.rows.is_there()) {
      scratch += whole_lines(plan_.b_copies() * plan_.b_elements(gemm.k) *
                             static_cast<std::int64_t>(sizeof(T)));
      producers_ = PartMemory(scratch, gemm.rows.threads, made_bytes(plan_, gemm, gemm.k));
      left_ = {produced_operand(reinterpret_cast<const std::byte*>(a_))};
    }
  }

  void run(Arena* arena) {
    keep_b(arena);
    packs_blocks_ = plan_.chunk_panels > 0 && !plan_.finishes_chunks && !has_b_ && !is_b_kept_ &&
                    (arena == nullptr || arena->core_count() == 1);
    pack(arena);
    if (plan_.chunk_panels > 0) {
      run_rows(arena);
      return;
    }
    for_ranges(arena, plan_.across * plan_.down, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        const std::int64_t j = at / plan_.down;
        const Span columns{j * plan_.column_panels / plan_.across,
                           (j + 1) * plan_.column_panels / plan_.across};
        if (plan_.packs_in_task) {
          pack_and_multiply(packed_b_ + j * plan_.b_elements(gemm_.k), columns);
        } else {
          const std::int64_t i = at % plan_.down;
          const Span rows{i * plan_.row_panels / plan_.down,
                          (i + 1) * plan_.row_panels / plan_.down};
          multiply(rows, columns);
          give(rows, columns);
        }
      }
    });
  }

 private:
  struct Span {
    std::int64_t first = 0;
    std::int64_t last = 0;
  };
  // The left side, or its available rows from first_row on.
  struct Left {
    GemmOperand a = {};
    std::int64_t first_row = 0;
  };

  [[nodiscard]] GemmOperand produced_operand(const std::byte* data) const {
    return {data, gemm_.a.dtype, gemm_.k, 1};
  }
  // Computes panels of rows by the producer, in the memory of the part.
  [[nodiscard]] Left make(Span panels, std::byte* memory) const {
    const std::int64_t row = panels.first * plan_.panel_rows;
    std::byte* const to = memory + gemm_.rows.memory_bytes;
    gemm_.rows.run(memory, to, row, row + rows_in(panels));
    return {produced_operand(to), row};
  }

  // Runs tasks of whole rows. More tasks than keep the cores busy would only read b more often.
  void run_rows(Arena* arena) {
    const std::int64_t cores = arena == nullptr ? 1 : arena->core_count();
    const std::int64_t tasks =
        cores == 1 ? 1 : std::min(plan_.down, cores * GemmPlan::kTasksPerCore);
    for_ranges(arena, tasks, 1, [&](std::int64_t task, std::int64_t /*end*/) {
      T* const chunk = a_ + task * plan_.chunk_elements();
      const Span rows{task * plan_.row_panels / tasks, (task + 1) * plan_.row_panels / tasks};
      if (plan_.finishes_chunks) {
        finish_chunks(rows, chunk);
      } else {
        run_blocks(rows, chunk);
        give(rows, {0, plan_.column_panels});
      }
    });
  }

  // Runs each chunk of rows through the whole depth.
  void finish_chunks(Span rows, T* chunk) {
    std::optional<PartMemory::Part> producer;
    if (plan_.produces_chunks) {
      producer.emplace(producers_);
    }
    Ahead ahead;
    for (std::int64_t row = rows.first; row < rows.last; row += plan_.chunk_panels) {
      const Span now = chunk_at(rows, row);
      ahead.clear();
      if (now.last < rows.last) {
        const Span next = chunk_at(rows, now.last);
        add_a(next, 0, gemm_.k, ahead);
        add_origins(next, ahead);
        add_result(next, ahead);
      }
      ahead.share(tiles_of(now) * parts(gemm_.k, plan_.block_depth));
      const Left left = producer.has_value() ? make(now, producer->data()) : left_;
      for (std::int64_t k = 0; k < gemm_.k; k += plan_.block_depth) {
        multiply_chunk(left, chunk, now, k, ahead);
      }
      give(now, {0, plan_.column_panels});
    }
  }

  // Runs all rows through one block of the depth after the other.
  void run_blocks(Span rows, T* chunk) {
    Ahead ahead;
    for (std::int64_t k = 0; k < gemm_.k; k += plan_.block_depth) {
      if (packs_blocks_) {
        pack_b({0, plan_.column_panels}, k, packed_b_);
      }
      for (std::int64_t row = rows.first; row < rows.last; row += plan_.chunk_panels) {
        const Span now = chunk_at(rows, row);
        ahead.clear();
        if (now.last < rows.last) {
          add_a(chunk_at(rows, now.last), k, depth_at(k), ahead);
        } else if (const std::int64_t next = k + plan_.block_depth; next < gemm_.k) {
          add_a(chunk_at(rows, rows.first), next, depth_at(next), ahead);
        }
        if (packs_blocks_ && row == rows.first) {
          add_b(k + plan_.block_depth, ahead);
        }
        ahead.share(tiles_of(now));
        multiply_chunk(left_, chunk, now, k, ahead);
      }
    }
  }

  [[nodiscard]] Span chunk_at(Span rows, std::int64_t row) const {
    return {row, std::min(row + plan_.chunk_panels, rows.last)};
  }

  void multiply_chunk(const Left& left, T* chunk, Span rows, std::int64_t k, Ahead& ahead) const {
    if (!plan_.reads_a) {
      pack_a(left, rows, k, chunk);
    }
    const T* const block = block_of_b(k);
    for (std::int64_t column = 0; column < plan_.column_panels; ++column) {
      const T* const panel = block + column * plan_.panel_columns * depth_at(k);
      multiply_column(left, rows, column, k, chunk, panel, &ahead);
    }
  }

  [[nodiscard]] std::int64_t tiles_of(Span rows) const {
    return (rows.last - rows.first) * plan_.column_panels;
  }
  [[nodiscard]] std::int64_t rows_in(Span panels) const {
    return std::min(panels.last * plan_.panel_rows, gemm_.m) - panels.first * plan_.panel_rows;
  }
  // Adds rows of a to the prefetches. Where a is contiguous along its rows, a tile reads a few
  // elements of each of many lines; along the depth, the hardware prefetcher suffices.
  void add_a(Span rows, std::int64_t k, std::int64_t depth, Ahead& ahead) const {
    const GemmOperand& a = gemm_.a;
    const std::int64_t size = size_bytes(a.dtype);
    if (a.row_step == 1 && a.column_step != 1) {
      ahead.add({.first = a.data + (rows.first * plan_.panel_rows + k * a.column_step) * size,
                 .step = a.column_step * size,
                 .count = depth,
                 .size_bytes = rows_in(rows) * size});
    }
  }
  // Adds the origins of rows if they are larger than the rows' results. With longer results, the
  // prefetches cost as much as they save (bench BM_Prologue_Product).
  void add_origins(Span rows, Ahead& ahead) const {
    if (gemm_.k <= gemm_.n) {
      return;
    }
    const std::int64_t row = gemm_.rows.first + rows.first * plan_.panel_rows;
    for (const RowOrigin& each : gemm_.rows.origins) {
      ahead.add({.first = each.data + row * each.row_bytes,
                 .count = 1,
                 .size_bytes = rows_in(rows) * each.row_bytes});
    }
  }
  // Adds the rows of the block of b that is packed next.
  void add_b(std::int64_t k, Ahead& ahead) const {
    const GemmOperand& b = gemm_.b;
    const std::int64_t size = size_bytes(b.dtype);
    if (k < gemm_.k && b.column_step == 1) {
      ahead.add({.first = b.data + k * b.row_step * size,
                 .step = b.row_step * size,
                 .count = depth_at(k),
                 .size_bytes = gemm_.n * size});
    }
  }
  // Adds the rows of the result and of the operands beside it.
  void add_result(Span rows, Ahead& ahead) const {
    const std::int64_t first = rows.first * plan_.panel_rows;
    constexpr auto kSize = static_cast<std::int64_t>(sizeof(T));
    ahead.add({.first = reinterpret_cast<const std::byte*>(gemm_.c + first * gemm_.c_step),
               .step = gemm_.c_step * kSize,
               .count = rows_in(rows),
               .size_bytes = gemm_.n * kSize,
               .is_written = true});
    const BlockSink& sink = gemm_.sink;
    for (const BesideResult& each : sink.beside) {
      ahead.add({.first = each.data + (sink.first_row + first) * each.row_step +
                          sink.first_column * each.column_step,
                 .step = each.row_step,
                 .count = rows_in(rows),
                 .size_bytes = gemm_.n * each.column_step,
                 .is_written = each.is_written});
    }
  }

  [[nodiscard]] std::int64_t depth_at(std::int64_t k) const {
    return std::min(plan_.block_depth, gemm_.k - k);
  }

  // Uses the cached panels of a constant b, or packs them into the cache. The choice does not
  // depend on the number of rows, since many calls with few rows would otherwise each pack them.
  void keep_b(Arena* arena) {
    if (arena == nullptr || gemm_.b.constant == nullptr) {
      return;
    }
    const ConstantForm form{.kind = ConstantForm::Kind::matmul_columns,
                            .data = gemm_.b.data,
                            .numbers = {gemm_.n,
                                        gemm_.k,
                                        gemm_.b.row_step,
                                        gemm_.b.column_step,
                                        plan_.panel_columns,
                                        plan_.block_depth,
                                        static_cast<std::int64_t>(gemm_.b.dtype)}};
    const std::byte* const kept = gemm_.b.constant->find(form);
    if (kept != nullptr) {
      b_ = reinterpret_cast<const T*>(kept);
      has_b_ = true;
      return;
    }
    const std::int64_t elements = plan_.column_panels * plan_.panel_columns * gemm_.k;
    std::byte* const room =
        gemm_.b.constant->keep(form, elements * static_cast<std::int64_t>(sizeof(T)));
    if (room != nullptr) {
      b_ = packed_b_ = reinterpret_cast<T*>(room);
      is_b_kept_ = true;
    }
  }

  void pack(Arena* arena) {
    const bool packs_a = plan_.produces_before || (!plan_.reads_a && plan_.chunk_panels == 0);
    const std::int64_t a_tasks = packs_a ? parts(plan_.row_panels, kPanelGroup) : 0;
    const bool packs_b = !has_b_ && !packs_blocks_ && (is_b_kept_ || !plan_.packs_in_task);
    const std::int64_t b_tasks = packs_b ? parts(plan_.column_panels, kPanelGroup) : 0;
    const std::int64_t group_elements =
        kPanelGroup * plan_.panel_columns * std::max<std::int64_t>(gemm_.k, 1);
    for_ranges(arena,
               a_tasks + b_tasks,
               parts(kPackElements, group_elements),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t task = begin; task < end; ++task) {
                   if (task < a_tasks) {
                     pack_group_of_a(group_at(task, plan_.row_panels));
                   } else {
                     pack_group_of_b(group_at(task - a_tasks, plan_.column_panels));
                   }
                 }
               });
  }

  [[nodiscard]] static Span group_at(std::int64_t task, std::int64_t panels) {
    const std::int64_t first = task * kPanelGroup;
    return {first, std::min(first + kPanelGroup, panels)};
  }

  // Computed rows come a panel at a time, which stays in the cache until it is packed.
  void pack_group_of_a(Span panels) const {
    if (!plan_.produces_before) {
      for (std::int64_t k = 0; k < gemm_.k; k += plan_.block_depth) {
        pack_a(left_, panels, k, block_of_a(panels.first, k));
      }
      return;
    }
    const PartMemory::Part producer(producers_);
    if (plan_.reads_a) {
      const std::int64_t row = panels.first * plan_.panel_rows;
      gemm_.rows.run(producer.data(),
                     reinterpret_cast<std::byte*>(a_ + row * gemm_.k),
                     row,
                     row + rows_in(panels));
      return;
    }
    for (std::int64_t panel = panels.first; panel < panels.last; ++panel) {
      const Left left = make({panel, panel + 1}, producer.data());
      for (std::int64_t k = 0; k < gemm_.k; k += plan_.block_depth) {
        pack_a(left, {panel, panel + 1}, k, block_of_a(panel, k));
      }
    }
  }

  void pack_group_of_b(Span panels) const {
    for (std::int64_t k = 0; k < gemm_.k; k += plan_.block_depth) {
      pack_b(panels,
             k,
             packed_b_ + k * plan_.column_panels * plan_.panel_columns +
                 panels.first * plan_.panel_columns * depth_at(k));
    }
  }

  void pack_a(const Left& left, Span panels, std::int64_t k, T* to) const {
    const std::int64_t first = panels.first * plan_.panel_rows;
    const GemmOperand& a = left.a;
    kernels_.pack({.from = a.data + ((first - left.first_row) * a.row_step + k * a.column_step) *
                                        size_bytes(a.dtype),
                   .item_step = a.row_step,
                   .depth_step = a.column_step,
                   .depth = depth_at(k),
                   .items = std::min(panels.last * plan_.panel_rows, gemm_.m) - first,
                   .width = plan_.panel_rows,
                   .panel_step = plan_.panel_rows * depth_at(k)},
                  a.dtype,
                  to);
  }

  void pack_b(Span panels, std::int64_t k, T* to) const {
    const std::int64_t first = panels.first * plan_.panel_columns;
    const GemmOperand& b = gemm_.b;
    kernels_.pack({.from = b.data + (k * b.row_step + first * b.column_step) * size_bytes(b.dtype),
                   .item_step = b.column_step,
                   .depth_step = b.row_step,
                   .depth = depth_at(k),
                   .items = std::min(panels.last * plan_.panel_columns, gemm_.n) - first,
                   .width = plan_.panel_columns,
                   .panel_step = plan_.panel_columns * depth_at(k)},
                  b.dtype,
                  to);
  }

  void pack_and_multiply(T* packed, Span columns) const {
    for (std::int64_t group = columns.first; group < columns.last; group += kPanelGroup) {
      const std::int64_t last = std::min(group + kPanelGroup, columns.last);
      for (std::int64_t k = 0; k < gemm_.k; k += plan_.block_depth) {
        const bool is_packed = has_b_ || is_b_kept_ || plan_.reads_b;
        if (!is_packed) {
          pack_b({group, last}, k, packed);
        }
        const T* panels = is_packed && !plan_.reads_b
                              ? block_of_b(k) + group * plan_.panel_columns * depth_at(k)
                              : packed;
        for (std::int64_t column = group; column < last; ++column) {
          multiply_column(left_,
                          {0, plan_.row_panels},
                          column,
                          k,
                          block_of_a(0, k),
                          panels + (column - group) * plan_.panel_columns * depth_at(k));
        }
      }
      give({0, plan_.row_panels}, {group, last});
    }
  }

  /// Passes finished panels of the result to the sink.
  void give(Span rows, Span columns) const {
    const std::int64_t row = rows.first * plan_.panel_rows;
    const std::int64_t column = columns.first * plan_.panel_columns;
    const std::int64_t row_end = std::min(rows.last * plan_.panel_rows, gemm_.m);
    const std::int64_t column_end = std::min(columns.last * plan_.panel_columns, gemm_.n);
    if (row < row_end && column < column_end) {
      gemm_.sink.take(row, row_end - row, column, column_end - column);
    }
  }

  [[nodiscard]] T* block_of_a(std::int64_t panel, std::int64_t k) const {
    return a_ + k * plan_.row_panels * plan_.panel_rows + panel * plan_.panel_rows * depth_at(k);
  }
  [[nodiscard]] const T* block_of_b(std::int64_t k) const {
    return packs_blocks_ ? packed_b_ : b_ + k * plan_.column_panels * plan_.panel_columns;
  }

  void multiply(Span rows, Span columns) const {
    for (std::int64_t k = 0; k < gemm_.k; k += plan_.block_depth) {
      const T* block = block_of_b(k);
      for (std::int64_t column = columns.first; column < columns.last; ++column) {
        multiply_column(left_,
                        rows,
                        column,
                        k,
                        block_of_a(rows.first, k),
                        block + column * plan_.panel_columns * depth_at(k));
      }
    }
  }

  // packed_a: panels of these rows.
  void multiply_column(const Left& left,
                       Span rows,
                       std::int64_t column,
                       std::int64_t k,
                       const T* packed_a,
                       const T* packed_b,
                       Ahead* ahead = nullptr) const {
    const std::int64_t j = column * plan_.panel_columns;
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
      const std::int64_t i = row * plan_.panel_rows;
      Tile<T> tile;
      tile.depth = depth_at(k);
      if (plan_.reads_a) {
        const GemmOperand& a = left.a;
        tile.a = reinterpret_cast<const T*>(a.data) + (i - left.first_row) * a.row_step +
                 k * a.column_step;
        tile.a_step = a.column_step;
        tile.a_row_step = a.row_step;
      } else {
        tile.a = packed_a + (row - rows.first) * plan_.panel_rows * tile.depth;
        tile.a_step = plan_.panel_rows;
      }
      if (plan_.reads_b) {
        tile.b = reinterpret_cast<const T*>(gemm_.b.data) + k * gemm_.b.row_step + j;
        tile.b_step = gemm_.b.row_step;
      } else {
        tile.b = packed_b;
        tile.b_step = plan_.panel_columns;
      }
      tile.c = gemm_.c + i * gemm_.c_step + j;
      tile.c_step = gemm_.c_step;
      tile.rows = static_cast<int>(std::min(plan_.panel_rows, gemm_.m - i));
      tile.columns = static_cast<int>(std::min(plan_.panel_columns, gemm_.n - j));
      if (k > 0 || gemm_.accumulate) {
        tile.start = tile.c;
        tile.start_step = tile.c_step;
      } else if (gemm_.bias != nullptr) {
        tile.start = gemm_.bias + j;
      }
      if (ahead != nullptr) {
        ahead->fetch();
      }
      kernels_.multiply(tile);
    }
  }

  const Gemm<T>& gemm_;
  const TileKernels<T>& kernels_;
  GemmPlan plan_;
  Left left_ = {};
  PartMemory producers_ = {};
  T* a_ = nullptr;
  T* packed_b_ = nullptr;      // target of packing: the panels of a task, or
  const T* b_ = nullptr;       // all panels
  bool has_b_ = false;         // b was found in the cache of constants
  bool is_b_kept_ = false;     // b is being added to that cache
  bool packs_blocks_ = false;  // the only thread packs b block by block as it reaches each
};

}  // namespace

std::int64_t part_count(double flops) noexcept {
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(flops / kPartFlops), 1, kMaxParts);
}

bool reads_rows_once(std::int64_t n, std::int64_t k) noexcept {
  return n <= kPiece && k <= kPiece;
}

template <class T>
std::int64_t gemm_scratch_bytes(const Gemm<T>& gemm, const TileKernels<T>& kernels) noexcept {
  constexpr auto kElementBytes = static_cast<std::int64_t>(sizeof(T));
  // The last piece along an axis is smaller than the others, and its plan may differ. The last
  // depth alone has a sink. Equal cases are planned once: most products have one piece.
  const auto sides = [](std::int64_t size) {
    const std::int64_t side = even_part(size, kPiece);
    return std::array{side, size % side == 0 ? side : size % side};
  };
  const auto distinct = [](const auto& pair) {
    return std::span(pair).first(pair[0] == pair[1] ? 1U : 2U);
  };
  const std::array all_m = sides(gemm.m);
  const std::array all_n = sides(gemm.n);
  const std::array all_k = sides(gemm.k);
  const std::array have_sinks{false, gemm.sink.done != nullptr};
  std::int64_t bytes = 0;
  for (const std::int64_t m : distinct(all_m)) {
    for (const std::int64_t n : distinct(all_n)) {
      for (const std::int64_t k : distinct(all_k)) {
        for (const bool has_sink : distinct(have_sinks)) {
          const GemmPlan plan(m, n, k, has_sink, gemm, kernels);
          bytes = std::max(bytes,
                           whole_lines(plan.a_elements(k) * kElementBytes) +
                               whole_lines(plan.b_copies() * plan.b_elements(k) * kElementBytes) +
                               (gemm.rows.is_there() ? PartMemory::bytes(gemm.rows.threads,
                                                                         made_bytes(plan, gemm, k))
                                                     : 0));
        }
      }
    }
  }
  return bytes;
}

template <class T>
GemmChoice planned_choice(const Gemm<T>& gemm, const TileKernels<T>& kernels) noexcept {
  return GemmPlan(even_part(gemm.m, kPiece),
                  even_part(gemm.n, kPiece),
                  even_part(gemm.k, kPiece),
                  gemm.sink.done != nullptr,
                  gemm,
                  kernels)
      .choice();
}

template <class T>
void run_gemm(const Gemm<T>& gemm,
              const TileKernels<T>& kernels,
              std::byte* scratch,
              Arena* arena) {
  const std::int64_t rows = even_part(gemm.m, kPiece);
  const std::int64_t columns = even_part(gemm.n, kPiece);
  const std::int64_t depth = even_part(gemm.k, kPiece);
  const std::int64_t element_bytes[] = {size_bytes(gemm.a.dtype), size_bytes(gemm.b.dtype)};
  for (std::int64_t j = 0; j < gemm.n; j += columns) {
    for (std::int64_t k = 0; k < gemm.k || k == 0; k += depth) {
      for (std::int64_t i = 0; i < gemm.m; i += rows) {
        Gemm<T> piece = gemm;
        piece.m = std::min(rows, gemm.m - i);
        piece.n = std::min(columns, gemm.n - j);
        piece.k = std::min(depth, gemm.k - k);
        if (gemm.rows.is_there()) {
          piece.rows = gemm.rows.at(i);
        } else {
          piece.a.data += (i * gemm.a.row_step + k * gemm.a.column_step) * element_bytes[0];
        }
        piece.b.data += (k * gemm.b.row_step + j * gemm.b.column_step) * element_bytes[1];
        piece.c += i * gemm.c_step + j;
        piece.bias = gemm.bias == nullptr ? nullptr : gemm.bias + j;
        piece.accumulate = gemm.accumulate || k > 0;
        piece.sink = k + depth >= gemm.k ? gemm.sink.at(i, j) : BlockSink{};
        Piece<T>(piece, kernels, scratch).run(arena);
      }
    }
  }
}

template std::int64_t gemm_scratch_bytes<float>(const Gemm<float>&,
                                                const TileKernels<float>&) noexcept;
template std::int64_t gemm_scratch_bytes<double>(const Gemm<double>&,
                                                 const TileKernels<double>&) noexcept;
template GemmChoice planned_choice<float>(const Gemm<float>&, const TileKernels<float>&) noexcept;
template GemmChoice planned_choice<double>(const Gemm<double>&,
                                           const TileKernels<double>&) noexcept;
template void run_gemm<float>(const Gemm<float>&, const TileKernels<float>&, std::byte*, Arena*);
template void run_gemm<double>(const Gemm<double>&, const TileKernels<double>&, std::byte*, Arena*);

}  // namespace hearth::cpu
