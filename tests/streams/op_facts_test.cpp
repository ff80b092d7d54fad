#include <hearth/streams/op_facts.hpp>

#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/streams/kernel_example.hpp"

namespace hearth {
namespace {

using testing::Bytes;
using testing::KernelExample;

TEST(OpFacts, FuseKernelsAndNoOthers) {
  for (const OpInfo& info : op_table()) {
    const FusionClass fusion = op_facts(info.kind).fusion;
    const bool is_kernel = fusion != FusionClass::none && fusion != FusionClass::barrier;
    EXPECT_EQ(is_kernel, info.op_class != OpClass::lifetime) << info.name;
    EXPECT_EQ(fusion == FusionClass::view, info.op_class == OpClass::view) << info.name;
    EXPECT_EQ(fusion == FusionClass::fill, info.op_class == OpClass::creation) << info.name;
  }
  EXPECT_EQ(op_facts(OpKind::drop).fusion, FusionClass::none);
}

TEST(OpFacts, WeighWhatHasArithmetic) {
  for (const OpInfo& info : op_table()) {
    const ArithmeticWeight weight = op_facts(info.kind).weight;
    EXPECT_EQ(weight.host > 0, weight.gpu > 0) << info.name;
    const bool moves_only = info.kind == OpKind::fill || info.op_class == OpClass::view ||
                            info.op_class == OpClass::movement || info.kind == OpKind::gather ||
                            info.kind == OpKind::index_select || info.op_class == OpClass::lifetime;
    EXPECT_EQ(weight.host == 0, moves_only) << info.name;
  }
  EXPECT_LT(op_facts(OpKind::add).weight.host, op_facts(OpKind::exp).weight.host);
}

TEST(OpFacts, NameEveryByteOfTheAttributesOnce) {
  for (const OpInfo& info : op_table()) {
    std::size_t end = 0;
    std::set<std::string_view> names;
    for (const AttributeField& field : op_facts(info.kind).attributes) {
      EXPECT_EQ(field.offset_bytes, end) << info.name << "." << field.name;
      EXPECT_TRUE(names.insert(field.name).second) << info.name << "." << field.name;
      end = field.offset_bytes + field.size_bytes();
    }
    EXPECT_EQ(end, info.attribute_size_bytes) << info.name;
  }
}

// Attributes that change from step to step, and numbers that only enter the arithmetic, stay out of
// plans' keys.
TEST(OpFacts, SayWhatAnAttributeIsFor) {
  std::set<std::string> out_of_the_key;
  for (const OpKind kind : {OpKind::dropout, OpKind::add, OpKind::adam_step, OpKind::sgd_step}) {
    for (const AttributeField& field : op_facts(kind).attributes) {
      if (field.role == AttributeRole::scalar || field.role == AttributeRole::counter) {
        out_of_the_key.insert(std::string(name(kind)) + "." + std::string(field.name));
      }
    }
  }
  EXPECT_EQ(out_of_the_key,
            (std::set<std::string>{"dropout.seed",
                                   "dropout.counter",
                                   "dropout.a",
                                   "dropout.b",
                                   "add.real",
                                   "add.integer",
                                   "adam_step.learning_rate",
                                   "adam_step.beta1",
                                   "adam_step.beta2",
                                   "adam_step.epsilon",
                                   "adam_step.weight_decay",
                                   "adam_step.step",
                                   "sgd_step.learning_rate",
                                   "sgd_step.momentum",
                                   "sgd_step.dampening",
                                   "sgd_step.weight_decay",
                                   "sgd_step.first"}));
}

// ---- failing ----

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A tensor of edge values: 0, 1, the ends of the type, one below 0; for floats also NaN and
// infinity.
Bytes hurtful(DType dtype, std::int64_t count) {
  Bytes bytes;
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (std::int64_t i = 0; i < count; ++i) {
      T value{};
      if constexpr (std::is_integral_v<T>) {
        const T all[] = {T{0},
                         static_cast<T>(-1),
                         std::numeric_limits<T>::max(),
                         std::numeric_limits<T>::min(),
                         T{1}};
        value = all[static_cast<std::size_t>(i) % std::size(all)];
      } else {
        const float all[] = {0,
                             -1,
                             std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::infinity(),
                             1};
        value = static_cast<T>(all[static_cast<std::size_t>(i) % std::size(all)]);
      }
      const auto raw = std::as_bytes(std::span(&value, 1));
      bytes.insert(bytes.end(), raw.begin(), raw.end());
    }
  });
  return bytes;
}

bool fails(const KernelExample& call, std::vector<Bytes> inputs) {
  return !call.evaluate(inputs).has_value();
}

