// Normalises lines: softmax, its logarithm, their gradients, cross entropy. A workgroup has `lanes`
// threads for each of its lines. If a line is contiguous, its lanes are side by side ("rows"); else
// the lines are ("columns"). Both forms read whole packs of up to 16 bytes. Lines that fit are read
// once into registers (KEPT loads of a thread). Longer ones are read twice, the first time with a
// running maximum that scales the sum. Where long lines are too few to fill the device, several
// workgroups share one. A first dispatch writes each group's maximum and sum to scratch; a second
// one combines them and writes the result. Lanes of a row combine by shuffles, and the subgroups of
// a longer row through shared memory; lanes of columns use shared memory alone. All orders are
// fixed.
#include "line_shader.hpp"

#include <fmt/format.h>

#include "backends/gpu/encoder/error_cells.hpp"
#include "backends/gpu/space/packs.hpp"
#include "backends/gpu/text/glsl_folds.hpp"
#include "backends/gpu/text/glsl_math.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

/// The part of the work that a dispatch does.
enum class Phase : std::uint32_t { all, measure, finish };

constexpr std::string_view kLineMembers =
    "uint64_t x; uint64_t y; uint64_t result; uint64_t partial; INDEX lines; INDEX n; INDEX chunk; "
    "INDEX step_x; INDEX step_y; INDEX step_result; int splits; int lanes; ";
constexpr std::string_view kLossMembers =
    "uint64_t targets; uint64_t losses; uint64_t cell; INDEX target_step; ";

constexpr std::string_view kLineFolds = R"(
SHARED(VALUE, group_v, THREADS * COLUMNS);

#if COLUMNAR
#define FOLD(NAME, OP) \
FN void NAME(IN_OUT_ARRAY(VALUE, s, COLUMNS), int thread, int lane, int lane_step) { \
  if (p.lanes == 1) { \
    return; \
  } \
  UNROLLED for (int c = 0; c < COLUMNS; ++c) { \
    group_v[c * THREADS + thread] = s[c]; \
  } \
  for (int half_lanes = p.lanes / 2; half_lanes > 0; half_lanes /= 2) { \
    barrier(); \
    if (lane < half_lanes) { \
      UNROLLED for (int c = 0; c < COLUMNS; ++c) { \
        const int i = c * THREADS + thread; \
        s[c] = OP(s[c], group_v[i + half_lanes * lane_step]); \
        group_v[i] = s[c]; \
      } \
    } \
  } \
  barrier(); \
  UNROLLED for (int c = 0; c < COLUMNS; ++c) { \
    s[c] = group_v[c * THREADS + thread - lane * lane_step]; \
  } \
  barrier(); \
}
#else
#define FOLD(NAME, OP) \
FN void NAME(IN_OUT_ARRAY(VALUE, s, COLUMNS), int thread, int lane, int lane_step) { \
  const int width = row_width(p.lanes); \
  for (int d = width / 2; d > 0; d /= 2) { \
    s[0] = OP(s[0], of_lane(s[0], uint(d))); \
  } \
  if (p.lanes > width) { \
    if (lane % width == 0) { \
      group_v[thread / width] = s[0]; \
    } \
    barrier(); \
    const int first = (thread - lane) / width; \
    s[0] = group_v[first]; \
    for (int i = 1; i < p.lanes / width; ++i) { \
      s[0] = OP(s[0], group_v[first + i]); \
    } \
    barrier(); \
  } \
}
#endif
#define PLUS(a, b) ((a) + (b))
FOLD(fold_sum, PLUS)
#if !IS_BACKWARD
FOLD(fold_max, max)
#endif
)";

