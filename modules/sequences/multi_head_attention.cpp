#include <hearth/modules/multi_head_attention.hpp>

#include <hearth/modules/layer_scope.hpp>

#include <hearth/runtime/mistake_name.hpp>

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace hearth {
namespace {

using Config = MultiHeadAttention::Config;

Config filled(Config config, SourceLoc loc) {
  const bool divides = config.heads > 0 && config.width % config.heads == 0;
  if (config.key_heads == 0) {
    config.key_heads = config.heads;
  }
  if (config.head_width == 0 && divides) {
    config.head_width = config.width / config.heads;
  }
  if (config.width < 1 || config.heads < 1 || config.key_heads < 1 || config.head_width < 1 ||
      config.heads % config.key_heads != 0) {
    throw_error(Error{
        .code = ErrorCode::invalid_argument,
        .text = fmt::format("MultiHeadAttention: heads must divide the width, and key_heads the "
                            "heads, got width {}, heads {}, key_heads {}, head_width {}",
                            config.width,
                            config.heads,
                            config.key_heads,
                            config.head_width),
        .location = loc});
  }
  if (config.rotary) {
    detail::require_rotary("MultiHeadAttention", *config.rotary, config.head_width, loc);
  }
  return config;
}

Linear projection_of(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc) {
  const std::int64_t rows = (config.heads + 2 * config.key_heads) * config.head_width;
  return Linear(
      {.in = config.width, .out = rows, .bias = config.bias}, device, generator, dtype, loc);
}

// Views [..., n, heads*w] as [..., heads, n, w].
Tensor in_heads(Tensor x, std::int64_t heads, SourceLoc loc) {
  const Shape shape = x.shape();
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end() - 1);
  dims.push_back(heads);
  dims.push_back(shape[shape.rank() - 1] / heads);
  return transpose(Arg(reshape(Arg(std::move(x), loc), dims), loc), -3, -2);
}

Tensor part(const Tensor& heads, std::int64_t first, std::int64_t count, SourceLoc loc) {
  return slice(Arg(heads, loc), -3, {.start = first, .stop = first + count});
}

Tensor rows_of(const Tensor& weight, std::int64_t first, std::int64_t count, SourceLoc loc) {
  return slice(Arg(weight, loc), 0, {.start = first, .stop = first + count});
}

void require_positions(const Arg& x) {
  if (x.is_scalar() || x.tensor().shape(x.location()).rank() < 2) {
    throw_error(
        Error{.code = ErrorCode::shape_mismatch,
              .text = fmt::format(
                  "MultiHeadAttention: needs positions of features, "
                  "[..., n, width], got {}",
                  x.is_scalar() ? "a number" : describe(x.tensor().dtype(), x.tensor().shape())),
              .location = x.location()});
  }
}

struct Operands {
  Tensor queries;
  Tensor keys;
  Tensor values;
};

// Operands of self-attention among the positions of x, the first of which is number `first`.
Operands operands_of(const MultiHeadAttention& layer, const Arg& x, std::int64_t first = 0) {
  require_positions(x);
  const SourceLoc loc = x.location();
  const std::int64_t all = layer.heads + 2 * layer.key_heads;
  const Tensor heads = in_heads(layer.projection.forward(x), all, loc);
  Tensor values = part(heads, layer.heads + layer.key_heads, layer.key_heads, loc);
  if (!layer.rotary) {
    return {part(heads, 0, layer.heads, loc),
            part(heads, layer.heads, layer.key_heads, loc),
            std::move(values)};
  }
  RotaryOptions rotary = *layer.rotary;
  rotary.offset += first;
  const Tensor turned =
      rotary_embedding(Arg(part(heads, 0, layer.heads + layer.key_heads, loc), loc), rotary);
  return {part(turned, 0, layer.heads, loc),
          part(turned, layer.heads, layer.key_heads, loc),
          std::move(values)};
}

// Projects by rows [first, first + count) of the projection only.
Tensor project(const MultiHeadAttention& layer,
               const Arg& x,
               std::int64_t first,
               std::int64_t count) {
  const SourceLoc loc = x.location();
  Tensor weight = transpose(Arg(rows_of(layer.projection.weight, first, count, loc), loc));
  if (!layer.projection.bias) {
    return matmul(x, Arg(std::move(weight), loc));
  }
  Tensor bias = rows_of(*layer.projection.bias, first, count, loc);
  return matmul(x, Arg(std::move(weight), loc), Arg(std::move(bias), loc));
}

// Rows of the projection that make queries.
std::int64_t query_rows(const MultiHeadAttention& layer, SourceLoc loc) {
  const std::int64_t rows = layer.projection.weight.shape()[{0, loc}];
  return layer.heads * (rows / (layer.heads + 2 * layer.key_heads));
}

void require_no_rotation(const MultiHeadAttention& layer, SourceLoc loc) {
  if (layer.rotary) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "MultiHeadAttention: attend() has no positions to rotate by; create "
                              "the layer without .rotary",
                      .location = loc});
  }
}

