// Mixed precision in a loop of the program's own: the types, the loss scale, skipped steps.
#include <hearth/modules/loss_scaler.hpp>

#include "test_runtime.hpp"
#include "tests/base/temporary_folder.hpp"

#include <hearth/modules/activations.hpp>
#include <hearth/modules/batch_norm1d.hpp>
#include <hearth/modules/gradient_clip.hpp>
#include <hearth/modules/layer_norm.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/lion.hpp>
#include <hearth/modules/nadam.hpp>
#include <hearth/modules/optimizer.hpp>
#include <hearth/modules/rms_prop.hpp>
#include <hearth/modules/training_state.hpp>

#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/ops.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// All kinds of norms; odd sizes.
struct Normed {
  Linear inner;
  BatchNorm1d batch;
  LayerNorm layer;
  Linear outer;

  explicit Normed(const Device& device) : Normed(device, Generator(3)) {}
  Normed(const Device& device, Generator generator)
      : inner({.in = 5, .out = 7}, device, generator),
        batch({.channels = 7}, device),
        layer({.shape = {7}}, device),
        outer({.in = 7, .out = 3}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    const Tensor hidden = batch.forward(inner.forward(x), Mode::train);
    return outer.forward(relu(layer.forward(hidden)));
  }
  HEARTH_MODULE(Normed, inner, batch, layer, outer)
};

template <class Part>
std::map<std::string, std::vector<std::byte>> bits_of(const Part& part) {
  std::map<std::string, std::vector<std::byte>> all;
  for (const NamedTensor& each : named_tensors(part)) {
    all[each.name] = each.tensor.read_bytes().get();
  }
  return all;
}

/// A training whose steps depend only on their number, and on the factor of the loss.
struct Training {
  Device device;
  Normed model;
  Optimizer optimizer;
  LossScaler scaler;
  StateUpdates updates;
  Tensor last_loss;

  Training(Device on, Optimizer by, const Precision& precision)
      : device(std::move(on)), model(device), optimizer(std::move(by)), scaler(precision, device) {}

  /// A factor of 1e38 makes every gradient overflow.
  [[nodiscard]] Gradients gradients(int number, double factor = 1) {
    const StateScope scope(updates);
    const Tensor x = reshape(arange(device, 0, 30, 1), {6, 5}).to(DType::f32) *
                     (0.02 * static_cast<double>(number + 1));
    const Tensor targets = Tensor::from(device, std::vector<std::int64_t>{0, 1, 2, 0, 1, 2}, {6});
    auto [loss, gradients] = scaler.value_and_grad(model, [&](const Normed& half) {
      const Tensor outputs = half.forward(scaler.precision().input(x));
      return cross_entropy(scaler.precision().output(outputs), targets) * factor;
    });
    last_loss = loss;
    return std::move(gradients);
  }
  void step(int number, double factor = 1) {
    scaler.step(optimizer, model, gradients(number, factor), updates).get();
  }
  [[nodiscard]] double scale() const { return scaler.scale().item(); }
  [[nodiscard]] double skipped() const { return scaler.skipped_steps().item(); }
};

/// f32 throughout, so that scales that are powers of two change no bit.
Precision exact(LossScaling scaling = {}) {
  return {.loss_scaling = scaling};
}

/// f16 with a first scale at which this small model does not overflow by itself.
Precision half_precision() {
  return {.compute = DType::f16, .loss_scaling = LossScaling{.initial = 256}};
}

class LossScale : public ::testing::TestWithParam<const char*> {
 public:
  TestRuntime runtime;
  const Device device = runtime.runtime.device(GetParam());
};

