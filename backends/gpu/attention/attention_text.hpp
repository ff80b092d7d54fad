// GLSL of the kernels of attention, behind attention_tiles_text.hpp: one main() each. Constants.
// Threads: any.
#pragma once

#include <string_view>

namespace hearth::gpu::attention_text {

inline constexpr std::string_view kForward = R"(
// Of the TX threads that have the same rows.
FN VALUE4 over_threads(VALUE4 own, bool is_max) {
#if HAS_SHUFFLES
  UNROLLED for (uint apart = 1u; apart < uint(TX); apart *= 2u) {
    const VALUE4 other = shuffle_xor(own, apart);
    own = is_max ? max(own, other) : own + other;
  }
  return own;
#else
  const int ty = int(THREAD) / TX;
  const int tx = int(THREAD) % TX;
  barrier();
  tiles[tx * (TY + 1) + ty] = own;
  barrier();
  VALUE4 all = tiles[ty];
  for (int i = 1; i < TX; ++i) {
    const VALUE4 other = tiles[i * (TY + 1) + ty];
    all = is_max ? max(all, other) : all + other;
  }
  return all;
#endif
}

FN void main() {
  const Task task = task_of(GROUP);
  if (task.head >= p.heads) {
    return;
  }
  const int ty = int(THREAD) / TX;
  const int tx = int(THREAD) % TX;
  const Heads h = heads_of(task.head);
  const INDEX own_row = (INDEX(p.tiles) - 1 - task.tile) * OWN;
  const INDEX row = own_row + INDEX(ty * 4);
  VALUE4 top = VALUE4(NEVER);
  VALUE4 sum = VALUE4(0);
  VALUE4 result[BLOCKS * 4];
  UNROLLED for (int i = 0; i < BLOCKS * 4; ++i) {
    result[i] = VALUE4(0);
  }
  const INDEX last_key = min(keys_seen(own_row), INDEX(task.piece + 1) * p.chunk);
  for (INDEX key = INDEX(task.piece) * p.chunk; key < last_key; key += OTHER) {
    VALUE4 s[4];
    product(h.q, h.k, own_row, key, s);
    VALUE4 higher = top;
    MAYBE_UNROLLED for (int j = 0; j < 4; ++j) {
      UNROLLED for (int i = 0; i < 4; ++i) {
        s[j][i] = score_of(h, row + INDEX(i), key + INDEX(tx * 4 + j), s[j][i]);
      }
      higher = max(higher, s[j]);
    }
    higher = over_threads(higher, true);
    VALUE4 factor;
    UNROLLED for (int i = 0; i < 4; ++i) {
      factor[i] = top[i] == higher[i] ? VALUE(1) : m_exp(top[i] - higher[i]);
    }
    top = higher;
    sum *= factor;
    UNROLLED for (int j = 0; j < 4; ++j) {
      UNROLLED for (int i = 0; i < 4; ++i) {
        s[j][i] = s[j][i] == NEVER ? VALUE(0) : m_exp(s[j][i] - higher[i]);
      }
      sum += s[j];
    }
    put_weights(s);
    UNROLLED for (int i = 0; i < BLOCKS * 4; ++i) {
      result[i] *= factor[i % 4];
    }
    accumulate(h.v, key, task.column, result);
  }
  sum = over_threads(sum, false);
#if PARTIAL
  // A matrix for each piece; in it a row has its maximum, its sum and its values.
  const INDEX pieces_row = (task.head * INDEX(p.splits) + INDEX(task.piece)) * p.rows;
  MAYBE_UNROLLED for (int b = 0; b < BLOCKS; ++b) {
    MAYBE_UNROLLED for (int i = 0; i < 4; ++i) {
      const INDEX r = row + INDEX(i);
      UNROLLED for (int j = 0; j < 4; ++j) {
        const INDEX column = task.column + INDEX((b * TX + tx) * 4 + j);
        if (r < p.rows && column < p.value_width) {
          store_value(p.means, (pieces_row + r) * (p.value_width + 2) + 2 + column,
                      result[b * 4 + i][j]);
        }
      }
    }
  }
  if (tx == 0 && task.column == 0) {
    UNROLLED for (int i = 0; i < 4; ++i) {
      if (row + INDEX(i) < p.rows) {
        const INDEX at = (pieces_row + row + INDEX(i)) * (p.value_width + 2);
        store_value(p.means, at, top[i]);
        store_value(p.means, at + 1, sum[i]);
      }
    }
  }
#else
  VALUE4 share;
  UNROLLED for (int i = 0; i < 4; ++i) {
    share[i] = sum[i] == VALUE(0) ? VALUE(0) : m_div(VALUE(1), sum[i]);
  }
  UNROLLED for (int i = 0; i < BLOCKS * 4; ++i) {
    result[i] = share[i % 4] == VALUE(0) ? VALUE4(0) : result[i] * share[i % 4];
  }
  store_block(moved(p.first, task.head * p.rows * p.value_width, SIZE), p.rows, p.value_width, row,
              task.column, result);
  if (p.second != 0ul && tx == 0 && task.column == 0) {
    UNROLLED for (int i = 0; i < 4; ++i) {
      if (row + INDEX(i) < p.rows) {
        const INDEX at = (task.head * p.rows + row + INDEX(i)) * 2;
        store_value(p.second, at, top[i]);
        store_value(p.second, at + 1, share[i]);
      }
    }
  }
#endif
}
)";

