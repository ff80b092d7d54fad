// Captured and fused kernels on a Vulkan device against the interpreter: pointwise and row kernels,
// every layout, in place, under guards, and integer ops without a result.
#include "tests/backends/small_call.hpp"
#include "tests/conformance/case_tensor.hpp"
#include "tests/conformance/device_mirror.hpp"
#include "tests/streams/kernel/example_kernels.hpp"
#include "tests/support/tolerance.hpp"

#include <hearth/backends/reference/reference.hpp>
#include <hearth/backends/vulkan/vulkan_backend.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/kernel/kernel_verifier.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hearth::vulkan {
namespace {

using conformance::CaseTensor;
using conformance::LayoutKind;
using conformance::Number;
using hearth::testing::axis;
using testing::Precision;

/// A call of an expression that owns its operands.
class ExpressionCase {
 public:
  ExpressionCase(KernelIR kernel,
                 std::vector<Shape> inputs,
                 std::vector<Shape> outputs,
                 std::vector<double> parameters = {},
                 int row_axes = 0,
                 LayoutKind layout = LayoutKind::dense,
                 conformance::Values values = conformance::Values::apart) {
    const Status status = verify(kernel);
    EXPECT_TRUE(status.has_value()) << status.error().text;
    expression_.name = "tested";
    expression_.kernel = std::move(kernel);
    expression_.hash = hash(expression_.kernel);
    for (const KernelNode& node : expression_.kernel.body) {
      expression_.may_fail =
          expression_.may_fail || (node.primitive == Primitive::div && !is_float(node.type));
    }
    const KernelIR& made = expression_.kernel;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const DType type = made.inputs[i].dtype;
      const auto numbers =
          conformance::case_values({.shape = inputs[i], .values = values}, type, 17 + i);
      inputs_.emplace_back(type, inputs[i], layout, numbers);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      outputs_.emplace_back(made.outputs[i].dtype, outputs[i]);
    }
    for (const CaseTensor& tensor : inputs_) {
      input_views_.push_back(tensor.view());
    }
    for (const CaseTensor& tensor : outputs_) {
      output_views_.push_back(tensor.view());
    }
    fill_record(parameters, row_axes);
  }

  void alias(std::size_t output, std::size_t input) {
    output_views_[output].data = input_views_[input].data;
  }
  [[nodiscard]] KernelCall call() const {
    return {OpView(record_, blob_.data()), input_views_, output_views_, &expression_};
  }
  [[nodiscard]] std::vector<Number> values(std::size_t output) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (input_views_[i].data == output_views_[output].data) {
        return inputs_[i].values();
      }
    }
    return outputs_[output].values();
  }
  [[nodiscard]] const std::vector<CaseTensor>& outputs() const noexcept { return outputs_; }

 private:
  void fill_record(const std::vector<double>& parameters, int row_axes) {
    record_.kind = OpKind::expression;
    record_.input_count = static_cast<std::uint16_t>(inputs_.size());
    record_.output_count = static_cast<std::uint16_t>(outputs_.size());
    const ExpressionAttributes attributes{
        .parameter_count = static_cast<std::uint32_t>(parameters.size()),
        .row_axes = static_cast<std::uint32_t>(row_axes)};
    std::memcpy(record_.immediate, &attributes, sizeof attributes);
    const int operands = record_.operand_count();
    const std::size_t extra =
        operands > kInlineOperands ? static_cast<std::size_t>(operands - kInlineOperands) : 0;
    blob_.resize(extra * sizeof(Operand) + parameters.size() * 8);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto integer = static_cast<std::int64_t>(parameters[i]);
      std::byte* const to = blob_.data() + extra * sizeof(Operand) + i * 8;
      if (is_float(expression_.kernel.parameters[i])) {
        std::memcpy(to, &parameters[i], 8);
      } else {
        std::memcpy(to, &integer, 8);
      }
    }
    record_.blob_size_bytes = static_cast<std::uint32_t>(blob_.size());
  }

  Expression expression_;
  std::vector<CaseTensor> inputs_;
  std::vector<CaseTensor> outputs_;
  std::vector<TensorView> input_views_;
  std::vector<TensorView> output_views_;
  OpRecord record_;
  std::vector<std::byte> blob_;
};

