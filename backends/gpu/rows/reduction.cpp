// Reductions. A workgroup has `lanes` threads for each of its results. Neighbouring threads read
// memory neighbours: along a fast reduced axis the lanes lie side by side ("rows"), along a slow
// one the results do ("columns"). A thread folds its loads, four packs of up to 16 bytes at a time.
// After kLongChain of these it adds a sum of floats to a compensated one. Then lanes side by side
// combine by shuffles, and subgroups through shared memory. Other lanes use shared memory alone,
// halving their number. Where the results do not fill the device, several workgroups share one.
// They write partial results to scratch, which a second dispatch of the same shader folds. All
// orders follow from shapes and device. The largest and smallest of floats carry their place: of
// equal ones, zeros of either sign included, the first is kept. So argmax is the same shader with
// another store.
#include "reduction.hpp"

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "backends/gpu/space/packs.hpp"
#include "backends/gpu/text/glsl_folds.hpp"
#include "backends/gpu/text/glsl_math.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "reduction_plan.hpp"

namespace hearth::gpu {
namespace {

// Packs that a thread adds to one another, four at a time.
constexpr int kLongChain = 16;

enum class Fold : std::uint32_t { sum, product, largest, smallest };

/// Options of a shader's text, beside the axes.
struct Reduction {
  DType dtype = DType::f32;
  DType sums = DType::f32;  ///< Type of the fold: the input's type, or i64 for wide sums.
  Fold fold = Fold::sum;
  bool has_place = false;  ///< Partial results are values with their places.
  bool is_mean = false;
  bool is_position = false;  ///< The place is the result.
  bool from_partial = false;
  bool to_partial = false;
};

// Input: x, and places of partial results. Output: y and y_places.
constexpr std::string_view kReductionMembers =
    "uint64_t x; uint64_t places; uint64_t y; uint64_t y_places; INDEX kept; "
    "INDEX reduced; INDEX chunk; INDEX step; int splits; int lanes; ";

constexpr std::string_view kReductionFolds = R"(
struct Part {
  VALUE v;
#if HAS_PLACE
  INDEX at;
#endif
};
#if HAS_PLACE
SHARED(INDEX, group_at, THREADS * COLUMNS);
#endif
SHARED(VALUE, group_v, THREADS * COLUMNS);
FN void leave(int at, Part x) {
  group_v[at] = x.v;
#if HAS_PLACE
  group_at[at] = x.at;
#endif
}
FN Part left_at(int at) {
#if HAS_PLACE
  return NEW2(Part, group_v[at], group_at[at]);
#else
  return NEW1(Part, group_v[at]);
#endif
}

#if HAS_PLACE
FN bool is_none(VALUE v) { return IS_NONE; }
// NaN wins, then the better value, then the first place. NVRTC 13.0 never ends on a select of the
// two structs, so the members are selected.
FN Part join(Part a, Part b) {
  const bool a_none = is_none(a.v);
  const bool b_none = is_none(b.v);
  const bool is_tie = a_none ? b_none : (!b_none && a.v == b.v);
  const bool takes = is_tie ? b.at < a.at : (!a_none && (b_none || b.v BETTER a.v));
  return NEW2(Part, takes ? b.v : a.v, takes ? b.at : a.at);
}
FN Part part(VALUE v, INDEX at) { return NEW2(Part, v, at); }
FN Part start() { return NEW2(Part, START, LAST_PLACE); }
#else
FN Part join(Part a, Part b) { return NEW1(Part, JOIN(a.v, b.v)); }
FN Part part(VALUE v, INDEX at) { return NEW1(Part, v); }
FN Part start() { return NEW1(Part, START); }
#endif
#if !COLUMNAR
// That of the lane whose number differs in these bits.
FN Part part_of_lane(Part x, uint bits) {
#if HAS_PLACE
  return NEW2(Part, of_lane(x.v, bits), of_lane(x.at, bits));
#else
  return NEW1(Part, of_lane(x.v, bits));
#endif
}
#endif

#if FROM_PARTIAL
BUFFER(Values, VALUE, 8);
BUFFER(Places, INDEX, 8);
FN void fetch(INDEX base, INDEX r, OUT_ARRAY(Part, parts, PACK)) {
#if HAS_PLACE
  parts[0] = NEW2(Part, Values(p.x).v[int(base + r)], Places(p.places).v[int(base + r)]);
#else
  parts[0] = NEW1(Part, Values(p.x).v[int(base + r)]);
#endif
}
#else
FN void fetch(INDEX base, INDEX r, OUT_ARRAY(Part, parts, PACK)) {
  INDEX offset;
  reduced_places(r, offset);
  LOADED v[PACK];
  load_pack_x(p.x, base + offset, v);
  for (int i = 0; i < PACK; ++i) {
    parts[i] = part(VALUE(v[i]), r + INDEX(i * ALONG));
  }
}
#endif
)";

constexpr std::string_view kStore = R"(
#if TO_PARTIAL
BUFFER(OutValues, VALUE, 8);
BUFFER(OutPlaces, INDEX, 8);
FN void store(INDEX k, INDEX to, int piece, Part result) {
  OutValues(p.y).v[int(k) * p.splits + piece] = result.v;
#if HAS_PLACE
  OutPlaces(p.y_places).v[int(k) * p.splits + piece] = result.at;
#endif
}
#else
FN void store(INDEX k, INDEX to, int piece, Part result) {
#if IS_POSITION
  store_i64(p.y, to, int64_t(result.at));
#elif IS_MEAN
  store_pack_y(p.y, to, ARRAY1(VALUE)(p.count == VALUE(0) ? NOT_A_NUMBER : m_div(result.v, p.count)));
#else
  store_pack_y(p.y, to, ARRAY1(VALUE)(result.v));
#endif
}
#endif
)";

