// One function for each family of kinds, in the .cpp named beside it. Private to
// backends/reference. Operands have the number, types and shapes that the op table and the shape
// rules require; evaluate() has checked the types.
#pragma once

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth::reference {

[[nodiscard]] Status evaluate_creation(
    const KernelCall& call);                                 // creation.cpp: fill, arange, random_*
[[nodiscard]] Status evaluate_cast(const KernelCall& call);  // unary.cpp
[[nodiscard]] Status evaluate_unary(const KernelCall& call);    // unary.cpp
[[nodiscard]] Status evaluate_dropout(const KernelCall& call);  // unary.cpp
[[nodiscard]] Status evaluate_arithmetic(
    const KernelCall& call);  // binary.cpp: add ... max, relu_backward, atan2, bits of integers
[[nodiscard]] Status evaluate_comparison(const KernelCall& call);  // binary.cpp
[[nodiscard]] Status evaluate_movement(
    const KernelCall& call);  // movement.cpp: where, copy, concat, slice_scatter
[[nodiscard]] Status evaluate_reduction(
    const KernelCall& call);  // reduction.cpp: sum, mean, max, min, prod, argmax, argmin
[[nodiscard]] Status evaluate_scan(const KernelCall& call);    // scan.cpp: cumsum ... cummin
[[nodiscard]] Status evaluate_topk(const KernelCall& call);    // topk.cpp
[[nodiscard]] Status evaluate_matmul(const KernelCall& call);  // matmul.cpp
[[nodiscard]] Status evaluate_convolution(
    const KernelCall& call);  // convolution.cpp: conv2d and its gradients
[[nodiscard]] Status evaluate_pooling(
    const KernelCall& call);  // pooling.cpp: max and avg, forward and backward
[[nodiscard]] Status evaluate_softmax(
    const KernelCall& call);  // softmax.cpp: softmax, log_softmax and their gradients
[[nodiscard]] Status evaluate_cross_entropy(
    const KernelCall& call);  // cross_entropy.cpp, forward and backward
[[nodiscard]] Status evaluate_attention(
    const KernelCall& call);  // attention.cpp, forward and backward
[[nodiscard]] Status evaluate_optimizer(
    const KernelCall& call);  // optimizer.cpp: sgd_step, adam_step
[[nodiscard]] Status evaluate_indexing(
    const KernelCall& call);  // indexing.cpp: gather, index_select and their adjoints
[[nodiscard]] Status evaluate_scatter(const KernelCall& call);  // indexing.cpp
[[nodiscard]] Status evaluate_expression(
    const KernelCall& call);  // expression.cpp: the interpreter of KernelIR
[[nodiscard]] Status evaluate_custom(const KernelCall& call);  // custom.cpp: the program's function
[[nodiscard]] Status evaluate_with_epilogue(
    const KernelCall& call);  // epilogue.cpp: an op of one result, then an expression on it
[[nodiscard]] Status evaluate_with_prologue(
    const KernelCall& call);  // prologue.cpp: the producer of an input, then the op

}  // namespace hearth::reference
