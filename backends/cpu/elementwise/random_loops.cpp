#include "random_loops.hpp"

#include "backends/cpu/machine/vector_math.hpp"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

constexpr std::int64_t kBlocks = 64;  // Philox blocks computed at once
constexpr std::int64_t kWords = 4 * kBlocks;

constexpr std::uint32_t kFirstFactor = 0xD2511F53U;
constexpr std::uint32_t kSecondFactor = 0xCD9E8D57U;
constexpr std::uint32_t kFirstStep = 0x9E3779B9U;
constexpr std::uint32_t kSecondStep = 0xBB67AE85U;

#ifdef __AVX2__
// Each 32-bit word occupies the low half of a 64-bit lane, where the product of low halves is one
// instruction. The high halves hold arbitrary bits, which products ignore and the end discards.
#ifdef __AVX512F__
// Zero-masked forms with all lanes on: the plain ones cause warnings of this compiler version in
// its own headers.
constexpr __mmask8 kAll = 0xFF;
using Lanes = __m512i;
Lanes spread(std::uint64_t x) {
  return _mm512_set1_epi64(static_cast<std::int64_t>(x));
}
Lanes first_places() {
  return _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
}
Lanes plus(Lanes a, Lanes b) {
  return _mm512_add_epi64(a, b);
}
Lanes times(Lanes a, Lanes b) {
  return _mm512_maskz_mul_epu32(kAll, a, b);
}
Lanes high(Lanes a) {
  return _mm512_maskz_srli_epi64(kAll, a, 32);
}
Lanes mix(Lanes a, Lanes b, Lanes c) {
  return _mm512_xor_si512(_mm512_xor_si512(a, b), c);
}
/// Combines the low halves of a (low) and of b (high).
Lanes join(Lanes a, Lanes b) {
  return _mm512_mask_blend_epi32(0xAAAA, a, _mm512_maskz_slli_epi64(kAll, b, 32));
}
void store_blocks(std::uint32_t* words, Lanes front, Lanes back) {
  const Lanes low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  const Lanes far = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  _mm512_storeu_si512(words, _mm512_permutex2var_epi64(front, low, back));
  _mm512_storeu_si512(words + 16, _mm512_permutex2var_epi64(front, far, back));
}
#else
using Lanes = __m256i;
Lanes spread(std::uint64_t x) {
  return _mm256_set1_epi64x(static_cast<std::int64_t>(x));
}
Lanes first_places() {
  return _mm256_setr_epi64x(0, 1, 2, 3);
}
Lanes plus(Lanes a, Lanes b) {
  return _mm256_add_epi64(a, b);
}
Lanes times(Lanes a, Lanes b) {
  return _mm256_mul_epu32(a, b);
}
Lanes high(Lanes a) {
  return _mm256_srli_epi64(a, 32);
}
Lanes mix(Lanes a, Lanes b, Lanes c) {
  return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}