TEST_P(LossScale, AnOverflowSkipsItsStepAndNothingElse) {
  for (const Precision& precision : {half_precision(), exact()}) {
    std::vector<Optimizer> all;
    all.emplace_back(Sgd({.learning_rate = 0.1}));
    all.emplace_back(Sgd({.learning_rate = 0.1, .momentum = 0.9}));
    all.emplace_back(Adam({.learning_rate = 0.1, .weight_decay = 0.1}));
    all.emplace_back(AdamW({.learning_rate = 0.1}));
    all.emplace_back(RmsProp({.learning_rate = 0.1}));
    all.emplace_back(NAdam({.learning_rate = 0.1}));
    all.emplace_back(Lion({.learning_rate = 0.1}));
    for (Optimizer& optimizer : all) {
      Training run(device, std::move(optimizer), precision);
      run.step(0, 1e38);  // also before the state has any values
      run.step(1);
      run.step(2);
      const auto weights = bits_of(run.model);
      const auto state = bits_of(run.optimizer);
      const double scale = run.scale();
      run.step(3, 1e38);
      EXPECT_EQ(bits_of(run.model), weights) << run.optimizer.kind() << ": also its Buffers";
      EXPECT_EQ(bits_of(run.optimizer), state) << run.optimizer.kind();
      EXPECT_EQ(run.optimizer.step_count(), 2) << run.optimizer.kind();
      EXPECT_EQ(run.scale(), scale / 2);
      EXPECT_EQ(run.skipped(), 2);
      run.step(4);
      EXPECT_NE(bits_of(run.model), weights) << run.optimizer.kind();
      EXPECT_EQ(run.optimizer.step_count(), 3);
    }
  }
}

TEST_P(LossScale, ASkippedStepLeavesNoTraceInLaterSteps) {
  Training plain(device, Adam({.learning_rate = 0.05}), exact());
  Training run(device, Adam({.learning_rate = 0.05}), exact());
  run.step(7, 1e38);
  for (int i = 0; i < 5; ++i) {
    plain.step(i);
    run.step(i);
    if (i % 2 == 0) {
      run.step(8, 1e38);
    }
  }
  EXPECT_EQ(run.skipped(), 4);
  EXPECT_EQ(bits_of(run.model), bits_of(plain.model));
  EXPECT_EQ(bits_of(run.optimizer), bits_of(plain.optimizer));
  EXPECT_EQ(run.optimizer.step_count(), 5);
}

TEST_P(LossScale, GrowsAndShrinksAsItsSettingsSay) {
  const LossScaling scaling{.initial = 64, .growth = 4, .backoff = 0.25, .growth_interval = 3};
  Training run(device, Sgd({.learning_rate = 0.01}), exact(scaling));
  std::vector<double> scales;
  for (const bool overflows :
       {false, false, false, false, false, true, false, false, false, true, true, false}) {
    run.step(1, overflows ? 1e38 : 1);
    scales.push_back(run.scale());
  }
  EXPECT_THAT(scales, ElementsAre(64, 64, 256, 256, 256, 64, 64, 64, 256, 64, 16, 16));
  EXPECT_EQ(run.skipped(), 3);
}

TEST_P(LossScale, KeepsAFixedScaleAndSkipsAllTheSame) {
  Training run(device, Sgd({.learning_rate = 0.01}), exact(LossScaling::fixed(1000)));
  run.step(0);
  const auto weights = bits_of(run.model);
  run.step(1, 1e38);
  EXPECT_EQ(bits_of(run.model), weights);
  EXPECT_EQ(run.scale(), 1000);
  EXPECT_EQ(run.skipped(), 1);
}

TEST_P(LossScale, ChangesNoGradientAndNoClippingIfItIsAPowerOfTwo) {
  Training plain(device, Sgd({.learning_rate = 0.1}), Precision{});
  Training run(device, Sgd({.learning_rate = 0.1}), exact());
  for (int i = 0; i < 3; ++i) {
    Gradients wanted = plain.gradients(i);
    Gradients gradients = run.gradients(i);
    EXPECT_EQ(run.last_loss.item(), plain.last_loss.item()) << "the loss is not scaled";
    const GradientClip bounds{.max_value = 0.05, .max_norm = 0.1};
    clip(wanted, bounds);
    clip(gradients, bounds);
    EXPECT_NEAR(gradients.norm().item(), 0.1, 1e-6) << "the bound acts";
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      EXPECT_EQ(gradients[k].read_bytes().get(), wanted[k].read_bytes().get()) << wanted.path(k);
    }
    plain.optimizer.step(plain.model, std::move(wanted)).get();
    plain.updates.commit(plain.model).get();
    run.scaler.step(run.optimizer, run.model, std::move(gradients), run.updates).get();
  }
  EXPECT_EQ(bits_of(run.model), bits_of(plain.model));
}