class VulkanExpression : public ::testing::Test {
 protected:
  /// Runs the call on this device and on the reference's interpreter; `term` bounds the summed
  /// terms.
  template <class Make>
  void compare(const Make& make, double length, double term, const std::string& what) {
    compare_on(*backend_, make, length, term, what);
  }

  template <class Make>
  void compare_on(
      Backend& backend, const Make& make, double length, double term, const std::string& what) {
    ExpressionCase mine = make();
    ExpressionCase theirs = make();
    const Support support = backend.supports(mine.call());
    ASSERT_TRUE(support.yes) << support.reason;
    const Status got = testing::run_mirrored(backend, mine.call());
    const Status want = reference::evaluate(theirs.call());
    ASSERT_TRUE(want.has_value()) << what << ": " << want.error().text;
    ASSERT_TRUE(got.has_value()) << what << ": " << got.error().text;
    for (std::size_t output = 0; output < mine.outputs().size(); ++output) {
      EXPECT_TRUE(mine.outputs()[output].margins_are_whole()) << what;
      const DType dtype = mine.call().outputs[output].dtype;
      const testing::Tolerance tolerance = testing::tolerance(Precision::sum, dtype, length, term);
      const std::vector<Number> a = mine.values(output);
      const std::vector<Number> b = theirs.values(output);
      for (std::size_t i = 0; i < a.size(); ++i) {
        const bool is_good = is_float(dtype) ? tolerance.accepts(a[i].real, b[i].real)
                                             : a[i].integer == b[i].integer;
        ASSERT_TRUE(is_good) << what << ": output " << output << " element " << i << " is "
                             << a[i].real << " " << a[i].integer << ", expected " << b[i].real
                             << " " << b[i].integer;
      }
    }
  }

  std::unique_ptr<Backend> backend_ = VulkanBackend::open({}).value();
  /// Interprets every kernel, as while its pipeline is still being compiled
  /// (gpu/pointwise/interpreter.hpp).
  std::unique_ptr<Backend> interpreting_ = VulkanBackend::open({.interprets_always = true}).value();
};

KernelValue widened(KernelBuilder& b, KernelValue x) {
  return x.type == DType::f64 ? x : b.convert(x, DType::f32);
}

KernelIR gelu(DType dtype) {
  KernelBuilder b({0});
  const KernelValue x = widened(b, b.input(dtype, {axis(0)}));
  b.output(b.convert(x * 0.5 * (erf(x / std::sqrt(2.0)) + 1.0), dtype));
  return b.take();
}

// Four results of three inputs, one of which is a mask.
KernelIR several(DType dtype) {
  KernelBuilder b({0});
  const KernelValue x = widened(b, b.input(dtype, {axis(0)}));
  const KernelValue y = widened(b, b.input(dtype, {axis(0)}));
  const KernelValue mask = b.input(DType::boolean, {axis(0)});
  const KernelValue rate = b.parameter(x.type);
  b.output(b.convert(select(mask, x * rate + y, x - y), dtype));
  b.output(less(x, y));
  b.output(b.convert(max(x, y) * 10.0, DType::u8));
  b.output(b.convert(tanh(x) + exp(y * 0.5), DType::f32));
  return b.take();
}

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

