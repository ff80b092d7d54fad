#include "entry_sort_text.hpp"

#include <fmt/format.h>

#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

constexpr std::string_view kNarrowEntries = R"(
#define ENTRY uint64_t
#define NOTHING (~0ul)
FN bool before(ENTRY a, ENTRY b) { return a < b; }
FN ENTRY make_entry(uint key, uint place) { return (uint64_t(key) << 32) | uint64_t(place); }
FN uint place_of(ENTRY entry) { return uint(entry); }
FN uint key_of(ENTRY entry) { return uint(entry >> 32); }
FN uint key_part(ENTRY entry, int shift) { return (uint(entry >> 32) >> shift) & 15u; }
FN ENTRY load_entry(uint64_t a, INDEX i) { return uint64_t(ELEMENT(Words64, a, i, 8l)); }
FN void store_entry(uint64_t a, INDEX i, ENTRY entry) {
  ELEMENT(Words64, a, i, 8l) = int64_t(entry);
}
)";

constexpr std::string_view kWideEntry = R"(
struct ENTRY { uint64_t key; uint64_t place; };
#define NOTHING NEW2(ENTRY, ~0ul, ~0ul)
FN bool before(ENTRY a, ENTRY b) { return a.key < b.key || (a.key == b.key && a.place < b.place); }
FN ENTRY make_entry(uint64_t key, uint place) { return NEW2(ENTRY, key, uint64_t(place)); }
FN uint place_of(ENTRY entry) { return uint(entry.place); }
FN uint key_part(ENTRY entry, int shift) { return uint(entry.key >> shift) & 15u; }
FN ENTRY load_entry(uint64_t a, INDEX i) {
  return NEW2(ENTRY, uint64_t(ELEMENT(Words64, a, 2 * i, 8l)),
               uint64_t(ELEMENT(Words64, a, 2 * i + 1, 8l)));
}
FN void store_entry(uint64_t a, INDEX i, ENTRY entry) {
  ELEMENT(Words64, a, 2 * i, 8l) = int64_t(entry.key);
  ELEMENT(Words64, a, 2 * i + 1, 8l) = int64_t(entry.place);
}
)";

// Maps bits to the order of values: negative values flip all bits, others the sign bit.
constexpr std::string_view kFloatKey = R"(
FN KEY order_of(KEY bits) {
  const KEY magnitude = bits & (SIGN - KEY(1));
  if (magnitude > INFINITE) {
    return ONES;
  }
  if (magnitude == KEY(0)) {
    return SIGN;
  }
  return (bits & SIGN) != KEY(0) ? (~bits) & ONES : bits | SIGN;
}
)";

constexpr std::string_view kValueEntry = R"(
FN ENTRY entry_at(INDEX line, INDEX j) {
  INDEX x;
  walk(line, x);
  const KEY key = order_of(KEY_BITS(LOAD_UNIT(p.x, x + p.x_begin + j * p.x_step)));
  return make_entry(p.flip != 0 ? (~key) & ONES : key, uint(j));
}
)";

constexpr std::string_view kIndexEntry = R"(
FN ENTRY entry_at(INDEX line, INDEX j) {
  INDEX x;
  walk(line, x);
  const int64_t at = int64_t(LOAD_INDEX(p.x, x + p.x_begin + j * p.x_step));
  if (uint64_t(at) >= uint64_t(p.axis_size)) {
    const int64_t outer = int64_t(line) / p.place_inner;
    fail(p.cell, 2u, at,
         (outer * int64_t(p.extent) + int64_t(j)) * p.place_inner + int64_t(line) -
             outer * p.place_inner,
         p.axis_size);
    return make_entry(~0u, uint(j));
  }
  return make_entry(uint(at), uint(j));
}
)";

}  // namespace

std::string glsl_flags(std::uint32_t flags) {
  return fmt::format("{}{}",
                     (flags & kFromElements) != 0 ? "#define FROM_ELEMENTS\n" : "",
                     (flags & kToValues) != 0 ? "#define TO_VALUES\n" : "");
}

std::string_view glsl_entry(bool is_wide) {
  return is_wide ? kWideEntry : kNarrowEntries;
}

