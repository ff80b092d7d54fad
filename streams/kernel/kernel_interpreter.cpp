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
        rows_(static_cast<std::size_t>(kernel.node_count())) {}

  // Phases: check the arguments; compute every result; store them.
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
    stays_ = staying_nodes(kernel_);
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

  // Returns the least and greatest value of a term; its axis has elements.
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
      if (!kernel_.is_folded(axis) && space_[static_cast<std::size_t>(axis)] == 0) {
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

  /// Calls fn for every index of the folded axes, or of the others, in row-major order.
  template <class Fn>
  Status visit(Index& index, int axis, bool is_folded, const Fn& fn) {
    while (axis < kernel_.axis_count() && kernel_.is_folded(axis) != is_folded) {
      ++axis;
    }
    if (axis == kernel_.axis_count()) {
      return fn();
    }
    const auto i = static_cast<std::size_t>(axis);
    for (index[i] = 0; index[i] < space_[i]; ++index[i]) {
      HEARTH_TRY_STATUS(visit(index, axis + 1, is_folded, fn));
    }
    index[i] = 0;
    return {};
  }

  // Computes one row, node by node; without folded axes it is one element.
  Status compute(Index& index) {
    places_.clear();
    HEARTH_TRY_STATUS(visit(index, 0, true, [&]() -> Status {
      places_.push_back(index);
      return {};
    }));
    for (std::size_t i = 0; i < kernel_.body.size(); ++i) {
      HEARTH_TRY_STATUS(evaluate_row(i, index));
    }
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const std::vector<KernelScalar>& row =
          rows_[static_cast<std::size_t>(kernel_.outputs[i].value)];
      results_[i].insert(results_[i].end(), row.begin(), row.end());
    }
    return {};
  }

  /// Returns the row-major position in the space.
  [[nodiscard]] std::int64_t place_of(const Index& index) const {
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < space_.size(); ++axis) {
      place = place * space_[axis] + index[axis];
    }
    return place;
  }

  // ---- nodes ----

  Status evaluate_row(std::size_t i, const Index& first) {
    const KernelNode& node = kernel_.body[i];
    std::vector<KernelScalar>& row = rows_[i];
    if (node.primitive == Primitive::fold) {
      row.assign(1,
                 detail::folded(static_cast<FoldOp>(node.number), node.type, operand_row(node, 0)));
      return {};
    }
    if (is_row_function(node.primitive)) {
      make_row(node, row);
      return {};
    }
    row.clear();
    if (stays_[i]) {
      HEARTH_TRY(const KernelScalar value, evaluate(i, 0, first));
      row.push_back(value);
      return {};
    }
    for (std::size_t element = 0; element < places_.size(); ++element) {
      HEARTH_TRY(const KernelScalar value, evaluate(i, element, places_[element]));
      row.push_back(value);
    }
    return {};
  }

  [[nodiscard]] const std::vector<KernelScalar>& operand_row(const KernelNode& node,
                                                             std::size_t operand) const {
    return rows_[static_cast<std::size_t>(node.operands[operand])];
  }

  void make_row(const KernelNode& node, std::vector<KernelScalar>& row) const {
    row = operand_row(node, 0);
    const bool is_log = node.primitive == Primitive::log_softmax ||
                        node.primitive == Primitive::log_softmax_backward;
    if (operand_count(node.primitive) == 1) {
      detail::make_softmax(is_log, node.type, row);
    } else {
      detail::make_softmax_gradient(is_log, node.type, row, operand_row(node, 1));
    }
  }

  Result<KernelScalar> evaluate(std::size_t i, std::size_t element, const Index& index) const {
    const KernelNode& node = kernel_.body[i];
    return operand_count(node.primitive) == 0 ? leaf(node, index)
                                              : evaluate_node(node, i, element, place_of(index));
  }

  [[nodiscard]] KernelScalar leaf(const KernelNode& node, const Index& index) const {
    const auto number = static_cast<std::size_t>(node.number);
    switch (node.primitive) {
      case Primitive::input:
        return load_input(number, index);
      case Primitive::parameter:
        return detail::parameter(arguments_.parameters[number], node.type);
      case Primitive::index:
        return {.integer = index[number]};
      case Primitive::position:
        return {.integer = place_of(index)};
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

  Result<KernelScalar> evaluate_node(const KernelNode& node,
                                     std::size_t place,
                                     std::size_t element,
                                     std::int64_t at) const {
    const auto count = static_cast<std::size_t>(operand_count(node.primitive));
    std::array<KernelScalar, 3> operands;
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<KernelScalar>& row = operand_row(node, i);
      operands[i] = row[row.size() == 1 ? 0 : element];
    }
    const bool is_select = node.primitive == Primitive::select;
    const DType type = kernel_.node(node.operands[is_select ? 1 : 0]).type;
    if (node.primitive == Primitive::convert) {
      return detail::converted(operands[0], type, node.type);
    }
    if (const char* why = detail::why_undefined(node.primitive, type, operands[0], operands[1])) {
      return Error{.code = ErrorCode::kernel_failed,
                   .text = fmt::format("kernel: node %{} {}: {} at element {}: {} and {}",
                                       place,
                                       name(node.primitive),
                                       why,
                                       at,
                                       operands[0].integer,
                                       operands[1].integer)};
    }
    return detail::evaluate(node.primitive, type, std::span(operands).first(count));
  }

  // The results are ordered by the remaining axes, then by those of a row; an output's map may
  // differ.
  Status store_results() {
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const KernelOutput& output = kernel_.outputs[i];
      const KernelTensor& tensor = arguments_.outputs[i];
      const bool stays = stays_[static_cast<std::size_t>(output.value)];
      std::size_t next = 0;
      Index index{};
      const auto store = [&]() -> Status {
        std::int64_t offset = 0;
        for (std::size_t axis = 0; axis < output.map.size(); ++axis) {
          offset += tensor.layout.strides[axis] * output.map[axis].at(index);
        }
        detail::store(
            tensor.data + offset * size_bytes(output.dtype), results_[i][next++], output.dtype);
        return {};
      };
      HEARTH_TRY_STATUS(visit(index, 0, false, [&]() -> Status {
        return stays ? store() : visit(index, 0, true, store);
      }));
    }
    return {};
  }

  const KernelIR& kernel_;
  const KernelArguments& arguments_;
  std::vector<std::int64_t> space_ = {};  ///< Sizes, by axis.
  std::vector<bool> stays_ = {};          ///< By node.
  std::vector<Index> places_ = {};        ///< Indices of the current row.
  /// By node: values of the current row, or its one value.
  std::vector<std::vector<KernelScalar>> rows_;
  std::vector<std::vector<KernelScalar>> results_ = {};  ///< By output, in row-major order.
};

}  // namespace

Status interpret(const KernelIR& kernel, const KernelArguments& arguments) {
  return Interpreter(kernel, arguments).run();
}

}  // namespace hearth
