// One case for each kind of op that has a gradient rule: a function of few elements that records
// the kind, itself or in its sweep. For tests of runtime/tape. Threads: the test's.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <hearth/runtime/custom_kernel.hpp>
#include <hearth/runtime/custom_op.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/streams/op_kind.hpp>

#include "tests/runtime/gradient_check.hpp"

namespace hearth::testing {

struct SecondOrderCase {
  std::function<Tensor(const std::vector<Tensor>&)> fn;
  std::vector<HostTensor> inputs;
};

/// a · b as a kernel of a program, whose vjp consists of plain ops.
inline CustomKernel product_kernel() {
  CustomKernelConfig config{.name = "own_product", .inputs = {{"a"}, {"b"}}};
  config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> { return {in[0]}; };
  config.host = [](const HostKernelCall& call) {
    const auto a = call.input<double>(0);
    const auto b = call.input<double>(1);
    const auto y = call.output<double>();
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] = a[i] * b[i];
    }
  };
  config.vjp = [](const CustomGradient& call) {
    return std::vector<Tensor>{call.is_needed[0] ? call.gradient * call.inputs[1] : Tensor(),
                               call.is_needed[1] ? call.gradient * call.inputs[0] : Tensor()};
  };
  return CustomKernel(std::move(config));
}

/// `there`: another device than the inputs'.
inline std::map<OpKind, SecondOrderCase> second_order_cases(const Device& there) {
  using Tensors = std::vector<Tensor>;
  HostRandom random(31);
  std::map<OpKind, SecondOrderCase> cases;
  const HostTensor x = random.signed_values({2, 3});
  const HostTensor above = random.uniform({2, 3}, 0.4, 1.6);
  const HostTensor apart = random.distinct({2, 3});
  const auto unary = [&](OpKind kind, Tensor (*op)(Arg), const HostTensor& input) {
    cases[kind] = {[op](const Tensors& in) { return op(in[0]); }, {input}};
  };
  unary(OpKind::neg, neg, x);
  unary(OpKind::abs, abs, x);
  unary(OpKind::exp, exp, x);
  unary(OpKind::log, log, above);
  unary(OpKind::sqrt, sqrt, above);
  unary(OpKind::rsqrt, rsqrt, above);
  unary(OpKind::square, square, x);
  unary(OpKind::sin, sin, x);
  unary(OpKind::cos, cos, x);
  unary(OpKind::tanh, tanh, x);
  unary(OpKind::erf, erf, x);
  unary(OpKind::sigmoid, sigmoid, x);
  unary(OpKind::recip, recip, x);
  unary(OpKind::log1p, log1p, above);
  unary(OpKind::expm1, expm1, x);
  unary(OpKind::atan, atan, x);
  unary(OpKind::relu, relu, x);
  cases[OpKind::copy] = {[](const Tensors& in) { return contiguous(transpose(in[0])); }, {x}};
  cases[OpKind::dropout] = {[](const Tensors& in) {
                              Generator generator(17);
                              return dropout(in[0], 0.4, generator);
                            },
                            {x}};
  const auto binary = [&](OpKind kind, Tensor (*op)(Arg, Arg)) {
    cases[kind] = {[op](const Tensors& in) { return op(in[0], in[1]) + op(in[0], 0.7); },
                   {above, random.uniform({3}, 1.7, 2.9)}};
  };
  binary(OpKind::add, add);
  binary(OpKind::sub, sub);
  binary(OpKind::mul, mul);
  binary(OpKind::div, div);
  binary(OpKind::pow, pow);
  binary(OpKind::min, minimum);
  binary(OpKind::max, maximum);
  binary(OpKind::atan2, atan2);
  cases[OpKind::where] = {[](const Tensors& in) { return where(in[0] > 0, in[0], in[1]); },
                          {x, random.signed_values({3})}};
  cases[OpKind::reshape] = {[](const Tensors& in) { return reshape(in[0], {3, 2}); }, {x}};
  cases[OpKind::expand] = {[](const Tensors& in) { return expand(in[0], {2, 2, 3}); }, {x}};
  cases[OpKind::permute] = {[](const Tensors& in) { return permute(in[0], {1, 0}); }, {x}};
  cases[OpKind::slice] = {
      [](const Tensors& in) {
        const Tensor part = slice(in[0], 1, {.start = -1, .stop = 0, .step = -1});
        return part * slice(in[0], 1, {.stop = 2}) + slice(in[0], 1, {.step = 2});
      },
      {x}};
  cases[OpKind::concat] = {[](const Tensors& in) {
                             return concat(std::vector{in[0], in[1], in[0]}, 0);
                           },
                           {x, random.signed_values({1, 3})}};
  cases[OpKind::upload] = {
      [there](const Tensors& in) { return exp(in[0].to(there)).to(in[0].device()) * in[0]; }, {x}};
  const auto reduction = [&](OpKind kind, Tensor (*op)(Arg, Axes, ReduceOptions)) {
    cases[kind] = {[op](const Tensors& in) {
                     return op(in[0], {0, 2}, {});
                   },
                   {random.distinct({2, 2, 2})}};
  };
  reduction(OpKind::reduce_sum, sum);
  reduction(OpKind::reduce_mean, mean);
  reduction(OpKind::reduce_max, max);
  reduction(OpKind::reduce_min, min);
  reduction(OpKind::reduce_prod, prod);  // an element of distinct() is 0
  cases[OpKind::matmul] = {
      [](const Tensors& in) { return matmul(in[0], in[1], in[2]); },
      {random.signed_values({2, 2, 3}), random.signed_values({3, 2}), random.signed_values({2})}};
  const Conv2dOptions conv{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2};
  cases[OpKind::conv2d] = {[conv](const Tensors& in) { return conv2d(in[0], in[1], in[2], conv); },
                           {random.signed_values({1, 2, 3, 4}),
                            random.signed_values({2, 1, 2, 2}),
                            random.signed_values({2})}};
  cases[OpKind::conv2d_backward_input] = {
      [](const Tensors& in) { return conv_transpose2d(in[0], in[1], {.stride = 2}); },
      {random.signed_values({1, 2, 2, 2}), random.signed_values({2, 1, 2, 3})}};
  const Pool2dOptions pool{.kernel = {3, 2}, .stride = {{2, 1}}, .padding = {1, 0}};
  cases[OpKind::max_pool2d] = {[pool](const Tensors& in) { return max_pool2d(in[0], pool); },
                               {random.distinct({1, 2, 4, 3})}};
  Pool2dOptions no_pad = pool;
  no_pad.count_include_pad = false;
  cases[OpKind::avg_pool2d] = {[pool, no_pad](const Tensors& in) {
                                 return avg_pool2d(in[0], pool) * avg_pool2d(in[0], no_pad);
                               },
                               {random.signed_values({1, 1, 4, 3})}};
  cases[OpKind::softmax] = {
      [](const Tensors& in) { return softmax(in[0], 0) * softmax(in[0], -1); }, {x}};
  cases[OpKind::log_softmax] = {
      [](const Tensors& in) { return log_softmax(in[0], 0) * log_softmax(in[0], -1); }, {x}};
  cases[OpKind::cross_entropy] = {
      [](const Tensors& in) {
        const Tensor classes = Tensor::from(in[0].device(), std::vector<std::int32_t>{2, 0}, {2});
        return cross_entropy_per_row(in[0], classes);
      },
      {x}};
  const auto scan = [&](OpKind kind, Tensor (*op)(Arg, int), const HostTensor& input) {
    cases[kind] = {[op](const Tensors& in) { return op(in[0], 1) + op(in[0], 0); }, {input}};
  };
  scan(OpKind::cumsum, cumsum, x);
  scan(OpKind::cumprod, cumprod, apart);  // with a 0
  scan(OpKind::cummax, cummax, apart);
  scan(OpKind::cummin, cummin, apart);
  cases[OpKind::topk] = {[](const Tensors& in) { return topk(in[0], 2).values; }, {apart}};
  cases[OpKind::attention] = {
      [](const Tensors& in) { return attention(in[0], in[1], in[2], {.causal = true}); },
      {random.signed_values({1, 2, 2, 2}),
       random.signed_values({1, 1, 3, 2}),
       random.signed_values({1, 1, 3, 2})}};
  const auto index_of = [](const Tensor& like) {
    return Tensor::from(like.device(), std::vector<std::int64_t>{1, 0, 1, 1, 1, 0}, {2, 3});
  };
  const auto line_of = [](const Tensor& like) {
    return Tensor::from(like.device(), std::vector<std::int64_t>{1, 0, 1}, {3});
  };
  cases[OpKind::gather] = {
      [index_of](const Tensors& in) { return gather(in[0], 0, index_of(in[0])); }, {x}};
  cases[OpKind::index_select] = {
      [line_of](const Tensors& in) { return index_select(in[0], 0, line_of(in[0])); }, {x}};
  cases[OpKind::scatter_add] = {
      [index_of](const Tensors& in) { return scatter_add(in[0], 0, index_of(in[0]), in[1]); },
      {x, random.signed_values({2, 3})}};
  cases[OpKind::index_add] = {
      [line_of](const Tensors& in) { return index_add(in[0], 0, line_of(in[0]), in[1]); },
      {x, random.signed_values({3, 3})}};
  HostTensor with_zeros = random.signed_values({2, 3});
  with_zeros.values[1] = 0;
  with_zeros.values[3] = 0;
  cases[OpKind::scatter] = {
      [index_of](const Tensors& in) {
        Tensor all = scatter(in[0], 0, index_of(in[0]), in[1]);
        for (const ScatterMode mode :
             {ScatterMode::add, ScatterMode::mul, ScatterMode::min, ScatterMode::max}) {
          all = all + scatter(in[0], 0, index_of(in[0]), in[1], {.mode = mode});
        }
        return all;
      },
      {x, with_zeros}};
  cases[OpKind::expression] = {[](const Tensors& in) {
                                 static const CustomOp swish = custom_op(
                                     "own_swish", [](const Tensor& a) { return a * sigmoid(a); });
                                 return swish(in[0]);
                               },
                               {x}};
  cases[OpKind::custom] = {[kernel = product_kernel()](const Tensors& in) {
                             return kernel({in[0], exp(in[0])});
                           },
                           {x}};
  return cases;
}

/// Backward kinds, and the kinds whose sweeps emit them.
inline std::map<OpKind, OpKind> emitted_kinds() {
  return {{OpKind::relu_backward, OpKind::relu},
          {OpKind::slice_scatter, OpKind::slice},
          {OpKind::conv2d_backward_weight, OpKind::conv2d},
          {OpKind::max_pool2d_backward, OpKind::max_pool2d},
          {OpKind::avg_pool2d_backward, OpKind::avg_pool2d},
          {OpKind::softmax_backward, OpKind::softmax},
          {OpKind::log_softmax_backward, OpKind::log_softmax}};
}

}  // namespace hearth::testing
