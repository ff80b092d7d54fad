// An error names the op that the user called, whatever kinds it consists of and however its
// operands are cast. There is one mistake for each public op; tests/repo compares them with the
// header.
#include <hearth/runtime/distance_ops.hpp>
#include <hearth/runtime/fourier_ops.hpp>
#include <hearth/runtime/linalg_ops.hpp>
#include <hearth/runtime/matrix_ops.hpp>
#include <hearth/runtime/metric_losses.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/selection_ops.hpp>
#include <hearth/runtime/sequence_losses.hpp>
#include <hearth/runtime/vision_ops.hpp>

#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

namespace hearth {
namespace {

using ::testing::StartsWith;
using OpNamesTest = testing::ReferenceTest;

struct Mistake {
  std::string op;
  std::function<void()> make;
};

void expect_names(const std::vector<Mistake>& mistakes) {
  for (const Mistake& mistake : mistakes) {
    try {
      mistake.make();
      ADD_FAILURE() << mistake.op << ": nothing was thrown";
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.error().text, StartsWith(mistake.op + ": "));
      EXPECT_EQ(error.error().op, mistake.op);
      EXPECT_NE(error.error().location.line, 0U) << mistake.op;
    }
  }
}

TEST_F(OpNamesTest, OpsOfOneTensorNameThemselves) {
  const Tensor no;
  Generator g;
  expect_names({
      {"zeros_like", [&] { (void)zeros_like(no); }},
      {"ones_like", [&] { (void)ones_like(no); }},
      {"multinomial", [&] { (void)multinomial(no, 1, g); }},
      {"cast", [&] { (void)cast(no, DType::f64); }},
      {"neg", [&] { (void)neg(no); }},
      {"abs", [&] { (void)abs(no); }},
      {"exp", [&] { (void)exp(no); }},
      {"expm1", [&] { (void)expm1(no); }},
      {"log", [&] { (void)log(no); }},
      {"log1p", [&] { (void)log1p(no); }},
      {"sqrt", [&] { (void)sqrt(no); }},
      {"rsqrt", [&] { (void)rsqrt(no); }},
      {"square", [&] { (void)square(no); }},
      {"sin", [&] { (void)sin(no); }},
      {"cos", [&] { (void)cos(no); }},
      {"tanh", [&] { (void)tanh(no); }},
      {"erf", [&] { (void)erf(no); }},
      {"atan", [&] { (void)atan(no); }},
      {"asin", [&] { (void)asin(no); }},
      {"acos", [&] { (void)acos(no); }},
      {"bitwise_not", [&] { (void)bitwise_not(no); }},
      {"operator~", [&] { (void)~no; }},
      {"sigmoid", [&] { (void)sigmoid(no); }},
      {"recip", [&] { (void)recip(no); }},
      {"relu", [&] { (void)relu(no); }},
      {"floor", [&] { (void)floor(no); }},
      {"ceil", [&] { (void)ceil(no); }},
      {"round", [&] { (void)round(no); }},
      {"trunc", [&] { (void)trunc(no); }},
      {"sign", [&] { (void)sign(no); }},
      {"leaky_relu", [&] { (void)leaky_relu(no); }},
      {"silu", [&] { (void)silu(no); }},
      {"gelu", [&] { (void)gelu(no); }},
      {"clamp", [&] { (void)clamp(no, 0); }},
      {"elu", [&] { (void)elu(no); }},
      {"selu", [&] { (void)selu(no); }},
      {"celu", [&] { (void)celu(no); }},
      {"softplus", [&] { (void)softplus(no); }},
      {"mish", [&] { (void)mish(no); }},
      {"hardsigmoid", [&] { (void)hardsigmoid(no); }},
      {"hardswish", [&] { (void)hardswish(no); }},
      {"softsign", [&] { (void)softsign(no); }},
      {"log2", [&] { (void)log2(no); }},
      {"log10", [&] { (void)log10(no); }},
      {"tan", [&] { (void)tan(no); }},
      {"sinh", [&] { (void)sinh(no); }},
      {"cosh", [&] { (void)cosh(no); }},
      {"asinh", [&] { (void)asinh(no); }},
      {"acosh", [&] { (void)acosh(no); }},
      {"atanh", [&] { (void)atanh(no); }},
      {"isnan", [&] { (void)isnan(no); }},
      {"isinf", [&] { (void)isinf(no); }},
      {"isfinite", [&] { (void)isfinite(no); }},
      {"is_finite", [&] { (void)is_finite(no); }},
      {"nan_to_num", [&] { (void)nan_to_num(no); }},
      {"dropout", [&] { (void)dropout(no, 0.5, g); }},
      {"logical_not", [&] { (void)logical_not(no); }},
      {"reshape", [&] { (void)reshape(no, {1}); }},
      {"flatten", [&] { (void)flatten(no); }},
      {"permute", [&] { (void)permute(no, {0}); }},
      {"transpose", [&] { (void)transpose(no); }},
      {"slice", [&] { (void)slice(no, 0, {}); }},
      {"expand", [&] { (void)expand(no, {1}); }},
      {"unsqueeze", [&] { (void)unsqueeze(no, 0); }},
      {"squeeze", [&] { (void)squeeze(no, 0); }},
      {"split", [&] { (void)split(no, 1); }},
      {"chunk", [&] { (void)chunk(no, 1); }},
      {"tril", [&] { (void)tril(no); }},
      {"triu", [&] { (void)triu(no); }},
      {"contiguous", [&] { (void)contiguous(no); }},
      {"concat", [&] { (void)concat({no}); }},
      {"stack", [&] { (void)stack({no}); }},
      {"repeat", [&] { (void)repeat(no, {1}); }},
      {"pad", [&] { (void)pad(no, {{.axis = 0, .before = 1}}); }},
      {"flip", [&] { (void)flip(no); }},
      {"roll", [&] { (void)roll(no, 1); }},
      {"roll", [&] { (void)roll(no, 1, 0); }},
      {"interpolate", [&] { (void)interpolate(no, {.size = 3}); }},
      {"affine_grid",
       [&] {
         (void)affine_grid(no, {1, 1, 2, 2});
       }},
      {"one_hot", [&] { (void)one_hot(no, 3); }},
      {"sum", [&] { (void)sum(no); }},
      {"mean", [&] { (void)mean(no); }},
      {"max", [&] { (void)max(no); }},
      {"min", [&] { (void)min(no); }},
      {"prod", [&] { (void)prod(no); }},
      {"any", [&] { (void)any(no); }},
      {"all", [&] { (void)all(no); }},
      {"var", [&] { (void)var(no); }},
      {"stddev", [&] { (void)stddev(no); }},
      {"logsumexp", [&] { (void)logsumexp(no); }},
      {"argmax", [&] { (void)argmax(no); }},
      {"argmin", [&] { (void)argmin(no); }},
      {"max_pool1d", [&] { (void)max_pool1d(no); }},
      {"avg_pool1d", [&] { (void)avg_pool1d(no); }},
      {"max_pool3d", [&] { (void)max_pool3d(no); }},
      {"avg_pool3d", [&] { (void)avg_pool3d(no); }},
      {"max_pool2d", [&] { (void)max_pool2d(no); }},
      {"avg_pool2d", [&] { (void)avg_pool2d(no); }},
      {"adaptive_avg_pool2d",
       [&] {
         (void)adaptive_avg_pool2d(no, {1, 1});
       }},
      {"softmax", [&] { (void)softmax(no); }},
      {"log_softmax", [&] { (void)log_softmax(no); }},
      {"cumsum", [&] { (void)cumsum(no, 0); }},
      {"cumprod", [&] { (void)cumprod(no, 0); }},
      {"cummax", [&] { (void)cummax(no, 0); }},
      {"cummin", [&] { (void)cummin(no, 0); }},
      {"layer_norm", [&] { (void)layer_norm(no); }},
      {"rms_norm", [&] { (void)rms_norm(no); }},
      {"group_norm", [&] { (void)group_norm(no, 1); }},
      {"topk", [&] { (void)topk(no, 1); }},
      {"sort", [&] { (void)sort(no); }},
      {"nonzero", [&] { (void)nonzero(no); }},
      {"unique", [&] { (void)unique(no); }},
      {"bincount", [&] { (void)bincount(no); }},
      {"median", [&] { (void)median(no); }},
      {"median", [&] { (void)median(no, 0); }},
      {"quantile", [&] { (void)quantile(no, 0.5); }},
      {"diagonal", [&] { (void)diagonal(no); }},
      {"diag_embed", [&] { (void)diag_embed(no); }},
      {"trace", [&] { (void)trace(no); }},
      {"meshgrid", [&] { (void)meshgrid({no}); }},
      {"vector_norm", [&] { (void)vector_norm(no); }},
      {"normalize", [&] { (void)normalize(no); }},
      {"cholesky", [&] { (void)cholesky(no); }},
      {"inverse", [&] { (void)inverse(no); }},
      {"determinant", [&] { (void)determinant(no); }},
      {"slogdet", [&] { (void)slogdet(no); }},
      {"qr", [&] { (void)qr(no); }},
      {"eigh", [&] { (void)eigh(no); }},
      {"svd", [&] { (void)svd(no); }},
      {"fft", [&] { (void)fft(no); }},
      {"ifft", [&] { (void)ifft(no); }},
      {"rfft", [&] { (void)rfft(no); }},
      {"irfft", [&] { (void)irfft(no); }},
      {"fft2", [&] { (void)fft2(no); }},
      {"ifft2", [&] { (void)ifft2(no); }},
      {"fftshift", [&] { (void)fftshift(no, 0); }},
      {"ifftshift", [&] { (void)ifftshift(no, 0); }},
      {"complex_abs", [&] { (void)complex_abs(no); }},
  });
}

TEST_F(OpNamesTest, OpsOfSeveralTensorsNameThemselves) {
  const Tensor no;
  const Tensor x = ones(device(), {2, 3});
  expect_names({
      {"add", [&] { (void)(no + x); }},
      {"sub", [&] { (void)(x - no); }},
      {"mul", [&] { (void)(no * 2); }},
      {"div", [&] { (void)(2 / no); }},
      {"pow", [&] { (void)pow(no, x); }},
      {"atan2", [&] { (void)atan2(no, x); }},
      {"bitwise_and", [&] { (void)bitwise_and(no, x); }},
      {"bitwise_or", [&] { (void)bitwise_or(no, x); }},
      {"bitwise_xor", [&] { (void)bitwise_xor(x, no); }},
      {"shift_left", [&] { (void)shift_left(no, 1); }},
      {"shift_right", [&] { (void)shift_right(no, 1); }},
      {"scatter", [&] { (void)scatter(no, 0, x, x); }},
      {"floor_divide", [&] { (void)floor_divide(no, x); }},
      {"remainder", [&] { (void)remainder(no, 2); }},
      {"minimum", [&] { (void)minimum(no, x); }},
      {"maximum", [&] { (void)maximum(x, no); }},
      {"equal", [&] { (void)equal(no, x); }},
      {"not_equal", [&] { (void)not_equal(no, x); }},
      {"less", [&] { (void)less(no, x); }},
      {"less_equal", [&] { (void)less_equal(no, x); }},
      {"greater", [&] { (void)greater(no, x); }},
      {"greater_equal", [&] { (void)greater_equal(no, x); }},
      {"where", [&] { (void)where(no, x, x); }},
      {"masked_fill", [&] { (void)masked_fill(x, no, 1); }},
      {"logical_and", [&] { (void)logical_and(no, x); }},
      {"logical_or", [&] { (void)logical_or(no, x); }},
      {"logical_xor", [&] { (void)logical_xor(no, x); }},
      {"operator&", [&] { (void)(no & x); }},
      {"operator|", [&] { (void)(no | x); }},
      {"operator^", [&] { (void)(no ^ x); }},
      {"operator!", [&] { (void)!no; }},
      {"all_equal", [&] { (void)all_equal(no, x); }},
      {"allclose", [&] { (void)allclose(no, x); }},
      {"logaddexp", [&] { (void)logaddexp(x, no); }},
      {"lerp", [&] { (void)lerp(x, no, 0.5); }},
      {"grid_sample", [&] { (void)grid_sample(x, no); }},
      {"masked_select", [&] { (void)masked_select(x, no); }},
      {"searchsorted", [&] { (void)searchsorted(no, x); }},
      {"bucketize", [&] { (void)bucketize(x, no); }},
      {"outer", [&] { (void)outer(no, x); }},
      {"kron", [&] { (void)kron(x, no); }},
      {"solve", [&] { (void)solve(no, x); }},
      {"solve_triangular", [&] { (void)solve_triangular(no, x); }},
      {"lstsq", [&] { (void)lstsq(no, x); }},
      {"complex_mul", [&] { (void)complex_mul(no, x); }},
      {"stft", [&] { (void)stft(no, x, {}); }},
      {"istft", [&] { (void)istft(no, x, {}); }},
      {"cosine_similarity", [&] { (void)cosine_similarity(x, no); }},
      {"cdist", [&] { (void)cdist(x, no); }},
      {"box_iou", [&] { (void)box_iou(x, no); }},
      {"nms", [&] { (void)nms(no, x, 0.5); }},
      {"batched_nms", [&] { (void)batched_nms(no, x, x, 0.5); }},
      {"roi_align", [&] { (void)roi_align(x, no); }},
      {"gather", [&] { (void)gather(x, 0, no); }},
      {"index_select", [&] { (void)index_select(x, 0, no); }},
      {"embedding", [&] { (void)embedding(x, no); }},
      {"scatter_add", [&] { (void)scatter_add(x, 0, no, x); }},
      {"index_add", [&] { (void)index_add(x, 0, no, x); }},
      {"matmul", [&] { (void)matmul(x, no); }},
      {"einsum",
       [&] {
         (void)einsum("ij,jk->ik", {x, no});
       }},
      {"conv2d", [&] { (void)conv2d(x, no); }},
      {"conv1d", [&] { (void)conv1d(x, no); }},
      {"conv3d", [&] { (void)conv3d(x, no); }},
      {"conv_transpose2d", [&] { (void)conv_transpose2d(x, no); }},
      {"conv_transpose1d", [&] { (void)conv_transpose1d(x, no); }},
      {"attention", [&] { (void)attention(x, no, x); }},
      {"cross_entropy_per_row", [&] { (void)cross_entropy_per_row(x, no); }},
      {"cross_entropy", [&] { (void)cross_entropy(x, no); }},
      {"nll_loss", [&] { (void)nll_loss(x, no); }},
      {"mse_loss", [&] { (void)mse_loss(x, no); }},
      {"l1_loss", [&] { (void)l1_loss(x, no); }},
      {"huber_loss", [&] { (void)huber_loss(x, no); }},
      {"smooth_l1_loss", [&] { (void)smooth_l1_loss(x, no); }},
      {"kl_div_loss", [&] { (void)kl_div_loss(x, no); }},
      {"ctc_loss", [&] { (void)ctc_loss(x, no, x, x); }},
      {"ctc_loss_per_sequence", [&] { (void)ctc_loss_per_sequence(x, x, no, x); }},
      {"triplet_margin_loss", [&] { (void)triplet_margin_loss(x, x, no); }},
      {"cosine_embedding_loss", [&] { (void)cosine_embedding_loss(x, x, no); }},
      {"binary_cross_entropy_with_logits", [&] { (void)binary_cross_entropy_with_logits(x, no); }},
  });
}

TEST_F(OpNamesTest, OpsThatMakeTensorsNameThemselves) {
  Generator g;
  const Device d = device();
  expect_names({
      {"full", [&] { (void)full(d, {1}, 0.5, DType::i32); }},
      {"full", [&] { (void)full(d, {1}, 300, DType::u8); }},
      {"arange", [&] { (void)arange(d, 0, 1, 0); }},
      {"linspace", [&] { (void)linspace(d, 0, 1, -1); }},
      {"eye", [&] { (void)eye(d, -1); }},
      {"random_uniform", [&] { (void)random_uniform(d, {1}, g, 1, 0); }},
      {"random_normal", [&] { (void)random_normal(d, {1}, g, 0, -1); }},
      {"random_bernoulli", [&] { (void)random_bernoulli(d, {1}, g, 2); }},
      {"randint", [&] { (void)randint(d, {1}, g, 1, 0); }},
  });
}

// Each of these runs ops of other names, on operands that its own rule refuses.
TEST_F(OpNamesTest, OpsMadeOfOthersNameThemselvesInEachOfTheirChecks) {
  const Tensor x = ones(device(), {2, 3});
  const Tensor n = ones(device(), {2, 3}, DType::i32);
  const Tensor y = ones(device(), {4});
  const Tensor mask = equal(x, x);
  expect_names({
      {"mean", [&] { (void)mean(n, 5); }},
      {"mean", [&] { (void)mean(mask, 5); }},
      {"sum", [&] { (void)sum(n, 5); }},
      {"sum",
       [&] {
         (void)sum(mask, {0, 0});
       }},
      {"prod", [&] { (void)prod(n, -3); }},
      {"cumsum", [&] { (void)cumsum(n, 2); }},
      {"cummax", [&] { (void)cummax(n, 2); }},
      {"asin", [&] { (void)asin(n); }},
      {"operator|", [&] { (void)(x | n); }},
      {"any", [&] { (void)any(x, 2); }},
      {"stddev", [&] { (void)stddev(x, 2); }},
      {"add", [&] { (void)(n + y); }},
      {"less", [&] { (void)(n < y); }},
      {"minimum", [&] { (void)minimum(n, y); }},
      {"remainder", [&] { (void)remainder(n, y); }},
      {"floor_divide", [&] { (void)floor_divide(x, y); }},
      {"where", [&] { (void)where(mask, n, y); }},
      {"clamp", [&] { (void)clamp(n, 0.5, y); }},
      {"logical_and", [&] { (void)logical_and(n, y); }},
      {"operator&", [&] { (void)(mask & (y == 1)); }},
      {"concat",
       [&] {
         (void)concat({n, y});
       }},
      {"stack",
       [&] {
         (void)stack({n, y});
       }},
      {"softmax", [&] { (void)softmax(n); }},
      {"silu", [&] { (void)silu(n); }},
      {"sort", [&] { (void)sort(x, {.axis = 4}); }},
      {"one_hot", [&] { (void)one_hot(x, 3); }},
      {"layer_norm", [&] { (void)layer_norm(x, y); }},
      {"cross_entropy", [&] { (void)cross_entropy(x, y); }},
      {"mse_loss", [&] { (void)mse_loss(x, y); }},
      {"tril", [&] { (void)tril(y); }},
      {"conv1d", [&] { (void)conv1d(x, y); }},
      {"conv3d", [&] { (void)conv3d(x, y); }},
      {"max_pool1d", [&] { (void)max_pool1d(x); }},
      {"avg_pool3d", [&] { (void)avg_pool3d(x); }},
      {"interpolate", [&] { (void)interpolate(x, {.size = 2}); }},
      {"grid_sample", [&] { (void)grid_sample(x, x); }},
      {"logaddexp", [&] { (void)logaddexp(n, n); }},
      {"lerp", [&] { (void)lerp(x, y, 0.5); }},
      {"allclose", [&] { (void)allclose(x, y); }},
      {"roll",
       [&] {
         (void)roll(x, {1}, {0, 1});
       }},
      {"conv_transpose2d", [&] { (void)conv_transpose2d(x, y); }},
      {"conv_transpose1d", [&] { (void)conv_transpose1d(x, y); }},
  });
}

}  // namespace
}  // namespace hearth