TEST_P(LossScale, AnOverflowInAMicroBatchSkipsTheStepAfterIt) {
  Training run(device, Adam({.learning_rate = 0.1}), half_precision());
  run.step(0);
  const auto weights = bits_of(run.model);
  Gradients all = run.gradients(1, 1e38);
  all.accumulate(run.gradients(2));
  clip(all, {.max_value = 1});  // hides infinities
  run.scaler.step(run.optimizer, run.model, std::move(all), run.updates).get();
  EXPECT_EQ(bits_of(run.model), weights);
  EXPECT_EQ(run.skipped(), 1);
  run.step(3);
  EXPECT_NE(bits_of(run.model), weights);
}

// A loop that drops a batch, because of its loss for instance.
TEST_P(LossScale, GradientsThatAreDiscardedDecideNoLaterStep) {
  Training with(device, Adam({.learning_rate = 0.1}), exact());
  Training without(device, Adam({.learning_rate = 0.1}), exact());
  StateUpdates dropped;
  {
    const StateScope scope(dropped);
    const Tensor x = full(device, {6, 5}, 0.5);
    static_cast<void>(with.scaler.value_and_grad(
        with.model, [&](const Normed& copy) { return sum(square(copy.forward(x))) * 1e38; }));
  }
  EXPECT_EQ(with.scaler.is_finite().item(), 0);
  with.scaler.discard();
  for (int i = 0; i < 2; ++i) {
    with.step(i);
    without.step(i);
  }
  EXPECT_EQ(with.skipped(), 0);
  EXPECT_EQ(with.scale(), without.scale());
  EXPECT_EQ(bits_of(with.model), bits_of(without.model));
}

TEST_P(LossScale, ALossThatIsNotFiniteIsAnOverflow) {
  for (const double factor :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Training run(device, Sgd({.learning_rate = 0.1}), exact());
    const auto weights = bits_of(run.model);
    run.step(0, factor);
    EXPECT_EQ(bits_of(run.model), weights);
    EXPECT_EQ(run.skipped(), 1);
  }
}

TEST_P(LossScale, IsSavedAndResumedToTheSameBits) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "state.safetensors";
  const LossScaling often{.initial = 1024, .growth_interval = 3};
  const Precision precision{.compute = DType::f16, .loss_scaling = often};
  const auto run_steps = [](Training& run, int begin, int end) {
    for (int i = begin; i < end; ++i) {
      run.step(i, i % 4 == 1 ? 1e38 : 1);
    }
  };
  Training whole(device, Adam({.learning_rate = 0.05}), precision);
  run_steps(whole, 0, 9);
  Training first(device, Adam({.learning_rate = 0.05}), precision);
  run_steps(first, 0, 5);
  save_training(first.model, first.optimizer, first.scaler, {}, file);
  Training second(device, Adam({.learning_rate = 0.05}), precision);
  static_cast<void>(load_training(second.model, second.optimizer, second.scaler, file));
  EXPECT_EQ(second.optimizer.step_count(), 4) << "without the skipped one";
  EXPECT_EQ(bits_of(second.scaler), bits_of(first.scaler));
  run_steps(second, 5, 9);
  EXPECT_EQ(bits_of(second.model), bits_of(whole.model));
  EXPECT_EQ(bits_of(second.optimizer), bits_of(whole.optimizer));
  EXPECT_EQ(bits_of(second.scaler), bits_of(whole.scaler));
  EXPECT_EQ(second.optimizer.step_count(), whole.optimizer.step_count());

  Training unscaled(device, Adam({.learning_rate = 0.05}), {.compute = DType::bf16});
  EXPECT_THROW(
      static_cast<void>(load_training(unscaled.model, unscaled.optimizer, unscaled.scaler, file)),
      FileError);
}