// Sums with their maxima, of elements, of threads and of workgroups.
constexpr std::string_view kLineSums = R"(
#if !IS_BACKWARD
FN void take(VALUE v, IN_OUT(VALUE) top, IN_OUT(VALUE) sum, IN_OUT(VALUE) lost) {
  if (v != LOWEST) {
    const VALUE e = m_exp(-abs(v - top));
    const bool is_higher = v > top;
    if (is_higher) {
      sum *= e;
      lost *= e;
      top = v;
    }
    add_long(sum, lost, is_higher ? VALUE(1) : e);
  }
}
FN void meet(IN_OUT_ARRAY(VALUE, top, COLUMNS), IN_OUT_ARRAY(VALUE, sum, COLUMNS), int thread, int lane, int lane_step) {
  COPY_ARRAY(VALUE, own, COLUMNS, top);
  fold_max(top, thread, lane, lane_step);
  UNROLLED for (int c = 0; c < COLUMNS; ++c) {
    sum[c] = own[c] == top[c] ? sum[c] : sum[c] * m_exp(own[c] - top[c]);
  }
  fold_sum(sum, thread, lane, lane_step);
  UNROLLED for (int c = 0; c < COLUMNS; ++c) {
    sum[c] = top[c] == -(LOWEST) ? NOT_A_NUMBER : sum[c];
  }
}
#endif
BUFFER(Partials, VALUE, 8);
)";

// A pack of a line that begins at `at`. Elements of other lines in a ragged pack are padding, and
// are not stored.
constexpr std::string_view kPacks = R"(
#if RAGGED
FN void load_part(uint64_t from, INDEX at, INDEX r, VALUE padding, OUT_ARRAY(VALUE, v, PACK)) {
  if (r >= 0 && r + PACK <= p.n) {
    load_pack_e(from, at + r, v);
  } else {
    UNROLLED for (int i = 0; i < PACK; ++i) {
      v[i] = padding;
      if (r + i >= 0 && r + i < p.n) {
        v[i] = load_element(from, at + r + i);
      }
    }
  }
}
FN void store_part(uint64_t to, INDEX at, INDEX r, VALUE v[PACK]) {
  if (r >= 0 && r + PACK <= p.n) {
    store_pack_e(to, at + r, v);
  } else {
    UNROLLED for (int i = 0; i < PACK; ++i) {
      if (r + i >= 0 && r + i < p.n) {
        store_element(to, at + r + i, v[i]);
      }
    }
  }
}
#define LOAD(from, at, step, r, padding, v) load_part(from, at, r, padding, v)
#define STORE(to, at, step, r, v) store_part(to, at, r, v)
#else
#define LOAD(from, at, step, r, padding, v) load_pack_e(from, (at) + (r) * (step), v)
#define STORE(to, at, step, r, v) store_pack_e(to, (at) + (r) * (step), v)
#endif
)";

// The thread's place.
constexpr std::string_view kLinePlace = R"(
  const int lines = THREADS / p.lanes;
#if COLUMNAR
  const int thread = int(THREAD);
  const int line = thread % lines;
  const int lane = thread / lines;
  const int lane_step = lines;
#else
  const int thread = row_thread();
  const int line = thread / p.lanes;
  const int lane = thread % p.lanes;
  const int lane_step = 1;
#endif
  const int piece = int(GROUP % uint(p.splits));
  const INDEX k = (INDEX(GROUP / uint(p.splits)) * lines + line) * COLUMNS;
  const bool is_inside = k < p.lines;
  INDEX x_at = 0;
  INDEX y_at = 0;
  INDEX result_at = 0;
  if (is_inside) {
    PLACES
  }
  const INDEX step = INDEX(p.lanes) * ALONG_PACK;
#if RAGGED
  // Places of a line count from where memory's packs begin: the first ones are below 0.
  const INDEX before = x_at % PACK;
  const INDEX next_piece = piece + 1 < p.splits ? INDEX(piece + 1) * p.chunk - before : p.n;
#else
  const INDEX before = INDEX(0);
  const INDEX next_piece = INDEX(piece + 1) * p.chunk;
#endif
  const INDEX begin = INDEX(piece) * p.chunk + INDEX(lane) * ALONG_PACK - before;
  const INDEX end = is_inside ? min(next_piece, p.n) : INDEX(0);
  VALUE top[COLUMNS];
  VALUE sum[COLUMNS];
  UNROLLED for (int c = 0; c < COLUMNS; ++c) {
    top[c] = LOWEST;
    sum[c] = VALUE(0);
  }
)";

constexpr std::string_view kMeasureKept = R"(
  VALUE v[KEPT * PACK];
#if IS_BACKWARD
  VALUE w[KEPT * PACK];
