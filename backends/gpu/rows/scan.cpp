// Splits scans. Lines of contiguous elements get a workgroup each, which takes 1,024 elements at a
// time through shared memory. Lines that lie side by side, and short ones, get a thread each. With
// fewer lines than the device needs, each is split into chunks. A first pass folds each chunk to
// one value (its "sum", of extremes the extreme), a second one scans these, a third one scans the
// chunks from there. The split depends on the shape and the device alone, so sums are reproducible
// to the bit. f16 and bf16 are summed in f32. Running sums are compensated.
#include "scan.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <hearth/streams/kernel/op_expression.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "backends/gpu/movement/movement.hpp"
#include "backends/gpu/space/axis_lines.hpp"
#include "backends/gpu/text/glsl_folds.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

enum class Scan : std::uint32_t { group, thread };
enum class Pass : std::uint32_t { sums, middle, last };

constexpr std::int64_t kTile = 1024;
constexpr std::int64_t kShortLine = 64;      // one thread's, in any layout
constexpr std::int64_t kSideBySide = 32;     // lines next to one another: a thread each
constexpr std::int64_t kThreadChunk = 64;    // minimal elements of a thread's chunk
constexpr std::int64_t kGroupChunk = 2048;   // minimal elements of a group's chunk
constexpr std::int64_t kGroupsPerMulti = 8;  // that run efficiently at a time
constexpr std::int64_t kThreadsPerMulti = 1024;

// Line `line`, chunk `chunk`: elements begin to end of the scan's order; x and y are offsets of
// element 0.
constexpr std::string_view kScanPlace = R"(
FN void place(INDEX line, OUT(INDEX) x, OUT(INDEX) y) {
  walk(line, x);
  x += p.x_begin;
  const INDEX outer = INDEX(UINDEX(line) / UINDEX(p.inner));
  y = outer * p.inner * p.extent + (line - outer * p.inner) + p.y_begin;
}
)";

constexpr std::string_view kGroupSums = R"(
SHARED(ACC, part, 256);
FN void main() {
  const INDEX item = INDEX(GROUP);
  if (item >= p.lines * p.chunks) {
    return;
  }
  const INDEX line = INDEX(UINDEX(item) / UINDEX(p.chunks));
  const INDEX begin = (item - line * p.chunks) * p.chunk;
  const INDEX end = min(begin + p.chunk, p.extent);
  INDEX x, y;
  place(line, x, y);
  ACC sum = START;
  ACC lost = ACC(0);
  for (INDEX j = begin + INDEX(THREAD); j < end; j += 256) {
    ADD(sum, lost, LOAD(p.x, x + j * p.x_step));
  }
  part[THREAD] = TOTAL(sum, lost);
  barrier();
  for (uint half_count = 128u; half_count > 0u; half_count >>= 1) {
    if (THREAD < half_count) {
      part[THREAD] = JOIN(part[THREAD], part[THREAD + half_count]);
    }
    barrier();
  }
  if (THREAD == 0u) {
    STORE_SUM(p.sums, item, part[0]);
  }
}
)";

constexpr std::string_view kScanParts = R"(
SHARED(ACC, part, 256);
// Of the group's values, the folds of all up to each.
FN void scan_parts() {
  barrier();
  for (uint step = 1u; step < 256u; step <<= 1) {
    ACC sum = part[THREAD];
    if (THREAD >= step) {
      sum = JOIN(part[THREAD - step], sum);
    }
    barrier();
    part[THREAD] = sum;
    barrier();
  }
}
)";

// Replaces the sums of a line's chunks by the sums of all chunks before.
constexpr std::string_view kMiddle = R"(
FN void main() {
  const INDEX line = INDEX(GROUP);
  if (line >= p.lines) {
    return;
  }
  ACC carry = START;
  ACC lost = ACC(0);
  for (INDEX begin = 0; begin < p.chunks; begin += 256) {
    const INDEX at = begin + INDEX(THREAD);
    part[THREAD] = at < p.chunks ? LOAD_SUM(p.sums, line * p.chunks + at) : START;
    scan_parts();
    const ACC before = TOTAL(carry, lost);
    if (at < p.chunks) {
      STORE_SUM(p.sums, line * p.chunks + at,
                THREAD > 0u ? JOIN(before, part[THREAD - 1u]) : before);
    }
    ADD(carry, lost, part[255]);
    barrier();
  }
}
)";

