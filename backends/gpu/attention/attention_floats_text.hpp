// The kernels of attention in f32 whose threads keep their rows in registers
// (DeviceLimits::has_warp_products), for elements in groups of four: CUDA C++ in the vocabulary of
// the other texts. They stand behind attention_text::kMatrix and kScores. Constants. Threads: any.
//
// A warp has 4 * ROWS rows of a tile, and all of their columns. Of each group of 4 rows a thread
// has one; of each group of 8 rows of the other tile it has one too. Neighbours in a group lie one
// row apart, and rows of tiles are an odd number of words, so all banks are read at once. Weights
// pass through shared memory that belongs to the warp. Sums are those of FlashAttention-2 (Dao,
// 2023), by plain products with one rounding each.
#pragma once

#include <string_view>

namespace hearth::gpu::attention_text {

/// Tiles and products. A tile has LINE words a row, of 16 bytes; WIDTH and VALUES are the widths
/// rounded up to 32.
inline constexpr std::string_view kFloatTiles = R"(
#define LINE ((WIDTH > VALUES ? WIDTH : VALUES) / 4 + 1)
#define KEYS (OTHER / 8)
#define WEIGHTS (ROWS + 1)
DYNAMIC_SHARED(vec4, words, WORDS);

FN int lane() { return int(THREAD) % 32; }
// The thread's place in a group of own rows, and in one of the other tile's.
FN int ty() { return lane() / 8; }
FN int tx() { return lane() % 8; }
FN int warp_row() { return int(THREAD) / 32 * (4 * ROWS); }
FN int weights_at() { return WORDS - (THREADS - int(THREAD) / 32 * 32) * WEIGHTS; }

// Begins to copy rows of a matrix, zeros outside.
FN void load_tile(int to, Matrix m, INDEX first_row, int rows, int row_words) {
  UNROLLED for (int i = 0; i < (rows * row_words + THREADS - 1) / THREADS; ++i) {
    const int e = int(THREAD) + i * THREADS;
    const INDEX row = first_row + INDEX(e / row_words);
    const INDEX column = INDEX(e % row_words * 4);
    if (e < rows * row_words) {
      const bool is_inside = row < m.rows && column < m.width;
      const INDEX place = is_inside ? row_place(m, row) + column : INDEX(0);
      copy_16(&words[to + e / row_words * LINE + e % row_words],
              m.at + uint64_t(int64_t(place) * 4l), is_inside);
    }
  }
}
FN void await_tiles() {
  copies_end();
  wait_copies<0>();
  barrier();
}

// s[i][j]: the thread's own row i times its other row j.
template <int kWords> FN void multiply_rows(float (*s)[KEYS], int own, int other) {
  UNROLLED for (int i = 0; i < ROWS; ++i) {
    UNROLLED for (int j = 0; j < KEYS; ++j) {
      s[i][j] = 0.0;
    }
  }
  const int left = own + (warp_row() + ty()) * LINE;
  const int right = other + tx() * LINE;
  ROLLED for (int two = 0; two < kWords; two += 2) {
    UNROLLED for (int c = two; c < two + 2; ++c) {
      vec4 a[ROWS];
      UNROLLED for (int i = 0; i < ROWS; ++i) {
        a[i] = words[left + 4 * i * LINE + c];
      }
      UNROLLED for (int j = 0; j < KEYS; ++j) {
        const vec4 b = words[right + 8 * j * LINE + c];
        UNROLLED for (int e = 0; e < 4; ++e) {
          UNROLLED for (int i = 0; i < ROWS; ++i) {
            s[i][j] = fma(a[i][e], b[e], s[i][j]);
          }
        }
      }
    }
  }
}

// sum[i][n]: adds weights times rows of a tile, in columns n * 32 + tx * 4 and the next three.
template <int kColumns>
FN void add_products(vec4 (*sum)[kColumns / 32], const float (*weights)[KEYS], int tile) {
  const int own = weights_at();
  UNROLLED for (int part = 0; part < KEYS; part += 4) {
    warp_barrier();
    UNROLLED for (int j = 0; j < 4; ++j) {
      UNROLLED for (int i = 0; i < ROWS; i += 4) {
        words[own + (tx() + 8 * j) * WEIGHTS + ty() * (ROWS / 4) + i / 4] =
            vec4(weights[i][part + j], weights[i + 1][part + j], weights[i + 2][part + j],
                 weights[i + 3][part + j]);
      }
    }
    warp_barrier();
    const int left = own + ty() * (ROWS / 4);
    const int right = tile + part * 8 * LINE + tx();
    ROLLED for (int four = 0; four < 32; four += 4) {
      UNROLLED for (int k = four; k < four + 4; ++k) {
        vec4 w[ROWS / 4];
        UNROLLED for (int i = 0; i < ROWS / 4; ++i) {
          w[i] = words[left + k * WEIGHTS + i];
        }
        UNROLLED for (int n = 0; n < kColumns / 32; ++n) {
          const vec4 v = words[right + k * LINE + n * 8];
          UNROLLED for (int i = 0; i < ROWS; ++i) {
            ADD_PRODUCT(sum[i][n], w[i / 4][i % 4], v);
          }
        }
      }
    }
  }
}

template <int kColumns> FN void clear(vec4 (*sum)[kColumns / 32]) {
  UNROLLED for (int i = 0; i < ROWS; ++i) {
    UNROLLED for (int n = 0; n < kColumns / 32; ++n) {
      sum[i][n] = vec4(0.0);
    }
  }
}

// The thread's values of its row i; zeros for a factor of zero.
template <int kColumns> FN void store_row(uint64_t to, INDEX row, INDEX width, const vec4* sum,
                                          float factor) {
  UNROLLED for (int n = 0; n < kColumns / 32; ++n) {
    const INDEX column = INDEX(n * 32 + tx() * 4);
    if (column < width) {
      store_four(to, row * width + column, factor == 0.0 ? vec4(0.0) : sum[n] * factor);
    }
  }
}

// exp(x) for x <= 0; 0 for results below 1e-45. The second product corrects the first's rounding.
FN float exp_of(float x) {
  const float c = max(x, -126.0);
  const float whole = c * 1.44269504088896341;
  const float y = exp2(whole);
  return fma(y * 0.693147180559945309, fma(c, 1.44269504088896341, -whole), y);
}
FN float weight_at(float score, float top, float share) {
  return score == NEVER ? 0.0 : exp_of(min(score - top, 0.0)) * share;
}
// True if the rows from `row` on see all keys of a tile, and their scores are scaled products.
FN bool sees_all(INDEX row, INDEX first_key, int keys) {
  return MASK == 0u && first_key + INDEX(keys) <= p.keys &&
         (!CAUSAL || (!GROUPED && first_key + INDEX(keys) - 1 <= row + p.lag));
}
)";

