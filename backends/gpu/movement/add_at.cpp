// Adds by index. A thread computes elements of the result, 16 bytes of a row where rows are
// contiguous. It adds their sources in the order of the index, so no sum depends on thread timing.
// To find the sources, the places of each line of the index are sorted (entry_sort.hpp), which
// groups those of one target in order. For a line of few places, a thread scans all of them
// instead. Rows of a table find their first entry in a list that is computed once. For a line of
// many places, stretches of one target's places are summed first, each by separate threads; one
// thread then adds the sums. A target with many places (such as the padding word of a batch of
// texts) therefore causes no long serial row of additions.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>

#include "backends/gpu/text/glsl_folds.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "entry_sort.hpp"
#include "indexing.hpp"
#include "movement.hpp"

namespace hearth::gpu {
namespace {

enum class Adding : std::uint32_t { look = 2, sorted = 3, listed = 4, list = 5, stretches = 6 };

constexpr std::int64_t kFewPlaces = 16;  // of a line: a thread scans all
constexpr std::int64_t kLongRow = 32;    // units of a row that share the list's entry
constexpr std::int64_t kStretch = 128;   // places that are summed at a time
constexpr std::int64_t kManyPlaces = 8 * kStretch;

/// An axis of the result. For the index's axis only `size` is used.
struct TargetAxis {
  std::int64_t size;
  std::int64_t limit;   ///< End of the source.
  std::int64_t source;  ///< Stride of the source.
  std::int64_t line;    ///< Stride of the index, or of the numbers of sorted lines.
};

/// The result's axes, merged where the source has all of them; the index's axis stays separate.
struct Targets {
  int rank = 0;
  int index_axis = 0;
  std::array<TargetAxis, kMaxRank> axis{};

