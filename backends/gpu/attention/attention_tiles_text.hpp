// GLSL of tiles of attention: matrices, their products, scores. Texts behind macros that
// attention_shader.cpp defines. Constants. Threads: any.
//
// VALUE, VALUE4: float and vec4, or double and dvec4. A workgroup has TY x TX threads. Thread (ty,
// tx) computes 4 rows of its own tile, of OWN = 4 TY rows, times 4 rows of the other tile, of OTHER
// = 4 TX. Of a result it holds those 4 rows times 4 BLOCKS columns.
#pragma once

#include <string_view>

namespace hearth::gpu::attention_text {

/// Matrices, in front of tiles of either kind.
inline constexpr std::string_view kMatrix = R"(
struct Matrix {
  uint64_t at;
  INDEX head;
  INDEX row;
  INDEX column;
  INDEX rows;
  INDEX width;
  bool is_grouped;
};

FN INDEX row_place(Matrix m, INDEX r) {
  if (GROUPED && m.is_grouped) {
    const INDEX head = QUERY_HEAD(r);
    return head * m.head + (r - head * p.queries) * m.row;
  }
  return r * m.row;
}
)";

/// Tiles in shared memory and their products.
inline constexpr std::string_view kTiles = R"(
#define SLICE 16
SHARED(VALUE4, tiles, TILES);
SHARED(VALUE4, weights, OTHER * (TY + 1));

// A slice of columns of `4 * quads` rows, rows side by side.
FN void load_slice(int to, int quads, Matrix m, INDEX first_row, INDEX first_column) {
#if FOURS
  for (int i = int(THREAD); i < quads * SLICE; i += THREADS) {
    const int column = i % (SLICE / 4) * 4;
    const int row = i / (SLICE / 4);
    VALUE4 v = VALUE4(0);
    if (first_row + INDEX(row) < m.rows && first_column + INDEX(column) < m.width) {
      v = load_four(m.at, row_place(m, first_row + INDEX(row)) + first_column + INDEX(column));
    }
    UNROLLED for (int j = 0; j < 4; ++j) {
      tiles[to + (column + j) * (quads + 1) + row / 4][row % 4] = v[j];
    }
  }
#else
  for (int i = int(THREAD); i < quads * 4 * SLICE; i += THREADS) {
    const int column = i % SLICE;
    const int row = i / SLICE;
    VALUE v = VALUE(0);
    if (first_row + INDEX(row) < m.rows && first_column + INDEX(column) < m.width) {
      v = load_element(m.at, row_place(m, first_row + INDEX(row)) +
                                 (first_column + INDEX(column)) * m.column);
    }
    tiles[to + column * (quads + 1) + row / 4][row % 4] = v;
  }
#endif
}

// s[j][i]: row i of the thread's own ones times row j of its other ones.
FN void product(Matrix own, Matrix other, INDEX own_row, INDEX other_row, OUT_ARRAY(VALUE4, s, 4)) {
  const int ty = int(THREAD) / TX;
  const int tx = int(THREAD) % TX;
  const int second = SLICE * (TY + 1);
  UNROLLED for (int j = 0; j < 4; ++j) {
    s[j] = VALUE4(0);
  }
  for (INDEX column = 0; column < own.width; column += SLICE) {
    barrier();
    load_slice(0, TY, own, own_row, column);
    load_slice(second, TX, other, other_row, column);
    barrier();
    MAYBE_UNROLLED for (int c = 0; c < SLICE; ++c) {
      const VALUE4 a = tiles[c * (TY + 1) + ty];
      const VALUE4 b = tiles[second + c * (TX + 1) + tx];
      UNROLLED for (int j = 0; j < 4; ++j) {
        ADD_PRODUCT(s[j], a, b[j]);
      }
    }
  }
}

FN void put_weights(VALUE4 w[4]) {
  const int ty = int(THREAD) / TX;
  const int tx = int(THREAD) % TX;
  barrier();
  MAYBE_UNROLLED for (int j = 0; j < 4; ++j) {
    weights[(tx * 4 + j) * (TY + 1) + ty] = w[j];
  }
}