// Padded by one in 32, because threads read four neighbours each.
constexpr std::string_view kGroupLast = R"(
#define TILE(i) tile[(i) + ((i) >> 5)]
SHARED(ACC, tile, 1024 + 32);
FN void main() {
  const INDEX item = INDEX(GROUP);
  if (item >= p.lines * p.chunks) {
    return;
  }
  const INDEX line = INDEX(UINDEX(item) / UINDEX(p.chunks));
  const INDEX first = (item - line * p.chunks) * p.chunk;
  const INDEX end = min(first + p.chunk, p.extent);
  INDEX x, y;
  place(line, x, y);
  ACC carry = START;
  ACC lost = ACC(0);
  if (p.chunks > 1) {
    carry = LOAD_SUM(p.sums, item);
  }
  const uint mine = THREAD * 4u;
  for (INDEX begin = first; begin < end; begin += 1024) {
    UNROLLED for (uint k = 0u; k < 4u; ++k) {
      const uint at = k * 256u + THREAD;
      const INDEX j = begin + INDEX(at);
      TILE(at) = j < end ? LOAD(p.x, x + j * p.x_step) : START;
    }
    barrier();
    ACC sums[4];
    sums[0] = TILE(mine);
    UNROLLED for (uint k = 1u; k < 4u; ++k) {
      sums[k] = JOIN(sums[k - 1u], TILE(mine + k));
    }
    part[THREAD] = sums[3];
    scan_parts();
    ACC before = TOTAL(carry, lost);
    if (THREAD > 0u) {
      before = JOIN(before, part[THREAD - 1u]);
    }
    UNROLLED for (uint k = 0u; k < 4u; ++k) {
      TILE(mine + k) = JOIN(before, sums[k]);
    }
    ADD(carry, lost, part[255]);
    barrier();
    UNROLLED for (uint k = 0u; k < 4u; ++k) {
      const uint at = k * 256u + THREAD;
      const INDEX j = begin + INDEX(at);
      if (j < end) {
        STORE(p.y, y + j * p.y_step, TILE(at));
      }
    }
    barrier();
  }
}
)";

// Neighbouring threads have neighbouring lines.
constexpr std::string_view kThread = R"(
FN void main() {
  const INDEX item = INDEX(GROUP) * 256 + INDEX(THREAD);
  if (item >= p.lines * p.chunks) {
    return;
  }
  const INDEX chunk = INDEX(UINDEX(item) / UINDEX(p.lines));
  const INDEX line = item - chunk * p.lines;
  const INDEX begin = chunk * p.chunk;
  const INDEX end = min(begin + p.chunk, p.extent);
  INDEX x, y;
  place(line, x, y);
  ACC sum = START;
  ACC lost = ACC(0);
#ifdef ONLY_SUMS
  for (INDEX j = begin; j < end; ++j) {
    ADD(sum, lost, LOAD(p.x, x + j * p.x_step));
  }
  STORE_SUM(p.sums, line * p.chunks + chunk, TOTAL(sum, lost));
#else
  if (p.chunks > 1) {
    sum = LOAD_SUM(p.sums, line * p.chunks + chunk);
  }
  for (INDEX j = begin; j < end; ++j) {
    ADD(sum, lost, LOAD(p.x, x + j * p.x_step));
    STORE(p.y, y + j * p.y_step, TOTAL(sum, lost));
  }
#endif
}
)";

struct ScanCut {
  Scan kind;
  std::int64_t chunk;
  std::int64_t chunks;
};

// Products go through each line in one thread: a part of a line may overflow where the product
// from the line's first element is 0.
ScanCut scan_cut(OpKind scan, const AxisLines& lines, const DeviceLimits& limits) {
  if (scan == OpKind::cumprod) {
    return {Scan::thread, lines.length, 1};
  }
  const Scan kind =
      lines.inner >= kSideBySide || lines.length <= kShortLine ? Scan::thread : Scan::group;
  const bool is_thread = kind == Scan::thread;
  const std::int64_t wanted =
      (is_thread ? kThreadsPerMulti : kGroupsPerMulti) * limits.multiprocessors;
  const std::int64_t least = is_thread ? kThreadChunk : kGroupChunk;
  // Three passes read twice, so whole lines are better on a device that they half fill.
  std::int64_t chunks =
      2 * lines.count() >= wanted
          ? 1
          : std::clamp<std::int64_t>(wanted / lines.count(), 1, (lines.length + least - 1) / least);
  std::int64_t chunk = (lines.length + chunks - 1) / chunks;
  if (!is_thread && chunks > 1) {
    chunk = (chunk + kTile - 1) / kTile * kTile;
  }
  return {kind, chunk, (lines.length + chunk - 1) / chunk};
}

DType scan_sums_dtype(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::i64:
    case DType::i32:
      return dtype;
    case DType::u8:
    case DType::i8:
      return DType::i32;
    default:
      return DType::f32;
  }
}

FoldOp fold_of(OpKind scan) noexcept {
  switch (scan) {
    case OpKind::cumprod:
      return FoldOp::prod;
    case OpKind::cummax:
      return FoldOp::max;
    case OpKind::cummin:
      return FoldOp::min;
    default:
      return FoldOp::sum;
  }
}

