// The GLSL of thin products: a thread folds a part of the depth for a few rows and columns.
#include "product.hpp"

namespace hearth::gpu::products {
namespace {

// Four steps of the depth are in flight at a time, because a thread mostly waits for memory.
constexpr std::string_view kThinMain = R"(
#define STEPS 4
#define THREADS (LANE_COLUMNS * LANE_DEPTHS)
#if B_ALONG_DEPTH
#define DEPTH_WIDTH B_WIDTH
#define COLUMN_WIDTH 1
#define SUM C
#else
#define DEPTH_WIDTH 1
#define COLUMN_WIDTH B_WIDTH
#define SUM BVALUE
#endif
#if LANE_DEPTHS > 1
SHARED(SUM, lane_sums, THREADS);
#endif

FN SUM times(ASide side, int k, BVALUE b) {
#if B_ALONG_DEPTH && B_WIDTH == 4
#if A_WIDTH == 4
  return DOT(a_at(side, k), b);
#else
  return DOT(V4(a_at(side, k), a_at(side, k + 1), a_at(side, k + 2), a_at(side, k + 3)), b);
#endif
#else
  return a_at(side, k) * b;
#endif
}

FN void main() {
  if (!find_work()) {
    return;
  }
  const int t = int(THREAD);
#if B_ALONG_DEPTH
  const int lane_depth = t % LANE_DEPTHS;
  const int lane_column = t / LANE_DEPTHS;
#else
  const int lane_column = t % LANE_COLUMNS;
  const int lane_depth = t / LANE_COLUMNS;
#endif
  const int column = (tile_across * LANE_COLUMNS + lane_column) * COLUMN_WIDTH;
  const BSide b = b_side(column);
  ASide a[ROWS];
  SUM sums[ROWS];
  MAYBE_UNROLLED for (int i = 0; i < ROWS; ++i) {
    a[i] = a_side(tile_down * ROWS + i);
    sums[i] = SUM(0);
  }
  const int end = min(p.depth, (part_number + 1) * p.split_depth);
  ROLLED for (int k = part_number * p.split_depth + lane_depth * DEPTH_WIDTH; k < end;
                       k += STEPS * LANE_DEPTHS * DEPTH_WIDTH) {
    BVALUE values[STEPS];
    MAYBE_UNROLLED for (int i = 0; i < STEPS; ++i) {
      values[i] = b_at(b, k + i * LANE_DEPTHS * DEPTH_WIDTH);
    }
    MAYBE_UNROLLED for (int i = 0; i < STEPS; ++i) {
      MAYBE_UNROLLED for (int r = 0; r < ROWS; ++r) {
        sums[r] += times(a[r], k + i * LANE_DEPTHS * DEPTH_WIDTH, values[i]);
      }
    }
  }
  MAYBE_UNROLLED for (int r = 0; r < ROWS; ++r) {
#if LANE_DEPTHS > 1
    barrier();
    lane_sums[lane_depth * LANE_COLUMNS + lane_column] = sums[r];
    barrier();
    MAYBE_UNROLLED for (int half_count = LANE_DEPTHS / 2; half_count > 0; half_count /= 2) {
      if (lane_depth < half_count) {
        lane_sums[lane_depth * LANE_COLUMNS + lane_column] +=
            lane_sums[(lane_depth + half_count) * LANE_COLUMNS + lane_column];
      }
      barrier();
    }
    sums[r] = lane_sums[lane_column];
#endif
    const int row = tile_down * ROWS + r;
    if (lane_depth == 0 && row < p.rows) {
#if COLUMN_WIDTH == 4
      UNROLLED for (int i = 0; i < 4; ++i) {
        if (column + i < p.columns) {
          keep(row, column + i, sums[r][i]);
        }
      }
#else
      if (column < p.columns) {
        keep(row, column, sums[r]);
      }
#endif
    }
  }
}
)";

}  // namespace

std::string_view thin_main() noexcept {
  return kThinMain;
}

}  // namespace hearth::gpu::products