// Every pair of edge values meets: 5 times 5.
TEST(OpFacts, MayFailIsWhatTheReferenceDoesElementByElement) {
  for (const OpInfo& info : op_table()) {
    if (op_facts(info.kind).fusion != FusionClass::elementwise ||
        info.op_class == OpClass::expression) {  // its kernel determines whether it can fail
      continue;
    }
    for (int i = 0; i < kDTypeCount; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (!accepts(info.kind, dtype)) {
        continue;
      }
      const bool is_where = info.kind == OpKind::where;
      const int inputs = info.op_class == OpClass::binary ? 2 : info.max_inputs;
      std::vector<TensorSpec> specs;
      std::vector<Bytes> values;
      for (int in = 0; in < inputs; ++in) {
        const DType type = is_where && in == 0 ? DType::boolean : dtype;
        specs.push_back({type, in == 0 ? Shape{5, 1} : Shape{5, 5}});
        values.push_back(type == DType::boolean
                             ? Bytes(specs.back().shape.element_count() == 5 ? 5 : 25)
                             : hurtful(type, specs.back().shape.element_count()));
      }
      const bool is_update = info.op_class == OpClass::optimizer;
      if (is_update) {  // these do not broadcast
        specs.assign(specs.size(), {dtype, {5}});
        values.assign(values.size(), hurtful(dtype, 5));
      }
      const DType result = info.dtype_rule == DtypeRule::comparison ? DType::boolean : dtype;
      std::vector<TensorSpec> outputs(
          is_update ? specs.size() - 1 : 1,
          {result, inputs > 1 && !is_update ? Shape{5, 5} : specs[0].shape});
      KernelExample call(info.kind, specs, outputs);
      const std::size_t attributes = info.attribute_size_bytes;
      if (attributes == sizeof(ScalarAttributes)) {
        call.with(ScalarAttributes{});
      } else if (info.kind == OpKind::dropout) {
        call.with(RandomAttributes{.a = 0.5});
      } else if (info.kind == OpKind::sgd_step) {
        call.with(SgdAttributes{.learning_rate = 1});
      } else if (info.kind == OpKind::adam_step) {
        call.with(AdamAttributes{.learning_rate = 1});
      }
      EXPECT_EQ(fails(call, values), may_fail(info.kind, dtype)) << info.name << " " << name(dtype);
    }
  }
}

TEST(OpFacts, MayFailIsWhatTheReferenceDoesWithPositionsAndClasses) {
  const TensorSpec logits{DType::f32, {2, 3}};
  const TensorSpec losses{DType::f32, {2}};
  const TensorSpec targets{DType::i64, {2}};
  const Bytes numbers = bytes_of<float>({1, 2, 3, 4, 5, 6});
  const Bytes pair = bytes_of<float>({1, 2});
  const Bytes beyond = bytes_of<std::int64_t>({0, 3});
  EXPECT_TRUE(
      fails(KernelExample(OpKind::cross_entropy, {logits, targets}, {losses}), {numbers, beyond}));
  EXPECT_TRUE(
      fails(KernelExample(OpKind::cross_entropy_backward, {losses, logits, targets}, {logits}),
            {pair, numbers, beyond}));
  const TensorSpec plane{DType::f32, {1, 1, 2, 2}};
  const TensorSpec pooled{DType::f32, {1, 1, 1, 1}};
  const TensorSpec position{DType::i32, {1, 1, 1, 1}};
  EXPECT_TRUE(fails(KernelExample(OpKind::max_pool2d_backward, {pooled, position}, {plane})
                        .with(PoolAttributes{}),
                    {bytes_of<float>({1}), bytes_of<std::int32_t>({4})}));
  const TensorSpec line{DType::f32, {2}};
  for (const OpKind kind :
       {OpKind::gather, OpKind::index_select, OpKind::scatter_add, OpKind::index_add}) {
    const bool is_pick = kind == OpKind::gather || kind == OpKind::index_select;
    const TensorSpec whole{DType::f32, {3}};
    const KernelExample call =
        KernelExample(kind, {is_pick ? whole : line, {DType::i64, {2}}}, {is_pick ? line : whole})
            .with(AxisAttributes{});
    const Bytes values = is_pick ? bytes_of<float>({1, 2, 3}) : pair;
    EXPECT_TRUE(fails(call, {values, beyond})) << name(kind);
    EXPECT_TRUE(fails(call, {values, bytes_of<std::int64_t>({-1, 0})})) << name(kind);
    EXPECT_FALSE(fails(call, {values, bytes_of<std::int64_t>({2, 0})})) << name(kind);
    for (int i = 0; i < kDTypeCount; ++i) {
      EXPECT_EQ(may_fail(kind, static_cast<DType>(i)), accepts(kind, static_cast<DType>(i)));
    }
  }
  const TensorSpec whole{DType::f32, {3}};
  const KernelExample scatter =
      KernelExample(OpKind::scatter, {whole, {DType::i64, {2}}, line}, {whole})
          .with(ScatterAttributes{});
  const Bytes three = bytes_of<float>({1, 2, 3});
  EXPECT_TRUE(fails(scatter, {three, beyond, pair}));
  EXPECT_FALSE(fails(scatter, {three, bytes_of<std::int64_t>({2, 0}), pair}));
  EXPECT_TRUE(may_fail(OpKind::scatter, DType::boolean));
  for (const OpKind kind :
       {OpKind::cross_entropy, OpKind::cross_entropy_backward, OpKind::max_pool2d_backward}) {
    EXPECT_TRUE(may_fail(kind, DType::f32)) << name(kind);
  }
  for (const OpKind kind : {OpKind::matmul, OpKind::softmax, OpKind::argmax, OpKind::concat}) {
    EXPECT_FALSE(may_fail(kind, DType::f32)) << name(kind);
  }
}

}  // namespace
}  // namespace hearth