  [[nodiscard]] TargetAxis& last() { return axis[static_cast<std::size_t>(rank) - 1]; }
  void add(const TargetAxis& next) {
    if (next.size == 1 && next.limit == 1) {
      return;
    }
    const bool merges = rank > 0 && rank - 1 != index_axis && next.limit == next.size &&
                        last().limit == last().size && last().source == next.source * next.size &&
                        last().line == next.line * next.size;
    if (!merges) {
      axis[static_cast<std::size_t>(rank++)] = next;
      return;
    }
    last() = {.size = last().size * next.size,
              .limit = last().limit * next.limit,
              .source = next.source,
              .line = next.line};
  }
  /// Units of the axes behind the index's.
  [[nodiscard]] std::int64_t units_behind_index() const {
    std::int64_t all = 1;
    for (int i = index_axis + 1; i < rank; ++i) {
      all *= axis[static_cast<std::size_t>(i)].size;
    }
    return all;
  }
  /// Distance below element [0, 0, ...], or from the lowest element to the highest.
  [[nodiscard]] std::int64_t reach(std::int64_t TargetAxis::*stride, bool only_down) const {
    std::int64_t all = 0;
    for (int i = 0; i < rank; ++i) {
      const TargetAxis& at = axis[static_cast<std::size_t>(i)];
      const std::int64_t most = (at.limit - 1) * (at.*stride);
      if (i != index_axis && (most < 0 || !only_down)) {
        all += most < 0 ? -most : most;
      }
    }
    return all;
  }
};

Targets targets_of(const KernelCall& call, int axis, const Strides& line_strides) {
  const Shape& whole = call.outputs[0].shape();
  const TensorView& source = call.inputs[0];
  Targets targets;
  targets.index_axis = -1;
  for (int i = 0; i < whole.rank(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i == axis) {
      targets.index_axis = targets.rank;
      targets.axis[static_cast<std::size_t>(targets.rank++)] = {
          .size = whole[i], .limit = whole[i], .source = 0, .line = 0};
      continue;
    }
    targets.add({.size = whole[i],
                 .limit = source.shape()[i],
                 .source = source.strides()[at],
                 .line = line_strides[at]});
  }
  return targets;
}

/// Chooses the elements of a unit: 16 bytes where rows allow it, else one. Returns their number.
int widen_values(Targets& targets, DType dtype, std::uint64_t bits) {
  const bool has_vectors =
      dtype == DType::f32 || dtype == DType::i32 || dtype == DType::f16 || dtype == DType::bf16;
  const auto bytes = static_cast<int>(size_bytes(dtype));
  const std::int64_t factor = 16 / bytes;
  TargetAxis& inner = targets.last();
  if (!has_vectors || targets.rank - 1 == targets.index_axis || inner.limit != inner.size ||
      inner.source != 1 || inner.line != 0) {
    return 1;
  }
  bits |= static_cast<std::uint64_t>(inner.size * bytes);
  for (int i = 0; i + 1 < targets.rank; ++i) {
    bits |= static_cast<std::uint64_t>(targets.axis[static_cast<std::size_t>(i)].source * bytes);
  }
  if (bits % 16 != 0) {
    return 1;
  }
  inner.size /= factor;
  inner.limit /= factor;
  for (int i = 0; i + 1 < targets.rank; ++i) {
    targets.axis[static_cast<std::size_t>(i)].source /= factor;
  }
  return static_cast<int>(factor);
}

// ---- text ----

constexpr std::string_view kAddMembers =
    "uint64_t source; uint64_t y; uint64_t index; uint64_t firsts; INDEX count; INDEX places; "
    "INDEX "
    "source_start; INDEX source_step; INDEX line_start; INDEX index_step; "
    "uint64_t sums; INDEX row; INDEX targets; INDEX stretches; ";

std::string add_members(int rank) {
  std::string text(kAddMembers);
  for (int axis = 0; axis < rank; ++axis) {
    text += fmt::format("INDEX size{0}; INDEX limit{0}; INDEX source{0}; INDEX line{0}; ", axis);
  }
  return text;
}

std::string find_text(int rank, int index_axis) {
  std::string text =
      "FN bool find(INDEX i, OUT(INDEX) target, OUT(INDEX) source, OUT(INDEX) line) {\n"
      "  bool is_in = true;\n  target = 0;\n  source = p.source_start;\n  line = p.line_start;\n";
  for (int axis = rank - 1; axis >= 0; --axis) {
    text += fmt::format(
        "  {{\n    const INDEX rest = INDEX(UINDEX(i) / UINDEX(p.size{0}));\n"
        "    const INDEX at = i - rest * p.size{0};\n    i = rest;\n",
        axis);
    text += axis == index_axis
                ? "    target = at;\n  }\n"
                : fmt::format(
                      "    is_in = is_in && at < p.limit{0};\n"
                      "    source += at * p.source{0};\n    line += at * p.line{0};\n  }}\n",
                      axis);
  }
  return text + "  return is_in;\n}\n";
}

constexpr std::string_view kOne = R"(
FN void add(IN_OUT_ARRAY(ACC, sum, 1), IN_OUT_ARRAY(ACC, lost, 1), INDEX at) {
  ADD(sum[0], lost[0], LOAD(p.source, at));
}
FN void put(INDEX i, ACC sum[1]) { STORE(p.y, i, sum[0]); }
)";
constexpr std::string_view kAddWords = R"(
FN void add(IN_OUT_ARRAY(ACC, sum, 4), IN_OUT_ARRAY(ACC, lost, 4), INDEX at) {
  const uvec4 words = LOAD_UNIT(p.source, at);
  UNROLLED for (int k = 0; k < 4; ++k) {
    ADD(sum[k], lost[k], FROM_WORD(words[k]));
  }
}
FN void put(INDEX i, ACC sum[4]) {
  STORE_UNIT(p.y, i, uvec4(TO_WORD(sum[0]), TO_WORD(sum[1]), TO_WORD(sum[2]), TO_WORD(sum[3])));
}
)";
constexpr std::string_view kHalves = R"(
FN void add(IN_OUT_ARRAY(ACC, sum, 8), IN_OUT_ARRAY(ACC, lost, 8), INDEX at) {
  const uvec4 words = LOAD_UNIT(p.source, at);
  UNROLLED for (int k = 0; k < 4; ++k) {
    ADD(sum[2 * k], lost[2 * k], FROM_WORD(words[k] & 0xffffu));
    ADD(sum[2 * k + 1], lost[2 * k + 1], FROM_WORD(words[k] >> 16));
  }
}
FN void put(INDEX i, ACC sum[8]) {
  uvec4 words;
  UNROLLED for (int k = 0; k < 4; ++k) {
    words[k] = TO_WORD(sum[2 * k]) | (TO_WORD(sum[2 * k + 1]) << 16);
  }
  STORE_UNIT(p.y, i, words);
}
)";

