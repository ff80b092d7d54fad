#include "op_examples.hpp"

#include <cstdint>
#include <utility>

#include <hearth/runtime/distance_ops.hpp>
#include <hearth/runtime/fourier_ops.hpp>
#include <hearth/runtime/linalg_ops.hpp>
#include <hearth/runtime/matrix_ops.hpp>
#include <hearth/runtime/metric_losses.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/selection_ops.hpp>
#include <hearth/runtime/sequence_losses.hpp>
#include <hearth/runtime/vision_ops.hpp>

namespace hearth::docs {

const Tensor& OpInputs::kept(const std::string& what, DType type, const Shape& shape) {
  Tensor& tensor = made_[what + shape.to_string()];
  if (!tensor.is_valid()) {
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = what == "x" ? static_cast<float>(i % 7 + 1) / 8 : static_cast<float>(i % 2);
    }
    // Whole numbers for integers; floats lie between 0 and 1.
    const bool is_whole = what == "x" && !is_float(type);
    tensor = Tensor::from(device, values, shape);
    tensor = (is_whole ? tensor * 8 : tensor).to(type);
    tensor.device().sync();
  }
  return tensor;
}

Tensor OpInputs::x(const Shape& shape) {
  const Tensor& tensor = kept("x", dtype, shape);
  return factor ? tensor * *factor : tensor;
}

Tensor OpInputs::positive() {
  const Tensor& any = kept("x", dtype, {3, 3});
  Tensor& tensor = made_["positive"];
  if (!tensor.is_valid()) {
    tensor = any + eye(device, 3, {}, dtype) * 2;
    tensor.device().sync();
  }
  return factor ? tensor * *factor : tensor;
}

Tensor OpInputs::condition(const Shape& shape) {
  return kept("condition", DType::boolean, shape);
}

Tensor OpInputs::index(const Shape& shape) {
  return kept("index", DType::i64, shape);
}

