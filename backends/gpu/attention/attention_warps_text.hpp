// The kernels of attention on matrix units whose fragments lie in registers
// (DeviceLimits::has_mma), for 16-bit elements in groups of eight: CUDA C++ in the vocabulary of
// the other texts. They stand behind attention_text::kMatrix and kScores. Constants. Threads: any.
//
// A warp has 16 rows of a tile, and all of their columns. The scores of a row lie in four threads,
// which compute its maximum and its sum by shuffles. As the fragments of scores and of left factors
// agree, weights go from the first product to the second without shared memory. As in
// attention_units_text.hpp, weights are the sum of two 16-bit numbers. The method is that of
// FlashAttention-2 (Dao, 2023), without its 16-bit weights.
#pragma once

#include <string_view>

namespace hearth::gpu::attention_text {

/// Fragments and products. A tile has LINE words a row, of 16 bytes; WIDTH and VALUES are the
/// widths rounded up to 16.
inline constexpr std::string_view kWarpTiles = R"(
#define LINE ((WIDTH > VALUES ? WIDTH : VALUES) / 8 + 1)
#define SECOND (OTHER * LINE)
#define STAGE (2 * OTHER * LINE)
SHARED(uvec4, words, (OWN > 4 * OTHER ? OWN : 4 * OTHER) * LINE);
WRITE_BUFFER_ONE(Pair, uint, 4);

FN int lane() { return int(THREAD) % 32; }
FN int warp() { return int(THREAD) / 32; }

FN void load_tile(int to, Matrix m, INDEX first_row, int rows, int row_words) {
  UNROLLED for (int i = 0; i < (rows * row_words + THREADS - 1) / THREADS; ++i) {
    const int e = int(THREAD) + i * THREADS;
    const INDEX row = first_row + INDEX(e / row_words);
    const INDEX column = INDEX(e % row_words * 8);
    if (e < rows * row_words) {
      const bool is_inside = row < m.rows && column < m.width;
      const INDEX place = is_inside ? row_place(m, row) + column : INDEX(0);
      copy_16(&words[to + e / row_words * LINE + e % row_words],
              m.at + uint64_t(int64_t(place) * 2l), is_inside);
    }
  }
}

// Begins to copy the tiles of some keys, as a group.
FN void load_keys(int to, Heads h, INDEX key) {
  load_tile(to, h.k, key, OTHER, WIDTH / 8);
  load_tile(to + SECOND, h.v, key, OTHER, VALUES / 8);
  copies_end();
}

// Rows of the left factor, 16 columns from 16 * k on.
FN void left_fragment(uint* to, int row, int k) {
  load_matrices(to, &words[(row + lane() % 16) * LINE + k * 2 + lane() / 16]);
}
// The fragments of 16 rows of a tile, which are columns of the right factor.
FN void right_of_rows(uint* to, int at, int row, int k) {
  load_matrices(to, &words[at + (row + lane() % 8 + lane() / 16 * 8) * LINE + k * 2 + lane() / 8 % 2]);
}
// The fragments of 16 columns of a tile, whose rows are those of the right factor.
FN void right_of_columns(uint* to, int at, int row, int column) {
  load_matrices_turned(to, &words[at + (row + lane() % 16) * LINE + column / 8 + lane() / 16]);
}

template <int kSteps> FN void load_left(uint (*to)[4], Matrix m, INDEX first_row) {
  barrier();
  load_tile(0, m, first_row, OWN, kSteps * 2);
  copies_end();
  wait_copies<0>();
  barrier();
  UNROLLED for (int k = 0; k < kSteps; ++k) {
    left_fragment(to[k], warp() * 16, k);
  }
}

// s[n]: the warp's rows times rows n * 8 to n * 8 + 7 of the tile.
template <int kSteps> FN void multiply_rows(float (*s)[4], const uint (*left)[4], int at) {
  UNROLLED for (int n = 0; n < OTHER / 8; ++n) {
    UNROLLED for (int e = 0; e < 4; ++e) {
      s[n][e] = 0.0;
    }
  }
  UNROLLED for (int k = 0; k < kSteps; ++k) {
    UNROLLED for (int n = 0; n < OTHER / 16; ++n) {
      uint right[4];
      right_of_rows(right, at, n * 16, k);
      multiply_16(s[2 * n], left[k], right[0], right[1]);
      multiply_16(s[2 * n + 1], left[k], right[2], right[3]);
    }
  }
}

// Cut, not rounded: by the bits, so that no compiler takes the rest for nothing.
FN void split_pair(float x, float y, uint& first_pair, uint& rest_pair) {
  const vec2 first = uintBitsToFloat(uvec2(floatBitsToUint(x) & KEPT_BITS, floatBitsToUint(y) & KEPT_BITS));
  first_pair = PACKED(first);
  const vec2 rest = vec2(abs(x) < 1e38 ? x - first.x : 0.0, abs(y) < 1e38 ? y - first.y : 0.0);
  rest_pair = PACKED(rest);
}

// Adds weights times the rows of the tile, in columns n * 8 to n * 8 + 7 for sum[n].
template <int kColumns> FN void add_products(float (*sum)[4], const float (*weights)[4], int at) {
  UNROLLED for (int k = 0; k < OTHER / 16; ++k) {
    uint first[4];
    uint rest[4];
    UNROLLED for (int half = 0; half < 2; ++half) {
      const float* w = weights[2 * k + half];
      split_pair(w[0], w[1], first[2 * half], rest[2 * half]);
      split_pair(w[2], w[3], first[2 * half + 1], rest[2 * half + 1]);
    }
    UNROLLED for (int n = 0; n < kColumns / 16; ++n) {
      uint right[4];
      right_of_columns(right, at, k * 16, n * 16);
      multiply_16(sum[2 * n], first, right[0], right[1]);
      multiply_16(sum[2 * n + 1], first, right[2], right[3]);
      multiply_16(sum[2 * n], rest, right[0], right[1]);
      multiply_16(sum[2 * n + 1], rest, right[2], right[3]);
    }
  }
}

template <int kColumns> FN void clear(float (*sum)[4]) {
  UNROLLED for (int n = 0; n < kColumns / 8; ++n) {
    UNROLLED for (int e = 0; e < 4; ++e) {
      sum[n][e] = 0.0;
    }
  }
}

// Row `row` of the matrix gets the thread's values of row `half`.
template <int kColumns> FN void store_row(uint64_t to, INDEX row, INDEX width, const float (*sum)[4],
                                          int half, float factor) {
  UNROLLED for (int n = 0; n < kColumns / 8; ++n) {
    const INDEX column = INDEX(n * 8 + lane() % 4 * 2);
    if (column < width) {
      const float x = factor == 0.0 ? 0.0 : sum[n][2 * half] * factor;
      const float y = factor == 0.0 ? 0.0 : sum[n][2 * half + 1] * factor;
      Pair(to + uint64_t(row * width + column) * 2ul).v = ROUNDED(x) | ROUNDED(y) << 16;
    }
  }
}

FN float exp_of(float x) { return exp2(x * 1.44269504088896341); }
FN float weight_at(float score, float top, float share) {
  return score == NEVER ? 0.0 : exp_of(min(score - top, 0.0)) * share;
}
// True if the rows from `row` on see all keys of a tile, and their scores are scaled products.
FN bool sees_all(INDEX row, INDEX first_key, int keys) {
  return MASK == 0u && first_key + INDEX(keys) <= p.keys &&
         (!CAUSAL || (!GROUPED && first_key + INDEX(keys) - 1 <= row + p.lag));
}
)";

