#include "tile_wrapped.hpp"

#include <array>
#include <cstddef>

namespace hearth::cpu {

namespace {

class WrappedMatcher {
 public:
  WrappedMatcher(const KernelIR& kernel,
                 const std::vector<bool>& is_cell,
                 const std::vector<int>& use_count)
      : kernel_(kernel), is_cell_(is_cell), use_count_(use_count) {}

  // Matches from the end back to the function, then the operand before it.
  std::optional<WrappedMatch> run(std::int32_t node) {
    if (kernel_.node(node).type != DType::f32 || is_cell(node)) {
      return std::nullopt;
    }
    const std::int32_t place = take_sum(take_product(take_scale(node)));
    if (!is_function(place) || (place != node && !is_own(place))) {
      return std::nullopt;
    }
    match_.function = function_of(place);
    match_.function_node = place;
    take_before(kernel_.node(place).operands[0]);
    const WrappedParts& parts = match_.parts;
    if (parts.before == WrappedBefore::nothing && !parts.has_sum && !parts.has_y &&
        !parts.has_factor) {
      return std::nullopt;
    }
    match_.operands = {x_};
    for (const std::int32_t operand : {before_, sum_, y_, factor_}) {
      if (operand != kNoNode) {
        match_.operands.push_back(operand);
      }
    }
    return match_;
  }

 private:
  [[nodiscard]] bool is_cell(std::int32_t node) const {
    return is_cell_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] Primitive primitive(std::int32_t node) const {
    return kernel_.node(node).primitive;
  }
  [[nodiscard]] bool is_own(std::int32_t node) const {
    return !is_cell(node) && use_count_[static_cast<std::size_t>(node)] == 1;
  }
  [[nodiscard]] bool is_function(std::int32_t node) const {
    return primitive(node) == Primitive::exp || primitive(node) == Primitive::erf;
  }
  [[nodiscard]] OpKind function_of(std::int32_t node) const {
    return primitive(node) == Primitive::exp ? OpKind::exp : OpKind::erf;
  }

  // Whether the node is the function itself, or its sum with a cell.
  [[nodiscard]] bool leads_to_function(std::int32_t node) const {
    if (!is_own(node) || is_function(node)) {
      return is_own(node);
    }
    if (primitive(node) != Primitive::add) {
      return false;
    }
    const auto& [a, b, none] = kernel_.node(node).operands;
    return (is_cell(a) && is_own(b) && is_function(b)) ||
           (is_cell(b) && is_own(a) && is_function(a));
  }
  [[nodiscard]] bool is_product_of_function(std::int32_t node) const {
    const auto& [a, b, none] = kernel_.node(node).operands;
    return primitive(node) == Primitive::mul && !is_cell(a) && !is_cell(b) && a != b &&
           (leads_to_function(a) || leads_to_function(b));
  }

  std::int32_t take_scale(std::int32_t node) {
    const auto& [a, b, none] = kernel_.node(node).operands;
    const bool is_quotient = primitive(node) == Primitive::div && is_cell(b);
    if (!is_quotient && (primitive(node) != Primitive::mul || is_cell(a) == is_cell(b))) {
      return node;
    }
    const std::int32_t rest = is_cell(b) ? a : b;
    if (!is_own(rest) || !(leads_to_function(rest) || is_product_of_function(rest))) {
      return node;
    }
    match_.parts.has_factor = true;
    match_.parts.is_divisor = is_quotient;
    factor_ = is_cell(b) ? b : a;
    return rest;
  }

  std::int32_t take_product(std::int32_t node) {
    if (!is_product_of_function(node)) {
      return node;
    }
    const auto& [a, b, none] = kernel_.node(node).operands;
    match_.parts.has_y = true;
    y_ = leads_to_function(b) ? a : b;
    return leads_to_function(b) ? b : a;
  }

  std::int32_t take_sum(std::int32_t node) {
    if (primitive(node) != Primitive::add) {
      return node;
    }
    const auto& [a, b, none] = kernel_.node(node).operands;
    const std::int32_t rest = is_cell(b) ? a : b;
    if (is_cell(a) == is_cell(b) || !is_own(rest) || !is_function(rest)) {
      return node;
    }
    match_.parts.has_sum = true;
    sum_ = is_cell(b) ? b : a;
    return rest;
  }

  void take_before(std::int32_t node) {
    x_ = node;
    if (!is_own(node)) {
      return;
    }
    const auto& [a, b, none] = kernel_.node(node).operands;
    if (primitive(node) == Primitive::sub) {
      match_.parts.before = WrappedBefore::difference;
    } else if (primitive(node) == Primitive::div && is_cell(b)) {
      match_.parts.before = WrappedBefore::quotient;
    } else if (primitive(node) == Primitive::mul && is_cell(a) != is_cell(b)) {
      match_.parts.before = WrappedBefore::factor;
    } else {
      return;
    }
    const bool is_swapped = primitive(node) == Primitive::mul && is_cell(a);
    x_ = is_swapped ? b : a;
    before_ = is_swapped ? a : b;
  }

  const KernelIR& kernel_;
  const std::vector<bool>& is_cell_;
  const std::vector<int>& use_count_;
  WrappedMatch match_ = {};
  std::int32_t x_ = kNoNode;
  std::int32_t before_ = kNoNode;
  std::int32_t sum_ = kNoNode;
  std::int32_t y_ = kNoNode;
  std::int32_t factor_ = kNoNode;
};

}  // namespace

std::optional<WrappedMatch> match_wrapped(const KernelIR& kernel,
                                          std::int32_t node,
                                          const std::vector<bool>& is_cell,
                                          const std::vector<int>& use_count) {
  return WrappedMatcher(kernel, is_cell, use_count).run(node);
}

}  // namespace hearth::cpu
