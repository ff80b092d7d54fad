// Random draws and dropout. They use the generator of the calling thread's GeneratorScope, or one
// that a node's `seed` starts anew in each run.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/parts.hpp"

#include <hearth/modules/generator_scope.hpp>

#include <bit>

namespace hearth::onnx {
namespace random_ops {
namespace {

template <class Fn>
auto with_generator(Call& call, const Fn& fn) {
  call.set_random();
  if (const auto* const seed = call.node().attribute<double>("seed"); seed != nullptr) {
    Generator own(std::bit_cast<std::uint64_t>(*seed));
    return fn(own);
  }
  return fn(current_generator(call.node().op, call.context().loc));
}

OnnxType drawn_type(const Call& call, OnnxType otherwise) {
  const auto* const number = call.node().attribute<std::int64_t>("dtype");
  const OnnxType type = number == nullptr ? otherwise : onnx_type_of(*number);
  if (!device_type(type)) {
    call.refuse("element type {} is not supported", name(type));
  }
  return type;
}

void draw_uniform(Call& call, const Shape& shape, OnnxType type) {
  const double low = call.node().real("low", 0);
  const double high = call.node().real("high", 1);
  call.give(with_generator(call,
                           [&](Generator& generator) {
                             return random_uniform(
                                 call.device(), shape, generator, low, high, *device_type(type));
                           }),
            type);
}

void draw_normal(Call& call, const Shape& shape, OnnxType type) {
  const double mean = call.node().real("mean", 0);
  const double scale = call.node().real("scale", 1);
  call.give(with_generator(call,
                           [&](Generator& generator) {
                             return random_normal(
                                 call.device(), shape, generator, mean, scale, *device_type(type));
                           }),
            type);
}

Shape shape_attribute(const Call& call) {
  const Sizes* const sizes = call.node().integers("shape");
  return sizes == nullptr ? Shape{} : Shape(*sizes);
}

void uniform(Call& call) {
  draw_uniform(call, shape_attribute(call), drawn_type(call, OnnxType::f32));
}
void normal(Call& call) {
  draw_normal(call, shape_attribute(call), drawn_type(call, OnnxType::f32));
}
void uniform_like(Call& call) {
  draw_uniform(call, call.shape(0), drawn_type(call, call.type(0)));
}
void normal_like(Call& call) {
  draw_normal(call, call.shape(0), drawn_type(call, call.type(0)));
}

// 1 with the probability that each element states.
void bernoulli(Call& call) {
  const OnnxType type = drawn_type(call, call.type(0));
  const Tensor chance = call.take(0);
  const Tensor drawn = with_generator(call, [&](Generator& generator) {
    return random_uniform(call.device(), chance.shape(), generator, 0, 1, chance.dtype());
  });
  call.give(cast(less(drawn, chance), *device_type(type)), type);
}

// Draws classes by unnormalised logarithms of probabilities.
void draw_classes(Call& call) {
  const OnnxType type = drawn_type(call, OnnxType::i32);
  const Tensor chances = softmax(call.take(0), -1);
  const std::int64_t count = call.node().integer("sample_size", 1);
  call.give(with_generator(call,
                           [&](Generator& generator) {
                             return multinomial(
                                 chances, count, generator, {.with_replacement = true});
                           }),
            type);
}

// Active in Mode::train alone, whatever the file states: a model that was exported while it was
// trained is a pure function in Mode::eval too.
void drop(Call& call) {
  const OnnxType type = call.type(0);
  const double ratio =
      call.opset() >= 12 ? (call.has(1) ? call.real(1) : 0.5) : call.node().real("ratio", 0.5);
  Tensor x = call.take(0);
  if (!call.is_training() || ratio == 0) {
    if (call.wants(1)) {
      call.give(1, ones(call.device(), x.shape(), DType::boolean), OnnxType::boolean);
    }
    call.give(0, std::move(x), type);
    return;
  }
  const Tensor drawn = with_generator(call, [&](Generator& generator) {
    return random_uniform(call.device(), x.shape(), generator);
  });
  const Tensor is_kept = greater_equal(drawn, ratio);
  call.give(0, where(is_kept, mul(x, 1 / (1 - ratio)), 0.0), type);
  call.give(1, is_kept, OnnxType::boolean);
}

constexpr OpRow kRows[] = {
    {.op = "RandomUniform", .run = uniform},
    {.op = "RandomNormal", .run = normal},
    {.op = "RandomUniformLike", .run = uniform_like},
    {.op = "RandomNormalLike", .run = normal_like},
    {.op = "Bernoulli", .since = 15, .run = bernoulli},
    {.op = "Multinomial", .since = 7, .run = draw_classes},
    {.op = "Dropout", .run = drop, .host_inputs = inputs(1)},
};

}  // namespace
}  // namespace random_ops

std::span<const OpRow> random_rows() {
  return random_ops::kRows;
}

}  // namespace hearth::onnx
