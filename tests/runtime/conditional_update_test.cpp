// UpdateGroup::when: a condition that the device evaluates. If it does not hold, every bit that the
// updates replace stays, whatever the gradients hold; if it holds, it changes no bit.
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/update_counts.hpp>
#include <hearth/runtime/update_group.hpp>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::byte>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr std::int64_t kCount = 37;

Bytes bytes_of(const Tensor& tensor) {
  return tensor.read_bytes().get();
}

/// Values with a sign of zero and a denormal of f32 among them.
Tensor values(const Device& device, DType dtype, double first) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < kCount; ++i) {
    all.push_back(static_cast<float>(first + 0.37 * static_cast<double>(i)));
  }
  all[1] = -0.0F;
  all[2] = 1e-40F;
  return Tensor::from(device, all, {kCount}).to(dtype);
}
Tensor overflowed(const Device& device, DType dtype) {
  std::vector<float> all(kCount, static_cast<float>(kNan));
  all[0] = 1;
  all[3] = static_cast<float>(kInf);
  all[4] = static_cast<float>(-kInf);
  return Tensor::from(device, all, {kCount}).to(dtype);
}

/// A parameter, two states of it and two counts.
struct Weights {
  Tensor parameter, first, second, count, other_count;

  Weights(const Device& device, DType dtype)
      : parameter(values(device, dtype, -3)),
        first(values(device, accumulation_dtype(dtype), 1)),
        second(values(device, accumulation_dtype(dtype), 2)),
        count(make_update_count(device, 3)),
        other_count(make_update_count(device, 5)) {}
  [[nodiscard]] std::vector<Bytes> bytes() const {
    return {bytes_of(parameter), bytes_of(first), bytes_of(second), bytes_of(count)};
  }
};

/// Every kind of update, by name.
struct Form {
  std::string name;
  std::function<void(UpdateGroup& group, Weights& weights, Tensor gradient)> update;
};

UpdateRule rule() {
  return UpdateRule(
      {.name = "own", .state_count = 2, .scalar_count = 1, .input_count = 1},
      [](const UpdateRule::Operands& o) {
        const Tensor m = o.state[0] + o.gradient * o.inputs[0];
        return std::vector<Tensor>{o.parameter - o.scalars[0] * m, m, o.state[1] * o.gradient};
      });
}

std::vector<Form> forms() {
  std::vector<Form> all;
  const auto add_sgd = [&](const char* name, SgdUpdate options, bool is_counted) {
    all.push_back({name, [=](UpdateGroup& group, Weights& w, Tensor gradient) {
                     SgdUpdate own = options;
                     own.count = is_counted ? &w.count : nullptr;
                     group.sgd(w.parameter, std::move(gradient), w.first, own);
                   }});
  };
  add_sgd("sgd", {.learning_rate = 0.1, .weight_decay = 0.01}, false);
  add_sgd("momentum", {.learning_rate = 0.1, .momentum = 0.9}, false);
  add_sgd("first", {.learning_rate = 0.1, .momentum = 0.9, .first = true}, false);
  add_sgd("nesterov", {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}, false);
  add_sgd("counted", {.learning_rate = 0.1, .momentum = 0.9}, true);
  add_sgd("counted nesterov", {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}, true);
  for (const bool decoupled : {false, true}) {
    for (const bool is_counted : {false, true}) {
      all.push_back({std::string(decoupled ? "adamw" : "adam") + (is_counted ? " counted" : ""),
                     [=](UpdateGroup& group, Weights& w, Tensor gradient) {
                       const AdamFactors factors =
                           adam_factors(w.count, 0.1, 0.9, 0.99, w.parameter.dtype());
                       group.adam(w.parameter,
                                  std::move(gradient),
                                  w.first,
                                  w.second,
                                  {.learning_rate = 0.1,
                                   .weight_decay = 0.1,
                                   .decoupled = decoupled,
                                   .step = 4,
                                   .factors = is_counted ? &factors : nullptr});
                     }});
    }
  }
  all.push_back({"count", [](UpdateGroup& group, Weights& w, const Tensor& /*gradient*/) {
                   group.count(w.count);
                 }});
  all.push_back({"own", [](UpdateGroup& group, Weights& w, Tensor gradient) {
                   UpdateRule own = rule();
                   Tensor* const state[] = {&w.first, &w.second};
                   const double scalars[] = {0.5};
                   const Tensor inputs[] = {full(
                       w.parameter.device(), {}, 2.0, accumulation_dtype(w.parameter.dtype()))};
                   group.update(own, w.parameter, std::move(gradient), state, scalars, inputs);
                 }});
  return all;
}

class ConditionalUpdate : public ::testing::TestWithParam<const char*> {
 protected:
  static RuntimeOptions options() {
    DeviceOptions device{.name = GetParam()};
    if (is_sim()) {
      device.sim_schedule = SimSchedule{.queues = 2, .reorder_seed = 3, .cost_seed = 3};
    }
    return {.devices = {std::move(device), {.name = "reference:1"}}};
  }
  static bool is_sim() { return std::string(GetParam()) == "sim:0"; }
  // A driver in software is slow for each kernel.
  static std::vector<DType> types() {
    const std::string device = GetParam();
    return device == "vulkan:0" || device == "cuda:0"
               ? std::vector{DType::f16}
               : std::vector{DType::f32, DType::f16, DType::bf16, DType::f64};
  }

