#include "int_gemm.hpp"

#include "int_tiles.hpp"

#include <algorithm>
#include <array>

namespace hearth::cpu {

namespace {

// Words along the depth in one block: a panel of b of 16 KiB stays in the first-level cache.
constexpr std::int64_t kBlockGroups = 128;
// Panels of a task in each direction: with AVX-512, 112 rows and 256 columns make 112 KiB of
// result.
constexpr std::int64_t kTaskPanels = 8;
// A part must take longer than waking a core; products of bytes run four times as fast as those of
// f32.
constexpr double kFlopsRatio = 4;
// Words packed by one task: about 40 µs.
constexpr std::int64_t kPackWords = 1 << 16;
// Smallest number of matrix bytes that a part of a thin product reads.
constexpr std::int64_t kThinPartBytes = std::int64_t{3} << 19;

class IntProduct {
 public:
  IntProduct(const MatmulProduct& product, IsaLevel isa)
      : product_(product), kernels_(int_tile_kernels(isa)) {
    const auto reads = [&](std::int64_t rows, std::int64_t step) {
      return rows <= kMaxIntThinRows && step == 1;
    };
    // The longer side is read in place; the other side is a few rows.
    is_thin_ = product.k > 0 &&
               (reads(product.m, product.b.row_step) || reads(product.n, product.a.column_step));
    is_turned_ = is_thin_ && !reads(product.m, product.b.row_step);
    lay_out();
  }

  [[nodiscard]] std::int64_t scratch_bytes() const { return scratch_bytes_; }

  void run(std::byte* scratch, Arena* arena) {
    if (product_.k == 0) {
      std::fill_n(c(), product_.m * product_.n, 0);
      product_.sink.take(0, product_.m, 0, product_.n);
    } else if (is_thin_) {
      run_thin(reinterpret_cast<std::int8_t*>(scratch), arena);
    } else {
      a_ = reinterpret_cast<std::uint32_t*>(scratch);
      b_ = reinterpret_cast<std::uint32_t*>(scratch + b_at_);
      starts_ = reinterpret_cast<std::int32_t*>(scratch + starts_at_);
      pack(arena);
      multiply(arena);
    }
  }

 private:
  [[nodiscard]] std::int32_t* c() const { return reinterpret_cast<std::int32_t*>(product_.c); }

  // Scratch: packed a | packed b | row starts; or the rows of a thin product.
  void lay_out() {
    if (is_thin_) {
      scratch_bytes_ = whole_lines((is_turned_ ? product_.n : product_.m) * product_.k);
      return;
    }
    groups_ = parts(product_.k, kernels_.word_elements);
    panel_rows_ = even_part(product_.m, kernels_.max_rows);
    row_panels_ = parts(product_.m, panel_rows_);
    column_panels_ = parts(product_.n, kernels_.panel_columns);
    constexpr std::int64_t kWordBytes = 4;
    b_at_ = whole_lines(row_panels_ * panel_rows_ * groups_ * kWordBytes);
    starts_at_ = b_at_ + column_panels_ * b_panel() * kWordBytes;
    scratch_bytes_ = starts_at_ + whole_lines(product_.m * kWordBytes);
  }

  [[nodiscard]] std::int64_t a_panel() const { return panel_rows_ * groups_; }
  [[nodiscard]] std::int64_t b_panel() const { return kernels_.panel_columns * groups_; }

  // ---- few rows ----