std::string sums_text(DType dtype, int width) {
  if (width == 1) {
    return fmt::format(
        "#define LOAD load_{0}\n#define STORE store_{0}\n{1}", glsl_suffix(dtype), kOne);
  }
  switch (dtype) {
    case DType::f32:
      return fmt::format("#define FROM_WORD uintBitsToFloat\n#define TO_WORD floatBitsToUint\n{}",
                         kAddWords);
    case DType::i32:
      return fmt::format("#define FROM_WORD int\n#define TO_WORD uint\n{}", kAddWords);
    default:
      return fmt::format("#define FROM_WORD {0}_to_f32\n#define TO_WORD f32_to_{0}\n{1}",
                         glsl_suffix(dtype),
                         kHalves);
  }
}

constexpr std::string_view kLowerBound = R"(
FN uint key_at(INDEX line, INDEX j) { return key_of(load_entry(p.index, line * p.places + j)); }
FN INDEX lower_bound(INDEX line, uint key) {
  INDEX low = 0;
  INDEX high = p.places;
  while (low < high) {
    const INDEX middle = (low + high) / 2;
    if (key_at(line, middle) < key) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
)";

constexpr std::string_view kList = R"(
FN void main() {
  const INDEX i = INDEX(GROUP) * 256 + INDEX(THREAD);
  if (i < p.count) {
    ELEMENT(Words32u, p.firsts, i, 4l) = uint(lower_bound(0, uint(i)));
  }
}
)";

// The sums of stretches, in the order of the result's units, with stretches in the place of
// targets.
constexpr std::string_view kAddSums = R"(
BUFFER_ONE(Sums, ACC, ACC_BYTES);
#define SUM(unit, k) Sums(p.sums + uint64_t(int64_t(unit) * WIDTH + (k)) * ACC_BYTES).v
)";

constexpr std::string_view kStretches = R"(
FN void main() {
  const INDEX first = INDEX(GROUP) * 1024 + INDEX(THREAD);
  for (INDEX i = first; i < p.count && i < first + 1024; i += 256) {
    INDEX stretch, source, line;
    if (!find(i, stretch, source, line)) {
      continue;
    }
    const INDEX begin = stretch * STRETCH;
    const uint key = key_at(line, begin);
    if (key == 0xffffffffu || key != key_at(line, begin + STRETCH - 1)) {
      continue;
    }
    ACC sum[WIDTH];
    ACC lost[WIDTH];
    UNROLLED for (int k = 0; k < WIDTH; ++k) {
      sum[k] = ACC(0);
      lost[k] = ACC(0);
    }
    for (INDEX j = begin; j < begin + STRETCH; ++j) {
      const ENTRY entry = load_entry(p.index, line * p.places + j);
      add(sum, lost, source + INDEX(place_of(entry)) * p.source_step);
    }
    UNROLLED for (int k = 0; k < WIDTH; ++k) {
      SUM(i, k) = TOTAL(sum[k], lost[k]);
    }
  }
}
)";