TEST_F(VulkanExpression, IsTheInterpretersElementByElement) {
  struct Shapes {
    Shape x, y, mask, result;
  };
  const std::vector<Shapes> all{{{7}, {7}, {7}, {7}},
                                {{64, 64}, {64}, {64, 1}, {64, 64}},
                                {{5, 1, 48}, {3, 48}, {}, {5, 3, 48}},
                                {{1}, {4, 9}, {9}, {4, 9}},
                                {{2, 3, 5, 16}, {2, 3, 1, 16}, {5, 1}, {2, 3, 5, 16}},
                                {{4099}, {4099}, {4099}, {4099}}};
  for (const DType dtype : {DType::f32, DType::f16}) {
    for (const LayoutKind layout : conformance::kLayoutKinds) {
      for (const Shapes& shapes : all) {
        compare(
            [&] {
              return ExpressionCase(several(dtype),
                                    {shapes.x, shapes.y, shapes.mask},
                                    {shapes.result, shapes.result, shapes.result, shapes.result},
                                    {0.3},
                                    0,
                                    layout);
            },
            1,
            8,
            fmt::format("{} {} {}", name(dtype), name(layout), shapes.result.to_string()));
      }
    }
  }
  for (const DType dtype : kFloats) {
    compare([&] { return ExpressionCase(gelu(dtype), {{33, 129}}, {{33, 129}}); }, 1, 4, "gelu");
  }
}

// Each primitive of floats and bools, over strides.
KernelIR all_of_floats(DType dtype) {
  KernelBuilder b({0, 1});
  const std::vector<AffineIndex> map{axis(0), axis(1)};
  const KernelValue x = b.convert(b.input(dtype, map), DType::f32);
  const KernelValue y = b.convert(b.input(dtype, map), DType::f32);
  const KernelValue mask = b.input(DType::boolean, map);
  const KernelValue rate = b.parameter(DType::f32);
  const KernelValue positive = abs(x) + 0.5;
  const KernelValue waves = sin(x) + cos(y) - erf(x) * tanh(y);
  const KernelValue powers = pow(positive, min(y, rate)) / sqrt(positive) + log(positive);
  b.output(b.convert(select(mask, waves, max(-x, exp(y * 0.5))), dtype));
  b.output(logical_or(logical_and(less(x, y), mask), logical_not(less_equal(x, rate))));
  b.output(b.convert(b.convert(powers, DType::bf16), DType::f32));
  b.output(b.convert(b.convert(equal(x, y), DType::f32) + b.convert(mask, DType::f32), dtype));
  return b.take();
}

// One interpreter serves all kernels whose pipelines are still being compiled.
TEST_F(VulkanExpression, IsInterpretedWhereItsKernelIsNotThere) {
  const std::unique_ptr<Backend> interpreting =
      VulkanBackend::open({.interprets_always = true}).value();
  for (const LayoutKind layout : {LayoutKind::dense, LayoutKind::transposed}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      compare_on(
          *interpreting,
          [&] {
            return ExpressionCase(all_of_floats(dtype),
                                  {{33, 17}, {33, 1}, {33, 17}},
                                  {{33, 17}, {33, 17}, {33, 17}, {33, 17}},
                                  {0.75},
                                  0,
                                  layout);
          },
          4,
          64,
          fmt::format("{} {}", name(dtype), name(layout)));
    }
  }
  EXPECT_EQ(interpreting->kernels().compile_counts().kernels, 1U);
}

TEST_F(VulkanExpression, TakesSixteenInputsOfEightAxes) {
  const Shape shape{2, 3, 2, 3, 2, 3, 2, 3};
  KernelBuilder b({0});
  KernelValue sum = b.input(DType::f32, {axis(0)});
  for (int i = 1; i < 16; ++i) {
    sum = sum + b.input(DType::f32, {axis(0)}) * b.parameter(DType::f32);
  }
  b.output(sum);
  const KernelIR kernel = b.take();
  std::vector<double> parameters;
  for (int i = 1; i < 16; ++i) {
    parameters.push_back(0.25 * i);
  }
  std::vector<Shape> shapes(16, shape);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    shapes[i].set(static_cast<int>(i % 8), 1);
  }
  compare([&] { return ExpressionCase(kernel, shapes, {shape}, parameters); }, 16, 8, "sixteen");
}

TEST_F(VulkanExpression, MayLieOverItsInputs) {
  for (const DType dtype : kFloats) {
    for (const std::size_t input : {0U, 1U}) {
      compare(
          [&] {
            ExpressionCase made(
                several(dtype), {{1003}, {1003}, {1003}}, {{1003}, {1003}, {1003}, {1003}}, {0.3});
            made.alias(0, input);
            return made;
          },
          1,
          8,
          fmt::format("{} over input {}", name(dtype), input));
    }
  }
}

