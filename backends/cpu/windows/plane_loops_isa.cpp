#include "window_loops_isa.hpp"

#include <utility>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

template <class V, int... kIndex>
[[gnu::always_inline]] inline V even(V low,
                                     V high,
                                     std::integer_sequence<int, kIndex...> /*lanes*/) {
  return __builtin_shufflevector(low, high, (2 * kIndex)...);
}

template <class V, int... kIndex>
[[maybe_unused, gnu::always_inline]] inline V odd(V low,
                                                  V high,
                                                  std::integer_sequence<int, kIndex...> /*lanes*/) {
  return __builtin_shufflevector(low, high, (2 * kIndex + 1)...);
}
// Elements of a and b in turns, from element kFirst of both on.
template <int kFirst, class V, int... kIndex>
[[gnu::always_inline]] inline V in_turns(V a,
                                         V b,
                                         std::integer_sequence<int, kIndex...> /*lanes*/) {
  return __builtin_shufflevector(
      a, b, (kFirst + kIndex / 2 + kIndex % 2 * static_cast<int>(sizeof...(kIndex)))...);
}

constexpr std::int64_t least(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}
constexpr std::int64_t most(std::int64_t a, std::int64_t b) {
  return a < b ? b : a;
}

template <class T>
[[gnu::always_inline]] inline void clear(T* to, std::int64_t count) {
  std::int64_t at = 0;
  for (; at + kLanes<T> <= count; at += kLanes<T>) {
    store(to + at, Vector<T>{});
  }
#ifdef __AVX512F__
  store_part(to + at, Vector<T>{}, static_cast<int>(count - at));
#else
  for (; at < count; ++at) {
    to[at] = T{};
  }
#endif
}

// Copies consecutive elements.
template <class S, class T>
[[gnu::always_inline]] inline void copy_near(const S* from, T* to, std::int64_t count) {
  std::int64_t at = 0;
  for (; at + kLanes<T> <= count; at += kLanes<T>) {
    store(to + at, load_wide(from + at));
  }
#ifdef __AVX512F__
  if constexpr (sizeof(S) == sizeof(T)) {
    const int tail = static_cast<int>(count - at);
    store_part(to + at, load_part(from + at, tail), tail);
    return;
  }
#endif
  if (count >= kLanes<T>) {  // the last vector overlaps the one before
    store(to + count - kLanes<T>, load_wide(from + count - kLanes<T>));
    return;
  }
  for (; at < count; ++at) {
    to[at] = widen(from[at]);
  }
}

// Copies every other element. Reads none behind the last one that it copies.
template <class S, class T>
[[gnu::always_inline]] inline void copy_every_other(const S* from, T* to, std::int64_t count) {
  constexpr auto kAllLanes = std::make_integer_sequence<int, kLanes<T>>{};
  std::int64_t at = 0;
  for (; at + kLanes<T> < count; at += kLanes<T>) {
    store(to + at, even(load_wide(from + 2 * at), load_wide(from + 2 * at + kLanes<T>), kAllLanes));
  }
#ifdef __AVX512F__
  if constexpr (sizeof(S) == sizeof(T)) {
    const int tail = static_cast<int>(count - at);
    const int elements = tail == 0 ? 0 : 2 * tail - 1;
    const int low = elements < kLanes<T> ? elements : kLanes<T>;
    store_part(to + at,
               even(load_part(from + 2 * at, low),
                    load_part(from + 2 * at + low, elements - low),
                    kAllLanes),
               tail);
    return;
  }
#endif
  for (; at < count; ++at) {
    to[at] = widen(from[2 * at]);
  }
}

template <class S, class T>
[[gnu::always_inline]] inline void copy_every(const S* from,
                                              std::int64_t step,
                                              T* to,
                                              std::int64_t count) {
  if (step == 1) {
    copy_near(from, to, count);
  } else if (step == 2) {
    copy_every_other(from, to, count);
  } else {
    for (std::int64_t at = 0; at < count; ++at) {
      to[at] = widen(from[at * step]);
    }
  }
}

// One run of a row: zeros, columns of the plane at equal distances, zeros.
struct Run {
  std::int64_t zeros;
  std::int64_t first;  ///< Column of the plane.
  std::int64_t end;    ///< Place in the run behind the last column of the plane.
};