constexpr std::string_view kAdd = R"(
FN void main() {
  const INDEX first = INDEX(GROUP) * 1024 + INDEX(THREAD);
  for (INDEX i = first; i < p.count && i < first + 1024; i += 256) {
    ACC sum[WIDTH];
    ACC lost[WIDTH];
    UNROLLED for (int k = 0; k < WIDTH; ++k) {
      sum[k] = ACC(0);
      lost[k] = ACC(0);
    }
    INDEX target, source, line;
    if (find(i, target, source, line)) {
#ifdef LOAD_INDEX
      for (INDEX j = 0; j < p.places; ++j) {
        if (int64_t(LOAD_INDEX(p.index, line + j * p.index_step)) == int64_t(target)) {
          add(sum, lost, source + j * p.source_step);
        }
      }
#else
#ifdef LISTED
      INDEX j = INDEX(ELEMENT(Words32u, p.firsts, target, 4l));
#else
      INDEX j = lower_bound(line, uint(target));
#endif
#ifdef STRETCH
      const INDEX sums = (i / p.row / p.targets * p.stretches) * p.row + i % p.row;
#endif
      for (; j < p.places; ++j) {
#ifdef STRETCH
        if (j % STRETCH == 0 && j + STRETCH <= p.places &&
            key_at(line, j + STRETCH - 1) == uint(target)) {
          UNROLLED for (int k = 0; k < WIDTH; ++k) {
            ADD(sum[k], lost[k], SUM(sums + j / STRETCH * p.row, k));
          }
          j += STRETCH - 1;
          continue;
        }
#endif
        const ENTRY entry = load_entry(p.index, line * p.places + j);
        if (key_of(entry) != uint(target)) {
          break;
        }
        add(sum, lost, source + INDEX(place_of(entry)) * p.source_step);
      }
#endif
    }
    UNROLLED for (int k = 0; k < WIDTH; ++k) {
      sum[k] = TOTAL(sum[k], lost[k]);
    }
    put(i, sum);
  }
}
)";

/// Options of one shader.
struct AddCall {
  Adding what;
  DType dtype;
  DType index_dtype;
  int width;
  bool wide;
  bool has_stretches = false;
};

/// Bytes of a sum.
std::int64_t sum_bytes(DType dtype) noexcept {
  return size_bytes(dtype) == 8 ? 8 : 4;
}

std::string add_text(const AddCall& add, const Targets& targets, std::size_t bytes) {
  std::string text = fmt::format("{}{}{}",
                                 glsl_prelude({.threads = kGroupThreads, .wide_index = add.wide}),
                                 glsl_uindex(add.wide),
                                 glsl_parameters(add_members(targets.rank), bytes));
  if (add.what == Adding::look) {
    text += fmt::format("#define LOAD_INDEX load_{}\n", glsl_suffix(add.index_dtype));
  } else {
    text.append(glsl_entry(false)).append(kLowerBound);
  }
  if (add.what == Adding::list) {
    return text.append(kList);
  }
  text += fmt::format("{}#define ACC {}\n#define WIDTH {}\n{}{}",
                      add.what == Adding::listed ? "#define LISTED\n" : "",
                      glsl_compute_type(add.dtype),
                      add.width,
                      glsl_unit(16),
                      glsl_adding(add.dtype));
  text += sums_text(add.dtype, add.width);
  if (add.has_stretches) {
    text += fmt::format(
        "#define STRETCH {}\n#define ACC_BYTES {}\n{}", kStretch, sum_bytes(add.dtype), kAddSums);
  }
  text += find_text(targets.rank, targets.index_axis);
  return text.append(add.what == Adding::stretches ? kStretches : kAdd);
}

/// The parameters that the shaders share.
struct AddBlock {
  std::uint64_t source;
  std::uint64_t y;
  std::uint64_t index;
  std::uint64_t firsts = 0;
  std::int64_t count;
  std::int64_t places;
  std::int64_t source_start;
  std::int64_t source_step;
  std::int64_t line_start = 0;
  std::int64_t index_step = 0;
  std::uint64_t sums = 0;
  std::int64_t row = 1;
  std::int64_t targets = 1;
  std::int64_t stretches = 0;