  void run_thin(std::int8_t* x, Arena* arena) const {
    const GemmOperand& few = is_turned_ ? product_.b : product_.a;
    const std::int64_t rows = is_turned_ ? product_.n : product_.m;
    const std::int64_t row_step = is_turned_ ? few.column_step : few.row_step;
    const std::int64_t depth_step = is_turned_ ? few.row_step : few.column_step;
    const auto* const from = reinterpret_cast<const std::int8_t*>(few.data);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < product_.k; ++k) {
        x[r * product_.k + k] = from[r * row_step + k * depth_step];
      }
    }
    const GemmOperand& matrix = is_turned_ ? product_.a : product_.b;
    const std::int64_t columns = is_turned_ ? product_.m : product_.n;
    IntThin thin{.x = x,
                 .x_step = product_.k,
                 .w = reinterpret_cast<const std::int8_t*>(matrix.data),
                 .w_step = is_turned_ ? matrix.row_step : matrix.column_step,
                 .y = c(),
                 .y_row = is_turned_ ? 1 : product_.n,
                 .y_column = is_turned_ ? product_.n : 1,
                 .depth = product_.k,
                 .columns = columns,
                 .rows = static_cast<int>(rows)};
    const std::int64_t count =
        std::clamp<std::int64_t>(columns * product_.k / kThinPartBytes, 1, kMaxParts);
    for_ranges(arena, columns, parts(columns, count), [&](std::int64_t begin, std::int64_t end) {
      IntThin part = thin;
      part.w += begin * thin.w_step;
      part.y += begin * thin.y_column;
      part.columns = end - begin;
      kernels_.thin(part);
      if (is_turned_) {
        product_.sink.take(begin, end - begin, 0, product_.n);
      } else {
        product_.sink.take(0, product_.m, begin, end - begin);
      }
    });
  }

  // ---- packed ----

  // Finds the cached panels of a constant b, or allocates room for them in the cache.
  [[nodiscard]] bool find_kept(Arena* arena) {
    if (arena == nullptr || product_.b.constant == nullptr) {
      return false;
    }
    const ConstantForm form{.kind = ConstantForm::Kind::int_matmul_columns,
                            .data = product_.b.data,
                            .numbers = {product_.n,
                                        product_.k,
                                        product_.b.row_step,
                                        product_.b.column_step,
                                        kernels_.panel_columns,
                                        kernels_.word_elements}};
    if (const std::byte* const kept = product_.b.constant->find(form)) {
      b_ = reinterpret_cast<const std::uint32_t*>(kept);
      return true;
    }
    const std::int64_t bytes =
        column_panels_ * b_panel() * static_cast<std::int64_t>(sizeof(std::uint32_t));
    if (std::byte* const room = product_.b.constant->keep(form, bytes)) {
      b_ = reinterpret_cast<const std::uint32_t*>(room);
    }
    return false;
  }

  void pack(Arena* arena) {
    const bool has_b = find_kept(arena);
    const IntPack of_a{.from = reinterpret_cast<const std::int8_t*>(product_.a.data),
                       .item_step = product_.a.row_step,
                       .depth_step = product_.a.column_step,
                       .depth = product_.k,
                       .items = product_.m,
                       .width = panel_rows_,
                       .panel_step = a_panel(),
                       .to = a_};
    const IntPack of_b{.from = reinterpret_cast<const std::int8_t*>(product_.b.data),
                       .item_step = product_.b.column_step,
                       .depth_step = product_.b.row_step,
                       .depth = product_.k,
                       .items = product_.n,
                       .width = kernels_.panel_columns,
                       .panel_step = b_panel(),
                       .to = const_cast<std::uint32_t*>(b_)};
    const std::int64_t a_grain = std::max<std::int64_t>(1, kPackWords / a_panel());
    for_ranges(arena, row_panels_, a_grain, [&](std::int64_t begin, std::int64_t end) {
      const IntPack some = some_panels(of_a, begin, end);
      kernels_.pack_a(some);
      kernels_.row_starts(some, starts_ + begin * panel_rows_);
    });
    if (has_b) {
      return;
    }
    const std::int64_t b_grain = std::max<std::int64_t>(1, kPackWords / b_panel());
    for_ranges(arena, column_panels_, b_grain, [&](std::int64_t begin, std::int64_t end) {
      kernels_.pack_b(some_panels(of_b, begin, end));
    });
  }

  static IntPack some_panels(const IntPack& all, std::int64_t begin, std::int64_t end) {
    IntPack some = all;
    some.from += begin * all.width * all.item_step;
    some.items = std::min(all.items, end * all.width) - begin * all.width;
    some.to += begin * all.panel_step;
    return some;
  }