/// Tiles: the queries', then one that holds keys and values in turns, then weights.
inline constexpr std::string_view kFloatForward = R"(
#define OF_KEYS (OWN * LINE)

FN float over_lanes(float own, bool is_max) {
  UNROLLED for (uint apart = 1u; apart < 8u; apart *= 2u) {
    const float other = shuffle_xor(own, apart);
    own = is_max ? max(own, other) : own + other;
  }
  return own;
}

FN void main() {
  const Task task = task_of(GROUP);
  if (task.head >= p.heads) {
    return;
  }
  const Heads h = heads_of(task.head);
  const INDEX own_row = (INDEX(p.tiles) - 1 - task.tile) * OWN;
  const INDEX row = own_row + INDEX(warp_row() + ty());
  load_tile(0, h.q, own_row, OWN, WIDTH / 4);
  float top[ROWS];
  float sum[ROWS];
  UNROLLED for (int i = 0; i < ROWS; ++i) {
    top[i] = NEVER;
    sum[i] = 0.0;
  }
  vec4 result[ROWS][VALUES / 32];
  clear<VALUES>(result);
  const INDEX last_key = keys_seen(own_row);
  for (INDEX key = 0; key < last_key; key += OTHER) {
    load_tile(OF_KEYS, h.k, key, OTHER, WIDTH / 4);
    await_tiles();
    float s[ROWS][KEYS];
    multiply_rows<WIDTH / 4>(s, 0, OF_KEYS);
    barrier();
    load_tile(OF_KEYS, h.v, key, OTHER, VALUES / 4);
    const bool is_whole = sees_all(own_row + INDEX(warp_row()), key, OTHER);
    UNROLLED for (int i = 0; i < ROWS; ++i) {
      float higher = top[i];
      UNROLLED for (int j = 0; j < KEYS; ++j) {
        s[i][j] = is_whole ? s[i][j] * p.scale
                           : score_of(h, row + INDEX(4 * i), key + INDEX(tx() + 8 * j), s[i][j]);
        higher = max(higher, s[i][j]);
      }
      higher = over_lanes(higher, true);
      const float factor = top[i] == higher ? 1.0 : exp_of(top[i] - higher);
      top[i] = higher;
      sum[i] *= factor;
      UNROLLED for (int j = 0; j < KEYS; ++j) {
        s[i][j] = s[i][j] == NEVER ? 0.0 : exp_of(s[i][j] - higher);
        sum[i] += s[i][j];
      }
      UNROLLED for (int n = 0; n < VALUES / 32; ++n) {
        result[i][n] *= factor;
      }
    }
    await_tiles();
    add_products<VALUES>(result, s, OF_KEYS);
    barrier();
  }
  UNROLLED for (int i = 0; i < ROWS; ++i) {
    const INDEX r = row + INDEX(4 * i);
    const float all = over_lanes(sum[i], false);
    const float share = all == 0.0 ? 0.0 : m_div(1.0, all);
    if (r < p.rows) {
      store_row<VALUES>(moved(p.first, task.head * p.rows * p.value_width, SIZE), r, p.value_width,
                        result[i], share);
      if (p.second != 0ul && tx() == 0) {
        const INDEX at = (task.head * p.rows + r) * 2;
        store_value(p.second, at, top[i]);
        store_value(p.second, at + 1, share);
      }
    }
  }
  copies_end();
  wait_copies<0>();
}
)";