/// Combines the parts of rows: one element of the results for each thread.
inline constexpr std::string_view kJoin = R"(
FN void main() {
  const INDEX wide_row = max(p.value_width, INDEX(1));
  const INDEX i = INDEX(GROUP) * THREADS + INDEX(THREAD);
  const INDEX all_row = i / wide_row;
  const INDEX column = i - all_row * wide_row;
  if (all_row >= p.heads * p.rows) {
    return;
  }
  const INDEX head = all_row / p.rows;
  const INDEX row = all_row - head * p.rows;
  const INDEX length = p.value_width + 2;
  const INDEX first = (head * INDEX(p.splits) * p.rows + row) * length;
  const INDEX step = p.rows * length;
  VALUE top = NEVER;
  for (int s = 0; s < p.splits; ++s) {
    top = max(top, load_value(p.means, first + INDEX(s) * step));
  }
  VALUE sum = VALUE(0);
  VALUE value = VALUE(0);
  for (int s = 0; s < p.splits; ++s) {
    const INDEX at = first + INDEX(s) * step;
    const VALUE own = load_value(p.means, at);
    const VALUE factor = own == top ? VALUE(1) : m_exp(own - top);
    sum += factor * load_value(p.means, at + 1);
    if (column < p.value_width) {
      value += factor * load_value(p.means, at + 2 + column);
    }
  }
  if (column < p.value_width) {
    store_element(p.first, all_row * p.value_width + column,
                  sum == VALUE(0) ? VALUE(0) : m_div(value, sum));
  }
  if (p.second != 0ul && column == 0) {
    store_value(p.second, all_row * 2, top);
    store_value(p.second, all_row * 2 + 1, sum == VALUE(0) ? VALUE(0) : m_div(VALUE(1), sum));
  }
}
)";

/// For each row, the sum of grad times y; LANES threads share a row.
inline constexpr std::string_view kMeans = R"(
#define LANES 8
SHARED(VALUE, lanes, THREADS);
FN void main() {
  const int thread = int(THREAD);
  const INDEX all_row = INDEX(GROUP) * (THREADS / LANES) + INDEX(thread / LANES);
  const int lane = thread % LANES;
  const bool is_inside = all_row < p.heads * p.rows;
  VALUE sum = VALUE(0);
  if (is_inside) {
    const INDEX head = all_row / p.rows;
    const INDEX r = all_row - head * p.rows;
    const INDEX group_head = r / p.queries;
    const INDEX query = r - group_head * p.queries;
    INDEX places[7];
    head_places(head, places[0], places[1], places[2], places[3], places[4], places[5], places[6]);
    const INDEX grad = places[4] + group_head * p.grad_head + query * p.grad_row;
    const INDEX y = places[6] + group_head * p.y_head + query * p.y_row;
    for (INDEX c = INDEX(lane); c < p.value_width; c += LANES) {
      sum += load_element(p.grad, grad + c * p.grad_column) *
             load_element(p.y, y + c * p.y_column);
    }
  }
  lanes[thread] = sum;
  for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes /= 2) {
    barrier();
    if (lane < half_lanes) {
      lanes[thread] += lanes[thread + half_lanes];
    }
  }
  if (is_inside && lane == 0) {
    store_value(p.means, all_row, lanes[thread]);
  }
}
)";