  // Computes blocks of the result, one thread each: each panel of b meets all rows of the block.
  void multiply(Arena* arena) const {
    const std::int64_t wanted = part_count(product_.flops() / kFlopsRatio);
    const std::int64_t down = even_part(row_panels_, kTaskPanels);
    const std::int64_t rows = parts(row_panels_, down);
    std::int64_t across = even_part(column_panels_, kTaskPanels);
    while (across > 1 && rows * parts(column_panels_, across) < wanted) {
      across = (across + 1) / 2;
    }
    const std::int64_t count = rows * parts(column_panels_, across);
    const auto task = [&](std::int64_t number) {
      run_block(number % rows * down, down, number / rows * across, across);
    };
    for_ranges(arena,
               count,
               std::max<std::int64_t>(1, count / std::max<std::int64_t>(wanted, 1)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t number = begin; number < end; ++number) {
                   task(number);
                 }
               });
  }

  void run_block(std::int64_t first_row_panel,
                 std::int64_t down,
                 std::int64_t first_column_panel,
                 std::int64_t across) const {
    const std::int64_t row_end = std::min(row_panels_, first_row_panel + down);
    const std::int64_t column_end = std::min(column_panels_, first_column_panel + across);
    const std::int64_t depth = even_part(groups_, kBlockGroups);
    for (std::int64_t group = 0; group < groups_; group += depth) {
      for (std::int64_t j = first_column_panel; j < column_end; ++j) {
        for (std::int64_t i = first_row_panel; i < row_end; ++i) {
          run_tile(i, j, group, std::min(depth, groups_ - group));
        }
      }
    }
    const std::int64_t row = first_row_panel * panel_rows_;
    const std::int64_t column = first_column_panel * kernels_.panel_columns;
    product_.sink.take(row,
                       std::min(product_.m, row_end * panel_rows_) - row,
                       column,
                       std::min(product_.n, column_end * kernels_.panel_columns) - column);
  }

  // The missing rows of the last panel are not computed.
  void run_tile(std::int64_t i, std::int64_t j, std::int64_t group, std::int64_t groups) const {
    const std::int64_t row = i * panel_rows_;
    const std::int64_t column = j * kernels_.panel_columns;
    const std::int64_t rows = std::min(panel_rows_, product_.m - row);
    kernels_.multiply({.a = a_ + i * a_panel() + group * panel_rows_,
                       .a_step = panel_rows_,
                       .b = b_ + j * b_panel() + group * kernels_.panel_columns,
                       .group_count = groups,
                       .c = c() + row * product_.n + column,
                       .c_step = product_.n,
                       .row_start = group == 0 ? starts_ + row : nullptr,
                       .rows = static_cast<int>(rows),
                       .columns = static_cast<int>(
                           std::min<std::int64_t>(kernels_.panel_columns, product_.n - column))});
  }

  const MatmulProduct& product_;
  const IntTileKernels& kernels_;
  bool is_thin_ = false;
  bool is_turned_ = false;
  std::int64_t groups_ = 0;
  std::int64_t panel_rows_ = 1;
  std::int64_t row_panels_ = 0;
  std::int64_t column_panels_ = 0;
  std::int64_t b_at_ = 0;
  std::int64_t starts_at_ = 0;
  std::int64_t scratch_bytes_ = 0;
  std::uint32_t* a_ = nullptr;
  const std::uint32_t* b_ = nullptr;
  std::int32_t* starts_ = nullptr;
};

}  // namespace

const IntTileKernels& int_tile_kernels(IsaLevel isa) noexcept {
#if defined(__x86_64__) && !defined(HEARTH_CPU_ONE_LEVEL)
  if (isa == IsaLevel::avx512 && __builtin_cpu_supports("avx512vnni")) {
    return avx512::int_byte_tiles_table;
  }
#endif
  return int_tiles(isa);
}

std::int64_t int_product_scratch_bytes(const MatmulProduct& product, IsaLevel isa) noexcept {
  return IntProduct(product, isa).scratch_bytes();
}

void run_int_product(const MatmulProduct& product, IsaLevel isa, std::byte* scratch, Arena* arena) {
  IntProduct(product, isa).run(scratch, arena);
}

}  // namespace hearth::cpu
