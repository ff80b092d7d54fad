// Kernels of several ops as one tile program against the same ops run one by one on the CPU, to the
// bit. Also the other guarantees of a launch: in place, many sets, views, failures.
#include "tests/backends/cpu_levels.hpp"
#include "tests/backends/expression_runner.hpp"
#include "tests/backends/small_call.hpp"
#include "tests/streams/kernel/example_kernels.hpp"
#include "tests/support/run_call.hpp"

#include <hearth/backends/cpu/cpu_backend.hpp>
#include <hearth/streams/kernel/kernel_interpreter.hpp>
#include <hearth/streams/kernel/kernel_verifier.hpp>

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace hearth::cpu {
namespace {

using hearth::testing::SmallCall;
using hearth::testing::SmallTensor;

bool same_bits(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// ---- random chains ----

struct ChainValue {
  TensorView view;
  KernelValue value;
};

// A chain of random ops over one space: run as separate kernels, and built as one kernel.
class Chain {
 public:
  Chain(std::uint32_t seed, DType dtype, IsaLevel isa)
      : random_(seed), dtype_(dtype), backend_({.cores = {0}, .max_isa = isa}), runner_(isa) {
    const int rank = pick(1, 3);
    std::vector<std::int32_t> symbols;
    for (int axis = 0; axis < rank; ++axis) {
      shape_.push_back(std::array{
          1, 2, 3, 7, 16, 33, 131, 300}[static_cast<std::size_t>(pick(0, rank == 3 ? 5 : 7))]);
      symbols.push_back(axis);
    }
    builder_ = std::make_unique<KernelBuilder>(symbols);
  }

  void run() {
    const int input_count = pick(1, 3);
    for (int i = 0; i < input_count; ++i) {
      add_input();
    }
    const int op_count = pick(2, 8);
    for (int i = 0; i < op_count; ++i) {
      add_op();
      if (::testing::Test::HasFatalFailure()) {
        return;
      }
    }
    compare();
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  std::vector<double> numbers(std::int64_t count) {
    std::vector<double> values;
    std::uniform_real_distribution<double> real(-4, 4);
    for (std::int64_t i = 0; i < count; ++i) {
      const int special = pick(0, 60);
      values.push_back(!is_float(dtype_)
                           ? static_cast<double>(pick(dtype_ == DType::u8 ? 1 : -9, 9))
                       : special == 0 ? 0.0
                       : special == 1 ? -0.0
                       : special == 2 ? std::numeric_limits<double>::infinity()
                       : special == 3 ? std::numeric_limits<double>::quiet_NaN()
                                      : real(random_));
    }
    return values;
  }

  TensorView keep(DType dtype, const Shape& shape, const std::vector<double>& values = {}) {
    tensors_.push_back(std::make_unique<SmallTensor>(dtype, shape, values));
    return tensors_.back()->view();
  }

  // Some axes repeat, some are missing from the left, some are stored in reverse order.
  void add_input() {
    const int missing = pick(0, 3) == 0 ? pick(0, shape_.rank()) : 0;
    Shape shape;
    for (int axis = missing; axis < shape_.rank(); ++axis) {
      shape.push_back(pick(0, 4) == 0 ? 1 : shape_[axis]);
    }
    const TensorView dense = keep(dtype_,
                                  Shape{std::max<std::int64_t>(1, shape.element_count())},
                                  numbers(std::max<std::int64_t>(1, shape.element_count())));
    Strides strides = contiguous_strides(shape);
    if (pick(0, 2) == 0) {
      std::int64_t step = 1;
      for (int axis = 0; axis < shape.rank(); ++axis) {
        strides[static_cast<std::size_t>(axis)] = step;
        step *= shape[axis];
      }
    }
    layouts_.push_back(std::make_unique<hearth::detail::Layout>(shape, strides));
    std::vector<AffineIndex> map;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const int of_space = axis + missing;
      map.push_back(shape[axis] == shape_[of_space] ? hearth::testing::axis(of_space)
                                                    : AffineIndex{});
    }
    const TensorView view{dense.data, layouts_.back().get(), dtype_};
    inputs_.push_back(view);
    values_.push_back({view, builder_->input(dtype_, std::move(map))});
    text_ += "input " + describe(dtype_, shape) + "\n";
  }

  const ChainValue& any_value() {
    return values_[static_cast<std::size_t>(pick(0, static_cast<int>(values_.size()) - 1))];
  }

  void add_op() {
    static constexpr OpKind kFloats[] = {
        OpKind::neg,   OpKind::abs,     OpKind::exp,   OpKind::log,   OpKind::sqrt,
        OpKind::sin,   OpKind::cos,     OpKind::tanh,  OpKind::erf,   OpKind::sigmoid,
        OpKind::relu,  OpKind::dropout, OpKind::recip, OpKind::rsqrt, OpKind::square,
        OpKind::log1p, OpKind::expm1,   OpKind::add,   OpKind::sub,   OpKind::mul,
        OpKind::div,   OpKind::pow,     OpKind::min,   OpKind::max,   OpKind::relu_backward,
        OpKind::atan,  OpKind::atan2};
    static constexpr OpKind kIntegers[] = {OpKind::neg,
                                           OpKind::abs,
                                           OpKind::square,
                                           OpKind::add,
                                           OpKind::sub,
                                           OpKind::mul,
                                           OpKind::min,
                                           OpKind::max,
                                           OpKind::bitwise_and,
                                           OpKind::bitwise_or,
                                           OpKind::bitwise_xor,
                                           OpKind::shift_left,
                                           OpKind::shift_right};
    const OpKind kind =
        is_float(dtype_) ? kFloats[static_cast<std::size_t>(pick(0, std::size(kFloats) - 1))]
                         : kIntegers[static_cast<std::size_t>(pick(0, std::size(kIntegers) - 1))];
    if (pick(0, 7) == 0) {
      add_where();
      return;
    }
    if (is_float(dtype_) && pick(0, 5) == 0) {
      add_wrapped();
      return;
    }
    std::vector<ChainValue> operands{any_value()};
    const bool is_binary = op_info(kind).op_class == OpClass::binary;
    const bool has_immediate = is_binary && kind != OpKind::relu_backward && pick(0, 3) == 0;
    if (is_binary && !has_immediate) {
      operands.push_back(any_value());
    }
    add(kind, operands, dtype_, has_immediate);
  }

  void add_where() {
    const ChainValue a = any_value();
    const ChainValue b = any_value();
    const std::array kinds{OpKind::less, OpKind::equal, OpKind::not_equal, OpKind::greater_equal};
    add(kinds[static_cast<std::size_t>(pick(0, 3))], {a, b}, DType::boolean, false);
    const ChainValue condition = values_.back();
    values_.pop_back();
    add(OpKind::where, {condition, any_value(), any_value()}, dtype_, false);
  }

  // ((f(x ∘ number) + number) · y) · number, with random steps omitted.
  void add_wrapped() {
    constexpr std::array kBefore{OpKind::sub, OpKind::mul, OpKind::div};
    ChainValue value = any_value();
    const OpKind before = kBefore[static_cast<std::size_t>(pick(0, 2))];
    if (before == OpKind::sub && pick(0, 1) == 0) {
      value = step(before, {value, any_value()}, false);
    } else if (pick(0, 3) != 0) {
      value = step(before, {value}, true);
    }
    value = step(pick(0, 1) == 0 ? OpKind::exp : OpKind::erf, {value}, false);
    if (pick(0, 1) == 0) {
      value = step(OpKind::add, {value}, true);
    }
    if (pick(0, 3) != 0) {
      const ChainValue y = any_value();
      value = pick(0, 1) == 0 ? step(OpKind::mul, {value, y}, false)
                              : step(OpKind::mul, {y, value}, false);
    }
    if (pick(0, 1) == 0) {
      value = step(pick(0, 1) == 0 ? OpKind::mul : OpKind::div, {value}, true);
    }
    values_.push_back(value);
  }
  // An internal value, which is not a result.
  ChainValue step(OpKind kind, const std::vector<ChainValue>& operands, bool has_immediate) {
    add(kind, operands, dtype_, has_immediate);
    const ChainValue made = values_.back();
    values_.pop_back();
    return made;
  }

  void add(OpKind kind, const std::vector<ChainValue>& operands, DType result, bool has_immediate) {
    std::vector<TensorView> views;
    std::vector<KernelValue> values;
    for (const ChainValue& each : operands) {
      views.push_back(each.view);
      values.push_back(each.value);
    }
    const TensorView out = keep(result, shape_);
    // Every op has a result over the whole space, so that one kernel can hold them all.
    if (views.size() == 1 && views[0].shape() != shape_) {
      layouts_.push_back(std::make_unique<hearth::detail::Layout>(
          shape_, broadcast_strides(*views[0].layout, shape_)));
      views[0].layout = layouts_.back().get();
    }
    if (views.size() > 1) {
      for (TensorView& view : views) {
        layouts_.push_back(std::make_unique<hearth::detail::Layout>(
            shape_, broadcast_strides(*view.layout, shape_)));
        view.layout = layouts_.back().get();
      }
    }
    SmallCall call(kind, views, {out});
    if (has_immediate) {
      const int number = pick(-3, 3);
      call.with(pick(0, 1) == 0 ? RecordFlag::scalar_lhs : RecordFlag::scalar_rhs)
          .with(ScalarAttributes{static_cast<double>(number) * (pick(0, 1) == 0 ? 1 : 0.37),
                                 std::abs(number)});
    } else if (kind == OpKind::dropout) {
      call.with(RandomAttributes{.seed = 5, .counter = 11, .a = 0.4});
    }
    const Status status = testing::run_call(backend_, call.call());
    ASSERT_TRUE(status.has_value()) << status.error().text;
    std::vector<KernelValue> parameters;
    for (const KernelParameter& each : op_parameters(call.call().op, views[0].dtype)) {
      parameters.push_back(builder_->parameter(each.type));
      parameters_.push_back(each.value);
    }
    values_.push_back(
        {out, op_expression(*builder_, call.call().op, values, parameters, std::array{result})[0]});
    text_ += std::string(name(kind)) + "\n";
  }

  // Up to three values become results.
  void compare() {
    std::vector<TensorView> wanted;
    std::vector<TensorView> outputs;
    const std::size_t count = std::min<std::size_t>(3, values_.size() - inputs_.size());
    for (std::size_t i = values_.size() - count; i < values_.size(); ++i) {
      builder_->output(values_[i].value);
      wanted.push_back(values_[i].view);
      outputs.push_back(keep(dtype_, shape_));
    }
    const KernelIR kernel = builder_->take();
    text_ += to_string(kernel);
    // Drops values that no result needs, with their inputs and parameters.
    KernelIR used = kernel;
    const std::vector<TensorView> inputs = drop_unused(used);
    ASSERT_TRUE(verify(used).has_value()) << verify(used).error().text << "\n" << text_;
    const Status status = runner_.run(used, {inputs, outputs, parameters_});
    ASSERT_TRUE(status.has_value()) << status.error().text << "\n" << text_;
    for (std::size_t i = 0; i < count; ++i) {
      const std::vector<double> got = values_of(outputs[i]);
      const std::vector<double> want = values_of(wanted[i]);
      for (std::size_t k = 0; k < got.size(); ++k) {
        ASSERT_TRUE(same_bits(got[k], want[k])) << "result " << i << " element " << k << ": "
                                                << got[k] << ", singly " << want[k] << "\n"
                                                << text_;
      }
    }
  }

  std::vector<TensorView> drop_unused(KernelIR& kernel) {
    std::vector<std::int32_t> input_names(kernel.inputs.size(), -1);
    std::vector<std::int32_t> parameter_names(kernel.parameters.size(), -1);
    KernelIR kept = kernel;
    kept.inputs.clear();
    kept.parameters.clear();
    std::vector<TensorView> inputs;
    std::vector<ScalarAttributes> parameters;
    for (KernelNode& node : kept.body) {
      const auto number = static_cast<std::size_t>(node.number);
      if (node.primitive == Primitive::input) {
        if (input_names[number] < 0) {
          input_names[number] = static_cast<std::int32_t>(inputs.size());
          inputs.push_back(inputs_[number]);
          kept.inputs.push_back(kernel.inputs[number]);
        }
        node.number = input_names[number];
      } else if (node.primitive == Primitive::parameter) {
        if (parameter_names[number] < 0) {
          parameter_names[number] = static_cast<std::int32_t>(parameters.size());
          parameters.push_back(parameters_[number]);
          kept.parameters.push_back(kernel.parameters[number]);
        }
        node.number = parameter_names[number];
      }
    }
    kernel = kept;
    parameters_ = parameters;
    return inputs;
  }

  std::vector<double> values_of(const TensorView& view) const {
    for (const auto& tensor : tensors_) {
      if (tensor->view().data == view.data) {
        return tensor->values();
      }
    }
    return {};
  }

  std::mt19937 random_;
  DType dtype_;
  Shape shape_;
  CpuBackend backend_;
  ExpressionRunner runner_;
  std::unique_ptr<KernelBuilder> builder_;
  std::vector<std::unique_ptr<SmallTensor>> tensors_;
  std::vector<std::unique_ptr<hearth::detail::Layout>> layouts_;
  std::vector<TensorView> inputs_;
  std::vector<ChainValue> values_;
  std::vector<ScalarAttributes> parameters_;
  std::string text_;
};

TEST(TileProgram, OfAChainHasTheBitsOfItsOpsRunSingly) {
  constexpr std::uint32_t kChains = 120;
  for (const IsaLevel level : levels_here()) {
    for (const DType dtype : {DType::f32,
                              DType::f64,
                              DType::i32,
                              DType::i64,
                              DType::u8,
                              DType::i8,
                              DType::f16,
                              DType::bf16}) {
      for (std::uint32_t seed = 0; seed < kChains; ++seed) {
        SCOPED_TRACE(std::string(name(level)) + " " + std::string(name(dtype)) + " seed " +
                     std::to_string(seed));
        Chain chain(seed, dtype, level);
        chain.run();
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
}

}  // namespace
}  // namespace hearth::cpu
