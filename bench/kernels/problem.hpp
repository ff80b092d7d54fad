// A problem: one kernel call as text, "matmul m=32 n=4096 k=4096 b=transposed". Suites are tables
// of such texts, and the options of `hearth-bench op` are the same words.
// Values without memory. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_kind.hpp>
#include <hearth/streams/op_record.hpp>
#include <hearth/streams/op_table.hpp>

#include "tests/support/tolerance.hpp"

namespace hearth {
struct CustomCode;
}

namespace hearth::bench {

struct OperandSpec {
  DType dtype = DType::f32;
  Shape shape = {};
  /// Whether the last two axes lie in memory in the other order.
  bool is_transposed = false;
  std::int64_t most = 0;  ///< Inputs of positions: they are below this. 0: any values.
};

struct Problem {
  OpKind kind = OpKind::matmul;
  std::string text = {};
  std::vector<OperandSpec> inputs = {};
  std::vector<OperandSpec> outputs = {};
  std::vector<std::byte> attributes = {};  ///< The struct of op_attributes.hpp.
  std::vector<double> numbers = {};        ///< Numbers of a custom kernel.
  std::uint16_t flags = 0;
  ExpressionRef expression = {};  ///< Set for kind `expression`.
  const CustomCode* custom = nullptr;
  /// Function of the result; its inputs beyond the first are `epilogue_inputs`.
  ExpressionRef epilogue = {};
  std::vector<OperandSpec> epilogue_inputs = {};
  /// Allowed difference from the reference.
  testing::Precision precision = testing::Precision::exact;
  double length = 1;  ///< Terms of a sum.
  OpCost cost = {};

  /// Fills the record and the blob, which live as long as the problem.
  [[nodiscard]] OpRecord record() const;
  [[nodiscard]] std::vector<std::byte> blob() const;
};

/// Makes a problem. A list of numbers, as "m=1,8,64" or "m=1..64*2", makes one problem for each; of
/// several lists, one for each combination.
///
/// Errors: invalid_argument for unknown kinds and words, with the nearest ones; shape and dtype
/// errors of the op's rule.
[[nodiscard]] Result<std::vector<Problem>> parse_problems(std::string_view text);

struct ProblemWord {
  std::string_view name;
  std::string_view initial;  ///< Empty: the word is required.
  std::string_view meaning;
};
/// Returns the names of all kinds that problems may have.
[[nodiscard]] std::vector<std::string> problem_kinds();
/// Returns the words of a kind.
///
/// Errors: invalid_argument for an unknown kind, with the nearest one.
[[nodiscard]] Result<std::vector<ProblemWord>> problem_words(std::string_view kind);

/// Parses "f32".
///
/// Errors: invalid_argument, with all types.
[[nodiscard]] Result<DType> parse_dtype(std::string_view text);
/// Parses "32x512x1024".
///
/// Errors: invalid_argument.
[[nodiscard]] Result<Shape> parse_sizes(std::string_view text);
/// Parses "32".
///
/// Errors: invalid_argument, naming `what`.
[[nodiscard]] Result<double> parse_number(std::string_view what, std::string_view text);

}  // namespace hearth::bench
