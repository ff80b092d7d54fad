// Expressions: captured elementwise functions, stored as named pointwise kernels. An op of kind
// `expression` names one by its number in its runtime's table. Made by runtime/ops/capture; traces
// store them. Immutable values, shared. Threads: any.
// Invariants of a result of make_expression(): (1) its kernel passed the verifier, is pointwise,
// and contains no index or random word; (2) its operands are within the limits of the op table.
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

/// Maps the gradient of an expression's first result to that of one of its inputs.
struct ExpressionGradient {
  ExpressionRef expression;  ///< Null: that input has no gradient.
  /// Inputs that it takes, by number; the input count stands for the incoming gradient.
  std::vector<std::uint8_t> inputs = {};
  std::vector<std::uint8_t> scalars = {};  ///< Parameters that it takes, by number.
};

struct Expression {
  std::string name;  ///< Name in errors and traces.
  KernelIR kernel;
  std::uint64_t hash = 0;  ///< hash(kernel).
  /// Name, kernel and gradients: equal expressions have equal texts.
  std::string text;
  std::uint64_t text_hash = 0;
  std::uint32_t flops = 0;  ///< Flops per element, as counted by op_cost.
  bool may_fail = false;    ///< Can fail at run time: divides integers, or takes powers of them.
  /// One for each input. Empty if the expression has no gradient.
  std::vector<ExpressionGradient> gradients = {};
};

/// Makes an expression.
///
/// Errors: invalid_argument if the invariants do not hold.
[[nodiscard]] Result<ExpressionRef> make_expression(std::string name,
                                                    KernelIR kernel,
                                                    std::vector<ExpressionGradient> gradients = {});

/// Reads the parameters of a kernel, 8 bytes each, as in the blob of an op.
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

/// Returns the shape of the results, to which the inputs broadcast.
///
/// Errors: shape_mismatch, dtype_mismatch, invalid_argument, naming the expression.
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

  /// Returns the number of an expression.
  ///
  /// Errors: out_of_memory if the table is full.
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