#endif
  UNROLLED for (int u = 0; u < KEPT; ++u) {
    const INDEX r = begin + INDEX(u) * step;
    VALUE a[PACK];
    VALUE b[PACK];
    UNROLLED for (int i = 0; i < PACK; ++i) {
      a[i] = PADDING;
      b[i] = VALUE(0);
    }
    if (r < end) {
      LOAD(p.x, x_at, p.step_x, r, PADDING, a);
#if IS_BACKWARD
      LOAD(p.y, y_at, p.step_y, r, VALUE(0), b);
#endif
    }
    UNROLLED for (int i = 0; i < PACK; ++i) {
      v[u * PACK + i] = a[i];
#if IS_BACKWARD
      w[u * PACK + i] = b[i];
#endif
    }
  }
#if IS_BACKWARD
  UNROLLED for (int i = 0; i < KEPT * PACK; ++i) {
    sum[i % PACK * COLUMNAR] += IS_LOG != 0 ? v[i] : v[i] * w[i];
  }
  fold_sum(sum, thread, lane, lane_step);
#else
  UNROLLED for (int i = 0; i < KEPT * PACK; ++i) {
    top[i % PACK * COLUMNAR] = max(top[i % PACK * COLUMNAR], v[i]);
  }
  fold_max(top, thread, lane, lane_step);
  UNROLLED for (int i = 0; i < KEPT * PACK; ++i) {
    const VALUE e = m_exp(v[i] - top[i % PACK * COLUMNAR]);
    sum[i % PACK * COLUMNAR] += e;
    v[i] = IS_LOG != 0 ? v[i] : e;
  }
  fold_sum(sum, thread, lane, lane_step);
#endif
)";

constexpr std::string_view kMeasureLoop = R"(
#if IS_FINISH
  if (is_inside) {
    for (int i = lane; i < p.splits; i += p.lanes) {
      UNROLLED for (int c = 0; c < COLUMNS; ++c) {
        const int at = (int(k + INDEX(c)) * p.splits + i) * 2;
        const VALUE other = Partials(p.partial).v[at + 1];
#if IS_BACKWARD
        sum[c] += other;
#else
        const VALUE other_top = Partials(p.partial).v[at];
        const VALUE higher = max(top[c], other_top);
        sum[c] = (top[c] == higher ? sum[c] : sum[c] * m_exp(top[c] - higher)) +
                 (other_top == higher ? other : other * m_exp(other_top - higher));
        top[c] = higher;
#endif
      }
    }
  }
#else
  VALUE lost[COLUMNS];
  UNROLLED for (int c = 0; c < COLUMNS; ++c) {
    lost[c] = VALUE(0);
  }
  for (INDEX r = begin; r < end; r += 4 * step) {
    VALUE a[4][PACK];
#if IS_BACKWARD
    VALUE b[4][PACK];
#endif
    UNROLLED for (int u = 0; u < 4; ++u) {
      const INDEX at = r + INDEX(u) * step;
      if (at < end) {
        LOAD(p.x, x_at, p.step_x, at, PADDING, a[u]);
#if IS_BACKWARD
        LOAD(p.y, y_at, p.step_y, at, VALUE(0), b[u]);
#endif
      }
    }
    UNROLLED for (int u = 0; u < 4; ++u) {
      if (r + INDEX(u) * step < end) {
        UNROLLED for (int i = 0; i < PACK; ++i) {
#if IS_BACKWARD
          const int c = i * COLUMNAR;
          add_long(sum[c], lost[c], IS_LOG != 0 ? a[u][i] : a[u][i] * b[u][i]);
#else
          take(a[u][i], top[i * COLUMNAR], sum[i * COLUMNAR], lost[i * COLUMNAR]);
#endif
        }
      }
    }
  }
  UNROLLED for (int c = 0; c < COLUMNS; ++c) {
    sum[c] = long_sum(sum[c], lost[c]);
  }
#endif
#if IS_BACKWARD
  fold_sum(sum, thread, lane, lane_step);
#else
  meet(top, sum, thread, lane, lane_step);
#endif
#if IS_MEASURE
  if (is_inside && lane == 0) {
    UNROLLED for (int c = 0; c < COLUMNS; ++c) {
      const int at = (int(k + INDEX(c)) * p.splits + piece) * 2;
      Partials(p.partial).v[at] = top[c];
      Partials(p.partial).v[at + 1] = sum[c];
    }
  }
#endif
)";

