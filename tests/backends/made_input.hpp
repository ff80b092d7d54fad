// Calls whose input 0 comes from another call (the maker): run as two calls through memory, and as
// one. Values, any thread.
#pragma once

#include "small_call.hpp"

#include "tests/support/run_call.hpp"

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace hearth::testing {

[[nodiscard]] inline std::vector<std::byte> bytes_of(const SmallTensor& tensor) {
  const TensorView view = tensor.view();
  return {view.data, view.data + view.element_count() * size_bytes(view.dtype)};
}
inline void clear(const SmallTensor& tensor) {
  const TensorView view = tensor.view();
  std::memset(
      view.data, 0x5A, static_cast<std::size_t>(view.element_count() * size_bytes(view.dtype)));
}

[[nodiscard]] inline Expression expression_of(KernelIR kernel) {
  Expression expression;
  expression.name = "tested";
  expression.kernel = std::move(kernel);
  expression.hash = hash(expression.kernel);
  return expression;
}

[[nodiscard]] inline DType sum_type(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}
inline std::vector<AffineIndex> along(std::vector<int> axes) {
  std::vector<AffineIndex> map;
  for (const int axis : axes) {
    map.push_back(AffineIndex{.terms = {IndexTerm{.axis = axis}}});
  }
  return map;
}

/// x·sigmoid(x)·s + b, in the type of sums.
[[nodiscard]] inline Expression silu_expression(DType dtype) {
  KernelBuilder builder({0});
  const DType type = sum_type(dtype);
  const KernelValue x = builder.convert(builder.input(dtype, along({0})), type);
  const KernelValue s = builder.convert(builder.input(dtype, along({0})), type);
  const KernelValue b = builder.convert(builder.input(dtype, along({0})), type);
  builder.output(builder.convert(x / (1.0 + exp(-x)) * s + b, dtype));
  return expression_of(builder.take());
}
/// x/sqrt(mean(x²) + ε)·w of each row.
[[nodiscard]] inline Expression norm_expression(DType dtype) {
  KernelBuilder builder({0, 1}, 0b10);
  const DType type = sum_type(dtype);
  const KernelValue x = builder.convert(builder.input(dtype, along({0, 1})), type);
  const KernelValue w = builder.convert(builder.input(dtype, along({0, 1})), type);
  builder.output(builder.convert(x / sqrt(builder.fold(FoldOp::mean, x * x) + 1e-5) * w, dtype));
  return expression_of(builder.take());
}
/// softmax of each row.
[[nodiscard]] inline Expression softmax_expression(DType dtype) {
  KernelBuilder builder({0, 1}, 0b10);
  const KernelValue x = builder.convert(builder.input(dtype, along({0, 1})), sum_type(dtype));
  const KernelValue operands[] = {x};
  builder.output(builder.convert(builder.apply(Primitive::softmax, x.type, operands), dtype));
  return expression_of(builder.take());
}
/// max(x + b, 0), an epilogue.
[[nodiscard]] inline Expression relu_expression(DType dtype) {
  KernelBuilder builder({0});
  const DType type = sum_type(dtype);
  const KernelValue x = builder.convert(builder.input(dtype, along({0})), type);
  const KernelValue b = builder.convert(builder.input(dtype, along({0})), type);
  builder.output(builder.convert(max(x + b, builder.constant(0.0, type)), dtype));
  return expression_of(builder.take());
}

/// max(x, 0), an epilogue that reads only the result.
[[nodiscard]] inline Expression plain_relu_expression(DType dtype) {
  KernelBuilder builder({0});
  const DType type = sum_type(dtype);
  const KernelValue x = builder.convert(builder.input(dtype, along({0})), type);
  builder.output(builder.convert(max(x, builder.constant(0.0, type)), dtype));
  return expression_of(builder.take());
}

/// A call of one result that owns its operands; it may have an epilogue.
class OwnedCall {
 public:
  OwnedCall(OpKind kind,
            const std::vector<std::pair<DType, Shape>>& inputs,
            DType dtype,
            const Shape& result)
      : result_(dtype, result) {
    for (const auto& [type, shape] : inputs) {
      inputs_.push_back(random_tensor(type, shape, static_cast<unsigned>(inputs_.size() + 11)));
    }
    for (const SmallTensor& each : inputs_) {
      views_.push_back(each.view());
    }
    call_ = std::make_unique<SmallCall>(kind, views_, std::vector<TensorView>{result_.view()});
  }
  OwnedCall(const OwnedCall&) = delete;
  OwnedCall& operator=(const OwnedCall&) = delete;
  ~OwnedCall() = default;

  template <class Attributes>
  OwnedCall& with(const Attributes& attributes) {
    call_->with(attributes);
    return *this;
  }
  OwnedCall& with(Expression expression) {
    expression_ = std::move(expression);
    return *this;
  }
  /// Sets the epilogue relu(result + b), with b of this shape.
  OwnedCall& with_relu(const Shape& b) {
    relu_ = relu_expression(result_.view().dtype);
    beside_.push_back(random_tensor(result_.view().dtype, b, 77));
    beside_views_ = {beside_[0].view()};
    epilogue_ = {.expression = &relu_, .result = result_.view().layout, .inputs = beside_views_};
    has_epilogue_ = true;
    return *this;
  }
  /// Sets the epilogue relu(result).
  OwnedCall& with_plain_relu() {
    relu_ = plain_relu_expression(result_.view().dtype);
    epilogue_ = {.expression = &relu_, .result = result_.view().layout};
    has_epilogue_ = true;
    return *this;
  }
  /// Sets other strides for input `index`; the layout must outlive this call.
  OwnedCall& with_layout(std::size_t index, const detail::Layout& layout) {
    views_[index].layout = &layout;
    return *this;
  }

  [[nodiscard]] KernelCall call() const {
    KernelCall call = call_->call();
    call.inputs = views_;
    call.expression = expression_.kernel.body.empty() ? nullptr : &expression_;
    call.epilogue = has_epilogue_ ? &epilogue_ : nullptr;
    return call;
  }
  [[nodiscard]] const SmallTensor& result() const { return result_; }

 private:
  SmallTensor result_;
  std::vector<SmallTensor> inputs_ = {};
  std::vector<TensorView> views_ = {};
  std::unique_ptr<SmallCall> call_ = {};
  Expression expression_ = {};
  Expression relu_ = {};
  std::vector<SmallTensor> beside_ = {};
  std::vector<TensorView> beside_views_ = {};
  Epilogue epilogue_ = {};
  bool has_epilogue_ = false;
};

/// A call of `op` whose input 0 is the result of `producer`.
class PrologueCall {
 public:
  PrologueCall(const OwnedCall& producer, const OwnedCall& op)
      : producer_(producer), op_(op), maker_call_(producer.call()), op_call_(op.call()) {
    made_ = producer.result().view();
    inputs_.assign(op_call_.inputs.begin(), op_call_.inputs.end());
    inputs_[0].data = made_.data;
    op_call_.inputs = inputs_;
    open_ = made_;
    open_.data = nullptr;
    joined_inputs_ = inputs_;
    joined_inputs_[0].data = nullptr;
    joined_maker_ = maker_call_;
    joined_maker_.outputs = std::span(&open_, 1);
    prologue_ = {.call = &joined_maker_, .input = 0};
  }
  PrologueCall(const PrologueCall&) = delete;
  PrologueCall& operator=(const PrologueCall&) = delete;
  ~PrologueCall() = default;

  /// Both calls as one.
  [[nodiscard]] KernelCall call() const {
    KernelCall call = op_call_;
    call.inputs = joined_inputs_;
    call.prologue = &prologue_;
    return call;
  }
  [[nodiscard]] const KernelCall& maker_call() const { return maker_call_; }
  [[nodiscard]] const KernelCall& op_call() const { return op_call_; }
  [[nodiscard]] std::vector<std::byte> singly(Backend& device) const {
    clear(op_.result());
    run_call(device, maker_call_).value();
    run_call(device, op_call_).value();
    return bytes_of(op_.result());
  }
  [[nodiscard]] std::vector<std::byte> as_one(Backend& device) const {
    clear(op_.result());
    clear(producer_.result());
    run_call(device, call()).value();
    return bytes_of(op_.result());
  }

 private:
  const OwnedCall& producer_;
  const OwnedCall& op_;
  KernelCall maker_call_;
  KernelCall op_call_;
  KernelCall joined_maker_ = maker_call_;
  TensorView made_ = {};
  TensorView open_ = {};
  std::vector<TensorView> inputs_ = {};
  std::vector<TensorView> joined_inputs_ = {};
  Prologue prologue_ = {};
};

}  // namespace hearth::testing
