// A layer or tensor that a model omits from HEARTH_MODULE is neither trained, moved nor saved. The
// log reports it when a step uses it, and reports nothing about correct weights.
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/sgd.hpp>
#include <hearth/modules/state_updates.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recompute.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The log while `program` runs on one device.
template <class Program>
std::string log_of(const Program& program) {
  ::testing::internal::CaptureStderr();
  {
    TestRuntime test;
    program(test.cpu);
  }
  return ::testing::internal::GetCapturedStderr();
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

struct WithoutFirst {
  Linear first, second;
  HEARTH_MODULE(WithoutFirst, second)
};
struct WithoutBlocks {
  Linear first;
  std::vector<Linear> blocks;
  HEARTH_MODULE(WithoutBlocks, first)
};
struct WithLazyStatistics {
  Linear first;
  Buffer mean;  // empty until the first use
  HEARTH_MODULE(WithLazyStatistics, first, mean)
};
struct WithoutScale {
  Linear first;
  Tensor scale;
  HEARTH_MODULE(WithoutScale, first)
};
struct Scales {
  std::vector<WithoutScale> blocks;
  HEARTH_MODULE(Scales, blocks)
};
struct Whole {
  Linear first;
  BatchNorm2d norm;
  Linear second;
  HEARTH_MODULE(Whole, first, norm, second)
};

Linear linear(const Device& device, Generator& generator) {
  return {{.in = 4, .out = 4}, device, generator};
}

// The omitted layer comes first, so that none of its ops is on the tape.
TEST(LeftOutWeights, AreToldOfWithModelShapeAndLine) {
  const std::string log = log_of([](const Device& device) {
    Generator generator(1);
    const WithoutFirst model{linear(device, generator), linear(device, generator)};
    const Tensor x = ones(device, {2, 4});
    for (int step = 0; step < 3; ++step) {
      const auto result = value_and_grad(
          model, [&](const auto& net) { return mean(net.second.forward(net.first.forward(x))); });
      EXPECT_EQ(result.gradients.size(), 2U);
    }
  });
  EXPECT_THAT(log,
              AllOf(HasSubstr("f32[4, 4]"),
                    HasSubstr("left_out_weights_test.cpp:"),
                    HasSubstr("that WithoutFirst leaves out of HEARTH_MODULE")));
  EXPECT_EQ(count_of(log, "leaves out"), 1U) << log;
}

TEST(LeftOutWeights, OfAListAndInACheckpointAreToldOf) {
  const std::string log = log_of([](const Device& device) {
    Generator generator(1);
    const WithoutBlocks model{linear(device, generator), {fork(linear(device, generator), device)}};
    const Tensor x = ones(device, {2, 4});
    const auto step = [&](const auto& net) {
      const Tensor inner = net.first.forward(x);
      const auto apply = [](const Linear& block, const Tensor& in) { return block.forward(in); };
      return mean(checkpoint(apply, net.blocks[0], inner));
    };
    static_cast<void>(value_and_grad(model, step));
    static_cast<void>(value_and_grad(model, step));
  });
  EXPECT_THAT(log, HasSubstr("WithoutBlocks leaves out"));
}

// A plain tensor is no weight of a layer, but lies inside the model: one step is enough to detect
// it.
TEST(LeftOutWeights, TensorsOfTheModelAreToldOfAtOnce) {
  const std::string log = log_of([](const Device& device) {
    Generator generator(1);
    const WithoutScale model{linear(device, generator), ones(device, {4})};
    const Tensor x = ones(device, {2, 4});
    static_cast<void>(value_and_grad(
        model, [&](const auto& net) { return mean(net.first.forward(x) * net.scale); }));
  });
  EXPECT_THAT(
      log,
      AllOf(HasSubstr("mul at "),
            HasSubstr("left_out_weights_test.cpp:"),
            HasSubstr("uses f32[4], a member that WithoutScale leaves out of HEARTH_MODULE: "
                      "it is neither trained, moved nor saved")));
  EXPECT_EQ(count_of(log, "leaves out"), 1U) << log;
}

TEST(LeftOutWeights, TensorsOfModulesInAListAreToldOf) {
  const std::string log = log_of([](const Device& device) {
    Generator generator(1);
    const Scales model{{{linear(device, generator), ones(device, {4})},
                        {linear(device, generator), ones(device, {4})}}};
    static_cast<void>(value_and_grad(model, [&](const auto& net) {
      return mean(net.blocks[1].first.forward(ones(device, {2, 4})) * net.blocks[1].scale);
    }));
  });
  EXPECT_THAT(log, HasSubstr("a member that Scales leaves out"));
}

// The mistake is the layer that was not moved with its model, not an input elsewhere.
TEST(LeftOutWeights, OnAnotherDeviceThanTheModelAreExplained) {
  const TestRuntime test;
  Generator generator(1);
  const auto text_of = [](const auto& fn) -> std::string {
    try {
      fn();
    } catch (const DeviceMismatch& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const WithoutFirst layers =
      fork(WithoutFirst{linear(test.cpu, generator), linear(test.cpu, generator)}, test.reference);
  const Tensor x = ones(test.reference, {2, 4});
  // Linear uses a transposed view of its weight.
  EXPECT_THAT(
      text_of([&] { static_cast<void>(layers.second.forward(layers.first.forward(x))); }),
      HasSubstr("move one with to(device); f32[4, 4] is the weight of a layer that no model "
                "has named"));
  EXPECT_THAT(text_of([&] {
                static_cast<void>(value_and_grad(layers, [&](const auto& net) {
                  return mean(net.second.forward(net.first.forward(x)));
                }));
              }),
              AllOf(HasSubstr("is a member of WithoutFirst that its HEARTH_MODULE leaves out"),
                    ::testing::Not(HasSubstr("to(device)"))));
  const WithoutScale tensors =
      fork(WithoutScale{linear(test.cpu, generator), ones(test.cpu, {4})}, test.reference);
  EXPECT_THAT(text_of([&] {
                static_cast<void>(value_and_grad(tensors, [&](const auto& net) {
                  return mean(net.first.forward(x) * net.scale);
                }));
              }),
              HasSubstr("f32[4] is a member of WithoutScale that its HEARTH_MODULE leaves out"));
  // An explicit input is on the wrong device; the layer is not at fault.
  set_paths(layers.first);
  EXPECT_THAT(text_of([&] { static_cast<void>(layers.first.forward(x)); }),
              AllOf(HasSubstr("move one with to(device)"), ::testing::Not(HasSubstr("named"))));
}

// Named weights, Buffers, weights of another model that was walked once, and weights with a path.
TEST(LeftOutWeights, AreNoOthers) {
  const std::string log = log_of([](const Device& device) {
    Generator generator(1);
    Whole model{
        linear(device, generator), BatchNorm2d({.channels = 2}, device), linear(device, generator)};
    const WithoutFirst teacher{linear(device, generator), linear(device, generator)};
    set_paths(teacher);
    teacher.first.weight.set_path("teacher.first.weight");
    teacher.first.bias->set_path("teacher.first.bias");
    const Tensor x = ones(device, {2, 2, 1, 4});
    Sgd optimizer({.learning_rate = 0.1});
    for (const Mode mode : {Mode::train, Mode::eval}) {
      StateUpdates updates;
      const StateScope scope(updates);
      auto result = value_and_grad(model, [&](const auto& net) {
        const Tensor inner = net.norm.forward(net.first.forward(x), mode);
        const Tensor aim = teacher.second.forward(teacher.first.forward(x));
        return mean(net.second.forward(inner) - aim);
      });
      optimizer.step(model, std::move(result.gradients)).get();
    }
    // Two models that train alternately: the first step of one uses the other before it is walked.
    const Linear producer = linear(device, generator);
    const WithLazyStatistics judge{linear(device, generator), {}};
    const Tensor noise = ones(device, {2, 4});
    for (int step = 0; step < 3; ++step) {
      static_cast<void>(value_and_grad(judge, [&](const auto& net) {
        return mean(net.first.forward(producer.forward(noise)));
      }));
      static_cast<void>(value_and_grad(producer, [&](const auto& net) {
        return mean(judge.first.forward(net.forward(noise)));
      }));
    }
    // A loss in which a model takes part without its own gradient is no mistake.
    const Linear other = linear(device, generator);
    static_cast<void>(
        grad([&](const std::vector<Tensor>& in) { return mean(other.forward(in[0])); },
             {ones(device, {2, 4})}));
    static_cast<void>(other.forward(ones(device, {2, 4})));
  });
  EXPECT_THAT(log, IsEmpty());
}

}  // namespace
}  // namespace hearth