  const Runtime runtime{options()};
  const Device device = runtime.device(GetParam());
};

TEST_P(ConditionalUpdate, LeavesEveryBitIfItDoesNotHold) {
  for (const Form& form : forms()) {
    for (const DType dtype : types()) {
      Weights weights(device, dtype);
      const std::vector<Bytes> before = weights.bytes();
      UpdateGroup group(device);
      group.when(zeros(device, {}, DType::boolean));
      form.update(group, weights, overflowed(device, dtype));
      group.commit().get();
      EXPECT_EQ(weights.bytes(), before) << form.name << " " << name(dtype);
    }
  }
}

TEST_P(ConditionalUpdate, ChangesNoBitOfAnUpdateIfItHolds) {
  for (const Form& form : forms()) {
    for (const DType dtype : types()) {
      Weights plain(device, dtype);
      Weights weights(device, dtype);
      const std::vector<Bytes> before = plain.bytes();
      UpdateGroup without(device);
      form.update(without, plain, values(device, dtype, 0.5));
      without.commit().get();
      UpdateGroup group(device);
      group.when(ones(device, {}, DType::boolean));
      form.update(group, weights, values(device, dtype, 0.5));
      group.commit().get();
      EXPECT_NE(plain.bytes(), before) << form.name;
      EXPECT_EQ(weights.bytes(), plain.bytes()) << form.name << " " << name(dtype);
    }
  }
}

TEST_P(ConditionalUpdate, TakesABoolOrANumberOfOneElement) {
  const auto happens = [&](const Tensor& condition) {
    Tensor count = make_update_count(device, 0);
    UpdateGroup group(device);
    group.when(condition);
    group.count(count);
    group.commit().get();
    return count.item() == 1;
  };
  EXPECT_TRUE(happens(ones(device, {1, 1}, DType::boolean)));
  EXPECT_TRUE(happens(full(device, {1}, -0.25, DType::f32)));
  EXPECT_TRUE(happens(full(device, {}, kInf, DType::f16)));
  EXPECT_TRUE(happens(full(device, {}, 2, DType::i32)));
  EXPECT_FALSE(happens(full(device, {}, 0, DType::i64)));
  EXPECT_FALSE(happens(full(device, {1}, -0.0, DType::f32)));
  EXPECT_FALSE(happens(full(device, {1}, kNan, DType::f32)));
  EXPECT_TRUE(happens(all(isfinite(values(device, DType::f32, 1)))));
  EXPECT_FALSE(happens(all(isfinite(overflowed(device, DType::f32)))));
}

TEST_P(ConditionalUpdate, HoldsForTheUpdatesAfterItOnly) {
  Weights weights(device, DType::f32);
  UpdateGroup group(device);
  group.count(weights.count);
  group.when(zeros(device, {}));
  group.count(weights.other_count);
  group.commit().get();
  EXPECT_EQ(weights.count.item(), 4);
  EXPECT_EQ(weights.other_count.item(), 5);
}

TEST_P(ConditionalUpdate, WritesInPlaceAndNeverOverACopy) {
  Weights weights(device, DType::f32);
  const Tensor copy = weights.second;
  const Bytes second = bytes_of(copy);
  const std::int64_t before = device.memory().in_place_count;
  UpdateGroup group(device);
  group.when(ones(device, {}, DType::boolean));
  group.adam(weights.parameter,
             values(device, DType::f32, 1),
             weights.first,
             weights.second,
             {.learning_rate = 0.1});
  group.commit().get();
  EXPECT_EQ(device.memory().in_place_count, before + 2);
  EXPECT_EQ(bytes_of(copy), second);
  EXPECT_NE(bytes_of(weights.second), second);
}

TEST_P(ConditionalUpdate, OfAPoisonedConditionFailsTheGroup) {
  Weights weights(device, DType::f32);
  const std::vector<Bytes> before = weights.bytes();
  const Tensor rows = reshape(arange(device, 0, 4, 1), {2, 2}).to(DType::f32);
  const Tensor poisoned =
      sum(index_select(rows, 0, Tensor::from(device, std::vector<std::int64_t>{7}, {1})));
  Tensor none;
  UpdateGroup group(device);
  group.when(poisoned);
  group.sgd(weights.parameter, values(device, DType::f32, 1), none, {.learning_rate = 1});
  EXPECT_FALSE(group.commit().wait().has_value());
  EXPECT_EQ(weights.bytes(), before);
}

TEST_P(ConditionalUpdate, RefusesAnythingButOneElementOfItsDevice) {
  const auto text_of = [&](const Tensor& condition) {
    UpdateGroup group(device);
    try {
      group.when(condition);
    } catch (const Exception& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(text_of(ones(device, {2})), HasSubstr("a condition is one element, got f32[2]"));
  EXPECT_THAT(text_of(Tensor()), HasSubstr("an empty tensor"));
  EXPECT_THAT(text_of(ones(runtime.device("reference:1"), {})), HasSubstr("reference:1"));
  UpdateGroup group(device);
  Tensor count = make_update_count(device, 0);
  group.count(count);
  EXPECT_THROW(group.when(count), ArgumentError);
  group.commit().get();
  EXPECT_THROW(group.when(ones(device, {})), ArgumentError);
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         ConditionalUpdate,
                         HEARTH_TESTED_DEVICES("reference:0", "cpu:0", "sim:0"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, ':');
                           return name;
                         });

}  // namespace
}  // namespace hearth