// sum[b * 4 + i] of row i and the columns of block b: weights times the rows of m.
FN void accumulate(Matrix m, INDEX first_row, INDEX first_column, IN_OUT_ARRAY(VALUE4, sum, BLOCKS * 4)) {
  const int ty = int(THREAD) / TX;
  const int tx = int(THREAD) % TX;
  for (int o = 0; o < OTHER; o += SLICE) {
    if (first_row + INDEX(o) >= m.rows) {
      break;
    }
    barrier();
#if FOURS
    for (int i = int(THREAD); i < SLICE * COLUMNS / 4; i += THREADS) {
      const int column = i % (COLUMNS / 4);
      const int row = i / (COLUMNS / 4);
      const INDEX r = first_row + INDEX(o + row);
      VALUE4 v = VALUE4(0);
      if (r < m.rows && first_column + INDEX(column * 4) < m.width) {
        v = load_four(m.at, row_place(m, r) + first_column + INDEX(column * 4));
      }
      tiles[row * (COLUMNS / 4 + 1) + column] = v;
    }
#else
    for (int i = int(THREAD); i < SLICE * COLUMNS; i += THREADS) {
      const int column = i % COLUMNS;
      const int row = i / COLUMNS;
      const INDEX r = first_row + INDEX(o + row);
      VALUE v = VALUE(0);
      if (r < m.rows && first_column + INDEX(column) < m.width) {
        v = load_element(m.at, row_place(m, r) + (first_column + INDEX(column)) * m.column);
      }
      tiles[row * (COLUMNS / 4 + 1) + column / 4][column % 4] = v;
    }
#endif
    barrier();
    MAYBE_UNROLLED for (int j = 0; j < SLICE; ++j) {
      const VALUE4 w = weights[(o + j) * (TY + 1) + ty];
      UNROLLED for (int b = 0; b < BLOCKS; ++b) {
        const VALUE4 v = tiles[j * (COLUMNS / 4 + 1) + b * TX + tx];
        UNROLLED for (int i = 0; i < 4; ++i) {
          ADD_PRODUCT(sum[b * 4 + i], w[i], v);
        }
      }
    }
  }
}

FN void store_block(uint64_t to, INDEX rows, INDEX width, INDEX first_row, INDEX first_column,
                 VALUE4 values[BLOCKS * 4]) {
  const int tx = int(THREAD) % TX;
  MAYBE_UNROLLED for (int b = 0; b < BLOCKS; ++b) {
    MAYBE_UNROLLED for (int i = 0; i < 4; ++i) {
      const INDEX r = first_row + INDEX(i);
#if FOURS
      const INDEX column = first_column + INDEX((b * TX + tx) * 4);
      if (r < rows && column < width) {
        store_four(to, r * width + column, values[b * 4 + i]);
      }
#else
      UNROLLED for (int j = 0; j < 4; ++j) {
        const INDEX column = first_column + INDEX((b * TX + tx) * 4 + j);
        if (r < rows && column < width) {
          store_element(to, r * width + column, values[b * 4 + i][j]);
        }
      }
#endif
    }
  }
}
)";

/// The work of a workgroup, the scores, and the keys that a row attends to.
inline constexpr std::string_view kScores = R"(
struct Task {
  INDEX head;
  INDEX tile;
  INDEX column;
  int piece;
};
FN Task task_of(uint group) {
  Task task;
  task.piece = int(group % uint(p.splits));
  group /= uint(p.splits);
  task.column = INDEX(group % uint(p.blocks)) * COLUMNS;
  group /= uint(p.blocks);
  task.tile = INDEX(group % uint(p.tiles));
  task.head = INDEX(group / uint(p.tiles));
  return task;
}