constexpr std::string_view kReductionMain = R"(
FN void main() {
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
#endif
  const int piece = int(GROUP % uint(p.splits));
  const INDEX k = (INDEX(GROUP / uint(p.splits)) * lines + line) * COLUMNS;
  const bool is_inside = k < p.kept;
  Part best[COLUMNS];
  for (int c = 0; c < COLUMNS; ++c) {
    best[c] = start();
  }
#if IS_LONG
  VALUE long_total[COLUMNS];
  VALUE long_lost[COLUMNS];
  int chain = 0;
  for (int c = 0; c < COLUMNS; ++c) {
    long_total[c] = VALUE(0);
    long_lost[c] = VALUE(0);
  }
#endif
  INDEX base = 0;
  INDEX to = 0;
  if (is_inside) {
    kept_places(k, base, to);
    const INDEX end = min(INDEX(piece + 1) * p.chunk, p.reduced);
    const INDEX step = INDEX(p.lanes) * ALONG_PACK;
    INDEX r = INDEX(piece) * p.chunk + INDEX(lane) * ALONG_PACK;
    for (; r + 3 * step < end; r += 4 * step) {
      Part parts[4][PACK];
      UNROLLED for (int u = 0; u < 4; ++u) {
        fetch(base, r + INDEX(u) * step, parts[u]);
      }
      UNROLLED for (int u = 0; u < 4; ++u) {
        UNROLLED for (int i = 0; i < PACK; ++i) {
          best[i * COLUMNAR] = join(best[i * COLUMNAR], parts[u][i]);
        }
      }
#if IS_LONG
      if (++chain == LONG_CHAIN) {
        for (int c = 0; c < COLUMNS; ++c) {
          add_long(long_total[c], long_lost[c], best[c].v);
          best[c] = start();
        }
        chain = 0;
      }
#endif
    }
    for (; r < end; r += step) {
      Part parts[PACK];
      fetch(base, r, parts);
      UNROLLED for (int i = 0; i < PACK; ++i) {
        best[i * COLUMNAR] = join(best[i * COLUMNAR], parts[i]);
      }
    }
#if IS_LONG
    for (int c = 0; c < COLUMNS; ++c) {
      add_long(long_total[c], long_lost[c], best[c].v);
      best[c].v = long_sum(long_total[c], long_lost[c]);
    }
#endif
  }
#if COLUMNAR
  for (int half_lanes = p.lanes / 2; half_lanes > 0; half_lanes /= 2) {
    barrier();
    if (lane >= half_lanes && lane < 2 * half_lanes) {
      UNROLLED for (int c = 0; c < COLUMNS; ++c) {
        leave(c * THREADS + thread, best[c]);
      }
    }
    barrier();
    if (lane < half_lanes) {
      UNROLLED for (int c = 0; c < COLUMNS; ++c) {
        best[c] = join(best[c], left_at(c * THREADS + thread + half_lanes * lane_step));
      }
    }
  }
#else
  const int width = row_width(p.lanes);
  for (int d = width / 2; d > 0; d /= 2) {
    best[0] = join(best[0], part_of_lane(best[0], uint(d)));
  }
  if (p.lanes > width) {
    if (lane % width == 0) {
      leave(thread / width, best[0]);
    }
    barrier();
    if (lane == 0) {
      for (int i = 1; i < p.lanes / width; ++i) {
        best[0] = join(best[0], left_at(thread / width + i));
      }
    }
  }
#endif
  if (is_inside && lane == 0) {
    UNROLLED for (int c = 0; c < COLUMNS; ++c) {
      store(k + INDEX(c), to + INDEX(c) * p.step, piece, best[c]);
    }
  }
}
)";

bool is_long(const Reduction& what) noexcept {
  return what.fold == Fold::sum && is_float(what.sums);
}