Run run_of(const PlaneCopy& planes, std::int64_t phase) {
  const std::int64_t origin = planes.first_column + phase;
  const std::int64_t step = planes.phases;
  const std::int64_t before =
      origin >= 0 ? 0 : least(planes.phase_columns, (-origin + step - 1) / step);
  const std::int64_t end = planes.width <= origin ? 0 : (planes.width - origin + step - 1) / step;
  return {.zeros = before,
          .first = origin + before * step,
          .end = least(most(end, before), planes.phase_columns)};
}

#ifdef __AVX512F__
// Which of the columns from `first` on lie in a plane.
[[gnu::always_inline]] inline std::uint32_t columns_inside(std::int64_t first, std::int64_t width) {
  const std::int64_t end = least(most(width - first, 0), 32);
  const std::int64_t begin = least(most(-first, 0), 32);
  return static_cast<std::uint32_t>((1ULL << static_cast<unsigned>(end)) - 1U) &
         ~static_cast<std::uint32_t>((1ULL << static_cast<unsigned>(begin)) - 1U);
}
template <class T>
[[gnu::always_inline]] inline Vector<T> load_lanes(const T* from, std::uint32_t lanes) {
  if constexpr (sizeof(T) == 4) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>(lanes), from);
  } else {
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>(lanes), from);
  }
}

// A vector of a copied row: its place there, the place of its first element in the row of the
// plane, and a mask. The mask holds the elements that the plane has.
struct Piece {
  std::int64_t to;
  std::int64_t from;
  std::uint32_t inside;
};
constexpr int kMostPieces = 32;

// Cuts a row into whole vectors, zeros included. A vector that ends behind its run is overwritten
// by what comes next. Returns 0 if there are too many, or if they cannot be cut so.
template <class T>
int cut_row(const PlaneCopy& planes, Piece (&pieces)[std::size_t{kMostPieces}]) {
  const std::int64_t step = planes.phases * planes.column_step;
  if (step < 1 || step > 2 || (planes.phase_columns + kLanes<T> - 1) / kLanes < T >> kMostPieces) {
    return 0;
  }
  const std::int64_t elements = (planes.width - 1) * planes.column_step + 1;
  int count = 0;
  for (std::int64_t at = 0; at < planes.phase_columns; at += kLanes<T>) {
    const std::int64_t from = (planes.first_column + at * planes.phases) * planes.column_step;
    pieces[count++] = {.to = at, .from = from, .inside = columns_inside(from, elements)};
  }
  return count;
}

// Copies rows. kStep: elements between two neighbours of the copy.
template <class T, int kStep>
T* copy_rows(const PlaneCopy& planes,
             const Piece* pieces,
             int count,
             const T* row,
             std::int64_t rows,
             T* to) {
  constexpr auto kAllLanes = std::make_integer_sequence<int, kLanes<T>>{};
  const std::int64_t row_elements = planes.phase_columns * planes.phases;
  for (std::int64_t r = 0; r < rows; ++r, row += planes.row_step, to += row_elements) {
    // Backwards: the last vector of the first run ends in the second run.
    for (int i = count - 1; i >= 0; --i) {
      const Piece& piece = pieces[i];
      const T* const from = row + piece.from;
      if constexpr (kStep == 1) {
        store(to + piece.to, load_lanes(from, piece.inside));
      } else {
        const Vector<T> low = load_lanes(from, piece.inside);
        const Vector<T> high =
            load_lanes(from + kLanes<T>, piece.inside >> static_cast<unsigned>(kLanes<T>));
        store(to + piece.to, even(low, high, kAllLanes));
        if (planes.phases == 2) {
          store(to + planes.phase_columns + piece.to, odd(low, high, kAllLanes));
        }
      }
    }
  }
  return to;
}
#endif