TEST_P(LossScale, IsNeverWaitedFor) {
  Training run(device, Adam({.learning_rate = 0.1}), half_precision());
  run.step(0);
  auto promise = std::make_shared<Promise<LentRegion>>();
  Pending<LentRegion> pending = promise->pending();
  const Tensor lent = lend(
      zeros(device, {1}),
      [promise](Result<LentRegion> region) { promise->set_value(std::move(region).value()); },
      Deadline::never());
  LentRegion region = std::move(pending).get();
  // The stream stands still from here on: a wait would never end.
  const Pending<StepReport> report =
      run.scaler.step(run.optimizer, run.model, run.gradients(1, 1e38), run.updates);
  Pending<double> skipped = run.scaler.skipped_steps().item_later();
  Pending<double> scale = run.scaler.scale().item_later();
  EXPECT_FALSE(report.is_ready());
  EXPECT_FALSE(skipped.is_ready());
  region.done();
  EXPECT_TRUE(report.wait().has_value());
  EXPECT_EQ(std::move(skipped).get(), 1);
  EXPECT_EQ(std::move(scale).get(), 128);
}

TEST_P(LossScale, OfStepsThatFailStays) {
  Training run(device, Adam({.learning_rate = 0.1}), half_precision());
  run.step(0);
  const auto weights = bits_of(run.model);
  const auto scales = bits_of(run.scaler);
  Gradients gradients = run.gradients(1);
  const Tensor rows = gradients[0];
  gradients[0] = index_select(rows, 0, Tensor::from(device, std::vector<std::int64_t>(7, 99), {7}));
  EXPECT_FALSE(run.scaler.step(run.optimizer, run.model, std::move(gradients), run.updates)
                   .wait()
                   .has_value());
  EXPECT_EQ(bits_of(run.model), weights);
  EXPECT_EQ(bits_of(run.scaler), scales);
  run.step(2);
  EXPECT_EQ(run.optimizer.step_count(), 2);
}

TEST_P(LossScale, UpdatesFollowStepsWithoutACondition) {
  Training run(device, Adam({.learning_rate = 0.1}), exact());
  Training plain(device, Adam({.learning_rate = 0.1}), exact());
  run.step(0, 1e38);
  run.step(0);
  plain.step(0);
  EXPECT_EQ(run.optimizer.step_count(), 1);
  run.optimizer.step(run.model, run.gradients(1)).get();
  run.updates.commit(run.model).get();
  plain.step(1);
  EXPECT_EQ(run.optimizer.step_count(), 2);
  EXPECT_EQ(bits_of(run.model), bits_of(plain.model));
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         LossScale,
                         ::testing::Values("reference:0", "cpu:0"),
                         [](const auto& tested) { return std::string(tested.param).substr(0, 3); });

TEST(MixedPrecision, ComputesInSixteenBitsAndKeepsTheRestInF32) {
  const TestRuntime runtime;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Precision precision =
        dtype == DType::f16 ? half_precision() : Precision{.compute = dtype};
    Training run(runtime.cpu, Adam({.learning_rate = 0.1}), precision);
    EXPECT_EQ(run.scaler.is_scaling(), dtype == DType::f16);
    const double before = run.model.batch.running_mean.to_vector<float>()[0];
    DType inside = DType::f32;
    DType statistic = dtype;
    auto [loss, gradients] = run.scaler.value_and_grad(run.model, [&](const Normed& half) {
      const StateScope scope(run.updates);
      inside = half.outer.weight.dtype();
      statistic = half.batch.running_mean.dtype();
      const Tensor outputs = half.forward(ones(runtime.cpu, {4, 5}, dtype) * 0.3);
      EXPECT_EQ(outputs.dtype(), dtype);
      return mean(square(outputs));  // a loss in 16 bits
    });
    EXPECT_EQ(inside, dtype);
    EXPECT_EQ(statistic, DType::f32);
    EXPECT_EQ(loss.dtype(), DType::f32);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_EQ(gradients[i].dtype(), DType::f32) << gradients.path(i);
    }
    run.scaler.step(run.optimizer, run.model, std::move(gradients), run.updates).get();
    EXPECT_EQ(run.model.outer.weight.dtype(), DType::f32);
    EXPECT_NE(run.model.batch.running_mean.to_vector<float>()[0], before);
    EXPECT_EQ(run.optimizer.step_count(), 1);
  }
}

