#include "glsl_folds.hpp"

#include <bit>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include <hearth/streams/kernel/op_expression.hpp>

#include "glsl_library.hpp"
#include "glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

std::uint64_t real_bits(double value) noexcept {
  return std::bit_cast<std::uint64_t>(value);
}

std::uint64_t end_of(DType type, bool is_lowest) noexcept {
  switch (type) {
    case DType::i32:
      return static_cast<std::uint64_t>(
          std::int64_t{is_lowest ? std::numeric_limits<std::int32_t>::min()
                                 : std::numeric_limits<std::int32_t>::max()});
    case DType::i64:
      return static_cast<std::uint64_t>(is_lowest ? std::numeric_limits<std::int64_t>::min()
                                                  : std::numeric_limits<std::int64_t>::max());
    case DType::u8:
      return is_lowest ? 0U : 255U;
    case DType::i8:
      return static_cast<std::uint64_t>(std::int64_t{is_lowest ? -128 : 127});
    case DType::boolean:
      return is_lowest ? 0U : 1U;
    default:
      return real_bits(is_lowest ? -std::numeric_limits<double>::infinity()
                                 : std::numeric_limits<double>::infinity());
  }
}

// The value of the thread `distance` away.
std::string exchanged(std::string_view type, std::string_view value, std::string_view distance) {
  return type == "int64_t" ? fmt::format(
                                 "int64_t(packUint2x32(shuffle_xor(unpackUint2x32(uint64_t({})), "
                                 "{})))",
                                 value,
                                 distance)
                           : fmt::format("shuffle_xor({}, {})", value, distance);
}

// A butterfly: all threads receive the fold of x over all. The lower thread's value is the first
// operand.
std::string butterfly(FoldOp op, DType type, const std::string& width) {
  std::string step;
  if (op == FoldOp::max || op == FoldOp::min) {
    step = "const bool is_upper = (LANE_NUMBER & d) != 0u;\nx = " +
           glsl_fold_step(op, type, "(is_upper ? other : x)", "(is_upper ? x : other)") + ";\n";
  } else {
    step = "x = " + glsl_fold_step(op, type, "x", "other") + ";\n";
  }
  return fmt::format("UNROLLED for (uint d = 1u; d < {}; d <<= 1) {{\nconst {} other = {};\n{}}}\n",
                     width,
                     glsl_compute_type(type),
                     exchanged(glsl_compute_type(type), "x", "d"),
                     step);
}

}  // namespace

std::string glsl_fold_start(FoldOp op, DType type) {
  const Spelling& words = glsl_spelling();
  switch (op) {
    case FoldOp::max:
      return words.literal(type, end_of(type, true));
    case FoldOp::min:
      return words.literal(type, end_of(type, false));
    case FoldOp::prod:
      return words.literal(type, is_float(type) ? real_bits(1) : 1U);
    default:
      return words.literal(type, 0);
  }
}

std::string glsl_fold_step(FoldOp op, DType type, const std::string& a, const std::string& b) {
  if (type == DType::boolean) {
    return fmt::format("{} {} {}", a, op == FoldOp::max ? "||" : "&&", b);
  }
  switch (op) {
    case FoldOp::max:
      return fmt::format("{}_{}({}, {})", is_float(type) ? "top" : "max", name(type), a, b);
    case FoldOp::min:
      return fmt::format("{}_{}({}, {})", is_float(type) ? "bottom" : "min", name(type), a, b);
    default:
      break;
  }
  const char sign = op == FoldOp::prod ? '*' : '+';
  return type == DType::u8   ? fmt::format("({} {} {}) & 255u", a, sign, b)
         : type == DType::i8 ? fmt::format("(({} {} {}) << 24) >> 24", a, sign, b)
                             : fmt::format("{} {} {}", a, sign, b);
}