/// Tiles: two of the own side, two of the other's, then weights.
inline constexpr std::string_view kFloatQueryGrads = R"(
#define OF_GRADS (OWN * LINE)
#define OF_KEYS (2 * OWN * LINE)
#define OF_VALUES (OF_KEYS + OTHER * LINE)

FN void main() {
  const Task task = task_of(GROUP);
  if (task.head >= p.heads) {
    return;
  }
  const Heads h = heads_of(task.head);
  const INDEX own_row = (INDEX(p.tiles) - 1 - task.tile) * OWN;
  const INDEX row = own_row + INDEX(warp_row() + ty());
  load_tile(0, h.q, own_row, OWN, WIDTH / 4);
  load_tile(OF_GRADS, h.grad, own_row, OWN, VALUES / 4);
  float top[ROWS];
  float share[ROWS];
  float mean[ROWS];
  UNROLLED for (int i = 0; i < ROWS; ++i) {
    const INDEX r = row + INDEX(4 * i);
    top[i] = share[i] = mean[i] = 0.0;
    if (r < p.rows) {
      const Statistics statistics = statistics_of(h, r);
      top[i] = statistics.top;
      share[i] = statistics.share;
      mean[i] = load_value(p.means, task.head * p.rows + r);
    }
  }
  vec4 result[ROWS][WIDTH / 32];
  clear<WIDTH>(result);
  const INDEX last_key = keys_seen(own_row);
  for (INDEX key = 0; key < last_key; key += OTHER) {
    load_tile(OF_KEYS, h.k, key, OTHER, WIDTH / 4);
    load_tile(OF_VALUES, h.v, key, OTHER, VALUES / 4);
    await_tiles();
    float s[ROWS][KEYS];
    float g[ROWS][KEYS];
    multiply_rows<WIDTH / 4>(s, 0, OF_KEYS);
    multiply_rows<VALUES / 4>(g, OF_GRADS, OF_VALUES);
    const bool is_whole = sees_all(own_row + INDEX(warp_row()), key, OTHER);
    UNROLLED for (int i = 0; i < ROWS; ++i) {
      UNROLLED for (int j = 0; j < KEYS; ++j) {
        const float score =
            is_whole ? s[i][j] * p.scale
                     : score_of(h, row + INDEX(4 * i), key + INDEX(tx() + 8 * j), s[i][j]);
        const float weight = weight_at(score, top[i], share[i]);
        s[i][j] = score == NEVER ? 0.0 : weight * (g[i][j] - mean[i]) * p.scale;
      }
    }
    add_products<WIDTH>(result, s, OF_KEYS);
    barrier();
  }
  UNROLLED for (int i = 0; i < ROWS; ++i) {
    const INDEX r = row + INDEX(4 * i);
    if (r < p.rows) {
      store_row<WIDTH>(moved(p.first, task.head * p.rows * p.width, SIZE), r, p.width, result[i], 1.0);
    }
  }
  copies_end();
  wait_copies<0>();
}
)";