  [[nodiscard]] std::int64_t sum_count() const noexcept { return count / targets * stretches; }
};

Status run_add(const AddCall& add,
               const Targets& targets,
               const AddBlock& with,
               KernelEncoder& encoder) {
  ParameterBlock block;
  block.add(with.source).add(with.y).add(with.index).add(with.firsts);
  for (const std::int64_t value : {with.count,
                                   with.places,
                                   with.source_start,
                                   with.source_step,
                                   with.line_start,
                                   with.index_step}) {
    add_index(block, value, add.wide);
  }
  block.add(with.sums);
  for (const std::int64_t value : {with.row, with.targets, with.stretches}) {
    add_index(block, value, add.wide);
  }
  for (int i = 0; i < targets.rank; ++i) {
    const TargetAxis& axis = targets.axis[static_cast<std::size_t>(i)];
    for (const std::int64_t value : {axis.size, axis.limit, axis.source, axis.line}) {
      add_index(block, value, add.wide);
    }
  }
  KernelKey key(KernelFamily::indexing);
  key.add(static_cast<std::uint32_t>(add.what))
      .add(add.dtype)
      .add(add.index_dtype)
      .add(add.width)
      .add(add.wide)
      .add(add.has_stretches)
      .add(targets.rank)
      .add(targets.index_axis);
  const std::int64_t each = add.what == Adding::list ? kGroupThreads : kGroupUnits;
  return encoder.dispatch(
      key,
      [&] { return add_text(add, targets, block.size_bytes()); },
      block,
      encoder.linear((with.count + each - 1) / each));
}

// Number of stretches. 0 for few places, and where the sums would have more elements than the
// source, which is then far smaller than the result.
std::int64_t stretches_of(const TensorView& source,
                          int width,
                          bool wide,
                          const AddBlock& with) noexcept {
  const std::int64_t stretches = with.places / kStretch;
  const std::int64_t sums = with.count / with.targets * stretches * width;
  const bool fits = sums <= source.element_count() && (wide || !is_wide(sums));
  return with.places >= kManyPlaces && fits ? stretches : 0;
}

Status sum_stretches(AddCall add, Targets targets, AddBlock with, KernelEncoder& encoder) {
  add.what = Adding::stretches;
  TargetAxis& along_index = targets.axis[static_cast<std::size_t>(targets.index_axis)];
  along_index.size = along_index.limit = with.stretches;
  with.count = with.sum_count();
  return run_add(add, targets, with, encoder);
}

}  // namespace

