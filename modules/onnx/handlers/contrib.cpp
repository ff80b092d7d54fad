// Attention, rotary embeddings, and the ops of com.microsoft that exporters of language models
// emit.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

#include <cmath>

namespace hearth::onnx {
namespace contrib_ops {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

void gelu_with_bias(Call& call) {
  const OnnxType type = call.type(0);
  Tensor x = call.take(0);
  call.give(gelu(call.has(1) ? add(std::move(x), call.take(1)) : std::move(x)), type);
}

void fast_gelu(Call& call) {
  const OnnxType type = call.type(0);
  Tensor x = call.take(0);
  call.give(gelu(call.has(1) ? add(std::move(x), call.take(1)) : std::move(x), GeluForm::tanh),
            type);
}

void quick_gelu(Call& call) {
  const OnnxType type = call.type(0);
  const Tensor x = widened(call.take(0));
  call.give(mul(x, sigmoid(mul(x, call.node().real("alpha", 1.702)))), type);
}

Tensor root_mean_square(const Tensor& x, const Tensor& weight, double epsilon) {
  const Tensor wide = widened(x);
  const Tensor power = mean(square(wide), -1, {.keep_dims = true});
  return mul(mul(wide, rsqrt(add(power, epsilon))), cast(weight, wide.dtype()));
}

void simplified_norm(Call& call) {
  const OnnxType type = call.type(0);
  const double epsilon = call.node().real("epsilon", 1e-5);
  const std::int64_t axis = call.node().integer("axis", -1);
  if (call.axis(axis, call.rank(0)) != call.rank(0) - 1) {
    call.refuse("axis {} is not the last one", axis);
  }
  const Tensor x = call.take(0);
  call.give(root_mean_square(x, call.take(1), epsilon), type);
}

// Inputs: x, skip, weight, bias of the result, bias of the sum. Result 3 is the sum.
void skip_simplified_norm(Call& call) {
  const OnnxType type = call.type(0);
  Tensor sum = add(call.take(0), call.take(1));
  if (call.has(3)) {
    sum = add(std::move(sum), call.take(3));
  }
  call.give(0, root_mean_square(sum, call.take(2), call.node().real("epsilon", 1e-5)), type);
  call.give(3, sum, type);
}

void skip_norm(Call& call) {
  const OnnxType type = call.type(0);
  const NormOptions options{.epsilon = call.node().real("epsilon", 1e-12)};
  Tensor sum = add(call.take(0), call.take(1));
  if (call.has(4)) {
    sum = add(std::move(sum), call.take(4));
  }
  const Tensor weight = call.take(2);
  call.give(0,
            call.has(3) ? layer_norm(sum, weight, call.take(3), options)
                        : layer_norm(sum, weight, options),
            type);
  call.give(3, sum, type);
}

void fused_product(Call& call) {
  const OnnxType type = call.type(0);
  Tensor a = call.take(0);
  Tensor b = call.take(1);
  if (call.node().integer("transA", 0) != 0) {
    a = transpose(std::move(a));
  }
  if (call.node().integer("transB", 0) != 0) {
    b = transpose(std::move(b));
  }
  const double alpha = call.node().real("alpha", 1);
  Tensor result = matmul(std::move(a), std::move(b));
  call.give(alpha == 1 ? std::move(result) : mul(std::move(result), alpha), type);
}

// [batch, length, heads·size] to [batch, heads, length, size].
Tensor in_heads(Tensor x, std::int64_t heads) {
  const Shape shape = x.shape();
  if (shape.rank() == 4) {
    return x;
  }
  return transpose(reshape(std::move(x), {shape[0], shape[1], heads, shape[2] / heads}), 1, 2);
}

Tensor joined_heads(Tensor x) {
  const Shape shape = x.shape();
  return reshape(transpose(std::move(x), 1, 2), {shape[0], shape[2], shape[1] * shape[3]});
}

std::string check_attention(const NodeInfo& node) {
  if (node.integer("qk_matmul_output_mode", 0) != 0 ||
      (node.is_wanted.size() > 3 && node.is_wanted[3])) {
    return "the scores are no result of this library's attention";
  }
  return node.real("softcap", 0) != 0 ? "attribute softcap limits the scores" : "";
}

// Past keys and values stand before the new ones. Opset 23.
void attend(Call& call) {
  const OnnxType type = call.type(0);
  const bool is_flat = call.rank(0) == 3;
  const std::int64_t query_heads = call.node().integer("q_num_heads", 0);
  const std::int64_t heads = call.node().integer("kv_num_heads", 0);
  if (is_flat && (query_heads < 1 || heads < 1)) {
    call.refuse("inputs of three axes need q_num_heads and kv_num_heads");
  }
  const Tensor query = in_heads(call.take(0), query_heads);
  Tensor key = in_heads(call.take(1), heads);
  Tensor value = in_heads(call.take(2), heads);
  if (call.has(4) && call.has(5)) {
    key = concat({call.take(4), key}, 2);
    value = concat({call.take(5), value}, 2);
  }
  AttentionOptions options{.causal = call.node().integer("is_causal", 0) != 0};
  if (const auto* const scale = call.node().attribute<double>("scale"); scale != nullptr) {
    options.scale = *scale;
  }
  if (options.causal && query.size(2) != key.size(2)) {
    call.refuse(
        "causal attention of {} queries to {} keys: the library counts from the last key, "
        "ONNX from the first",
        query.size(2),
        key.size(2));
  }
  Tensor result = call.has(3) ? attention(query, key, value, call.take(3), options)
                              : attention(query, key, value, options);
  call.give(0, is_flat ? joined_heads(std::move(result)) : std::move(result), type);
  call.give(1, key, type);
  call.give(2, value, type);
}

// Turns pairs of elements by angles: halves, or neighbours if interleaved. Opset 23: caches
// [positions, size/2], or [batch, length, size/2] without positions.
void rotate(Call& call) {
  const OnnxType type = call.type(0);
  const std::int64_t heads = call.node().integer("num_heads", 0);
  const bool is_flat = call.rank(0) == 3;
  const bool is_interleaved = call.node().integer("interleaved", 0) != 0;
  if (is_flat && heads < 1) {
    call.refuse("an input of three axes needs num_heads");
  }
  Tensor x = in_heads(call.take(0), heads);  // [batch, heads, length, size]
  const std::int64_t partial = call.node().integer("rotary_embedding_dim", 0);
  const std::int64_t size = partial > 0 ? partial : x.size(-1);
  const Tensor rest = size < x.size(-1) ? slice(x, -1, {.start = size}) : Tensor();
  const auto cache = [&](std::size_t i) {
    Tensor angles = call.take(i);
    if (call.has(3)) {
      angles = embedding(std::move(angles), call.tensor(3));
    }
    return unsqueeze(slice(std::move(angles), -1, {.stop = size / 2}), 1);
  };
  const Tensor cosine = cache(1);
  const Tensor sine = cache(2);
  const Tensor turned = slice(x, -1, {.stop = size});
  const std::int64_t half = size / 2;
  const Tensor first = is_interleaved ? slice(turned, -1, {.start = 0, .step = 2})
                                      : slice(turned, -1, {.stop = half});
  const Tensor second = is_interleaved ? slice(turned, -1, {.start = 1, .step = 2})
                                       : slice(turned, -1, {.start = half});
  Tensor real = sub(mul(first, cosine), mul(second, sine));
  Tensor imaginary = add(mul(first, sine), mul(second, cosine));
  Tensor result;
  if (is_interleaved) {
    result = reshape(stack({std::move(real), std::move(imaginary)}, -1), turned.shape());
  } else {
    result = concat({std::move(real), std::move(imaginary)}, -1);
  }
  if (rest.is_valid()) {
    result = concat({std::move(result), rest}, -1);
  }
  call.give(is_flat ? joined_heads(std::move(result)) : std::move(result), type);
}

constexpr OpRow kRows[] = {
    {.op = "Attention", .since = 23, .run = attend, .check = check_attention},
    {.op = "RotaryEmbedding", .since = 23, .run = rotate},
    {.op = "Gelu", .run = gelu_with_bias, .domain = kMicrosoft},
    {.op = "BiasGelu", .run = gelu_with_bias, .domain = kMicrosoft},
    {.op = "FastGelu", .run = fast_gelu, .domain = kMicrosoft},
    {.op = "QuickGelu", .run = quick_gelu, .domain = kMicrosoft},
    {.op = "FusedMatMul", .run = fused_product, .domain = kMicrosoft},
    {.op = "SimplifiedLayerNormalization", .run = simplified_norm, .domain = kMicrosoft},
    {.op = "SimplifiedLayerNormalization", .run = simplified_norm},
    {.op = "SkipSimplifiedLayerNormalization", .run = skip_simplified_norm, .domain = kMicrosoft},
    {.op = "SkipLayerNormalization", .run = skip_norm, .domain = kMicrosoft},
};

}  // namespace
}  // namespace contrib_ops

std::span<const OpRow> contrib_rows() {
  return contrib_ops::kRows;
}

}  // namespace hearth::onnx