/// Tiles: two of the own side, two of the other's, three numbers for each row of these, weights.
inline constexpr std::string_view kFloatKeyGrads = R"(
#define OF_OWN_VALUES (OWN * LINE)
#define OF_QUERIES (2 * OWN * LINE)
#define OF_GRADS (OF_QUERIES + OTHER * LINE)
SHARED(float, numbers, 3 * OTHER);

// True if a row of the tile sees a key from `key` on.
FN bool sees_tile(INDEX first_row, INDEX key) {
  const INDEX last = min(first_row + OTHER, p.rows) - 1;
  return last_query(first_row, last) + p.lag >= key;
}
FN void load_numbers(Heads h, INDEX head, INDEX first) {
  if (int(THREAD) < OTHER) {
    const INDEX r = first + INDEX(THREAD);
    const bool is_inside = r < p.rows;
    const INDEX at = is_inside ? row_place(h.statistics, r) : INDEX(0);
    const INDEX of_mean = is_inside ? head * p.rows + r : INDEX(0);
    float* const own = &numbers[int(THREAD)];
    copy_4(own, h.statistics.at + uint64_t(int64_t(at) * 4l), is_inside);
    copy_4(own + OTHER, h.statistics.at + uint64_t(int64_t(at + h.statistics.column) * 4l), is_inside);
    copy_4(own + 2 * OTHER, p.means + uint64_t(int64_t(of_mean) * 4l), is_inside);
  }
}

FN void main() {
  const Task task = task_of(GROUP);
  if (task.head >= p.heads) {
    return;
  }
  const Heads h = heads_of(task.head);
  const INDEX own_row = task.tile * OWN;
  const INDEX key = own_row + INDEX(warp_row() + ty());
  load_tile(0, h.k, own_row, OWN, WIDTH / 4);
  load_tile(OF_OWN_VALUES, h.v, own_row, OWN, VALUES / 4);
  vec4 of_keys[ROWS][WIDTH / 32];
  vec4 of_values[ROWS][VALUES / 32];
  clear<WIDTH>(of_keys);
  clear<VALUES>(of_values);
  for (INDEX first = 0; first < p.rows; first += OTHER) {
    if (CAUSAL && !sees_tile(first, own_row)) {
      continue;
    }
    load_tile(OF_QUERIES, h.q, first, OTHER, WIDTH / 4);
    load_tile(OF_GRADS, h.grad, first, OTHER, VALUES / 4);
    load_numbers(h, task.head, first);
    await_tiles();
    float s[ROWS][KEYS];
    float g[ROWS][KEYS];
    multiply_rows<WIDTH / 4>(s, 0, OF_QUERIES);
    multiply_rows<VALUES / 4>(g, OF_OWN_VALUES, OF_GRADS);
    const bool is_whole = sees_all(first, own_row, OWN) && first + OTHER <= p.rows;
    UNROLLED for (int j = 0; j < KEYS; ++j) {
      const int at = tx() + 8 * j;
      UNROLLED for (int i = 0; i < ROWS; ++i) {
        const float score = is_whole ? s[i][j] * p.scale
                                     : score_of(h, first + INDEX(at), key + INDEX(4 * i), s[i][j]);
        s[i][j] = weight_at(score, numbers[at], numbers[OTHER + at]);
        g[i][j] = score == NEVER ? 0.0 : s[i][j] * (g[i][j] - numbers[2 * OTHER + at]) * p.scale;
      }
    }
    add_products<VALUES>(of_values, s, OF_GRADS);
    add_products<WIDTH>(of_keys, g, OF_QUERIES);
    barrier();
  }
  UNROLLED for (int i = 0; i < ROWS; ++i) {
    const INDEX r = key + INDEX(4 * i);
    if (r < p.keys) {
      store_row<WIDTH>(moved(p.first, task.head * p.keys * p.width, SIZE), r, p.width, of_keys[i], 1.0);
      store_row<VALUES>(moved(p.second, task.head * p.keys * p.value_width, SIZE), r, p.value_width,
                        of_values[i], 1.0);
    }
  }
  copies_end();
  wait_copies<0>();
}
)";

}  // namespace hearth::gpu::attention_text