KeyValueCache projected_context(const MultiHeadAttention& layer, const Arg& context) {
  const SourceLoc loc = context.location();
  require_no_rotation(layer, loc);
  require_positions(context);
  const std::int64_t rows = layer.projection.weight.shape()[{0, loc}];
  const std::int64_t own = query_rows(layer, loc);
  const Tensor others =
      in_heads(project(layer, context, own, rows - own), 2 * layer.key_heads, loc);
  return {part(others, 0, layer.key_heads, loc),
          part(others, layer.key_heads, layer.key_heads, loc)};
}

Operands operands_of(const MultiHeadAttention& layer, const Arg& x, const KeyValueCache& context) {
  const SourceLoc loc = x.location();
  require_no_rotation(layer, loc);
  require_positions(x);
  if (!context.keys || !context.values) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "MultiHeadAttention: attend() needs keys and values, got an empty "
                              "KeyValueCache: projected(context) makes one",
                      .location = loc});
  }
  return {in_heads(project(layer, x, 0, query_rows(layer, loc)), layer.heads, loc),
          *context.keys,
          *context.values};
}

Tensor together(const MultiHeadAttention& layer,
                const Operands& operands,
                const Arg* mask,
                AttentionOptions options,
                SourceLoc loc) {
  const LayerScope scope(layer, layer.out.weight);
  const Arg q(operands.queries, loc);
  const Arg k(operands.keys, loc);
  const Arg v(operands.values, loc);
  Tensor heads = mask != nullptr ? attention(q, k, v, *mask, options) : attention(q, k, v, options);
  Tensor rows = transpose(Arg(std::move(heads), loc), -3, -2);
  const Shape shape = rows.shape();
  std::vector<std::int64_t> dims(shape.dims().begin(), shape.dims().end() - 2);
  dims.push_back(shape[shape.rank() - 2] * shape[shape.rank() - 1]);
  Tensor flat = reshape(Arg(std::move(rows), loc), dims);
  return layer.out.forward(Arg(std::move(flat), loc));
}

Tensor joined(const std::optional<Tensor>& before, const Tensor& now, SourceLoc loc) {
  if (!before) {
    return contiguous(Arg(now, loc));
  }
  return concat({*before, now}, -2, loc);
}

// Runs `fn` so that errors of inner ops name this layer.
template <class Fn>
auto as_own(const Fn& fn) {
  return detail::mistakes_named("MultiHeadAttention", fn);
}

}  // namespace

std::int64_t KeyValueCache::length() const {
  return keys ? keys->shape()[keys->shape().rank() - 2] : 0;
}

MultiHeadAttention::MultiHeadAttention(
    const Config& config, const Device& device, Generator& generator, DType dtype, SourceLoc loc)
    : projection(projection_of(filled(config, loc), device, generator, dtype, loc)),
      out({.in = config.heads * filled(config, loc).head_width,
           .out = config.width,
           .bias = config.bias},
          device,
          generator,
          dtype,
          loc),
      heads(config.heads),
      key_heads(filled(config, loc).key_heads),
      rotary(config.rotary) {
  detail::set_first_paths(*this);
}

Tensor MultiHeadAttention::forward(Arg x, AttentionOptions options) const {
  return as_own(
      [&] { return together(*this, operands_of(*this, x), nullptr, options, x.location()); });
}
Tensor MultiHeadAttention::forward(Arg x, Arg mask, AttentionOptions options) const {
  return as_own(
      [&] { return together(*this, operands_of(*this, x), &mask, options, x.location()); });
}
Tensor MultiHeadAttention::attend(Arg x, Arg context, AttentionOptions options) const {
  return as_own([&] {
    require_positions(x);
    return attend(x, projected_context(*this, context), options);
  });
}
Tensor MultiHeadAttention::attend(Arg x, Arg context, Arg mask, AttentionOptions options) const {
  return as_own([&] {
    require_positions(x);
    return attend(x, projected_context(*this, context), mask, options);
  });
}
Tensor MultiHeadAttention::attend(Arg x,
                                  const KeyValueCache& context,
                                  AttentionOptions options) const {
  return as_own([&] {
    return together(*this, operands_of(*this, x, context), nullptr, options, x.location());
  });
}
Tensor MultiHeadAttention::attend(Arg x,
                                  const KeyValueCache& context,
                                  Arg mask,
                                  AttentionOptions options) const {
  return as_own([&] {
    return together(*this, operands_of(*this, x, context), &mask, options, x.location());
  });
}
KeyValueCache MultiHeadAttention::projected(Arg context) const {
  return as_own([&] { return projected_context(*this, context); });
}

Tensor MultiHeadAttention::step(Arg x, KeyValueCache& cache) const {
  const SourceLoc loc = x.location();
  return as_own([&] {
    Operands operands = operands_of(*this, x, cache.length());
    operands.keys = joined(cache.keys, operands.keys, loc);
    operands.values = joined(cache.values, operands.values, loc);
    Tensor result = together(*this, operands, nullptr, {.causal = true}, loc);
    cache.keys = std::move(operands.keys);
    cache.values = std::move(operands.values);
    return result;
  });
}

}  // namespace hearth