std::string glsl_key(DType dtype, bool is_index) {
  if (is_index) {
    return fmt::format("#define LOAD_INDEX load_{}\n{}", glsl_suffix(dtype), kIndexEntry);
  }
  constexpr std::string_view kWide =
      "#define KEY uint64_t\n#define KEY_BITS(unit) packUint2x32(unit)\n";
  constexpr std::string_view kWord = "#define KEY uint\n#define KEY_BITS(unit) (unit)\n";
  constexpr std::string_view kSigned = "FN KEY order_of(KEY bits) { return bits ^ SIGN; }\n";
  constexpr std::string_view kUnsigned = "FN KEY order_of(KEY bits) { return bits; }\n";
  const auto bits = [](std::string_view sign, std::string_view ones, std::string_view infinite) {
    return fmt::format(
        "#define SIGN {}\n#define ONES {}\n#define INFINITE {}\n", sign, ones, infinite);
  };
  std::string text;
  switch (dtype) {
    case DType::f32:
      text = fmt::format(
          "{}{}{}", kWord, bits("0x80000000u", "0xffffffffu", "0x7f800000u"), kFloatKey);
      break;
    case DType::f16:
      text = fmt::format("{}{}{}", kWord, bits("0x8000u", "0xffffu", "0x7c00u"), kFloatKey);
      break;
    case DType::bf16:
      text = fmt::format("{}{}{}", kWord, bits("0x8000u", "0xffffu", "0x7f80u"), kFloatKey);
      break;
    case DType::f64:
      text =
          fmt::format("{}{}{}",
                      kWide,
                      bits("0x8000000000000000ul", "0xfffffffffffffffful", "0x7ff0000000000000ul"),
                      kFloatKey);
      break;
    case DType::i32:
      text = fmt::format("{}{}{}", kWord, bits("0x80000000u", "0xffffffffu", "0u"), kSigned);
      break;
    case DType::i64:
      text = fmt::format(
          "{}{}{}", kWide, bits("0x8000000000000000ul", "0xfffffffffffffffful", "0ul"), kSigned);
      break;
    case DType::i8:
      text = fmt::format("{}{}{}", kWord, bits("0x80u", "0xffu", "0u"), kSigned);
      break;
    default:
      text = fmt::format("{}{}{}", kWord, bits("0x80u", "0xffu", "0u"), kUnsigned);
  }
  return text.append(kValueEntry);
}

const std::string_view kPiecesBody = R"(
SHARED(ENTRY, sorting, 2048);
FN void main() {
  const int size = p.piece_size;
  const INDEX all = p.lines * p.pieces;
  const INDEX first = INDEX(GROUP) * p.lines_each;
  if (first >= all) {
    return;
  }
  const int total = int(min(INDEX(p.lines_each), all - first)) * size;
  for (int i = int(THREAD); i < total; i += 256) {
    const INDEX piece = first + i / size;
    const INDEX line = INDEX(UINDEX(piece) / UINDEX(p.pieces));
    const int inside = i & (size - 1);
    const INDEX j = (piece - line * p.pieces) * 2048 + inside;
    ENTRY entry = NOTHING;
    if (j < p.extent) {
#ifdef FROM_ELEMENTS
      entry = entry_at(line, j);
#else
      entry = load_entry(p.entries, line * p.extent + j);
#endif
    }
    sorting[i] = entry;
  }
  barrier();
  for (int run = 2; run <= size; run <<= 1) {
    for (int apart = run >> 1; apart > 0; apart >>= 1) {
      for (int t = int(THREAD); t < total >> 1; t += 256) {
        const int i = ((t & ~(apart - 1)) << 1) | (t & (apart - 1));
        const ENTRY a = sorting[i];
        const ENTRY b = sorting[i + apart];
        const bool is_up = (i & (size - 1) & run) == 0;
        if (is_up ? before(b, a) : before(a, b)) {
          sorting[i] = b;
          sorting[i + apart] = a;
        }
      }
      barrier();
    }
  }
  for (int i = int(THREAD); i < total; i += 256) {
    const INDEX piece = first + i / size;
    const INDEX j = INDEX(i & (size - 1));
    if (j < p.kept) {
#ifdef TO_VALUES
      const uint place = place_of(sorting[i]);
      INDEX x;
      walk(piece, x);
      const INDEX outer = INDEX(UINDEX(piece) / UINDEX(p.inner));
      const INDEX y = (outer * p.kept + j) * p.inner + (piece - outer * p.inner);
      STORE_UNIT(p.values, y, LOAD_UNIT(p.x, x + p.x_begin + INDEX(place) * p.x_step));
      store_i64(p.positions, y, int64_t(place));
#else
      store_entry(p.sorted, piece * p.kept + j, sorting[i]);
#endif
    }
  }
}
)";

const std::string_view kEntriesBody = R"(
FN void main() {
  const INDEX line = INDEX(GROUP) / p.pieces;
  if (line >= p.lines) {
    return;
  }
  const INDEX begin = (INDEX(GROUP) - line * p.pieces) * 2048;
  const INDEX end = min(begin + 2048, p.extent);
  for (INDEX j = begin + INDEX(THREAD); j < end; j += 256) {
    store_entry(p.sorted, line * p.extent + j, entry_at(line, j));
  }
}
)";

// counts[line][digit][block]
const std::string_view kCountBody = R"(
SHARED(uint, bins, 16);
FN void main() {
  const INDEX line = INDEX(GROUP) / p.pieces;
  if (line >= p.lines) {
    return;
  }
  const INDEX block = INDEX(GROUP) - line * p.pieces;
  if (THREAD < 16u) {
    bins[THREAD] = 0u;
  }
  barrier();
  const INDEX begin = block * 2048;
  const INDEX end = min(begin + 2048, p.extent);
  for (INDEX j = begin + INDEX(THREAD); j < end; j += 256) {
    atomicAdd(bins[key_part(load_entry(p.entries, line * p.extent + j), p.shift)], 1u);
  }
  barrier();
  if (THREAD < 16u) {
    ELEMENT(Words32u, p.counts, (line * 16 + INDEX(THREAD)) * p.pieces + block, 4l) = bins[THREAD];
  }
}
)";