std::string reduction_defines(const Reduction& what, const ReductionPlan& plan) {
  constexpr std::string_view kJoins[] = {"((a) + (b))", "((a) * (b))", "max(a, b)", "min(a, b)"};
  const bool is_largest = what.fold == Fold::largest;
  const std::string_view value = glsl_value_type(what.sums);
  const std::string_view start = is_largest                    ? glsl_lowest(what.dtype)
                                 : what.fold == Fold::smallest ? glsl_highest(what.dtype)
                                 : what.fold == Fold::product  ? "VALUE(1)"
                                                               : "VALUE(0)";
  const int columns = plan.is_columns ? plan.pack : 1;
  return fmt::format(
      "#define VALUE {}\n#define LOADED {}\n#define THREADS {}\n#define PACK {}\n#define COLUMNS "
      "{}\n"
      "#define COLUMNAR {:d}\n#define ALONG {}\n#define ALONG_PACK {}\n#define HAS_PLACE {:d}\n"
      "#define FROM_PARTIAL {:d}\n#define TO_PARTIAL {:d}\n#define IS_MEAN {:d}\n"
      "#define IS_POSITION {:d}\n#define START {}\n#define BETTER {}\n#define IS_NONE {}\n"
      "#define JOIN(a, b) {}\n#define LAST_PLACE {}\n#define NOT_A_NUMBER {}\n"
      "#define IS_LONG {:d}\n#define LONG_CHAIN {}\n",
      value,
      glsl_value_type(what.dtype),
      plan.threads,
      plan.pack,
      columns,
      plan.is_columns,
      plan.is_columns ? 0 : 1,
      plan.is_columns ? 1 : plan.pack,
      what.has_place,
      what.from_partial,
      what.to_partial,
      what.is_mean,
      what.is_position,
      start,
      is_largest ? ">" : "<",
      is_float(what.dtype) ? "is_nan(v)" : "false",
      kJoins[static_cast<int>(what.fold)],
      plan.wide ? "0x7fffffffffffffffl" : "0x7fffffff",
      what.dtype == DType::f64 ? "packDouble2x32(uvec2(0u, 0x7ff80000u))"
                               : "uintBitsToFloat(0x7fc00000u)",
      is_long(what),
      kLongChain);
}

std::string reduction_text(const Reduction& what,
                           const ReductionPlan& plan,
                           std::size_t parameter_bytes) {
  const std::string members = std::string(kReductionMembers) +
                              (what.dtype == DType::f64 ? "double count; " : "float count; ") +
                              plan.kept.glsl_members("kept", plan.wide) +
                              plan.reduced.glsl_members("reduced", plan.wide);
  std::string text = glsl_prelude({.threads = plan.threads, .wide_index = plan.wide});
  text += glsl_parameters(members, parameter_bytes);
  text += reduction_defines(what, plan);
  text += glsl_divide();
  if (what.is_mean) {
    MathUse math;
    math.add(MathFunction::div, what.dtype == DType::f64);
    text += glsl_math(math);
  }
  const std::string_view value = glsl_value_type(what.sums);
  const std::string_view place = plan.wide ? "int64_t" : "int";
  text += glsl_row_threads();
  text += glsl_of_lane(value);
  text += what.has_place && place != value ? glsl_of_lane(place) : "";
  text += plan.kept.glsl_places("kept", plan.wide);
  text += plan.reduced.glsl_places("reduced", plan.wide);
  text += glsl_pack("x", what.dtype, plan.pack, plan.wide);
  text += glsl_pack("y", what.sums, 1, plan.wide);
  text += is_long(what) ? glsl_long_sum(value) : "";
  text += kReductionFolds;
  text += kStore;
  return text += kReductionMain;
}

/// Addresses of a dispatch's operands.
struct Addresses {
  std::uint64_t x = 0;
  std::uint64_t places = 0;
  std::uint64_t y = 0;
  std::uint64_t y_places = 0;
};

