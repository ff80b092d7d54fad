// Plans of fused groups depend only on the program: training reuses known plans after its first
// steps, other sizes need no new ones, and no order of threads adds plans.
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <hearth/modules/activations.hpp>
#include <hearth/modules/adam.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/pooling.hpp>
#include <hearth/modules/transformer_encoder_layer.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/explanation.hpp>

#include "tests/runtime/stepped_runtime.hpp"

namespace hearth {
namespace {

using testing::stepped;
using testing::SteppedOptions;
using testing::World;

SteppedOptions fused(std::uint64_t seed = 0) {
  return {.devices = {{.name = "sim:0"}}, .seed = seed, .fusion = Fusion::on};
}

struct Mlp {
  Linear a, b;
  Mlp(const Device& device, Generator& generator)
      : a({.in = 12, .out = 9}, device, generator), b({.in = 9, .out = 4}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const { return b.forward(relu(a.forward(x))); }
  static Shape input() { return {5, 12}; }
  HEARTH_MODULE(Mlp, a, b)
};

struct Cnn {
  Conv2d a;
  Linear b;
  Cnn(const Device& device, Generator& generator)
      : a({.in = 1, .out = 3, .padding = {1, 1}}, device, generator),
        b({.in = 27, .out = 4}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return b.forward(flatten(max_pool2d(gelu(a.forward(x))), 1));
  }
  static Shape input() { return {2, 1, 6, 6}; }
  HEARTH_MODULE(Cnn, a, b)
};

struct Encoder {
  TransformerEncoderLayer layer;
  Linear b;
  Encoder(const Device& device, Generator& generator)
      : layer({.width = 8, .heads = 2, .dropout = 0}, device, generator),
        b({.in = 8, .out = 4}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return b.forward(mean(layer.forward(x, Mode::eval), 1));
  }
  static Shape input() { return {3, 7, 8}; }
  HEARTH_MODULE(Encoder, layer, b)
};

template <class Model>
void expect_known_plans_in_training() {
  stepped(fused(), [](const World& world) {
    Generator generator(3);
    Model model(world.device, generator);
    AdamW optimizer({.learning_rate = 1e-2});
    DeviceStatistics before;
    for (int step = 0; step < 20; ++step) {
      if (step == 3) {
        before = world.device.statistics();
      }
      const Tensor x = random_normal(world.device, Model::input(), generator);
      const std::vector<std::int32_t> classes(static_cast<std::size_t>(Model::input()[0]), 1);
      const Tensor targets = Tensor::from(world.device, classes, Shape{Model::input()[0]});
      auto [loss, gradients] = value_and_grad(
          model, [&](const Model& tracked) { return cross_entropy(tracked.forward(x), targets); });
      static_cast<void>(loss.item());
      static_cast<void>(optimizer.step(model, std::move(gradients)));
    }
    const DeviceStatistics after = world.device.statistics();
    EXPECT_EQ(after.plan_misses, before.plan_misses);
    EXPECT_GT(after.plan_hits, before.plan_hits + 17);
    EXPECT_EQ(after.plans, before.plans);
    EXPECT_EQ(after.ends(WindowEnd::foreign_use), 0U) << "no foreign cut in our own code";
  });
}

TEST(Plans, OfTrainingAreKnownAfterThreeSteps) {
  expect_known_plans_in_training<Mlp>();
  expect_known_plans_in_training<Cnn>();
  expect_known_plans_in_training<Encoder>();
}

TEST(Plans, OfABlockServeEveryLengthOfASequence) {
  stepped(fused(), [](const World& world) {
    Generator generator(5);
    const TransformerEncoderLayer layer(
        {.width = 4, .heads = 1, .inner = 4, .dropout = 0}, world.device, generator);
    const auto run = [&](std::int64_t length) {
      const Tensor x = random_normal(world.device, {1, length, 4}, generator);
      static_cast<void>(layer.forward(x, Mode::eval, {.causal = true}).to_vector<float>());
    };
    run(7);
    const std::uint64_t of_one = world.device.statistics().plans;
    for (std::int64_t length = 1; length <= 512; length += length < 40 ? 1 : 59) {
      run(length);
    }
    EXPECT_GT(of_one, 0U);
    EXPECT_LE(world.device.statistics().plans, 3 * of_one);
  });
}

struct Many {
  std::vector<Linear> layers;
  HEARTH_MODULE(Many, layers)
};

TEST(Plans, AnUpdateOfTwoHundredParametersIsAtMostFourLaunches) {
  stepped(fused(), [](const World& world) {
    Generator generator(7);
    Many model;
    for (int i = 0; i < 100; ++i) {
      model.layers.emplace_back(Linear::Config{.in = 1 + i % 3, .out = 2}, world.device, generator);
    }
    AdamW optimizer({.learning_rate = 1e-2});
    const auto gradients_of = [&] {
      return value_and_grad(model,
                            [](const Many& tracked) {
                              Tensor total;
                              for (const Linear& layer : tracked.layers) {
                                Tensor part = sum(layer.weight) + sum(*layer.bias);
                                total = !total.is_valid() ? part : total + part;
                              }
                              return total;
                            })
          .gradients;
    };
    static_cast<void>(optimizer.step(model, gradients_of()));  // makes its state
    Gradients gradients = gradients_of();
    world.device.sync();
    const Explanation step = explain(world.device, [&] {
      static_cast<void>(optimizer.step(model, std::move(gradients)));
      world.device.sync();
    });
    EXPECT_LE(step.launches, 4);
  });
}

// ---- the style of a program ----

/// Bytes that a program's kernels write, in its readable form and in the form that saves memory.
struct Written {
  std::int64_t naive = 0;
  std::int64_t ideal = 0;
};

template <class Naive, class Ideal>
Written written(const World& world, const Naive& naive, const Ideal& ideal) {
  const auto bytes = [&](const auto& program) {
    Tensor kept;
    program();  // the plans
    const Explanation done = explain(world.device, [&] {
      kept = program();
      world.device.sync();
    });
    return done.bytes_written();
  };
  return {bytes(naive), bytes(ideal)};
}

TEST(Plans, NamedLocalsCostAResidualBlockNoMemory) {
  stepped(fused(), [](const World& world) {
    Generator generator(9);
    const Tensor x = random_normal(world.device, {2, 3, 6, 6}, generator);
    const Tensor w = random_normal(world.device, {3, 3, 3, 3}, generator);
    const Conv2dOptions same{.padding = {1, 1}};
    const Written bytes = written(
        world,
        [&] {
          const Tensor first = conv2d(x, w, same);
          const Tensor active = relu(first);
          const Tensor second = conv2d(active, w, same);
          const Tensor sum = second + x;
          Tensor result = relu(sum);
          return result;
        },
        [&] { return relu(conv2d(relu(conv2d(x, w, same)), w, same) + x); });
    EXPECT_LE(static_cast<double>(bytes.naive), 1.25 * static_cast<double>(bytes.ideal));
  });
}

TEST(Plans, NamedLocalsCostATransformerBlockNoMemory) {
  stepped(fused(), [](const World& world) {
    Generator generator(11);
    const auto normal = [&](const Shape& shape) {
      return random_normal(world.device, shape, generator);
    };
    const Tensor x = normal({2, 16, 8});
    const Tensor wide = normal({8, 8});
    const Tensor in = normal({8, 32});
    const Tensor out = normal({32, 8});
    const Tensor scale = normal({8});
    const Tensor bias = normal({32});
    const Written bytes = written(
        world,
        [&] {
          const Tensor mean_of = mean(x, {-1}, {.keep_dims = true});
          const Tensor centred = x - mean_of;
          const Tensor squares = square(centred);
          const Tensor variance = mean(squares, {-1}, {.keep_dims = true});
          const Tensor deviation = sqrt(variance + 1e-5);
          const Tensor normed = centred / deviation * scale;
          const Tensor queries = matmul(normed, wide);
          const Tensor keys = matmul(normed, wide);
          const Tensor values = matmul(normed, wide);
          const Tensor mixed = attention(queries, keys, values, {.causal = true});
          const Tensor projected = matmul(mixed, wide);
          const Tensor middle = x + projected;
          const Tensor inner = matmul(middle, in);
          const Tensor shifted = inner + bias;
          const Tensor active = gelu(shifted);
          const Tensor outer = matmul(active, out);
          Tensor result = middle + outer;
          return result;
        },
        [&] {
          Tensor normed = rms_norm(x - mean(x, {-1}, {.keep_dims = true}), scale);
          Tensor q = matmul(normed, wide);
          Tensor k = matmul(normed, wide);
          Tensor v = matmul(std::move(normed), wide);
          Tensor middle =
              x +
              matmul(attention(std::move(q), std::move(k), std::move(v), {.causal = true}), wide);
          Tensor active = gelu(matmul(middle, in) + bias);
          return std::move(middle) + matmul(std::move(active), out);
        });
    EXPECT_LE(static_cast<double>(bytes.naive), 1.25 * static_cast<double>(bytes.ideal));
  });
}

// Eight streams that share weights, in any order of arrival.
TEST(Plans, AreTheSameUnderEveryOrderOfStreams) {
  const char* const wanted = std::getenv("PLAN_SCHEDULES");  // NOLINT(concurrency-mt-unsafe)
  const int schedules = wanted != nullptr ? std::atoi(wanted) : 200;
  std::set<std::uint64_t> counts;
  for (int seed = 0; seed < schedules; ++seed) {
    stepped(fused(static_cast<std::uint64_t>(seed)), [&](const World& world) {
      const Tensor weight = full(world.device, {4, 4}, 0.5);
      const Tensor bias = full(world.device, {4}, 0.25);
      weight.publish();
      bias.publish();
      std::vector<std::unique_ptr<detail::Joinable>> threads;
      threads.reserve(8);
      for (int lane = 0; lane < 8; ++lane) {
        threads.push_back(world.spawn("lane", [&, lane] {
          for (int turn = 0; turn < 3; ++turn) {
            const Tensor x = full(world.device, {3, 4}, lane + turn);
            const Tensor y = layer_norm(gelu(matmul(x, weight) + bias) + x);
            EXPECT_EQ(y.to_vector<float>().size(), 12U);
          }
        }));
      }
      for (const auto& thread : threads) {
        thread->join();
      }
      counts.insert(world.device.statistics().plans);
    });
  }
  EXPECT_EQ(counts.size(), 1U) << "some orders have more plans than others";
}

}  // namespace
}  // namespace hearth