TEST_F(VulkanExpression, NamesTheElementThatIsDividedByZero) {
  KernelBuilder b({0});
  const KernelValue x = b.input(DType::i32, {axis(0)});
  b.output(x / b.parameter(DType::i32));
  const KernelIR kernel = b.take();
  const ExpressionCase made(kernel, {{100}}, {{100}}, {0.0});
  const Status status = testing::run_mirrored(*backend_, made.call());
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kernel_failed);
  EXPECT_NE(status.error().text.find("division by zero at element"), std::string::npos)
      << status.error().text;
  const ExpressionCase good(kernel, {{100}}, {{100}}, {3.0});
  EXPECT_TRUE(testing::run_mirrored(*backend_, good.call()).has_value());
}

// ---- guards ----

/// Device memory with numbers in it.
class DeviceNumbers {
 public:
  DeviceNumbers(Backend& backend, const std::vector<float>& values)
      : backend_(backend),
        layout_(Shape{static_cast<std::int64_t>(values.size())}),
        page_(backend.pages().allocate_page(static_cast<std::int64_t>(values.size()) * 4).value()) {
    const TimelinePoint up =
        backend.copies().upload(page_.data, std::as_bytes(std::span(values)), {}).value().point;
    EXPECT_TRUE(backend.wait({&up, 1}, Deadline::in(kDefaultWait)).has_value());
  }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;
  ~DeviceNumbers() { backend_.pages().free_page(page_); }

  [[nodiscard]] TensorView view(DType dtype = DType::f32) const noexcept {
    return {page_.data, &layout_, dtype};
  }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> out(static_cast<std::size_t>(layout_.shape.element_count()));
    const TimelinePoint down = backend_.copies()
                                   .download(std::as_writable_bytes(std::span(out)), page_.data, {})
                                   .value()
                                   .point;
    EXPECT_TRUE(backend_.wait({&down, 1}, Deadline::in(kDefaultWait)).has_value());
    return out;
  }

 private:
  Backend& backend_;
  hearth::detail::Layout layout_;
  Page page_;
};

// After a failure, ops keep the bytes that they would overwrite, wherever their results lie.
TEST_F(VulkanExpression, KeepsItsInputsBehindAFailure) {
  constexpr std::size_t kCount = 1003;
  std::vector<float> numbers(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    numbers[i] = static_cast<float>(i) * 0.5F;
  }
  KernelBuilder division({0});
  const KernelValue n = division.input(DType::i32, {axis(0)});
  division.output(n / n);
  const KernelIR divides = division.take();
  KernelBuilder update({0});
  const KernelValue p = update.input(DType::f32, {axis(0)});
  const KernelValue m = update.input(DType::f32, {axis(0)});
  update.output(p - m * 0.5);
  update.output(m * 2.0);
  const KernelIR updates = update.take();
  for (const bool fails : {true, false}) {
    for (const bool is_in_place : {true, false}) {
      std::vector<float> divisors(16, std::bit_cast<float>(std::int32_t{1}));
      divisors[7] = std::bit_cast<float>(std::int32_t{fails ? 0 : 3});
      const DeviceNumbers divided(*backend_, divisors);
      const DeviceNumbers quotients(*backend_, divisors);
      const DeviceNumbers first(*backend_, numbers);
      const DeviceNumbers second(*backend_, numbers);
      const DeviceNumbers made(*backend_, std::vector<float>(kCount));
      const DeviceNumbers made_too(*backend_, std::vector<float>(kCount));
      const DeviceNumbers& to = is_in_place ? first : made;
      const DeviceNumbers& to_too = is_in_place ? second : made_too;

      const ExpressionCase failing(divides, {{16}}, {{16}});
      const ExpressionCase guarded(updates, {{1}, {1}}, {{1}, {1}});
      const std::array in{divided.view(DType::i32)};
      const std::array out{quotients.view(DType::i32)};
      const std::array before{first.view(), second.view()};
      const std::array after{to.view(), to_too.view()};
      KernelCall one = failing.call();
      one.inputs = in;
      one.outputs = out;
      KernelCall two = guarded.call();
      two.inputs = before;
      two.outputs = after;
      const std::array<ErrorCell, 1> cells{5};
      const std::array<std::int8_t, 2> keeps{0, 1};
      const std::array launches{Launch{.call = one, .cell = 5},
                                Launch{.call = two, .guards = cells, .keeps = keeps}};
      const Issue issue = backend_->submit(launches, {});
      ASSERT_TRUE(issue.status.has_value()) << issue.status.error().text;
      ASSERT_TRUE(backend_->flush().has_value());
      ASSERT_TRUE(backend_->wait({&issue.point, 1}, Deadline::in(kDefaultWait)).has_value());
      EXPECT_EQ(backend_->cell_status(5).has_value(), !fails);
      const std::vector<float> a = to.values();
      const std::vector<float> b = to_too.values();
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(a[i], fails ? numbers[i] : numbers[i] * 0.5F) << fails << is_in_place << i;
        ASSERT_EQ(b[i], fails ? numbers[i] : numbers[i] * 2.0F) << fails << is_in_place << i;
      }
    }
  }
}