struct Heads {
  Matrix q;
  Matrix k;
  Matrix v;
  Matrix mask;
  Matrix grad;
  Matrix statistics;
};
FN uint64_t moved(uint64_t address, INDEX elements, int size) {
  return address + uint64_t(int64_t(elements) * int64_t(size));
}
FN Heads heads_of(INDEX head) {
  INDEX q;
  INDEX k;
  INDEX v;
  INDEX mask;
  INDEX grad;
  INDEX statistics;
  INDEX y;
  head_places(head, q, k, v, mask, grad, statistics, y);
  Heads h;
  h.q = NEW7(Matrix, moved(p.q, q, SIZE), p.q_head, p.q_row, p.q_column, p.rows, p.width, true);
  h.k = NEW7(Matrix, moved(p.k, k, SIZE), INDEX(0), p.k_row, p.k_column, p.keys, p.width, false);
  h.v = NEW7(Matrix, moved(p.v, v, SIZE), INDEX(0), p.v_row, p.v_column, p.keys, p.value_width, false);
  h.mask = NEW7(Matrix, moved(p.mask, mask, MASK_SIZE), p.mask_head, p.mask_row, p.mask_column, p.rows,
                  p.keys, true);
  h.grad = NEW7(Matrix, moved(p.grad, grad, SIZE), p.grad_head, p.grad_row, p.grad_column, p.rows,
                  p.value_width, true);
  h.statistics = NEW7(Matrix, moved(p.statistics, statistics, VALUE_SIZE), p.statistics_head,
                        p.statistics_row, p.statistics_column, p.rows, INDEX(2), true);
  return h;
}

// The query of a row.
FN INDEX query_of(INDEX r) {
  return GROUPED ? r - QUERY_HEAD(r) * p.queries : r;
}
// The latest query of some rows, at most.
FN INDEX last_query(INDEX first_row, INDEX last_row) {
  if (GROUPED && QUERY_HEAD(first_row) != QUERY_HEAD(last_row)) {
    return p.queries - 1;
  }
  return query_of(last_row);
}
// How many keys the rows of a tile see, at most.
FN INDEX keys_seen(INDEX first_row) {
  if (!CAUSAL) {
    return p.keys;
  }
  const INDEX last_row = min(first_row + OWN, p.rows) - 1;
  return clamp(last_query(first_row, last_row) + p.lag + 1, INDEX(0), p.keys);
}

// The score of a row and a key from their product; NEVER where the row does not see the key.
FN VALUE score_of(Heads h, INDEX r, INDEX key, VALUE dot) {
  if (r >= p.rows || key >= p.keys) {
    return NEVER;
  }
  if (CAUSAL && key > query_of(r) + p.lag) {
    return NEVER;
  }
  VALUE score = dot * p.scale;
  if (MASK == 1u) {
    score = load_bool(h.mask.at, row_place(h.mask, r) + key * h.mask.column) ? score : NEVER;
  } else if (MASK == 2u) {
    score += load_element(h.mask.at, row_place(h.mask, r) + key * h.mask.column);
  }
  return score;
}

// Of a row: its largest score, and 1 / the sum of exp(score - largest), 0 without a key.
struct Statistics {
  VALUE top;
  VALUE share;
};
FN Statistics statistics_of(Heads h, INDEX r) {
  const INDEX at = row_place(h.statistics, r);
  return NEW2(Statistics, load_value(h.statistics.at, at),
                    load_value(h.statistics.at, at + h.statistics.column));
}
// exp(x) for x <= 0, and 0 for results below 3e-38. A NaN gives any number.
FN VALUE exp_of_gap(VALUE x) {
#if VALUE_SIZE == 8 || defined(HAS_MATH)
  return m_exp(x);
#else
  const float c = max(x, -86.5);
  precise const float shifted = c * 1.44269504088896341 + 12582912.0;
  precise const float n = shifted - 12582912.0;
  precise const float r = (c - n * 0.693359375) - n * -2.12194440e-4;
  // Of n + 12582912 the low bits of a float are n, which is added to the exponent.
  const float y = intBitsToFloat(floatBitsToInt(m_exp_near(r)) + (floatBitsToInt(shifted) << 23));
  return x < -86.5 ? 0.0 : y;
#endif
}
// A score that was computed otherwise than its row's top may lie above it by a rounding error. A NaN
// among a row's scores is in its share too.
FN VALUE weight_of(VALUE score, VALUE top, VALUE share) {
  return score == NEVER ? VALUE(0) : exp_of_gap(min(score - top, VALUE(0))) * share;
}
)";

}  // namespace hearth::gpu::attention_text
