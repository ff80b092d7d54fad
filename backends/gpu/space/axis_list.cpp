#include "axis_list.hpp"

#include <fmt/format.h>

namespace hearth::gpu {

void AxisList::push(std::int64_t size, std::span<const std::int64_t> strides) noexcept {
  count_ *= size;
  axes_.append(size, [strides](std::size_t i) { return strides[i]; });
}

bool AxisList::steps_packs(int operand, std::int64_t pack) const noexcept {
  for (int axis = 0; axis < rank(); ++axis) {
    if (stride(axis, operand) % pack != 0) {
      return false;
    }
  }
  return true;
}

bool AxisList::has_packs(int operand, std::int64_t pack) const noexcept {
  if (rank() == 0 || inner_size() % pack != 0 || inner_stride(operand) != 1) {
    return false;
  }
  for (int axis = 0; axis < rank() - 1; ++axis) {
    if (stride(axis, operand) % pack != 0) {
      return false;
    }
  }
  return true;
}

void AxisList::add_to(ParameterBlock& parameters, bool wide) const noexcept {
  for (int axis = 0; axis < rank(); ++axis) {
    if (axis > 0 && wide) {
      parameters.add(size(axis));
    } else if (axis > 0) {
      const Divisor divisor(size(axis));
      parameters.add(static_cast<std::int32_t>(size(axis))).add(divisor.factor).add(divisor.shift);
    }
    for (int operand = 0; operand < operand_count(); ++operand) {
      add_index(parameters, wide, stride(axis, operand));
    }
  }
}

std::string AxisList::glsl_members(std::string_view name, bool wide) const {
  std::string text;
  for (int axis = 0; axis < rank(); ++axis) {
    if (axis > 0) {
      text += wide ? fmt::format("int64_t {}_n{}; ", name, axis)
                   : fmt::format("int {0}_n{1}; uint {0}_m{1}; uint {0}_h{1}; ", name, axis);
    }
    for (int operand = 0; operand < operand_count(); ++operand) {
      text += fmt::format("INDEX {}_s{}_{}; ", name, axis, operand);
    }
  }
  return text;
}

std::string AxisList::glsl_places(std::string_view name, bool wide) const {
  std::string outs;
  std::string body;
  for (int operand = 0; operand < operand_count(); ++operand) {
    outs += fmt::format(", OUT(INDEX) o{}", operand);
    body += fmt::format("  o{} = INDEX(0);\n", operand);
  }
  for (int axis = rank() - 1; axis >= 0; --axis) {
    if (axis > 0) {
      body +=
          wide ? fmt::format("  INDEX q{1} = i / p.{0}_n{1};\n", name, axis)
               : fmt::format(
                     "  INDEX q{1} = int(divide(uint(i), p.{0}_m{1}, p.{0}_h{1}));\n", name, axis);
      body += fmt::format("  INDEX r{1} = i - q{1} * p.{0}_n{1};\n  i = q{1};\n", name, axis);
    } else {
      body += "  INDEX r0 = i;\n";
    }
    for (int operand = 0; operand < operand_count(); ++operand) {
      body += fmt::format("  o{1} += r{2} * p.{0}_s{2}_{1};\n", name, operand, axis);
    }
  }
  return fmt::format("FN void {}_places(INDEX i{}) {{\n{}}}\n", name, outs, body);
}

}  // namespace hearth::gpu