// ---- rows ----

std::vector<AffineIndex> row_map() {
  return {axis(0), axis(1)};
}

KernelIR softmax_like(Primitive primitive, DType dtype) {
  KernelBuilder b({0, 1}, 0b10);
  const KernelValue x = widened(b, b.input(dtype, row_map()));
  std::vector<KernelValue> operands{x};
  if (primitive == Primitive::softmax_backward || primitive == Primitive::log_softmax_backward) {
    operands.push_back(widened(b, b.input(dtype, row_map())));
  }
  b.output(b.convert(b.apply(primitive, x.type, operands), dtype));
  return b.take();
}

// Layer norm with a weight for each column, and the values that its backward pass needs; also the
// largest and smallest element of each row, and a scale for each row from outside.
KernelIR norm(DType dtype) {
  KernelBuilder b({0, 1}, 0b10);
  const KernelValue x = widened(b, b.input(dtype, row_map()));
  const KernelValue weight = widened(b, b.input(dtype, row_map()));
  const KernelValue scale = widened(b, b.input(dtype, {axis(0)}));
  const KernelValue mean = b.fold(FoldOp::mean, x);
  const KernelValue centred = x - mean;
  const KernelValue variance = b.fold(FoldOp::mean, centred * centred);
  const KernelValue factor = 1.0 / sqrt(variance + b.parameter(x.type));
  const KernelValue y = centred * factor * weight;
  b.output(b.convert(y * scale, dtype));
  b.output(factor);
  b.output(b.convert(b.fold(FoldOp::max, y) - b.fold(FoldOp::min, x), dtype));
  return b.take();
}

TEST_F(VulkanExpression, TakesRowsOfEveryLength) {
  constexpr std::int64_t kLengths[] = {1, 3, 8, 31, 100, 257, 1000, 1024, 4100, 8192, 20000};
  for (const std::int64_t length : kLengths) {
    const Shape shape{5, length};
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const std::string what = fmt::format("{} {}", name(dtype), shape.to_string());
      for (const Primitive primitive : {Primitive::softmax, Primitive::log_softmax_backward}) {
        const std::size_t inputs = primitive == Primitive::softmax ? 1 : 2;
        compare(
            [&] {
              return ExpressionCase(softmax_like(primitive, dtype),
                                    std::vector<Shape>(inputs, shape),
                                    {shape},
                                    {},
                                    1);
            },
            static_cast<double>(length),
            8,
            std::string(name(primitive)) + " " + what);
      }
      compare(
          [&] {
            return ExpressionCase(
                norm(dtype), {shape, {length}, {5, 1}}, {shape, {5}, {5, 1}}, {1e-3}, 1);
          },
          static_cast<double>(length),
          8,
          "norm " + what);
    }
  }
}