const std::string_view kScanBody = R"(
SHARED(uint, part, 256);
FN void main() {
  const INDEX line = INDEX(GROUP);
  if (line >= p.lines) {
    return;
  }
  const INDEX first = line * 16 * p.pieces;
  const INDEX count = 16 * p.pieces;
  uint carry = 0u;
  for (INDEX begin = 0; begin < count; begin += 1024) {
    const INDEX mine = begin + INDEX(THREAD) * 4;
    uint before[4];
    uint sum = 0u;
    UNROLLED for (int k = 0; k < 4; ++k) {
      before[k] = sum;
      sum += mine + k < count ? ELEMENT(Words32u, p.counts, first + mine + k, 4l) : 0u;
    }
    part[THREAD] = sum;
    barrier();
    for (uint step = 1u; step < 256u; step <<= 1) {
      uint value = part[THREAD];
      if (THREAD >= step) {
        value += part[THREAD - step];
      }
      barrier();
      part[THREAD] = value;
      barrier();
    }
    const uint base = carry + part[THREAD] - sum;
    UNROLLED for (int k = 0; k < 4; ++k) {
      if (mine + k < count) {
        ELEMENT(Words32u, p.counts, first + mine + k, 4l) = base + before[k];
      }
    }
    carry += part[255];
    barrier();
  }
}
)";

// A thread has eight neighbouring entries, and separate places for each digit, so the sort is
// stable.
const std::string_view kScatterBody = R"(
SHARED(uint, places, 16 * 256);
SHARED(uint, part, 256);
SHARED(uint, digit_first, 16);
SHARED(uint, digit_base, 16);
FN void main() {
  const INDEX line = INDEX(GROUP) / p.pieces;
  if (line >= p.lines) {
    return;
  }
  const INDEX block = INDEX(GROUP) - line * p.pieces;
  for (uint i = THREAD; i < 4096u; i += 256u) {
    places[i] = 0u;
  }
  if (THREAD < 16u) {
    digit_base[THREAD] =
        ELEMENT(Words32u, p.counts, (line * 16 + INDEX(THREAD)) * p.pieces + block, 4l);
  }
  barrier();
  const INDEX begin = block * 2048 + INDEX(THREAD) * 8;
  const INDEX end = min(begin + 8, p.extent);
  for (INDEX j = begin; j < end; ++j) {
    places[key_part(load_entry(p.entries, line * p.extent + j), p.shift) * 256u + THREAD] += 1u;
  }
  barrier();
  uint sum = 0u;
  for (uint k = 0u; k < 16u; ++k) {
    const uint count = places[THREAD * 16u + k];
    places[THREAD * 16u + k] = sum;
    sum += count;
  }
  part[THREAD] = sum;
  barrier();
  for (uint step = 1u; step < 256u; step <<= 1) {
    uint value = part[THREAD];
    if (THREAD >= step) {
      value += part[THREAD - step];
    }
    barrier();
    part[THREAD] = value;
    barrier();
  }
  const uint base = part[THREAD] - sum;
  for (uint k = 0u; k < 16u; ++k) {
    places[THREAD * 16u + k] += base;
  }
  barrier();
  if (THREAD < 16u) {
    digit_first[THREAD] = places[THREAD * 256u];
  }
  barrier();
  for (INDEX j = begin; j < end; ++j) {
    const ENTRY entry = load_entry(p.entries, line * p.extent + j);
    const uint digit = key_part(entry, p.shift);
    const uint to = places[digit * 256u + THREAD]++;
    store_entry(p.sorted, line * p.extent + INDEX(digit_base[digit] + to - digit_first[digit]),
                entry);
  }
}
)";

const std::string_view kTakeBody = R"(
FN void main() {
  const INDEX first = INDEX(GROUP) * 1024 + INDEX(THREAD);
  const INDEX count = p.lines * p.kept;
  for (INDEX i = first; i < count && i < first + 1024; i += 256) {
    // i counts elements of the result: line by line would write across it.
    const INDEX row = INDEX(UINDEX(i) / UINDEX(p.inner));
    const INDEX outer = INDEX(UINDEX(row) / UINDEX(p.kept));
    const INDEX j = row - outer * p.kept;
    const INDEX line = outer * p.inner + (i - row * p.inner);
    const uint place = place_of(load_entry(p.entries, line * p.extent + j));
    INDEX x;
    walk(line, x);
    STORE_UNIT(p.values, i, LOAD_UNIT(p.x, x + p.x_begin + INDEX(place) * p.x_step));
    store_i64(p.positions, i, int64_t(place));
  }
}
)";

}  // namespace hearth::gpu