template <class S, class T>
void copy_from(const PlaneCopy& planes, T* to) {
  constexpr std::int64_t kMostRuns = 4;
  Run kept[kMostRuns];
  for (std::int64_t phase = 0; phase < least(kMostRuns, planes.phases); ++phase) {
    kept[phase] = run_of(planes, phase);
  }
  const std::int64_t row_elements = planes.phase_columns * planes.phases;
  const std::int64_t begin = least(most(-planes.first_row, 0), planes.rows);
  const std::int64_t end = least(most(planes.height - planes.first_row, begin), planes.rows);
  const S* plane = reinterpret_cast<const S*>(planes.from);
#ifdef __AVX512F__
  Piece pieces[std::size_t{kMostPieces}];
  const int piece_count = sizeof(S) == sizeof(T) ? cut_row<T>(planes, pieces) : 0;
#endif
  for (std::int64_t i = 0; i < planes.planes; ++i, plane += planes.plane_step) {
    clear(to, begin * row_elements);
    to += begin * row_elements;
    const S* row = plane + (planes.first_row + begin) * planes.row_step;
    std::int64_t r = begin;
#ifdef __AVX512F__
    if constexpr (sizeof(S) == sizeof(T)) {
      if (piece_count > 0) {
        to = planes.phases * planes.column_step == 1
                 ? copy_rows<T, 1>(planes, pieces, piece_count, row, end - begin, to)
                 : copy_rows<T, 2>(planes, pieces, piece_count, row, end - begin, to);
        r = end;
      }
    }
#endif
    for (; r < end; ++r, row += planes.row_step) {
      for (std::int64_t phase = 0; phase < planes.phases; ++phase, to += planes.phase_columns) {
        const Run run = phase < kMostRuns ? kept[phase] : run_of(planes, phase);
        clear(to, run.zeros);
        copy_every(row + run.first * planes.column_step,
                   planes.phases * planes.column_step,
                   to + run.zeros,
                   run.end - run.zeros);
        clear(to + run.end, planes.phase_columns - run.end);
      }
    }
    clear(to, (planes.rows - end) * row_elements);
    to += (planes.rows - end) * row_elements;
  }
}

}  // namespace

template <class T>
void copy_planes(const PlaneCopy& planes, T* to) {
  if constexpr (sizeof(T) == 8) {
    copy_from<double>(planes, to);
  } else if (planes.dtype == DType::f16) {
    copy_from<Half>(planes, to);
  } else if (planes.dtype == DType::bf16) {
    copy_from<Brain>(planes, to);
  } else {
    copy_from<float>(planes, to);
  }
}

template <class T>
void spread(const T* from, T* to, std::int64_t step, std::int64_t count) {
  std::int64_t at = 0;
#ifdef __AVX512F__
  if (step == 2 && sizeof(T) == sizeof(float)) {
    const __m512i low = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    const __m512i high =
        _mm512_set_epi32(15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8);
    for (; at < count; at += 16) {
      const std::int64_t left = least(count - at, 16);
      const auto mask = static_cast<__mmask16>((1U << static_cast<unsigned>(left)) - 1U);
      const __m512 value = _mm512_maskz_loadu_ps(mask, reinterpret_cast<const float*>(from) + at);
      float* const out = reinterpret_cast<float*>(to) + 2 * at;
      const auto places =
          static_cast<unsigned>((1ULL << static_cast<unsigned>(2 * left)) - 1U) & 0x55555555U;
      _mm512_mask_storeu_ps(out,
                            static_cast<__mmask16>(places & 0xffffU),
                            _mm512_maskz_permutexvar_ps(0xffff, low, value));
      _mm512_mask_storeu_ps(out + 16,
                            static_cast<__mmask16>(places >> 16U),
                            _mm512_maskz_permutexvar_ps(0xffff, high, value));
    }
    return;
  }
#endif
  for (; at < count; ++at) {
    to[at * step] = from[at];
  }
}

template <class T>
void interleave(const Interleave<T>& rows) {
  constexpr int kCount = kLanes<T>;
  constexpr auto kAllLanes = std::make_integer_sequence<int, kLanes<T>>{};
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    const T* const even = rows.even + row * rows.even_step;
    const T* const odd = rows.odd + row * rows.odd_step;
    T* const to = rows.to + row * rows.to_step;
    for (std::int64_t at = 0; at < rows.columns; at += 2 * kCount) {
      const Vector<T> a = load(even + at / 2);
      const Vector<T> b = load(odd + at / 2);
      const Vector<T> low = in_turns<0>(a, b, kAllLanes);
      const Vector<T> high = in_turns<kCount / 2>(a, b, kAllLanes);
      const std::int64_t left = rows.columns - at;
      if (left >= 2 * kCount) {
        store(to + at, low);
        store(to + at + kCount, high);
      } else if (left > kCount) {
        store(to + at, low);
        store_part(to + at + kCount, high, static_cast<int>(left - kCount));
      } else {
        store_part(to + at, low, static_cast<int>(left));
      }
    }
  }
}

template void interleave<float>(const Interleave<float>&);
template void interleave<double>(const Interleave<double>&);
template void copy_planes<float>(const PlaneCopy&, float*);
template void copy_planes<double>(const PlaneCopy&, double*);
template void spread<float>(const float*, float*, std::int64_t, std::int64_t);
template void spread<double>(const double*, double*, std::int64_t, std::int64_t);

}  // namespace hearth::cpu::HEARTH_CPU_ISA
