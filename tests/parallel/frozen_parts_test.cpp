// Models with frozen parts under DataParallel and a Trainer, and sums over micro-batches with
// 16-bit parameters.
#include <hearth/modules/freeze_weights.hpp>
#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/data_parallel.hpp>

#include "digits_run.hpp"
#include "tests/base/temporary_folder.hpp"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;

NormNet tuned(const Device& device) {
  NormNet net(device, 0, DType::f64);
  freeze_weights(net.conv);
  freeze_weights(net.norm);
  return net;
}

template <class Fn>
std::string refusal_of(const Fn& fn) {
  try {
    fn();
  } catch (const Exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

// Twelve examples a step, divided in any way: the weights equal those of a model without the frozen
// part.
TEST(FrozenParts, OfATrainerStayOnAllDevicesWhileTheRestLearns) {
  std::vector<double> wanted;
  for (const int world : {1, 2, 3}) {
    const Digits digits(world);
    TrainerOptions options = digits.options;
    options.batch_size = 12;
    options.epochs = 2;
    options.average_decay = 0.9;
    options.optimizer = AdamW::Config{.learning_rate = 5e-3, .weight_decay = 0.1};
    const Device& first = options.devices.front();
    const NormNet before = tuned(first);
    Trainer<NormNet> trainer(digits.runtime, before, kLoss, options);
    trainer.fit(digits.train, digits.test);
    const NormNet after = trainer.model();
    EXPECT_EQ(after.conv.weight.to_vector<double>(), before.conv.weight.to_vector<double>());
    EXPECT_EQ(after.norm.running_mean.to_vector<double>(),
              before.norm.running_mean.to_vector<double>());
    EXPECT_EQ(after.norm.weight->to_vector<double>(), before.norm.weight->to_vector<double>());
    const std::vector<double> head = after.head.weight.to_vector<double>();
    EXPECT_NE(head, before.head.weight.to_vector<double>());
    wanted = wanted.empty() ? head : wanted;
    EXPECT_LE(largest_difference(head, wanted), 1e-12) << world;
  }
}

TEST(FrozenParts, AreInNoBucketAndInNoState) {
  const Digits digits(2);
  Trainer<NormNet> trainer(
      digits.runtime, tuned(digits.options.devices.front()), kLoss, digits.options);
  const BucketPlan& plan = trainer.parallel().buckets();
  std::int64_t elements = 0;
  for (const GradientBucket& bucket : plan.buckets()) {
    elements += bucket.element_count;
  }
  EXPECT_GE(elements, 2570);
  EXPECT_LE(elements, 2571) << "the head, and the weight of a loss";
  trainer.fit(digits.train, digits.test);
  const TemporaryFolder folder;
  trainer.parallel().save(folder.path() / "state.safetensors");
  const SafetensorsFile file = SafetensorsFile::read(folder.path() / "state.safetensors");
  EXPECT_TRUE(file.contains("model.conv.weight"));
  EXPECT_TRUE(file.contains("optimizer.mean.head.weight"));
  EXPECT_FALSE(file.contains("optimizer.mean.conv.weight"));
  static_cast<void>(trainer.parallel().load(folder.path() / "state.safetensors"));
}

TEST(FrozenParts, OfAllParametersAreRefused) {
  const Digits digits(1);
  NormNet net(digits.options.devices.front());
  freeze_weights(net);
  EXPECT_THAT(refusal_of([&] {
                static_cast<void>(Trainer<NormNet>(digits.runtime, net, kLoss, digits.options));
              }),
              HasSubstr("all parameters of the model are frozen"));
}

// The bucket plan is fixed: a part that is frozen or unfrozen without the trainer is reported.
TEST(FrozenParts, ThatChangeBehindTheTrainersBackAreRefused) {
  for (const bool unfreezes : {false, true}) {
    const Digits digits(2);
    Trainer<NormNet> trainer(
        digits.runtime, tuned(digits.options.devices.front()), kLoss, digits.options);
    trainer.parallel().update_replicas([unfreezes](NormNet& net, Optimizer&) {
      if (unfreezes) {
        unfreeze_weights(net.conv);
      } else {
        freeze_weights(net.head.bias);
      }
    });
    EXPECT_THAT(refusal_of([&] { trainer.fit(digits.train, digits.test); }),
                HasSubstr(unfreezes ? "'conv.weight' is trained now, and was not when the trainer"
                                    : "'head.bias' is frozen now, and was not when the trainer"));
  }
}

struct Weight {
  Tensor w;
  HEARTH_MODULE(Weight, w)
};
struct Some {
  std::int64_t size = 0;
};

// 512 gradients of 1/512 each: a sum in bf16 would end at a half.
TEST(FrozenParts, GradientsOfMicroBatchesAddUpInF32) {
  const Runtime runtime(cpu_devices(2));
  DataParallel<Weight, Some> steps(
      runtime,
      Weight{zeros(runtime.device(), {1}, DType::bf16)},
      [](const Weight& model, Some&, WorkerContext&) { return sum(model.w).to(DType::f32); },
      {.devices = runtime.devices(), .optimizer = Sgd::Config{.learning_rate = 1}});
  std::vector<std::vector<Some>> batches(512, std::vector<Some>(2, Some{.size = 1}));
  steps.step(std::move(batches));
  EXPECT_EQ(steps.snapshot().w.to(DType::f32).item(), -1);
}

}  // namespace
}  // namespace hearth