Status dispatch_reduction(const Reduction& what,
                          const ReductionPlan& plan,
                          const Addresses& at,
                          double count,
                          KernelEncoder& encoder) {
  ParameterBlock parameters;
  parameters.add(at.x).add(at.places).add(at.y).add(at.y_places);
  add_index(parameters, plan.wide, plan.kept.count());
  add_index(parameters, plan.wide, plan.chunk == 0 ? 0 : plan.reduced.count());
  add_index(parameters, plan.wide, plan.chunk);
  add_index(parameters, plan.wide, plan.kept.inner_stride(1));
  parameters.add(static_cast<std::int32_t>(plan.splits)).add(plan.lanes);
  if (what.dtype == DType::f64) {
    parameters.add(count);
  } else {
    parameters.add(static_cast<float>(count));
  }
  plan.kept.add_to(parameters, plan.wide);
  plan.reduced.add_to(parameters, plan.wide);
  KernelKey key(KernelFamily::reduction);
  key.add(what.dtype)
      .add(what.sums)
      .add(static_cast<std::uint32_t>(what.fold))
      .add((what.has_place ? 1U : 0U) | (what.is_mean ? 2U : 0U) | (what.is_position ? 4U : 0U) |
           (what.from_partial ? 8U : 0U) | (what.to_partial ? 16U : 0U) |
           (plan.is_columns ? 32U : 0U) | (plan.wide ? 64U : 0U))
      .add(plan.pack)
      .add(plan.threads)
      .add(plan.kept.rank())
      .add(plan.reduced.rank());
  const auto text = [&] { return reduction_text(what, plan, parameters.size_bytes()); };
  return encoder.dispatch(key, text, parameters, encoder.linear(plan.groups()));
}

Error nothing_to_reduce(OpKind kind, const Shape& shape) {
  const std::string op(name(kind));
  return Error{.code = ErrorCode::invalid_argument,
               .text = fmt::format("{}: no elements to choose from in {}", op, shape.to_string()),
               .op = op};
}

Reduction reduction_of(const KernelCall& call) noexcept {
  const OpKind kind = call.op.kind();
  Reduction what{.dtype = call.inputs[0].dtype, .sums = call.inputs[0].dtype};
  what.is_mean = kind == OpKind::reduce_mean;
  what.is_position = kind == OpKind::argmax || kind == OpKind::argmin;
  if (kind == OpKind::reduce_max || kind == OpKind::argmax) {
    what.fold = Fold::largest;
  } else if (kind == OpKind::reduce_min || kind == OpKind::argmin) {
    what.fold = Fold::smallest;
  } else if (kind == OpKind::reduce_prod) {
    what.fold = Fold::product;
  }
  const bool chooses = what.fold == Fold::largest || what.fold == Fold::smallest;
  if (!chooses) {
    what.sums = call.outputs[0].dtype;
  }
  what.has_place = what.is_position || (chooses && is_float(what.dtype));
  return what;
}

// Scratch holds the values first, then the places.
Status encode_two_passes(
    Reduction what, const ReductionPlan& plan, Addresses at, double count, KernelEncoder& encoder) {
  const std::int64_t partials = plan.kept.count() * plan.splits;
  const std::int64_t values_bytes = (partials * 8 + 255) / 256 * 256;
  HEARTH_TRY(const std::uint64_t scratch,
             encoder.scratch(what.has_place ? 2 * values_bytes : values_bytes));
  const std::uint64_t places = scratch + static_cast<std::uint64_t>(values_bytes);
  Reduction first = what;
  first.to_partial = true;
  first.is_mean = false;
  first.is_position = false;
  HEARTH_TRY_STATUS(dispatch_reduction(
      first, plan, {.x = at.x, .y = scratch, .y_places = places}, count, encoder));
  encoder.barrier();
  what.from_partial = true;
  const ReductionPlan second = plan_second_pass(plan, encoder.limits());
  return dispatch_reduction(
      what, second, {.x = scratch, .places = places, .y = at.y}, count, encoder);
}

}  // namespace

Status encode_reduction(const KernelCall& call, KernelEncoder& encoder) {
  if (encoder.guard() != 0) {
    return Error{.code = ErrorCode::unsupported, .text = "reductions join no update group"};
  }
  const TensorView& input = call.inputs[0];
  const TensorView& result = call.outputs[0];
  if (result.element_count() == 0) {
    return {};
  }
  const Reduction what = reduction_of(call);
  const std::uint32_t axes =
      what.is_position ? 1U << static_cast<unsigned>(call.op.attributes<AxisAttributes>().axis)
                       : call.op.attributes<ReduceAttributes>().axes;
  const bool chooses = what.fold == Fold::largest || what.fold == Fold::smallest;
  if (chooses && input.element_count() == 0) {
    return nothing_to_reduce(call.op.kind(), input.shape());
  }
  const ReductionPlan plan = plan_reduction(input, axes, what.has_place, encoder.limits());
  const double count = plan.chunk == 0 ? 0 : static_cast<double>(plan.reduced.count());
  const Addresses at{.x = address_of(input), .y = address_of(result)};
  if (plan.splits > 1) {
    return encode_two_passes(what, plan, at, count, encoder);
  }
  return dispatch_reduction(what, plan, at, count, encoder);
}

Support supports_reduction(const KernelCall& call, const DeviceLimits& limits) {
  if (call.inputs[0].dtype == DType::f64 && !limits.has_f64) {
    return {.yes = false, .reason = "the device has no doubles in shaders"};
  }
  return {};
}

}  // namespace hearth::gpu