TEST(MixedPrecision, MasterWeightsTakeStepsThatSixteenBitsWouldLose) {
  const TestRuntime runtime;
  Training run(runtime.cpu, Sgd({.learning_rate = 1e-6}), {.compute = DType::bf16});
  const auto weights = bits_of(run.model);
  run.step(0);
  EXPECT_NE(bits_of(run.model)["outer.weight"], weights.at("outer.weight"));
  const Normed half = run.scaler.precision().cast(run.model);
  EXPECT_EQ(bits_of(half)["outer.weight"],
            bits_of(run.scaler.precision().cast(Normed(runtime.cpu)))["outer.weight"]);
}

TEST(MixedPrecision, RefusesOtherTypesAndScales) {
  const TestRuntime runtime;
  const auto text_of = [&](const Precision& precision) {
    try {
      const LossScaler scaler(precision, runtime.cpu);
    } catch (const Exception& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(text_of({.compute = DType::i32}),
              HasSubstr("precision.compute is i32, but must be f32, bf16 or f16"));
  EXPECT_THAT(text_of({.compute = DType::f64}), HasSubstr("precision.compute is f64"));
  EXPECT_THAT(text_of({.gradients = DType::i8}), HasSubstr("precision.gradients is i8"));
  EXPECT_THROW(LossScaler({.compute = DType::i32}, runtime.cpu), DtypeError);
  EXPECT_THAT(text_of(exact({.initial = 0})), HasSubstr("initial is 0"));
  EXPECT_THAT(text_of(exact({.initial = 1e39})), HasSubstr("finite in f32"));
  EXPECT_THAT(text_of(exact({.growth = 0.5})), HasSubstr("growth is 0.5"));
  EXPECT_THAT(text_of(exact({.backoff = 0})), HasSubstr("backoff is 0"));
  EXPECT_THAT(text_of(exact({.growth_interval = 0})), HasSubstr("growth_interval is 0"));
  EXPECT_THROW(LossScaler(exact({.backoff = 2}), runtime.cpu), ArgumentError);
  EXPECT_EQ(text_of({.compute = DType::f16, .loss_scaling = LossScaling::fixed(1)}), "accepted");
  EXPECT_EQ(text_of({.compute = DType::bf16, .loss_scaling = LossScaling{}}), "accepted");
}

// Sums of gradients overflow on the wire as well.
TEST(MixedPrecision, ScalesTheLossWhereAnyTypeIsF16) {
  EXPECT_TRUE((Precision{.compute = DType::f16}.scaling()));
  EXPECT_TRUE((Precision{.gradients = DType::f16}.scaling()));
  EXPECT_TRUE((Precision{.compute = DType::bf16, .gradients = DType::f16}.scaling()));
  EXPECT_FALSE((Precision{.compute = DType::bf16, .gradients = DType::bf16}.scaling()));
  EXPECT_EQ((Precision{.loss_scaling = LossScaling::fixed(8), .gradients = DType::f16}
                 .scaling()
                 ->initial),
            8);
}

TEST(MixedPrecision, HasWords) {
  EXPECT_EQ(describe(Precision{}), "f32");
  EXPECT_EQ(describe(Precision{.compute = DType::f16}), "f16, loss scale from 65536");
  EXPECT_EQ(
      describe(Precision{
          .compute = DType::f16, .loss_scaling = LossScaling::fixed(8), .gradients = DType::bf16}),
      "f16, loss scale 8, gradients exchanged in bf16");
}

}  // namespace
}  // namespace hearth