TEST_F(VulkanExpression, TakesRowsOfEveryLayoutAndType) {
  const std::vector<std::pair<Shape, int>> all{
      {{6, 32}, 1}, {{3, 2, 30}, 1}, {{4, 3, 40}, 2}, {{9, 300}, 1}, {{2, 7, 5, 11}, 2}, {{70}, 1}};
  for (const DType dtype : kFloats) {
    for (const LayoutKind layout : conformance::kLayoutKinds) {
      for (const auto& [shape, row_axes] : all) {
        Shape kept;
        for (int i = 0; i < shape.rank() - row_axes; ++i) {
          kept.push_back(shape[i]);
        }
        const Shape column{shape[shape.rank() - 1]};
        const std::string what =
            fmt::format("{} {} {}", name(dtype), name(layout), shape.to_string());
        compare(
            [&, shape = shape, row_axes = row_axes] {
              return ExpressionCase(norm(dtype),
                                    {shape, column, kept},
                                    {shape, kept, kept},
                                    {1e-3},
                                    row_axes,
                                    layout);
            },
            100,
            8,
            "norm " + what);
        if (dtype != DType::f32) {
          continue;  // these differ only in their loads
        }
        for (const Primitive primitive : {Primitive::log_softmax, Primitive::softmax_backward}) {
          const std::size_t inputs = primitive == Primitive::log_softmax ? 1 : 2;
          compare(
              [&, shape = shape, row_axes = row_axes] {
                return ExpressionCase(softmax_like(primitive, dtype),
                                      std::vector<Shape>(inputs, shape),
                                      {shape},
                                      {},
                                      row_axes,
                                      layout);
              },
              100,
              8,
              std::string(name(primitive)) + " " + what);
        }
      }
    }
  }
}

TEST_F(VulkanExpression, RowsMayLieOverTheirInputs) {
  for (const std::int64_t length : {30, 64, 5000, 20000}) {
    const Shape shape{3, length};
    compare(
        [&] {
          ExpressionCase made(
              norm(DType::f32), {shape, {length}, {3}}, {shape, {3}, {3}}, {1e-3}, 1);
          made.alias(0, 0);
          made.alias(1, 2);
          return made;
        },
        static_cast<double>(length),
        8,
        fmt::format("in place, {}", length));
  }
}

TEST_F(VulkanExpression, RowsKeepNaNAndMasks) {
  for (const auto values : {conformance::Values::with_nan, conformance::Values::masked}) {
    for (const std::int64_t length : {3, 40, 3000}) {
      const Shape shape{6, length};
      compare(
          [&] {
            return ExpressionCase(softmax_like(Primitive::softmax, DType::f32),
                                  {shape},
                                  {shape},
                                  {},
                                  1,
                                  LayoutKind::dense,
                                  values);
          },
          static_cast<double>(length),
          8,
          fmt::format("special, {}", length));
    }
  }
}

// Dropout depends on an element's index in the whole tensor, whichever workgroup computes its row.
TEST_F(VulkanExpression, RowsTakeTheirOwnRandomWords) {
  KernelBuilder b({0, 1}, 0b10);
  const KernelValue x = b.input(DType::f32, row_map());
  const KernelValue seed = b.parameter(DType::i64);
  const KernelValue counter = b.parameter(DType::i64);
  const KernelValue word = random_word(seed, counter, b.position());
  const KernelValue dropped = select(less(word / 256, b.parameter(DType::i64)), 0.0, x * 2.0);
  b.output(b.fold(FoldOp::sum, dropped));
  b.output(dropped);
  const KernelIR kernel = b.take();
  for (const std::int64_t length : {5, 64, 4096, 20000}) {
    const Shape shape{7, length};
    compare(
        [&] {
          return ExpressionCase(kernel, {shape}, {{7}, shape}, {77.0, 4294967294.0, 8388608.0}, 1);
        },
        static_cast<double>(length),
        4,
        fmt::format("dropout, {}", length));
  }
}

}  // namespace
}  // namespace hearth::vulkan