std::string glsl_long_sum(std::string_view type) {
  return fmt::format(R"(
FN void add_long(IN_OUT({0}) sum, IN_OUT({0}) lost, {0} x) {{
  precise {0} total = sum + x;
  precise {0} moved = total - sum;
  precise {0} rest = total - moved;
  precise {0} of_sum = sum - rest;
  precise {0} of_x = x - moved;
  precise {0} all_lost = lost + (of_sum + of_x);
  sum = total;
  lost = all_lost;
}}
FN {0} long_sum({0} sum, {0} lost) {{
  precise {0} total = sum + lost;
  return is_nan(total) ? sum : total;
}}
)",
                     type);
}

std::string glsl_adding(DType type) {
  return is_float(type) ? glsl_long_sum(glsl_compute_type(type)) +
                              "#define ADD add_long\n#define TOTAL long_sum\n"
                        : "#define ADD(sum, lost, x) sum += x\n#define TOTAL(sum, lost) sum\n";
}

std::string glsl_joining(FoldOp op, DType type) {
  if (op == FoldOp::sum) {
    return glsl_adding(type) + "#define JOIN(sum, x) ((sum) + (x))\n";
  }
  const std::string step = glsl_fold_step(op, compute_type(type), "(sum)", "(x)");
  return fmt::format(
      "{0}#define JOIN(sum, x) ({1})\n#define ADD(sum, lost, x) sum = {1}\n"
      "#define TOTAL(sum, lost) sum\n",
      glsl_library(step),
      step);
}

std::string_view glsl_row_threads() noexcept {
  return R"(
FN bool has_full_subgroups() { return WARP_COUNT * WARP_SIZE == GROUP_SIZE; }
FN int row_thread() {
  return has_full_subgroups() ? int(WARP_NUMBER * WARP_SIZE + LANE_NUMBER)
                              : int(THREAD);
}
FN int row_width(int lanes) { return has_full_subgroups() ? min(lanes, int(WARP_SIZE)) : 1; }
)";
}

std::string glsl_of_lane(std::string_view type) {
  return fmt::format(
      "FN {0} of_lane({0} x, uint bits) {{\nreturn {1};\n}}\n", type, exchanged(type, "x", "bits"));
}

std::string glsl_join_name(FoldOp op, DType type) {
  const FoldOp held = op == FoldOp::mean ? FoldOp::sum : op;
  return fmt::format("join_{}_{}", name(held), name(type));
}

std::string glsl_join(FoldOp op, DType type, int row_threads, int threads) {
  const std::string_view held = glsl_compute_type(type);
  const std::string join = glsl_join_name(op, type);
  const std::string part = fmt::format("{}_parts[i]", join);
  // Without full subgroups, one thread's value after another.
  std::string text = fmt::format(
      "SHARED({0}, {1}_parts, {2});\n"
      "FN {0} {1}({0} x) {{\n"
      "if (!has_full_subgroups()) {{\n"
      "const uint first = uint(THREAD) / {3}u * {3}u;\n"
      "barrier();\n"
      "{1}_parts[THREAD] = x;\n"
      "barrier();\n"
      "x = {1}_parts[first];\n"
      "for (uint i = first + 1u; i < first + {3}u; ++i) {{\nx = {4};\n}}\n"
      "return x;\n}}\n",
      held,
      join,
      threads,
      row_threads,
      glsl_fold_step(op, type, "x", part));
  if (row_threads < threads) {
    return text + butterfly(op, type, fmt::format("{}u", row_threads)) + "return x;\n}\n";
  }
  // Folds within subgroups, then each subgroup folds the results of all.
  return text + fmt::format(
                    "{0}"
                    "if (WARP_COUNT > 1u) {{\n"
                    "barrier();\n"
                    "if (LANE_NUMBER == 0u) {{\n{1}_parts[WARP_NUMBER] = x;\n}}\n"
                    "barrier();\n"
                    "x = {2};\n"
                    "for (uint i = LANE_NUMBER; i < WARP_COUNT; i += "
                    "WARP_SIZE) {{\nx = {3};\n}}\n"
                    "{0}"
                    "}}\n"
                    "return x;\n}}\n",
                    butterfly(op, type, "WARP_SIZE"),
                    join,
                    glsl_fold_start(op, type),
                    glsl_fold_step(op, type, "x", part));
}

}  // namespace hearth::gpu