// Phases: the source's layout; few places: each is scanned; else the sorted places, the list of
// first entries, the sums.
Status encode_add_at(const KernelCall& call, KernelEncoder& encoder) {
  HEARTH_TRY_STATUS(check_no_guard(call, encoder));
  const TensorView& source = call.inputs[0];
  const TensorView& index = call.inputs[1];
  const TensorView& y = call.outputs[0];
  const int axis = call.op.attributes<AxisAttributes>().axis;
  const auto at = static_cast<std::size_t>(axis);
  const std::int64_t axis_size = y.shape()[axis];
  if (y.element_count() == 0) {
    return encode_index_check(call, axis_size, encoder);
  }
  const bool is_line = call.op.kind() == OpKind::index_add;
  const std::int64_t places = source.shape()[axis];
  const bool looks = places <= kFewPlaces || source.element_count() == 0;
  Strides line_strides{};
  if (looks) {
    line_strides = index_strides(call);
  } else if (!is_line) {
    Shape lines = source.shape();
    lines.set(axis, 1);
    line_strides = contiguous_strides(lines);
  }
  const std::int64_t index_step = index_strides(call)[at];
  line_strides[at] = 0;
  Targets targets = targets_of(call, axis, line_strides);
  const auto from = reinterpret_cast<std::uintptr_t>(source.data);  // NOLINT: a device address
  const auto to = reinterpret_cast<std::uintptr_t>(y.data);         // NOLINT: a device address
  const std::int64_t element_bytes = size_bytes(source.dtype);
  const int width =
      widen_values(targets,
                   source.dtype,
                   from | to | static_cast<std::uint64_t>(source.strides()[at] * element_bytes));
  const std::int64_t step = source.strides()[at] / width;
  const std::int64_t along = step * std::max<std::int64_t>(places - 1, 0);
  const std::int64_t down =
      targets.reach(&TargetAxis::source, true) + std::max<std::int64_t>(-along, 0);
  const std::int64_t reach =
      targets.reach(&TargetAxis::source, false) + (along < 0 ? -along : along);
  const std::int64_t index_along = index_step * std::max<std::int64_t>(places - 1, 0);
  const std::int64_t index_reach = looks ? targets.reach(&TargetAxis::line, false) +
                                               (index_along < 0 ? -index_along : index_along)
                                         : 2 * index.element_count();
  AddCall add{.what = looks ? Adding::look : Adding::sorted,
              .dtype = source.dtype,
              .index_dtype = looks ? index.dtype : DType::i64,
              .width = width,
              .wide = is_wide(std::max({y.element_count(), reach, index_reach}))};
  AddBlock with{.source = from - static_cast<std::uint64_t>(down * width * element_bytes),
                .y = to,
                .index = 0,
                .count = y.element_count() / width,
                .places = looks && source.element_count() == 0 ? 0 : places,
                .source_start = down,
                .source_step = step};
  if (looks) {
    with.line_start =
        targets.reach(&TargetAxis::line, true) + std::max<std::int64_t>(-index_along, 0);
    with.index = lowest_address(index, with.line_start, static_cast<int>(size_bytes(index.dtype)));
    with.index_step = index_step;
    HEARTH_TRY_STATUS(encode_index_check(call, axis_size, encoder));
    return run_add(add, targets, with, encoder);
  }
  SortOf sort{.lines = AxisLines(index, is_line ? 0 : axis),
              .dtype = index.dtype,
              .order = KeyOrder::index,
              .axis_size = axis_size,
              .cell = encoder.error_cell()};
  sort.place_inner = sort.lines.inner;
  const bool lists =
      is_line && targets.rank - 1 != targets.index_axis && targets.last().size >= kLongRow;
  const std::int64_t list_bytes = lists ? 4 * axis_size : 0;
  const std::int64_t sort_bytes = (sort_scratch_bytes(sort, places) + 15) / 16 * 16;
  with.targets = axis_size;
  with.stretches = stretches_of(source, width, add.wide, with);
  add.has_stretches = with.stretches > 0;
  const std::int64_t sums_bytes = with.sum_count() * width * sum_bytes(add.dtype);
  HEARTH_TRY(const std::uint64_t scratch, encoder.scratch(sort_bytes + sums_bytes + list_bytes));
  HEARTH_TRY(with.index, encode_sorted(sort, scratch, encoder));
  encoder.barrier();
  if (lists) {
    with.firsts = scratch + static_cast<std::uint64_t>(sort_bytes + sums_bytes);
    AddCall list = add;
    list.has_stretches = false;
    list.what = Adding::list;
    list.dtype = DType::f32;
    list.width = 1;
    AddBlock rows = with;
    rows.count = axis_size;
    HEARTH_TRY_STATUS(run_add(list, targets, rows, encoder));
    add.what = Adding::listed;
  }
  if (add.has_stretches) {
    with.sums = scratch + static_cast<std::uint64_t>(sort_bytes);
    with.row = targets.units_behind_index();
    HEARTH_TRY_STATUS(sum_stretches(add, targets, with, encoder));
  }
  if (lists || add.has_stretches) {
    encoder.barrier();
  }
  return run_add(add, targets, with, encoder);
}

}  // namespace hearth::gpu
