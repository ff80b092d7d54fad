#include "merged_space.hpp"

#include <fmt/format.h>

namespace hearth::gpu {

int MergedSpace::widen(std::size_t moved, int element_bytes, std::uint64_t bits) noexcept {
  constexpr std::uint64_t kMostBytes = 16;
  const std::size_t last = at(rank - 1);
  bits |= kMostBytes | static_cast<std::uint64_t>(inner_size() * element_bytes);
  for (std::size_t i = 0; i < operand_count; ++i) {
    if (inner_stride(i) != (i < moved ? 1 : 0)) {
      return element_bytes;
    }
    for (std::size_t axis = 0; i < moved && axis < last; ++axis) {
      bits |= static_cast<std::uint64_t>(stride[i][axis] * element_bytes);
    }
  }
  const auto unit = static_cast<int>(bits & (~bits + 1));
  const std::int64_t factor = unit / element_bytes;
  if (factor <= 1) {
    return element_bytes;
  }
  element_count /= factor;
  size[last] /= factor;
  for (std::size_t i = 0; i < moved; ++i) {
    for (std::size_t axis = 0; axis < last; ++axis) {
      stride[i][axis] /= factor;
    }
  }
  return unit;
}

void add_walk(ParameterBlock& block, const MergedSpace& space, std::size_t operands, bool wide) {
  const auto rank = static_cast<std::size_t>(space.rank);
  for (std::size_t axis = 1; axis < rank; ++axis) {
    add_index(block, space.size[axis], wide);
  }
  for (std::size_t i = 0; i < operands; ++i) {
    add_index(block, space.reach_down(i), wide);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      add_index(block, space.stride[i][axis], wide);
    }
  }
}

std::string glsl_walk_members(int rank, std::string_view operands) {
  std::string text;
  for (int axis = 1; axis < rank; ++axis) {
    text += fmt::format("INDEX size{}; ", axis);
  }
  for (const char operand : operands) {
    text += fmt::format("INDEX {}_start; ", operand);
    for (int axis = 0; axis < rank; ++axis) {
      text += fmt::format("INDEX {}{}; ", operand, axis);
    }
  }
  return text;
}

std::string glsl_walk(int rank, std::string_view operands) {
  std::string text = "FN void walk(INDEX i";
  std::string begin;
  std::string end;
  for (const char operand : operands) {
    text += fmt::format(", OUT(INDEX) {}", operand);
    begin += fmt::format("  {0} = p.{0}_start;\n", operand);
    end += fmt::format("  {0} += i * p.{0}0;\n", operand);
  }
  text += ") {\n" + begin;
  for (int axis = rank - 1; axis > 0; --axis) {
    text += fmt::format(
        "  {{\n    const INDEX rest = INDEX(UINDEX(i) / UINDEX(p.size{0}));\n"
        "    const INDEX at = i - rest * p.size{0};\n",
        axis);
    for (const char operand : operands) {
      text += fmt::format("    {0} += at * p.{0}{1};\n", operand, axis);
    }
    text += "    i = rest;\n  }\n";
  }
  return text + end + "}\n";
}

std::string_view glsl_unit(int unit_bytes) noexcept {
  switch (unit_bytes) {
    case 1:
      return R"(
#define UNIT uint
#define LOAD_UNIT(address, i) uint(ELEMENT(Words8, address, i, 1l))
#define STORE_UNIT(address, i, value) ELEMENT(Words8, address, i, 1l) = uint8_t(value)
)";
    case 2:
      return R"(
#define UNIT uint
#define LOAD_UNIT(address, i) uint(ELEMENT(Words16, address, i, 2l))
#define STORE_UNIT(address, i, value) ELEMENT(Words16, address, i, 2l) = uint16_t(value)
)";
    case 4:
      return R"(
#define UNIT uint
#define LOAD_UNIT(address, i) ELEMENT(Words32u, address, i, 4l)
#define STORE_UNIT(address, i, value) ELEMENT(Words32u, address, i, 4l) = value
)";
    case 8:
      return R"(
#define UNIT uvec2
BUFFER(Words64v, uvec2, 8);
#define LOAD_UNIT(address, i) ELEMENT(Words64v, address, i, 8l)
#define STORE_UNIT(address, i, value) ELEMENT(Words64v, address, i, 8l) = value
)";
    default:
      return R"(
#define UNIT uvec4
BUFFER(Words128, uvec4, 16);
#define LOAD_UNIT(address, i) ELEMENT(Words128, address, i, 16l)
#define STORE_UNIT(address, i, value) ELEMENT(Words128, address, i, 16l) = value
)";
  }
}

}  // namespace hearth::gpu