/// Combines the low halves of a (low) and of b (high).
Lanes join(Lanes a, Lanes b) {
  return _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xAA);
}
void store_blocks(std::uint32_t* words, Lanes front, Lanes back) {
  const Lanes even = _mm256_unpacklo_epi64(front, back);
  const Lanes odd = _mm256_unpackhi_epi64(front, back);
  _mm256_storeu_si256(reinterpret_cast<Lanes*>(words), _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(reinterpret_cast<Lanes*>(words + 8),
                      _mm256_permute2x128_si256(even, odd, 0x31));
}
#endif

/// Philox4x32-10 on kBlocks consecutive counters.
/// Paper: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
void make_words(std::uint32_t* words, std::uint64_t seed, std::uint64_t counter) {
  constexpr std::int64_t kLanes = sizeof(Lanes) / 8;
  constexpr int kChains = 4;  // independent chains, to hide the latency of products
  const Lanes first_factor = spread(kFirstFactor);
  const Lanes second_factor = spread(kSecondFactor);
  for (std::int64_t done = 0; done < kBlocks; done += kChains * kLanes) {
    Lanes c0[kChains];
    Lanes c1[kChains];
    Lanes c2[kChains];
    Lanes c3[kChains];
    for (int chain = 0; chain < kChains; ++chain) {
      const std::uint64_t place = counter + static_cast<std::uint64_t>(done + chain * kLanes);
      c0[chain] = plus(spread(place), first_places());
      c1[chain] = high(c0[chain]);
      c2[chain] = Lanes{};
      c3[chain] = Lanes{};
    }
    auto k0 = static_cast<std::uint32_t>(seed);
    auto k1 = static_cast<std::uint32_t>(seed >> 32U);
    for (int round = 0; round < 10; ++round) {
      const Lanes first_key = spread(k0);
      const Lanes second_key = spread(k1);
#pragma GCC unroll 4
      for (int chain = 0; chain < kChains; ++chain) {
        const Lanes a = times(c0[chain], first_factor);
        const Lanes b = times(c2[chain], second_factor);
        c0[chain] = mix(high(b), c1[chain], first_key);
        c1[chain] = b;
        c2[chain] = mix(high(a), c3[chain], second_key);
        c3[chain] = a;
      }
      k0 += kFirstStep;
      k1 += kSecondStep;
    }
    for (int chain = 0; chain < kChains; ++chain) {
      store_blocks(words + 4 * (done + chain * kLanes),
                   join(c0[chain], c1[chain]),
                   join(c2[chain], c3[chain]));
    }
  }
}
#else
/// Philox4x32-10 on kBlocks consecutive counters.
/// Paper: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
void make_words(std::uint32_t* words, std::uint64_t seed, std::uint64_t counter) {
  for (std::int64_t block = 0; block < kBlocks; ++block) {
    const std::uint64_t place = counter + static_cast<std::uint64_t>(block);
    auto c0 = static_cast<std::uint32_t>(place);
    auto c1 = static_cast<std::uint32_t>(place >> 32U);
    std::uint32_t c2 = 0;
    std::uint32_t c3 = 0;
    auto k0 = static_cast<std::uint32_t>(seed);
    auto k1 = static_cast<std::uint32_t>(seed >> 32U);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{kFirstFactor} * c0;
      const std::uint64_t b = std::uint64_t{kSecondFactor} * c2;
      c0 = static_cast<std::uint32_t>(b >> 32U) ^ c1 ^ k0;
      c1 = static_cast<std::uint32_t>(b);
      c2 = static_cast<std::uint32_t>(a >> 32U) ^ c3 ^ k1;
      c3 = static_cast<std::uint32_t>(a);
      k0 += kFirstStep;
      k1 += kSecondStep;
    }
    words[4 * block] = c0;
    words[4 * block + 1] = c1;
    words[4 * block + 2] = c2;
    words[4 * block + 3] = c3;
  }
}
#endif

/// Calls body(words, first, n): elements first … first + n - 1 of the range own consecutive shares
/// of `words`, where a block has `per_block` elements. The words of an element's whole block are
/// readable, even before its own.
template <std::int64_t per_block, class Body>
void for_pieces(std::int64_t count, std::int64_t begin, const RandomDraw& draw, const Body& body) {
  alignas(64) std::uint32_t words[kWords];
  constexpr std::int64_t kElements = kBlocks * per_block;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t place = begin + done;
    const std::int64_t skipped = place % per_block;
    make_words(words, draw.seed, draw.counter + static_cast<std::uint64_t>(place / per_block));
    const std::int64_t room = kElements - skipped;
    const std::int64_t n = room < count - done ? room : count - done;
    body(words, skipped, done, n);
    done += n;
  }
}

// out = a + out, clamped to [first, last]; `out` holds the products b·u. They pass through memory
// because a compiler that sees product and sum together fuses them into one rounding on some
// machines.
void place(double* out, std::int64_t count, const RandomDraw& draw) {
  __asm__ volatile("" ::: "memory");
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = draw.a + out[i];
    const double above = value <= draw.first ? draw.first : value;  // NaN is kept
    out[i] = above >= draw.last ? draw.last : above;
  }
}