constexpr std::string_view kLoss = R"(
  if (is_inside && lane == 0 && piece == 0) {
    UNROLLED for (int c = 0; c < COLUMNS; ++c) {
      const int64_t target = int64_t(load_target(p.targets, (k + INDEX(c)) * p.target_step));
      if (target < 0l || target >= int64_t(p.n)) {
        fail(p.cell, 1u, target, int64_t(k) + int64_t(c), int64_t(p.n));
      } else {
        const INDEX at = x_at + INDEX(c * COLUMNAR) + INDEX(target) * p.step_x;
        const VALUE loss = m_log(sum[c]) + (top[c] - load_element(p.x, at));
        store_element(p.losses, k + INDEX(c), loss);
      }
    }
  }
)";

constexpr std::string_view kFinish = R"(
  VALUE factor[COLUMNS];
  UNROLLED for (int c = 0; c < COLUMNS; ++c) {
#if IS_BACKWARD
    factor[c] = sum[c];
#elif IS_LOG
    factor[c] = m_log(sum[c]);
#else
    factor[c] = m_div(VALUE(1), sum[c]);
#endif
  }
#if KEPT
  UNROLLED for (int u = 0; u < KEPT; ++u) {
#else
  for (INDEX r = begin; r < end; r += step) {
#endif
#if KEPT
    const INDEX r = begin + INDEX(u) * step;
#endif
    if (r < end) {
      VALUE a[PACK];
#if IS_BACKWARD
      VALUE b[PACK];
#endif
#if KEPT
      UNROLLED for (int i = 0; i < PACK; ++i) {
        a[i] = v[u * PACK + i];
#if IS_BACKWARD
        b[i] = w[u * PACK + i];
#endif
      }
#else
      LOAD(p.x, x_at, p.step_x, r, PADDING, a);
#if IS_BACKWARD
      LOAD(p.y, y_at, p.step_y, r, VALUE(0), b);
#endif
#endif
      UNROLLED for (int i = 0; i < PACK; ++i) {
        const int c = i * COLUMNAR;
#if IS_BACKWARD && IS_LOG
        a[i] = a[i] - m_exp(b[i]) * factor[c];
#elif IS_BACKWARD
        a[i] = b[i] * (a[i] - factor[c]);
#elif IS_LOG
        a[i] = a[i] - top[c] - factor[c];
#elif KEPT
        a[i] = a[i] * factor[c];
#else
        a[i] = m_exp(a[i] - top[c]) * factor[c];
#endif
      }
      STORE(p.result, result_at, p.step_result, r, a);
    }
  }
)";

bool is_backward(LineKind kind) noexcept {
  return kind == LineKind::softmax_backward || kind == LineKind::log_softmax_backward;
}
bool is_log(LineKind kind) noexcept {
  return kind == LineKind::log_softmax || kind == LineKind::log_softmax_backward;
}

std::string line_defines(const LineCall& call, const LinePlan& plan, Phase phase) {
  const bool is_f64 = call.dtype == DType::f64;
  std::string places = "x_at";
  places += is_backward(call.kind) ? ", y_at" : "";
  places += call.out != 0 ? ", result_at" : "";
  return fmt::format(
      "#define VALUE {}\n#define THREADS {}\n#define PACK {}\n#define COLUMNS {}\n"
      "#define COLUMNAR {:d}\n#define ALONG_PACK {}\n#define RAGGED {:d}\n#define KEPT {}\n"
      "#define IS_BACKWARD {:d}\n"
      "#define IS_LOG {:d}\n#define IS_MEASURE {:d}\n#define IS_FINISH {:d}\n#define LOWEST {}\n"
      "#define PADDING {}\n#define NOT_A_NUMBER {}\n#define PLACES line_places(k, {});\n"
      "#define load_element load_{}\n#define store_element store_{}\n#define load_target load_{}\n",
      glsl_value_type(call.dtype),
      plan.threads,
      plan.pack,
      plan.columns(),
      plan.is_columns,
      plan.is_columns ? 1 : plan.pack,
      plan.is_ragged,
      plan.rounds,
      is_backward(call.kind),
      is_log(call.kind),
      phase == Phase::measure,
      phase == Phase::finish,
      glsl_lowest(call.dtype),
      is_backward(call.kind) ? "VALUE(0)" : "LOWEST",
      is_f64 ? "packDouble2x32(uvec2(0u, 0x7ff80000u))" : "uintBitsToFloat(0x7fc00000u)",
      places,
      glsl_suffix(call.dtype),
      glsl_suffix(call.dtype),
      glsl_suffix(call.target_dtype));
}