inline constexpr std::string_view kQueryGrads = R"(
FN void main() {
  const Task task = task_of(GROUP);
  if (task.head >= p.heads) {
    return;
  }
  const int ty = int(THREAD) / TX;
  const int tx = int(THREAD) % TX;
  const Heads h = heads_of(task.head);
  const INDEX own_row = (INDEX(p.tiles) - 1 - task.tile) * OWN;
  const INDEX row = own_row + INDEX(ty * 4);
  VALUE4 top = VALUE4(0);
  VALUE4 share = VALUE4(0);
  VALUE4 mean = VALUE4(0);
  UNROLLED for (int i = 0; i < 4; ++i) {
    if (row + INDEX(i) < p.rows) {
      const Statistics statistics = statistics_of(h, row + INDEX(i));
      top[i] = statistics.top;
      share[i] = statistics.share;
      mean[i] = load_value(p.means, task.head * p.rows + row + INDEX(i));
    }
  }
  VALUE4 result[BLOCKS * 4];
  UNROLLED for (int i = 0; i < BLOCKS * 4; ++i) {
    result[i] = VALUE4(0);
  }
  const INDEX last_key = keys_seen(own_row);
  for (INDEX key = 0; key < last_key; key += OTHER) {
    VALUE4 s[4];
    VALUE4 g[4];
    product(h.q, h.k, own_row, key, s);
    product(h.grad, h.v, own_row, key, g);
    MAYBE_UNROLLED for (int j = 0; j < 4; ++j) {
      UNROLLED for (int i = 0; i < 4; ++i) {
        const VALUE score = score_of(h, row + INDEX(i), key + INDEX(tx * 4 + j), s[j][i]);
        const VALUE weight = weight_of(score, top[i], share[i]);
        s[j][i] = score == NEVER ? VALUE(0) : weight * (g[j][i] - mean[i]) * p.scale;
      }
    }
    put_weights(s);
    accumulate(h.k, key, task.column, result);
  }
  store_block(moved(p.first, task.head * p.rows * p.width, SIZE), p.rows, p.width, row, task.column,
              result);
}
)";

inline constexpr std::string_view kKeyGrads = R"(
FN void main() {
  const Task task = task_of(GROUP);
  if (task.head >= p.heads) {
    return;
  }
  const int ty = int(THREAD) / TX;
  const int tx = int(THREAD) % TX;
  const Heads h = heads_of(task.head);
  const INDEX own_row = task.tile * OWN;
  const INDEX key = own_row + INDEX(ty * 4);
  VALUE4 of_keys[BLOCKS * 4];
  VALUE4 of_values[BLOCKS * 4];
  UNROLLED for (int i = 0; i < BLOCKS * 4; ++i) {
    of_keys[i] = VALUE4(0);
    of_values[i] = VALUE4(0);
  }
  for (INDEX first = 0; first < p.rows; first += OTHER) {
    if (CAUSAL) {  // rows that see no key of this tile
      const INDEX last = min(first + OTHER, p.rows) - 1;
      if (last_query(first, last) + p.lag < own_row) {
        continue;
      }
    }
    VALUE4 s[4];
    VALUE4 g[4];
    product(h.k, h.q, own_row, first, s);
    product(h.v, h.grad, own_row, first, g);
    MAYBE_UNROLLED for (int j = 0; j < 4; ++j) {
      const INDEX r = first + INDEX(tx * 4 + j);
      Statistics statistics = NEW2(Statistics, VALUE(0), VALUE(0));
      VALUE mean = VALUE(0);
      if (r < p.rows) {
        statistics = statistics_of(h, r);
        mean = load_value(p.means, task.head * p.rows + r);
      }
      UNROLLED for (int i = 0; i < 4; ++i) {
        const VALUE score = score_of(h, r, key + INDEX(i), s[j][i]);
        s[j][i] = weight_of(score, statistics.top, statistics.share);
        g[j][i] = score == NEVER ? VALUE(0) : s[j][i] * (g[j][i] - mean) * p.scale;
      }
    }
    if (task.column < p.value_width) {
      put_weights(s);
      accumulate(h.grad, first, task.column, of_values);
    }
    if (task.column < p.width) {
      put_weights(g);
      accumulate(h.q, first, task.column, of_keys);
    }
  }
  store_block(moved(p.first, task.head * p.keys * p.width, SIZE), p.keys, p.width, key, task.column,
              of_keys);
  store_block(moved(p.second, task.head * p.keys * p.value_width, SIZE), p.keys, p.value_width, key,
              task.column, of_values);
}
)";

}  // namespace hearth::gpu::attention_text