const std::vector<OpExample>& op_examples() {
  using In = OpInputs;
  static const Shape kImage{1, 2, 4, 4};
  static const Shape kVolume{1, 2, 4, 4, 4};
  static const Shape kHeads{1, 2, 3, 4};
  static const std::vector<OpExample> examples{
      // creation
      {"full",
       [](In& in) {
         return full(in.device, {2, 3}, 1, in.dtype);
       }},
      {"zeros",
       [](In& in) {
         return zeros(in.device, {2, 3}, in.dtype);
       },
       "All elements 0."},
      {"ones",
       [](In& in) {
         return ones(in.device, {2, 3}, in.dtype);
       },
       "All elements 1."},
      {"zeros_like",
       [](In& in) { return zeros_like(in.x()); },
       "All elements 0, in the shape and type of another tensor."},
      {"ones_like",
       [](In& in) { return ones_like(in.x()); },
       "All elements 1, in the shape and type of another tensor."},
      {"arange", [](In& in) { return arange(in.device, 0, 2, 1, in.dtype); }},
      {"linspace", [](In& in) { return linspace(in.device, 0, 1, 5, in.dtype); }},
      {"eye", [](In& in) { return eye(in.device, 3, {}, in.dtype); }},
      {"random_uniform",
       [](In& in) { return random_uniform(in.device, {4}, in.generator, 0, 1, in.dtype); }},
      {"random_normal",
       [](In& in) { return random_normal(in.device, {4}, in.generator, 0, 1, in.dtype); }},
      {"random_bernoulli",
       [](In& in) { return random_bernoulli(in.device, {4}, in.generator, 0.5, in.dtype); }},
      {"randint", [](In& in) { return randint(in.device, {4}, in.generator, 0, 9, in.dtype); }},
      {"multinomial", [](In& in) { return multinomial(in.x(), 2, in.generator); }},
      // element by element
      {"cast", [](In& in) { return cast(in.x(), DType::f64); }},
      {"neg", [](In& in) { return neg(in.x()); }},
      {"abs", [](In& in) { return abs(in.x()); }, "The absolute value."},
      {"exp", [](In& in) { return exp(in.x()); }},
      {"expm1", [](In& in) { return expm1(in.x()); }},
      {"log", [](In& in) { return log(in.x()); }},
      {"log1p", [](In& in) { return log1p(in.x()); }},
      {"sqrt", [](In& in) { return sqrt(in.x()); }},
      {"rsqrt", [](In& in) { return rsqrt(in.x()); }},
      {"square", [](In& in) { return square(in.x()); }},
      {"sin", [](In& in) { return sin(in.x()); }},
      {"cos", [](In& in) { return cos(in.x()); }},
      {"tanh", [](In& in) { return tanh(in.x()); }},
      {"erf", [](In& in) { return erf(in.x()); }},
      {"atan", [](In& in) { return atan(in.x()); }},
      {"asin", [](In& in) { return asin(in.x()); }},
      {"acos", [](In& in) { return acos(in.x()); }},
      {"sigmoid", [](In& in) { return sigmoid(in.x()); }},
      {"recip", [](In& in) { return recip(in.x()); }},
      {"relu", [](In& in) { return relu(in.x()); }},
      {"leaky_relu", [](In& in) { return leaky_relu(in.x()); }},
      {"silu", [](In& in) { return silu(in.x()); }},
      {"gelu",
       [](In& in) { return gelu(in.x()); },
       "x·Φ(x), with the normal distribution function."},
      {"clamp", [](In& in) { return clamp(in.x(), 0, 1); }},
      {"elu", [](In& in) { return elu(in.x()); }},
      {"selu", [](In& in) { return selu(in.x()); }},
      {"celu", [](In& in) { return celu(in.x()); }},
      {"softplus", [](In& in) { return softplus(in.x()); }},
      {"mish", [](In& in) { return mish(in.x()); }},
      {"hardsigmoid", [](In& in) { return hardsigmoid(in.x()); }},
      {"hardswish", [](In& in) { return hardswish(in.x()); }},
      {"softsign", [](In& in) { return softsign(in.x()); }},
      {"log2", [](In& in) { return log2(in.x()); }},
      {"log10", [](In& in) { return log10(in.x()); }},
      {"tan", [](In& in) { return tan(in.x()); }},
      {"sinh", [](In& in) { return sinh(in.x()); }},
      {"cosh", [](In& in) { return cosh(in.x()); }},
      {"asinh", [](In& in) { return asinh(in.x()); }},
      {"acosh", [](In& in) { return acosh(in.x()); }},
      {"atanh", [](In& in) { return atanh(in.x()); }},
      {"logaddexp", [](In& in) { return logaddexp(in.x(), in.x()); }},
      {"lerp", [](In& in) { return lerp(in.x(), in.x(), 0.5); }},
      {"isnan", [](In& in) { return isnan(in.x()); }},
      {"isinf", [](In& in) { return isinf(in.x()); }},
      {"isfinite", [](In& in) { return isfinite(in.x()); }},
      {"is_finite", [](In& in) { return is_finite(in.x()); }},
      {"nan_to_num", [](In& in) { return nan_to_num(in.x()); }},
      {"dropout", [](In& in) { return dropout(in.x(), 0.5, in.generator); }},
      {"floor", [](In& in) { return floor(in.x()); }},
      {"ceil", [](In& in) { return ceil(in.x()); }},
      {"round", [](In& in) { return round(in.x()); }},
      {"trunc", [](In& in) { return trunc(in.x()); }},
      {"sign", [](In& in) { return sign(in.x()); }},
      // two operands
      {"floor_divide", [](In& in) { return floor_divide(in.x(), in.x()); }},
      {"remainder", [](In& in) { return remainder(in.x(), in.x()); }},
      {"add", [](In& in) { return add(in.x(), in.x()); }},
      {"sub", [](In& in) { return sub(in.x(), in.x()); }},
      {"mul", [](In& in) { return mul(in.x(), in.x()); }},
      {"div", [](In& in) { return div(in.x(), in.x()); }},
      {"pow", [](In& in) { return pow(in.x(), in.x()); }},
      {"minimum", [](In& in) { return minimum(in.x(), in.x()); }, "The smaller of the two."},
      {"maximum", [](In& in) { return maximum(in.x(), in.x()); }, "The larger of the two."},
      {"atan2", [](In& in) { return atan2(in.x(), in.x()); }},
      {"equal", [](In& in) { return equal(in.x(), in.x()); }},
      {"not_equal", [](In& in) { return not_equal(in.x(), in.x()); }},
      {"less", [](In& in) { return less(in.x(), in.x()); }},
      {"less_equal", [](In& in) { return less_equal(in.x(), in.x()); }},
      {"greater", [](In& in) { return greater(in.x(), in.x()); }},
      {"greater_equal", [](In& in) { return greater_equal(in.x(), in.x()); }},
      {"where", [](In& in) { return where(in.condition(), in.x(), in.x()); }},
      {"masked_fill", [](In& in) { return masked_fill(in.x(), in.condition(), 1); }},
      {"logical_and",
       [](In& in) { return logical_and(in.x(), in.x()); },
       "True where both operands are not 0; NaN is not 0."},
      {"logical_or",
       [](In& in) { return logical_or(in.x(), in.x()); },
       "True where at least one operand is not 0."},
      {"logical_xor",
       [](In& in) { return logical_xor(in.x(), in.x()); },
       "True where exactly one operand is not 0."},
      {"logical_not", [](In& in) { return logical_not(in.x()); }, "True where x is 0."},
      {"bitwise_and", [](In& in) { return bitwise_and(in.x(), in.x()); }},
      {"bitwise_or",
       [](In& in) { return bitwise_or(in.x(), in.x()); },
       "The bits that at least one operand has; of bools logical_or."},
      {"bitwise_xor",
       [](In& in) { return bitwise_xor(in.x(), in.x()); },
       "The bits in which the operands differ; of bools logical_xor."},
      {"bitwise_not",
       [](In& in) { return bitwise_not(in.x()); },
       "All bits inverted; of bools logical_not."},
      {"shift_left", [](In& in) { return shift_left(in.x(), in.x()); }},
      {"shift_right", [](In& in) { return shift_right(in.x(), in.x()); }},
      // views
      {"reshape",
       [](In& in) {
         return reshape(in.x(), {3, 2});
       },
       "The same elements in another shape. One entry may be -1: it is computed from the others."},
      {"flatten", [](In& in) { return flatten(in.x()); }},
      {"permute",
       [](In& in) {
         return permute(in.x(), {1, 0});
       }},
      {"transpose", [](In& in) { return transpose(in.x()); }},
      {"slice",
       [](In& in) { return slice(in.x(), 1, {.start = 1}); },
       "A part of one axis, from a start to a stop in steps, which may be negative."},
      {"expand",
       [](In& in) {
         return expand(in.x(), {4, 2, 3});
       }},
      {"unsqueeze", [](In& in) { return unsqueeze(in.x(), 0); }, "Adds an axis of size 1."},
      {"squeeze",
       [](In& in) {
         return squeeze(in.x({1, 3}), 0);
       },
       "Removes an axis of size 1."},
      {"split", [](In& in) { return split(in.x(), 1)[0]; }},
      {"chunk", [](In& in) { return chunk(in.x(), 2)[0]; }},
      {"tril", [](In& in) { return tril(in.x()); }},
      {"triu", [](In& in) { return triu(in.x()); }},
      {"contiguous", [](In& in) { return contiguous(transpose(in.x())); }},
      {"concat",
       [](In& in) {
         return concat({in.x(), in.x()});
       }},
      {"stack",
       [](In& in) {
         return stack({in.x(), in.x()});
       }},
      {"repeat",
       [](In& in) {
         return repeat(in.x(), {2, 1});
       }},
      {"flip", [](In& in) { return flip(in.x(), 1); }},
      {"roll", [](In& in) { return roll(in.x(), 1, 1); }},
      {"pad", [](In& in) { return pad(in.x(), {PadAxis{.axis = -1, .before = 1, .after = 1}}); }},
      // by index
      {"gather",
       [](In& in) {
         return gather(in.x(), 1, in.index({2, 2}));
       }},
      {"index_select", [](In& in) { return index_select(in.x(), 1, in.index({4})); }},
      {"embedding", [](In& in) { return embedding(in.x(), in.index({4})); }},
      {"scatter",
       [](In& in) {
         return scatter(in.x(), 1, in.index({2, 2}), in.x({2, 2}));
       }},
      {"scatter_add",
       [](In& in) {
         return scatter_add(in.x(), 1, in.index({2, 2}), in.x({2, 2}));
       }},
      {"index_add",
       [](In& in) {
         return index_add(in.x(), 1, in.index({2}), in.x({2, 2}));
       }},
      {"one_hot", [](In& in) { return one_hot(in.index({2}), 3, in.dtype); }},
      // reductions
      {"sum",
       [](In& in) { return sum(in.x()); },
       "The sum over axes; integers and bools give i64, which wraps."},
      {"mean",
       [](In& in) { return mean(in.x()); },
       "The mean over axes; integers and bools give f32."},
      {"max", [](In& in) { return max(in.x()); }, "The largest over axes."},
      {"min", [](In& in) { return min(in.x()); }, "The smallest over axes."},
      {"prod",
       [](In& in) { return prod(in.x()); },
       "The product over axes; integers wrap; no elements give 1."},
      {"any", [](In& in) { return any(in.x()); }},
      {"all", [](In& in) { return all(in.x()); }},
      {"var", [](In& in) { return var(in.x()); }},
      {"stddev", [](In& in) { return stddev(in.x()); }},
      {"logsumexp", [](In& in) { return logsumexp(in.x()); }},
      {"argmax", [](In& in) { return argmax(in.x(), 1); }},
      {"argmin",
       [](In& in) { return argmin(in.x(), 1); },
       "Index (i64) of the smallest value; otherwise as argmax."},
      // contractions
      {"matmul",
       [](In& in) {
         return matmul(in.x(), in.x({3, 2}));
       }},
      {"einsum",
       [](In& in) {
         return einsum("ij,jk->ik", {in.x(), in.x({3, 2})});
       }},
      {"conv2d",
       [](In& in) {
         return conv2d(in.x(kImage), in.x({3, 2, 3, 3}));
       }},
      {"conv1d",
       [](In& in) {
         return conv1d(in.x({1, 2, 5}), in.x({3, 2, 3}));
       },
       "1-D convolution: x [n, c, length], weight [o, c/groups, k], bias [o] -> [n, o, length']."},
      {"conv3d",
       [](In& in) {
         return conv3d(in.x({1, 2, 3, 3, 3}), in.x({3, 2, 2, 2, 2}));
       }},
      {"conv_transpose2d",
       [](In& in) {
         return conv_transpose2d(in.x(kImage), in.x({2, 3, 3, 3}));
       }},
      {"conv_transpose1d",
       [](In& in) {
         return conv_transpose1d(in.x({1, 2, 5}), in.x({2, 3, 3}));
       }},
      {"max_pool2d", [](In& in) { return max_pool2d(in.x(kImage)); }},
      {"avg_pool2d", [](In& in) { return avg_pool2d(in.x(kImage)); }},
      {"max_pool1d",
       [](In& in) {
         return max_pool1d(in.x({1, 2, 4}));
       }},
      {"avg_pool1d",
       [](In& in) {
         return avg_pool1d(in.x({1, 2, 4}));
       }},
      {"max_pool3d", [](In& in) { return max_pool3d(in.x(kVolume)); }},
      {"avg_pool3d", [](In& in) { return avg_pool3d(in.x(kVolume)); }},
      {"adaptive_avg_pool2d",
       [](In& in) {
         return adaptive_avg_pool2d(in.x(kImage), {2, 2});
       }},
      // resampling
      {"interpolate",
       [](In& in) {
         return interpolate(in.x(kImage), {.size = {4, 6}});
       }},
      {"grid_sample",
       [](In& in) {
         return grid_sample(in.x(kImage), in.x({1, 3, 3, 2}));
       }},
      {"affine_grid",
       [](In& in) {
         return affine_grid(in.x({1, 2, 3}), {1, 1, 2, 2});
       }},
      // selection and order
      {"nonzero", [](In& in) { return nonzero(in.x()); }},
      {"masked_select", [](In& in) { return masked_select(in.x(), in.condition()); }},
      {"unique", [](In& in) { return unique(in.x()).values; }},
      {"bincount", [](In& in) { return bincount(in.x({4})); }},
      {"searchsorted", [](In& in) { return searchsorted(in.x({3}), in.x()); }},
      {"bucketize", [](In& in) { return bucketize(in.x(), in.x({3})); }},
      {"median", [](In& in) { return median(in.x()); }},
      {"quantile", [](In& in) { return quantile(in.x(), 0.25); }},
      // matrices and grids
      {"diagonal", [](In& in) { return diagonal(in.x()); }},
      {"diag_embed", [](In& in) { return diag_embed(in.x()); }},
      {"trace", [](In& in) { return trace(in.x()); }},
      {"meshgrid",
       [](In& in) {
         return meshgrid({in.x({2}), in.x({3})})[0];
       }},
      {"outer", [](In& in) { return outer(in.x({2}), in.x({3})); }},
      {"kron", [](In& in) { return kron(in.x(), in.x()); }},
      // norms and distances
      {"vector_norm", [](In& in) { return vector_norm(in.x()); }},
      {"normalize", [](In& in) { return normalize(in.x()); }},
      {"cosine_similarity", [](In& in) { return cosine_similarity(in.x(), in.x()); }},
      {"cdist", [](In& in) { return cdist(in.x(), in.x()); }},
      // vision
      {"box_iou",
       [](In& in) {
         return box_iou(in.x({3, 4}), in.x({2, 4}));
       }},
      {"nms",
       [](In& in) {
         return nms(in.x({3, 4}), in.x({3}), 0.5);
       }},
      {"batched_nms",
       [](In& in) {
         return batched_nms(in.x({3, 4}), in.x({3}), in.index({3}), 0.5);
       }},
      {"roi_align",
       [](In& in) {
         return roi_align(in.x(kImage), in.x({2, 5}));
       }},
      // linear algebra
      {"cholesky", [](In& in) { return cholesky(in.positive()); }},
      {"solve", [](In& in) { return solve(in.positive(), in.x({3})); }},
      {"solve_triangular",
       [](In& in) {
         return solve_triangular(in.positive(), in.x({3, 2}));
       }},
      {"inverse", [](In& in) { return inverse(in.positive()); }},
      {"determinant", [](In& in) { return determinant(in.positive()); }},
      {"slogdet", [](In& in) { return slogdet(in.positive()).log_magnitude; }},
      {"qr", [](In& in) { return qr(in.positive()).q; }},
      {"eigh", [](In& in) { return eigh(in.positive()).values; }},
      {"svd", [](In& in) { return svd(in.positive()).values; }},
      {"lstsq",
       [](In& in) {
         return lstsq(in.positive(), in.x({3, 2}));
       }},
      // Fourier transforms
      {"fft",
       [](In& in) {
         return fft(in.x({3, 2}));
       }},
      {"ifft",
       [](In& in) {
         return ifft(in.x({3, 2}));
       }},
      {"rfft", [](In& in) { return rfft(in.x({4})); }},
      {"irfft",
       [](In& in) {
         return irfft(in.x({3, 2}));
       }},
      {"fft2",
       [](In& in) {
         return fft2(in.x({2, 3, 2}));
       }},
      {"ifft2",
       [](In& in) {
         return ifft2(in.x({2, 3, 2}));
       }},
      {"fftshift", [](In& in) { return fftshift(in.x(), 0); }},
      {"ifftshift", [](In& in) { return ifftshift(in.x(), 0); }},
      {"fftfreq", [](In& in) { return fftfreq(in.device, 4, 1, in.dtype); }},
      {"rfftfreq", [](In& in) { return rfftfreq(in.device, 4, 1, in.dtype); }},
      {"complex_mul",
       [](In& in) {
         return complex_mul(in.x({3, 2}), in.x({3, 2}));
       }},
      {"complex_abs",
       [](In& in) {
         return complex_abs(in.x({3, 2}));
       }},
      {"hann_window", [](In& in) { return hann_window(in.device, 4, {}, in.dtype); }},
      {"stft", [](In& in) { return stft(in.x({9}), in.x({4}), {.size = 4}); }},
      {"istft",
       [](In& in) {
         return istft(in.x({3, 4, 2}), in.x({4}), {.size = 4});
       }},
      // rows and losses
      {"softmax", [](In& in) { return softmax(in.x()); }},
      {"log_softmax", [](In& in) { return log_softmax(in.x()); }},
      {"cumsum", [](In& in) { return cumsum(in.x(), 1); }},
      {"cumprod", [](In& in) { return cumprod(in.x(), 1); }},
      {"cummax", [](In& in) { return cummax(in.x(), 1); }},
      {"cummin", [](In& in) { return cummin(in.x(), 1); }},
      {"layer_norm", [](In& in) { return layer_norm(in.x()); }},
      {"rms_norm", [](In& in) { return rms_norm(in.x()); }},
      {"group_norm", [](In& in) { return group_norm(in.x(kImage), 2); }},
      {"topk", [](In& in) { return topk(in.x(), 2).values; }},
      {"sort", [](In& in) { return sort(in.x()).values; }},
      {"attention", [](In& in) { return attention(in.x(kHeads), in.x(kHeads), in.x(kHeads)); }},
      {"cross_entropy_per_row",
       [](In& in) { return cross_entropy_per_row(in.x(), in.index({2})); },
       "Cross-entropy of each row."},
      {"cross_entropy", [](In& in) { return cross_entropy(in.x(), in.index({2})); }},
      {"nll_loss", [](In& in) { return nll_loss(in.x(), in.index({2})); }},
      {"mse_loss", [](In& in) { return mse_loss(in.x(), in.x()); }},
      {"l1_loss", [](In& in) { return l1_loss(in.x(), in.x()); }},
      {"huber_loss", [](In& in) { return huber_loss(in.x(), in.x()); }},
      {"smooth_l1_loss", [](In& in) { return smooth_l1_loss(in.x(), in.x()); }},
      {"kl_div_loss", [](In& in) { return kl_div_loss(in.x(), in.x()); }},
      {"ctc_loss_per_sequence",
       [](In& in) {
         return ctc_loss_per_sequence(
             in.x({3, 2, 4}), in.index({2, 1}), in.index({2}), in.index({2}));
       }},
      {"ctc_loss",
       [](In& in) {
         return ctc_loss(in.x({3, 2, 4}), in.index({2, 1}), in.index({2}), in.index({2}));
       }},
      {"triplet_margin_loss", [](In& in) { return triplet_margin_loss(in.x(), in.x(), in.x()); }},
      {"cosine_embedding_loss",
       [](In& in) { return cosine_embedding_loss(in.x(), in.x(), in.index({2})); }},
      {"binary_cross_entropy_with_logits",
       [](In& in) { return binary_cross_entropy_with_logits(in.x(), in.x()); }},
  };
  return examples;
}

}  // namespace hearth::docs