inline constexpr std::string_view kWarpForward = R"(
FN float over_lanes(float own, bool is_max) {
  UNROLLED for (uint apart = 1u; apart < 4u; apart *= 2u) {
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
  const INDEX row = own_row + INDEX(warp() * 16 + lane() / 4);
  uint left[WIDTH / 16][4];
  load_left<WIDTH / 16>(left, h.q, own_row);
  float top[2] = {NEVER, NEVER};
  float sum[2] = {0.0, 0.0};
  float result[VALUES / 8][4];
  clear<VALUES>(result);
  const INDEX last_key = keys_seen(own_row);
  barrier();
  load_keys(0, h, 0);
  int stage = 0;
  for (INDEX key = 0; key < last_key; key += OTHER) {
    if (key + OTHER < last_key) {
      load_keys(STAGE - stage, h, key + OTHER);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    barrier();
    float s[OTHER / 8][4];
    multiply_rows<WIDTH / 16>(s, left, stage);
    const bool is_whole = sees_all(own_row + INDEX(warp() * 16), key, OTHER);
    float higher[2] = {top[0], top[1]};
    UNROLLED for (int n = 0; n < OTHER / 8; ++n) {
      UNROLLED for (int e = 0; e < 4; ++e) {
        const INDEX of_key = key + INDEX(n * 8 + lane() % 4 * 2 + e % 2);
        s[n][e] = is_whole ? s[n][e] * p.scale
                           : score_of(h, row + INDEX(e / 2 * 8), of_key, s[n][e]);
        higher[e / 2] = max(higher[e / 2], s[n][e]);
      }
    }
    float factor[2];
    UNROLLED for (int i = 0; i < 2; ++i) {
      higher[i] = over_lanes(higher[i], true);
      factor[i] = top[i] == higher[i] ? 1.0 : exp_of(top[i] - higher[i]);
      top[i] = higher[i];
      sum[i] *= factor[i];
    }
    UNROLLED for (int n = 0; n < OTHER / 8; ++n) {
      UNROLLED for (int e = 0; e < 4; ++e) {
        s[n][e] = s[n][e] == NEVER ? 0.0 : exp_of(s[n][e] - higher[e / 2]);
        sum[e / 2] += s[n][e];
      }
    }
    UNROLLED for (int n = 0; n < VALUES / 8; ++n) {
      UNROLLED for (int e = 0; e < 4; ++e) {
        result[n][e] *= factor[e / 2];
      }
    }
    add_products<VALUES>(result, s, stage + SECOND);
    barrier();
    stage = STAGE - stage;
  }
  UNROLLED for (int i = 0; i < 2; ++i) {
    const INDEX r = row + INDEX(i * 8);
    const float all = over_lanes(sum[i], false);
    const float share = all == 0.0 ? 0.0 : m_div(1.0, all);
    if (r < p.rows) {
      store_row<VALUES>(moved(p.first, task.head * p.rows * p.value_width, SIZE), r, p.value_width,
                        result, i, share);
      if (p.second != 0ul && lane() % 4 == 0) {
        const INDEX at = (task.head * p.rows + r) * 2;
        store_value(p.second, at, top[i]);
        store_value(p.second, at + 1, share);
      }
    }
  }
}
)";

inline constexpr std::string_view kWarpQueryGrads = R"(
FN void main() {
  const Task task = task_of(GROUP);
  if (task.head >= p.heads) {
    return;
  }
  const Heads h = heads_of(task.head);
  const INDEX own_row = (INDEX(p.tiles) - 1 - task.tile) * OWN;
  const INDEX row = own_row + INDEX(warp() * 16 + lane() / 4);
  uint left[WIDTH / 16][4];
  uint left_grad[VALUES / 16][4];
  load_left<WIDTH / 16>(left, h.q, own_row);
  load_left<VALUES / 16>(left_grad, h.grad, own_row);
  float top[2] = {0.0, 0.0};
  float share[2] = {0.0, 0.0};
  float mean[2] = {0.0, 0.0};
  UNROLLED for (int i = 0; i < 2; ++i) {
    const INDEX r = row + INDEX(i * 8);
    if (r < p.rows) {
      const Statistics statistics = statistics_of(h, r);
      top[i] = statistics.top;
      share[i] = statistics.share;
      mean[i] = load_value(p.means, task.head * p.rows + r);
    }
  }
  float result[WIDTH / 8][4];
  clear<WIDTH>(result);
  const INDEX last_key = keys_seen(own_row);
  barrier();
  load_keys(0, h, 0);
  int stage = 0;
  for (INDEX key = 0; key < last_key; key += OTHER) {
    if (key + OTHER < last_key) {
      load_keys(STAGE - stage, h, key + OTHER);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    barrier();
    float s[OTHER / 8][4];
    float g[OTHER / 8][4];
    multiply_rows<WIDTH / 16>(s, left, stage);
    multiply_rows<VALUES / 16>(g, left_grad, stage + SECOND);
    const bool is_whole = sees_all(own_row + INDEX(warp() * 16), key, OTHER);
    UNROLLED for (int n = 0; n < OTHER / 8; ++n) {
      UNROLLED for (int e = 0; e < 4; ++e) {
        const INDEX of_key = key + INDEX(n * 8 + lane() % 4 * 2 + e % 2);
        const float score = is_whole ? s[n][e] * p.scale
                                     : score_of(h, row + INDEX(e / 2 * 8), of_key, s[n][e]);
        const float weight = weight_at(score, top[e / 2], share[e / 2]);
        s[n][e] = score == NEVER ? 0.0 : weight * (g[n][e] - mean[e / 2]) * p.scale;
      }
    }
    add_products<WIDTH>(result, s, stage);
    barrier();
    stage = STAGE - stage;
  }
  UNROLLED for (int i = 0; i < 2; ++i) {
    const INDEX r = row + INDEX(i * 8);
    if (r < p.rows) {
      store_row<WIDTH>(moved(p.first, task.head * p.rows * p.width, SIZE), r, p.width, result, i, 1.0);
    }
  }
}
)";

inline constexpr std::string_view kWarpKeyGrads = R"(
SHARED(float, numbers, 2 * 3 * OTHER);

// True if a row of the tile sees a key from `key` on.
FN bool sees_tile(INDEX first_row, INDEX key) {
  const INDEX last = min(first_row + OTHER, p.rows) - 1;
  return last_query(first_row, last) + p.lag >= key;
}
// Begins to copy the tiles of some rows, and the numbers of these rows, as a group.
FN void load_rows_of(int to, Heads h, INDEX head, INDEX first) {
  load_tile(to, h.q, first, OTHER, WIDTH / 8);
  load_tile(to + SECOND, h.grad, first, OTHER, VALUES / 8);
  if (int(THREAD) < OTHER) {
    const INDEX r = first + INDEX(THREAD);
    const bool is_inside = r < p.rows;
    const INDEX at = is_inside ? row_place(h.statistics, r) : INDEX(0);
    float* const own = &numbers[(to == 0 ? 0 : 3 * OTHER) + int(THREAD)];
    copy_4(own, h.statistics.at + uint64_t(int64_t(at) * 4l), is_inside);
    copy_4(own + OTHER, h.statistics.at + uint64_t(int64_t(at + h.statistics.column) * 4l), is_inside);
    copy_4(own + 2 * OTHER, p.means + uint64_t(int64_t(head * p.rows + r) * 4l), is_inside);
  }
  copies_end();
}

FN void main() {
  const Task task = task_of(GROUP);
  if (task.head >= p.heads) {
    return;
  }
  const Heads h = heads_of(task.head);
  const INDEX own_row = task.tile * OWN;
  const INDEX key = own_row + INDEX(warp() * 16 + lane() / 4);
  uint left[WIDTH / 16][4];
  uint left_value[VALUES / 16][4];
  load_left<WIDTH / 16>(left, h.k, own_row);
  load_left<VALUES / 16>(left_value, h.v, own_row);
  float of_keys[WIDTH / 8][4];
  float of_values[VALUES / 8][4];
  clear<WIDTH>(of_keys);
  clear<VALUES>(of_values);
  INDEX first = 0;
  if (CAUSAL) {
    while (first < p.rows && !sees_tile(first, own_row)) {
      first += OTHER;
    }
  }
  barrier();
  load_rows_of(0, h, task.head, first);
  int stage = 0;
  while (first < p.rows) {
    INDEX next = first + OTHER;
    if (CAUSAL && GROUPED) {
      while (next < p.rows && !sees_tile(next, own_row)) {
        next += OTHER;
      }
    }
    if (next < p.rows) {
      load_rows_of(STAGE - stage, h, task.head, next);
      wait_copies<1>();
    } else {
      wait_copies<0>();
    }
    barrier();
    const float* const tops = &numbers[stage == 0 ? 0 : 3 * OTHER];
    const float* const shares = tops + OTHER;
    const float* const row_means = shares + OTHER;
    float s[OTHER / 8][4];
    float g[OTHER / 8][4];
    multiply_rows<WIDTH / 16>(s, left, stage);
    multiply_rows<VALUES / 16>(g, left_value, stage + SECOND);
    const bool is_whole = sees_all(first, own_row, OWN) && first + OTHER <= p.rows;
    UNROLLED for (int n = 0; n < OTHER / 8; ++n) {
      UNROLLED for (int e = 0; e < 4; ++e) {
        const int j = n * 8 + lane() % 4 * 2 + e % 2;
        const float score = is_whole ? s[n][e] * p.scale
                                     : score_of(h, first + INDEX(j), key + INDEX(e / 2 * 8), s[n][e]);
        s[n][e] = weight_at(score, tops[j], shares[j]);
        g[n][e] = score == NEVER ? 0.0 : s[n][e] * (g[n][e] - row_means[j]) * p.scale;
      }
    }
    add_products<VALUES>(of_values, s, stage + SECOND);
    add_products<WIDTH>(of_keys, g, stage);
    barrier();
    stage = STAGE - stage;
    first = next;
  }
  UNROLLED for (int i = 0; i < 2; ++i) {
    const INDEX r = key + INDEX(i * 8);
    if (r < p.keys) {
      store_row<WIDTH>(moved(p.first, task.head * p.keys * p.width, SIZE), r, p.width, of_keys, i, 1.0);
      store_row<VALUES>(moved(p.second, task.head * p.keys * p.value_width, SIZE), r, p.value_width,
                        of_values, i, 1.0);
    }
  }
}
)";

}  // namespace hearth::gpu::attention_text
