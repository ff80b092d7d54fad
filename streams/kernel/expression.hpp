// Expressions: elementwise functions that a program captured, as pointwise kernels with a name. An
// op of kind `expression` names one by its number in its runtime's table. Made by
// runtime/ops/capture; traces keep them. Immutable values, shared. Threads: any.
// Invariants of one that make_expression() took: (1) its kernel passed the verifier, is pointwise,
// and no index or random word is in it; (2) its operands are within the limits of the op table.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/interner.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_record.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth {

struct Expression;
using ExpressionRef = std::shared_ptr<const Expression>;

/// How the gradient of an expression's first result becomes that of one of its inputs.
struct ExpressionGradient {
  ExpressionRef expression;                ///< Null: that input has none.
  std::vector<std::uint8_t> inputs = {};   ///< What it takes: inputs; their number: the gradient.
  std::vector<std::uint8_t> scalars = {};  ///< And parameters.
};

struct Expression {
  std::string name;  ///< What errors and traces call it.
  KernelIR kernel;
  std::uint64_t hash = 0;  ///< hash(kernel).
  /// Name, kernel and gradients: equal expressions have equal texts.
  std::string text;
  std::uint64_t text_hash = 0;
  std::uint32_t flops = 0;  ///< For each element, as op_cost counts them.
  bool may_fail = false;    ///< While it runs: where it divides integers, or takes powers of them.
  /// For each input. Empty where the expression has no gradient.
  std::vector<ExpressionGradient> gradients = {};
};

/// Errors: invalid_argument when the invariants do not hold.
[[nodiscard]] Result<ExpressionRef> make_expression(std::string name,
                                                    KernelIR kernel,
                                                    std::vector<ExpressionGradient> gradients = {});

/// The parameters of a kernel from their bytes, 8 each, as the blob of an op has them.
void read_parameters(std::span<const DType> types,
                     std::span<const std::byte> bytes,
                     std::span<ScalarAttributes> parameters) noexcept;

/// The parameters of an op, in the order of its kernel's.
class ExpressionParameters final {
 public:
  /// Requires an op of this expression.
  ExpressionParameters(const OpView& op, const Expression& expression) noexcept;
  [[nodiscard]] std::span<const ScalarAttributes> all() const noexcept {
    return {values_.data(), count_};
  }

 private:
  std::array<ScalarAttributes, kMostExpressionParameters> values_;
  std::size_t count_;
};

/// The shape of the results: that to which the inputs broadcast. Errors: shape_mismatch,
/// dtype_mismatch, invalid_argument, naming the expression.
[[nodiscard]] Result<Shape> expression_shape(const Expression& expression,
                                             std::span<const TensorSpec> inputs);

namespace detail {
struct ExpressionPolicy {
  using Id = ExprId;
  using Key = ExpressionRef;
  using Entry = ExpressionRef;
  static std::uint64_t hash(const ExpressionRef& expression) noexcept {
    return expression->text_hash;
  }
  static bool equal(const ExpressionRef& entry, const ExpressionRef& expression) noexcept {
    return entry == expression || entry->text == expression->text;
  }
  static ExpressionRef make(const ExpressionRef& expression) { return expression; }
  static Error full(std::uint32_t cap);
};
}  // namespace detail

/// The expressions of one runtime as numbers. Cost of a known one: about 10 ns.
class ExpressionTable final {
 public:
  static constexpr std::uint32_t kDefaultCap = 1U << 16U;

  explicit ExpressionTable(std::uint32_t cap = kDefaultCap) : table_(cap) {}

  /// Errors: out_of_memory when the table is full.
  [[nodiscard]] Result<ExprId> intern(const ExpressionRef& expression) {
    return table_.intern(expression);
  }
  /// Valid as long as the table.
  [[nodiscard]] const Expression& operator[](ExprId id) const noexcept { return *table_[id]; }
  [[nodiscard]] const ExpressionRef& ref(ExprId id) const noexcept { return table_[id]; }
  [[nodiscard]] std::uint32_t size() const noexcept { return table_.size(); }

 private:
  detail::Interner<detail::ExpressionPolicy> table_;
};

}  // namespace hearth
