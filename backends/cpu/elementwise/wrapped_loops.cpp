#include "wrapped_loops.hpp"

#include "backends/cpu/machine/vector_math_512.hpp"
#include "quotients.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

#ifdef __AVX512F__

namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kAhead = 1024;

// Loads sixteen neighbours of a row. A row of one number is read in the constructor, because `out`
// may overwrite it.
class Lanes {
 public:
  explicit Lanes(const FloatRow& row)
      : data_(row.data), is_one_(row.is_one), one_(_mm512_set1_ps(is_one_ ? *data_ : 0.0F)) {}

  [[nodiscard]] __m512 at(std::int64_t i) const {
    return is_one_ ? one_ : _mm512_loadu_ps(data_ + i);
  }
  // Far enough ahead for the memory latency, near enough to stay in the cache.
  void fetch_behind(std::int64_t i) const {
    if (!is_one_) {
      _mm_prefetch(reinterpret_cast<const char*>(data_ + i + kAhead), _MM_HINT_T1);
    }
  }
  [[nodiscard]] __m512 rest_at(std::int64_t i, __mmask16 rest) const {
    return is_one_ ? one_ : _mm512_maskz_loadu_ps(rest, data_ + i);
  }

 private:
  const float* data_;
  bool is_one_;
  __m512 one_;
};

// Built without contraction: each step is rounded.
template <class Function, class Before>
void run(float* out, const WrappedCall& call, std::int64_t count, Before before) {
  const Lanes x(call.x);
  const Lanes d(call.before.data == nullptr ? call.x : call.before);
  const bool has_y = call.y.data != nullptr;
  const Lanes y(has_y ? call.y : call.x);
  const __m512 sum = _mm512_set1_ps(call.sum);
  const __m512 factor = _mm512_set1_ps(call.factor);
  const auto lanes = [&](__m512 in, __m512 beside, __m512 times) {
    const __m512 value = Function::apply(before(in, beside)) + sum;
    return (has_y ? value * times : value) * factor;
  };
  const bool streams = call.streams && reinterpret_cast<std::uintptr_t>(out) % 64 == 0;
  std::int64_t i = 0;
  for (; call.is_far && i + kLanes <= count; i += kLanes) {
    x.fetch_behind(i);
    if (has_y && call.y.data != call.x.data) {
      y.fetch_behind(i);
    }
    const __m512 value = lanes(x.at(i), d.at(i), y.at(i));
    if (streams) {
      _mm512_stream_ps(out + i, value);
    } else {
      __builtin_prefetch(out + i + kAhead, 1, 2);
      _mm512_storeu_ps(out + i, value);
    }
  }
  for (; i + kLanes <= count; i += kLanes) {
    _mm512_storeu_ps(out + i, lanes(x.at(i), d.at(i), y.at(i)));
  }
  if (i < count) {
    const auto rest = static_cast<__mmask16>((1U << static_cast<unsigned>(count - i)) - 1U);
    _mm512_mask_storeu_ps(
        out + i, rest, lanes(x.rest_at(i, rest), d.rest_at(i, rest), y.rest_at(i, rest)));
  }
}

// plain_quotient() on sixteen plain numbers or zeros.
__m512 plain_quotients(__m512 x, __m512 y, __m512 reciprocal) {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  const __m512 magnitude = _mm512_castsi512_ps(_mm512_andnot_si512(sign, _mm512_castps_si512(x)));
  const __m512 first = magnitude * reciprocal;
  const __m512 second = _mm512_fmadd_ps(_mm512_fnmadd_ps(first, y, magnitude), reciprocal, first);
  const __m512 third = _mm512_fmadd_ps(_mm512_fnmadd_ps(second, y, magnitude), reciprocal, second);
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
      _mm512_castps_si512(third), _mm512_castps_si512(x), sign, 0x78));  // third ^ (x & sign)
}

// Returns the part of a row from `begin` on. A row of one number is read from the copy `one`,
// because earlier parts may overwrite it.
FloatRow part_of(const FloatRow& row, std::int64_t begin, const float& one) {
  return {row.data == nullptr ? nullptr : row.is_one ? &one : row.data + begin, row.is_one};
}

template <class Function>
void run_quotients(float* out, const WrappedCall& call, std::int64_t count) {
  constexpr std::int64_t kBlock = 1024;
  const float divisor = *call.before.data;
  const __m512 reciprocal = _mm512_set1_ps(1.0F / divisor);
  if (has_exact_reciprocal(divisor)) {
    run<Function>(out, call, count, [reciprocal](__m512 x, __m512) { return x * reciprocal; });
    return;
  }
  const float one_x = *call.x.data;
  const float one_y = call.y.data == nullptr ? 0.0F : *call.y.data;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = begin + kBlock < count ? kBlock : count - begin;
    WrappedCall block = call;
    block.x = part_of(call.x, begin, one_x);
    block.y = part_of(call.y, begin, one_y);
    if (is_plain(divisor) && are_plain(block.x.data, block.x.is_one ? 1 : size)) {
      run<Function>(out + begin, block, size, [reciprocal](__m512 x, __m512 y) {
        return plain_quotients(x, y, reciprocal);
      });
    } else {
      run<Function>(out + begin, block, size, [](__m512 x, __m512 y) { return x / y; });
    }
  }
}

template <class Function>
void wrapped(float* out, const WrappedCall& call, std::int64_t count) {
  switch (call.how) {
    case WrappedBefore::difference:
      run<Function>(out, call, count, [](__m512 x, __m512 y) { return x - y; });
      break;
    case WrappedBefore::factor:
      run<Function>(out, call, count, [](__m512 x, __m512 y) { return x * y; });
      break;
    case WrappedBefore::quotient:
      run_quotients<Function>(out, call, count);
      break;
    default:
      run<Function>(out, call, count, [](__m512 x, __m512) { return x; });
      break;
  }
}

struct Exp {
  static __m512 apply(__m512 x) { return exp_lanes(x); }
};
struct Erf {
  static __m512 apply(__m512 x) { return erf_lanes(x); }
};

}  // namespace

extern const WrappedLoops wrapped_loops_table = {wrapped<Exp>, wrapped<Erf>};

#else

extern const WrappedLoops wrapped_loops_table = {nullptr, nullptr};

#endif

}  // namespace hearth::cpu::HEARTH_CPU_ISA