std::string scan_text(OpKind scan,
                      Scan kind,
                      Pass pass,
                      DType from,
                      DType to,
                      bool wide,
                      int rank,
                      std::size_t bytes) {
  const DType sums = scan_sums_dtype(to);
  const std::string_view acc = glsl_compute_type(to);
  std::string text = fmt::format(
      "{}{}{}#define ACC {}\n#define LOAD(a, i) ACC(load_{}(a, i))\n#define STORE store_{}\n"
      "#define LOAD_SUM(a, i) {}(load_{}(a, i))\n#define STORE_SUM(a, i, s) store_{}(a, i, "
      "{}(s))\n",
      glsl_prelude({.threads = kGroupThreads, .wide_index = wide}),
      glsl_uindex(wide),
      glsl_parameters(
          "uint64_t x; uint64_t y; uint64_t sums; INDEX lines; INDEX extent; INDEX chunk; INDEX "
          "chunks; INDEX inner; INDEX x_begin; INDEX x_step; INDEX y_begin; INDEX y_step; " +
              glsl_walk_members(rank, "x"),
          bytes),
      acc,
      glsl_suffix(from),
      glsl_suffix(to),
      acc,
      glsl_suffix(sums),
      glsl_suffix(sums),
      glsl_compute_type(sums));
  const FoldOp fold = fold_of(scan);
  text += fmt::format("#define START ACC({})\n{}",
                      fold == FoldOp::sum ? "0" : glsl_fold_start(fold, compute_type(to)),
                      glsl_joining(fold, to));
  text += glsl_walk(rank, "x");
  text += kScanPlace;
  if (pass == Pass::middle) {
    return text.append(kScanParts).append(kMiddle);
  }
  if (kind == Scan::thread) {
    return text.append(pass == Pass::sums ? "#define ONLY_SUMS\n" : "").append(kThread);
  }
  return pass == Pass::sums ? text.append(kGroupSums) : text.append(kScanParts).append(kGroupLast);
}

}  // namespace

Support supports_scan(const KernelCall& call, const DeviceLimits& limits) {
  if (call.outputs[0].dtype == DType::f64 && !limits.has_f64) {
    return {.yes = false, .reason = "the device has no doubles in shaders"};
  }
  return {};
}

Status encode_scan(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  const TensorView& x = call.inputs[0];
  const TensorView& y = call.outputs[0];
  const DType dtype = y.dtype;
  if (y.element_count() == 0) {
    return {};
  }
  const auto attributes = call.op.attributes<ScanAttributes>();
  const AxisLines lines(x, attributes.axis);
  const OpKind scan = call.op.kind();
  const ScanCut cut = scan_cut(scan, lines, encoder.limits());
  const std::int64_t items = lines.count() * cut.chunks;
  const bool wide = is_wide(std::max(y.element_count() + cut.chunk, lines.reach));
  std::uint64_t sums = 0;
  if (cut.chunks > 1) {
    HEARTH_TRY(sums, encoder.scratch(items * size_bytes(scan_sums_dtype(dtype))));
  }
  const bool is_reverse = attributes.reverse != 0;
  const std::int64_t last = lines.length - 1;
  ParameterBlock block;
  block.add(lines.address).add(y).add(sums);
  for (const std::int64_t value : {lines.count(),
                                   lines.length,
                                   cut.chunk,
                                   cut.chunks,
                                   lines.inner,
                                   lines.start + (is_reverse ? last * lines.step : 0),
                                   is_reverse ? -lines.step : lines.step,
                                   is_reverse ? last * lines.inner : 0,
                                   is_reverse ? -lines.inner : lines.inner}) {
    add_index(block, value, wide);
  }
  add_walk(block, lines.space, 1, wide);
  const auto run = [&](Pass pass, std::int64_t groups) {
    KernelKey key(KernelFamily::scan);
    key.add(static_cast<std::uint32_t>(cut.kind))
        .add(static_cast<std::uint32_t>(pass))
        .add(static_cast<std::uint32_t>(scan))
        .add(x.dtype)
        .add(dtype)
        .add(wide)
        .add(lines.space.rank);
    const auto text = [&] {
      return scan_text(
          scan, cut.kind, pass, x.dtype, dtype, wide, lines.space.rank, block.size_bytes());
    };
    return encoder.dispatch(key, text, block, encoder.linear(groups));
  };
  const std::int64_t groups =
      cut.kind == Scan::group ? items : (items + kGroupThreads - 1) / kGroupThreads;
  if (cut.chunks > 1) {
    HEARTH_TRY_STATUS(run(Pass::sums, groups));
    encoder.barrier();
    HEARTH_TRY_STATUS(run(Pass::middle, lines.count()));
    encoder.barrier();
  }
  return run(Pass::last, groups);
}

bool scan_may_alias(OpKind kind, int index) noexcept {
  return is_scan(kind) && index == 0;
}

}  // namespace hearth::gpu
