#include "random_loops.hpp"

#include "vector_math.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

constexpr std::int64_t kBlocks = 64;           // Philox blocks made at once
constexpr std::int64_t kWords = 4 * kBlocks;

/// Philox4x32-10 on kBlocks consecutive counters; the loop over blocks becomes vector code.
/// Paper: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
void make_words(std::uint32_t* words, std::uint64_t seed, std::uint64_t counter) {
  const auto first_key = static_cast<std::uint32_t>(seed);
  const auto second_key = static_cast<std::uint32_t>(seed >> 32U);
#pragma GCC ivdep
  for (std::int64_t lane = 0; lane < kBlocks; ++lane) {
    const std::uint64_t place = counter + static_cast<std::uint64_t>(lane);
    auto c0 = static_cast<std::uint32_t>(place);
    auto c1 = static_cast<std::uint32_t>(place >> 32U);
    std::uint32_t c2 = 0;
    std::uint32_t c3 = 0;
    std::uint32_t k0 = first_key;
    std::uint32_t k1 = second_key;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{0xD2511F53U} * c0;
      const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * c2;
      c0 = static_cast<std::uint32_t>(b >> 32U) ^ c1 ^ k0;
      c1 = static_cast<std::uint32_t>(b);
      c2 = static_cast<std::uint32_t>(a >> 32U) ^ c3 ^ k1;
      c3 = static_cast<std::uint32_t>(a);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    words[4 * lane] = c0;
    words[4 * lane + 1] = c1;
    words[4 * lane + 2] = c2;
    words[4 * lane + 3] = c3;
  }
}

/// Calls body(words, first, n): elements first … first + n - 1 of the range own consecutive shares of `words`, where a block has
/// `per_block` elements. The words of an element's whole block can be read, also before its own.
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

template <int bits>
void uniform(double* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  constexpr double kStep = 1.0 / static_cast<double>(std::int64_t{1} << bits);
  const double span = draw.b - draw.a;
  for_pieces<4>(count, begin, draw, [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto kept = static_cast<std::int32_t>(words[skipped + i] >> (32 - bits));
      out[done + i] = draw.a + span * (static_cast<double>(kept) * kStep);
    }
  });
}

double wide_unit(const std::uint32_t* words) noexcept {
  return (static_cast<double>(words[0] >> 5U) * 0x1p26 + static_cast<double>(words[1] >> 6U)) * 0x1p-53;
}

void uniform_f64(double* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  const double span = draw.b - draw.a;
  for_pieces<2>(count, begin, draw, [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      out[done + i] = draw.a + span * wide_unit(words + 2 * (skipped + i));
    }
  });
}

// Both values of each pair in a block are made, so that the loop has no branches; a range may start or end within a pair.
void normal_f32(float* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  const auto mean = static_cast<float>(draw.a);
  const auto deviation = static_cast<float>(draw.b);
  for_pieces<4>(count, begin, draw, [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
    alignas(64) float pairs[kWords];
    for (std::int64_t i = 0; i < kWords / 2; ++i) {
      const float radius = static_cast<float>(static_cast<std::int32_t>(words[2 * i] >> 8U)) * 0x1p-24F;
      const float turns = static_cast<float>(static_cast<std::int32_t>(words[2 * i + 1] >> 8U)) * 0x1p-24F;
      const float length = deviation * std::sqrt(-2.0F * log_f32(radius + 0x1p-24F));
      pairs[2 * i] = length * turned_sine_f32(turns, 1) + mean;
      pairs[2 * i + 1] = length * turned_sine_f32(turns, 0) + mean;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      out[done + i] = pairs[skipped + i];
    }
  });
}

void normal_f64(double* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  constexpr double kTwoPi = 6.283185307179586476925286766559;
  for_pieces<2>(count, begin, draw, [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t element = skipped + i;
      const std::uint32_t* const block = words + element / 2 * 4;
      const double length = std::sqrt(-2.0 * std::log(wide_unit(block) + 0x1p-53));
      const double angle = kTwoPi * wide_unit(block + 2);
      out[done + i] = draw.a + draw.b * length * (element % 2 == 0 ? std::cos(angle) : std::sin(angle));
    }
  });
}

void hits(std::uint8_t* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  for_pieces<4>(count, begin, draw, [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      out[done + i] = words[skipped + i] >> 8U < draw.limit ? 1 : 0;
    }
  });
}

template <class T>
void dropout(T* out, const T* in, std::int64_t count, std::int64_t begin, const RandomDraw& draw) {
  const auto scale = static_cast<T>(draw.b);
  const std::uint32_t limit = draw.limit;
  for_pieces<4>(count, begin, draw, [&](const std::uint32_t* words, std::int64_t skipped, std::int64_t done, std::int64_t n) {
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