template <int bits>
void uniform(double* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  constexpr double kStep = 1.0 / static_cast<double>(std::int64_t{1} << bits);
  const double span = draw.b;
  for_pieces<4>(
      count,
      begin,
      draw,
      [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          const auto kept = static_cast<std::int32_t>(words[skipped + i] >> (32 - bits));
          out[done + i] = span * (static_cast<double>(kept) * kStep);
        }
        place(out + done, n, draw);
      });
}

double wide_unit(const std::uint32_t* words) noexcept {
  return (static_cast<double>(words[0] >> 5U) * 0x1p26 + static_cast<double>(words[1] >> 6U)) *
         0x1p-53;
}

void uniform_f64(double* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  const double span = draw.b;
  for_pieces<2>(
      count,
      begin,
      draw,
      [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          out[done + i] = span * wide_unit(words + 2 * (skipped + i));
        }
        place(out + done, n, draw);
      });
}

// Computes both values of each pair in a block, so that the loop has no branches; a range may start
// or end within a pair. Product and sum are two roundings here too.
void normal_f32(float* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  const auto mean = static_cast<float>(draw.a);
  const auto deviation = static_cast<float>(draw.b);
  for_pieces<4>(
      count,
      begin,
      draw,
      [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
        alignas(64) float pairs[kWords];
        for (std::int64_t i = 0; i < kWords / 2; ++i) {
          const float radius =
              static_cast<float>(static_cast<std::int32_t>(words[2 * i] >> 8U)) * 0x1p-24F;
          const float turns =
              static_cast<float>(static_cast<std::int32_t>(words[2 * i + 1] >> 8U)) * 0x1p-24F;
          const float length = std::sqrt(-2.0F * log_f32(radius + 0x1p-24F));
          pairs[2 * i] = deviation * (length * turned_sine_f32(turns, 1));
          pairs[2 * i + 1] = deviation * (length * turned_sine_f32(turns, 0));
        }
        __asm__ volatile("" : : "r"(pairs) : "memory");
        for (std::int64_t i = 0; i < n; ++i) {
          out[done + i] = mean + pairs[skipped + i];
        }
      });
}

void normal_f64(double* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  constexpr double kTwoPi = 6.283185307179586476925286766559;
  for_pieces<2>(
      count,
      begin,
      draw,
      [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t element = skipped + i;
          const std::uint32_t* const block = words + element / 2 * 4;
          const double length = std::sqrt(-2.0 * std::log(wide_unit(block) + 0x1p-53));
          const double angle = kTwoPi * wide_unit(block + 2);
          const double wave = element % 2 == 0 ? std::cos(angle) : std::sin(angle);
          out[done + i] = draw.b * (length * wave);
        }
        __asm__ volatile("" ::: "memory");
        for (std::int64_t i = done; i < done + n; ++i) {
          out[i] = draw.a + out[i];
        }
      });
}

void hits(std::uint8_t* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  for_pieces<4>(
      count,
      begin,
      draw,
      [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) {
          out[done + i] = words[skipped + i] >> 8U < draw.limit ? 1 : 0;
        }
      });
}

template <class T>
void dropout(T* out, const T* in, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  const auto scale = static_cast<T>(draw.b);
  const std::uint32_t limit = draw.limit;
  for_pieces<4>(
      count,
      begin,
      draw,
      [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
        T* const to = out + done;
        const T* const from = in + done;
        const std::uint32_t* const word = words + skipped;
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) {
          const T kept = from[i] * scale;
          to[i] = word[i] >> 8U < limit ? T{0} : kept;
        }
      });
}

}  // namespace

extern const RandomLoops random_loops_table = {uniform<24>,
                                               uniform_f64,
                                               uniform<11>,
                                               uniform<8>,
                                               normal_f32,
                                               normal_f64,
                                               hits,
                                               dropout<float>,
                                               dropout<double>};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