std::string line_text(const LineCall& call,
                      const LinePlan& plan,
                      Phase phase,
                      std::size_t parameter_bytes) {
  const bool has_loss = call.kind == LineKind::loss;
  std::string members(kLineMembers);
  members += has_loss ? kLossMembers : "";
  members += plan.lines.glsl_members("line", plan.wide);
  MathUse math;
  for (const MathFunction function : {MathFunction::exp, MathFunction::log, MathFunction::div}) {
    math.add(function, call.dtype == DType::f64);
  }
  std::string text = glsl_prelude({.threads = plan.threads, .wide_index = plan.wide});
  text += glsl_parameters(members, parameter_bytes);
  text += line_defines(call, plan, phase);
  text += glsl_divide();
  text += glsl_math(math);
  text += has_loss ? glsl_fail() : "";
  text += plan.lines.glsl_places("line", plan.wide);
  text += glsl_pack("e", call.dtype, plan.pack, plan.wide);
  text += kPacks;
  text += glsl_row_threads();
  text += glsl_of_lane(glsl_value_type(call.dtype));
  text += glsl_long_sum(glsl_value_type(call.dtype));
  text += kLineFolds;
  text += kLineSums;
  text += "FN void main() {\n";
  text += kLinePlace;
  text += plan.rounds > 0 ? kMeasureKept : kMeasureLoop;
  text += has_loss && phase != Phase::measure ? kLoss : "";
  text += call.out != 0 && phase != Phase::measure ? kFinish : "";
  return text += "}\n";
}

Status dispatch_lines(const LineCall& call,
                      const LinePlan& plan,
                      Phase phase,
                      std::uint64_t partial,
                      KernelEncoder& encoder) {
  const auto last = static_cast<std::size_t>(plan.lines.operand_count()) - 1;
  ParameterBlock parameters;
  parameters.add(call.x).add(call.y).add(call.out).add(partial);
  for (const std::int64_t value :
       {plan.lines.count(), plan.length, plan.chunk, plan.step[0], plan.step[1], plan.step[last]}) {
    add_index(parameters, plan.wide, value);
  }
  parameters.add(static_cast<std::int32_t>(plan.splits)).add(plan.lanes);
  if (call.kind == LineKind::loss) {
    parameters.add(call.targets).add(call.losses).add(encoder.error_cell());
    add_index(parameters, plan.wide, call.target_step);
  }
  plan.lines.add_to(parameters, plan.wide);
  KernelKey key(KernelFamily::softmax);
  key.add(static_cast<std::uint32_t>(call.kind))
      .add(static_cast<std::uint32_t>(phase))
      .add(call.dtype)
      .add(call.target_dtype)
      .add((plan.is_columns ? 1U : 0U) | (plan.wide ? 2U : 0U) | (call.out != 0 ? 4U : 0U) |
           (plan.is_ragged ? 8U : 0U))
      .add(plan.pack)
      .add(plan.threads)
      .add(plan.rounds)
      .add(plan.lines.rank());
  const auto text = [&] { return line_text(call, plan, phase, parameters.size_bytes()); };
  return encoder.dispatch(key, text, parameters, encoder.linear(plan.groups()));
}

}  // namespace

Status encode_lines(const LineCall& call, const LinePlan& plan, KernelEncoder& encoder) {
  if (plan.splits == 1) {
    return dispatch_lines(call, plan, Phase::all, 0, encoder);
  }
  constexpr std::int64_t kPairBytes = 16;
  HEARTH_TRY(const std::uint64_t partial,
             encoder.scratch(plan.lines.count() * plan.splits * kPairBytes));
  HEARTH_TRY_STATUS(dispatch_lines(call, plan, Phase::measure, partial, encoder));
  encoder.barrier();
  LinePlan second = plan;
  const bool writes_losses_alone = call.out == 0;
  if (writes_losses_alone) {
    second.chunk = 0;  // the line is not read again, and one workgroup writes the loss
  }
  return dispatch_lines(call, second, Phase::finish, partial, encoder);
}

}  // namespace hearth::gpu
