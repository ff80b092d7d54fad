#include <hearth/streams/kernel/kernel_interpreter.hpp>

#include "kernel_scalar.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace hearth {
namespace {

using detail::KernelScalar;
using Index = std::array<std::int64_t, kMaxRank>;

Error misfit(std::string text) {
  return {.code = ErrorCode::invalid_argument, .text = "kernel: " + std::move(text)};
}

class Interpreter {
 public:
  Interpreter(const KernelIR& kernel, const KernelArguments& arguments)
      : kernel_(kernel),
        arguments_(arguments),
        values_(static_cast<std::size_t>(kernel.node_count())) {}

  // Phases: see that the arguments fit; work every result out; store them.
  Status run() {
    HEARTH_TRY_STATUS(check_counts());
    for (const std::int32_t symbol : kernel_.extents) {
      space_.push_back(arguments_.extents[static_cast<std::size_t>(symbol)]);
    }
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      HEARTH_TRY_STATUS(check_input(i));
    }
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      HEARTH_TRY_STATUS(check_output(i));
    }
    results_.resize(kernel_.outputs.size());
    Index index{};
    HEARTH_TRY_STATUS(visit(index, 0, false, [&] { return compute(index); }));
    return store_results();
  }

 private:
  // ---- arguments ----

  [[nodiscard]] Status check_counts() const {
    const auto check = [](std::string_view what, std::size_t wanted, std::size_t given) {
      return wanted == given ? Status()
                             : misfit(fmt::format("{} {}, {} given", wanted, what, given));
    };
    std::int32_t symbols = 0;
    for (const std::int32_t symbol : kernel_.extents) {
      symbols = std::max(symbols, symbol + 1);
    }
    HEARTH_TRY_STATUS(
        check("extents", static_cast<std::size_t>(symbols), arguments_.extents.size()));
    HEARTH_TRY_STATUS(check("inputs", kernel_.inputs.size(), arguments_.inputs.size()));
    HEARTH_TRY_STATUS(check("outputs", kernel_.outputs.size(), arguments_.outputs.size()));
    HEARTH_TRY_STATUS(check("parameters", kernel_.parameters.size(), arguments_.parameters.size()));
    for (const std::int64_t extent : arguments_.extents) {
      if (extent < 0) {
        return misfit(fmt::format("an extent of {}", extent));
      }
    }
    return {};
  }

  // The least and greatest that a term can be; its axis has elements.
  [[nodiscard]] std::array<std::int64_t, 2> range_of(const IndexTerm& term) const {
    std::int64_t most = (space_[static_cast<std::size_t>(term.axis)] - 1) / term.divisor;
    most = term.modulus == 0 ? most : std::min(most, term.modulus - 1);
    return {std::min<std::int64_t>(0, term.step * most),
            std::max<std::int64_t>(0, term.step * most)};
  }

  [[nodiscard]] Status check_input(std::size_t i) const {
    const std::vector<AffineIndex>& map = kernel_.inputs[i].map;
    const Shape& shape = arguments_.inputs[i].layout.shape;
    if (static_cast<std::size_t>(shape.rank()) != map.size()) {
      return misfit(fmt::format("input {} has {} axes, its map {}", i, shape.rank(), map.size()));
    }
    for (const AffineIndex& index : map) {  // without iterations nothing is read
      for (const IndexTerm& term : index.terms) {
        if (space_[static_cast<std::size_t>(term.axis)] == 0) {
          return {};
        }
      }
    }
    for (std::size_t axis = 0; axis < map.size(); ++axis) {
      std::int64_t least = map[axis].start;
      std::int64_t most = map[axis].start;
      for (const IndexTerm& term : map[axis].terms) {
        least += range_of(term)[0];
        most += range_of(term)[1];
      }
      const std::int64_t size = shape[static_cast<int>(axis)];
      if ((least < 0 || most >= size) && has_iterations()) {
        return misfit(fmt::format("input {} is read from {} to {} along axis {} of {}",
                                  i,
                                  least,
                                  most,
                                  axis,
                                  shape.to_string()));
      }
    }
    return {};
  }

  [[nodiscard]] bool has_iterations() const {
    for (int axis = 0; axis < kernel_.axis_count(); ++axis) {
      if (!kernel_.is_reduced(axis) && space_[static_cast<std::size_t>(axis)] == 0) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] Status check_output(std::size_t i) const {
    const std::vector<AffineIndex>& map = kernel_.outputs[i].map;
    Shape wanted;
    for (const AffineIndex& index : map) {
      wanted.push_back(space_[static_cast<std::size_t>(index.terms[0].axis)]);
    }
    const Shape& shape = arguments_.outputs[i].layout.shape;
    return shape == wanted ? Status()
                           : misfit(fmt::format("output {} is {}, the kernel writes {}",
                                                i,
                                                shape.to_string(),
                                                wanted.to_string()));
  }

  // ---- loops ----

  /// Calls fn for every index of the reduced axes, or of the others, in row-major order.
  template <class Fn>
  Status visit(Index& index, int axis, bool reduced, const Fn& fn) {
    while (axis < kernel_.axis_count() && kernel_.is_reduced(axis) != reduced) {
      ++axis;
    }
    if (axis == kernel_.axis_count()) {
      return fn();
    }
    const auto i = static_cast<std::size_t>(axis);
    for (index[i] = 0; index[i] < space_[i]; ++index[i]) {
      HEARTH_TRY_STATUS(visit(index, axis + 1, reduced, fn));
    }
    index[i] = 0;
    return {};
  }

  Status compute(Index& index) {
    if (!kernel_.reduce.has_value()) {
      HEARTH_TRY_STATUS(evaluate_section(kernel_.body, 0, index, place_in(index, false)));
    } else {
      HEARTH_TRY_STATUS(reduce(index));
      HEARTH_TRY_STATUS(evaluate_section(
          kernel_.reduce->after, kernel_.body.size(), index, place_in(index, true)));
    }
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      results_[i].push_back(values_[static_cast<std::size_t>(kernel_.outputs[i].value)]);
    }
    return {};
  }

  Status reduce(Index& index) {
    const std::vector<Reduction>& reductions = kernel_.reduce->reductions;
    reduced_.clear();
    for (const Reduction& each : reductions) {
      reduced_.push_back(detail::identity(each.op, kernel_.node(each.value).type));
    }
    const auto add_element = [&]() -> Status {
      HEARTH_TRY_STATUS(evaluate_section(kernel_.body, 0, index, place_in(index, false)));
      for (std::size_t i = 0; i < reductions.size(); ++i) {
        const auto value = static_cast<std::size_t>(reductions[i].value);
        reduced_[i] = detail::accumulated(
            reductions[i].op, kernel_.body[value].type, reduced_[i], values_[value]);
      }
      return {};
    };
    HEARTH_TRY_STATUS(visit(index, 0, true, add_element));
    for (std::size_t i = 0; i < reductions.size(); ++i) {
      const DType type = kernel_.node(reductions[i].value).type;
      reduced_[i].real = detail::rounded(reduced_[i].real, type);
    }
    return {};
  }

  /// The row-major place in the whole space, or in that of the axes that stay.
  [[nodiscard]] std::int64_t place_in(const Index& index, bool without_reduced) const {
    std::int64_t place = 0;
    for (int axis = 0; axis < kernel_.axis_count(); ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      place = without_reduced && kernel_.is_reduced(axis) ? place : place * space_[i] + index[i];
    }
    return place;
  }

  // ---- nodes ----

  Status evaluate_section(const std::vector<KernelNode>& nodes,
                          std::size_t first,
                          const Index& index,
                          std::int64_t place) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const KernelNode& node = nodes[i];
      if (operand_count(node.primitive) == 0) {
        values_[first + i] = leaf(node, index, place);
      } else {
        HEARTH_TRY_STATUS(evaluate_node(node, first + i, place));
      }
    }
    return {};
  }

  [[nodiscard]] KernelScalar leaf(const KernelNode& node,
                                  const Index& index,
                                  std::int64_t place) const {
    const auto number = static_cast<std::size_t>(node.number);
    switch (node.primitive) {
      case Primitive::input:
        return load_input(number, index);
      case Primitive::parameter:
        return detail::parameter(arguments_.parameters[number], node.type);
      case Primitive::index:
        return {.integer = index[number]};
      case Primitive::position:
        return {.integer = place};
      case Primitive::reduced:
        return reduced_[number];
      default:
        return detail::constant(node);
    }
  }

  [[nodiscard]] KernelScalar load_input(std::size_t number, const Index& index) const {
    const KernelInput& input = kernel_.inputs[number];
    const KernelTensor& tensor = arguments_.inputs[number];
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < input.map.size(); ++axis) {
      offset += tensor.layout.strides[axis] * input.map[axis].at(index);
    }
    return detail::load(tensor.data + offset * size_bytes(input.dtype), input.dtype);
  }

  Status evaluate_node(const KernelNode& node, std::size_t place, std::int64_t element) {
    const auto count = static_cast<std::size_t>(operand_count(node.primitive));
    std::array<KernelScalar, 3> operands;
    for (std::size_t i = 0; i < count; ++i) {
      operands[i] = values_[static_cast<std::size_t>(node.operands[i])];
    }
    const bool is_select = node.primitive == Primitive::select;
    const DType type = kernel_.node(node.operands[is_select ? 1 : 0]).type;
    if (node.primitive == Primitive::convert) {
      values_[place] = detail::converted(operands[0], type, node.type);
      return {};
    }
    if (const char* why = detail::why_undefined(node.primitive, type, operands[0], operands[1])) {
      return Error{.code = ErrorCode::kernel_failed,
                   .text = fmt::format("kernel: node %{} {}: {} at element {}: {} and {}",
                                       place,
                                       name(node.primitive),
                                       why,
                                       element,
                                       operands[0].integer,
                                       operands[1].integer)};
    }
    values_[place] = detail::evaluate(node.primitive, type, std::span(operands).first(count));
    return {};
  }

  // The results lie in the order of the axes that stay; an output's map may have another.
  Status store_results() {
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const KernelOutput& output = kernel_.outputs[i];
      const KernelTensor& tensor = arguments_.outputs[i];
      std::size_t next = 0;
      Index index{};
      HEARTH_TRY_STATUS(visit(index, 0, false, [&]() -> Status {
        std::int64_t offset = 0;
        for (std::size_t axis = 0; axis < output.map.size(); ++axis) {
          offset += tensor.layout.strides[axis] * output.map[axis].at(index);
        }
        detail::store(
            tensor.data + offset * size_bytes(output.dtype), results_[i][next++], output.dtype);
        return {};
      }));
    }
    return {};
  }

  const KernelIR& kernel_;
  const KernelArguments& arguments_;
  std::vector<std::int64_t> space_ = {};                 ///< Sizes, by axis.
  std::vector<KernelScalar> values_;                     ///< By node, of the current element.
  std::vector<KernelScalar> reduced_ = {};               ///< By reduction, of the current result.
  std::vector<std::vector<KernelScalar>> results_ = {};  ///< By output, in row-major order.
};

}  // namespace

Status interpret(const KernelIR& kernel, const KernelArguments& arguments) {
  return Interpreter(kernel, arguments).run();
}

}  // namespace hearth
