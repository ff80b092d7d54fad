// A batch of an update group has no order inside the backend, so a record that overwrites an input
// of an earlier one goes to another batch.
#include "stepped_runtime.hpp"

#include <memory>
#include <utility>
#include <vector>

#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/runtime/update_group.hpp>

#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using testing::World;

constexpr SgdUpdate kPlain{.learning_rate = 1};
constexpr SgdUpdate kMomentum{.learning_rate = 1, .momentum = 0.5};

/// A sim that runs the launches of a batch from the last to the first, and records their number.
class BackwardsBackend final : public testing::ForwardingBackend {
 public:
  explicit BackwardsBackend(std::vector<std::size_t>& batches)
      : ForwardingBackend(std::make_unique<sim::SimBackend>(sim::SimOptions{.name = "sim:0"})),
        batches_(batches) {}
  [[nodiscard]] Issue submit(std::span<const Launch> batch, Points after) override {
    Issue all;
    for (std::size_t left = batch.size(); left > 0; --left) {
      const Issue one = submit_one(batch[left - 1], after);
      EXPECT_TRUE(one.status.has_value());
      all.point = one.point;
      ++all.issued;
    }
    batches_.push_back(batch.size());
    return all;
  }

 private:
  std::vector<std::size_t>& batches_;
};

class UpdateOrder : public ::testing::Test {
 protected:
  template <class Body>
  void run(Body body) {
    const detail::BackendFactory factory{.make = [this](const BackendRequest&) {
      return std::make_unique<BackwardsBackend>(batches_);
    }};
    testing::stepped({.devices = {{.name = "sim:0"}}, .backends = factory}, body);
  }
  void commit(const World& world, UpdateGroup& group) {
    world.device.sync();
    batches_.clear();
    in_place_ = world.device.memory().in_place_count;
    group.commit().get();
    in_place_ = world.device.memory().in_place_count - in_place_;
  }

  std::vector<std::size_t> batches_;
  std::int64_t in_place_ = 0;
  Tensor none_;
};

TEST_F(UpdateOrder, RecordsOfOneExpressionAreOneBatch) {
  run([this](const World& world) {
    std::vector<Tensor> parameters;
    parameters.reserve(5);
    for (int i = 0; i < 5; ++i) {
      parameters.push_back(full(world.device, {2}, i));
    }
    const Tensor gradient = world.f32({1, 1});
    {
      UpdateGroup group(world.device);
      for (Tensor& parameter : parameters) {
        group.sgd(parameter, gradient, none_, kPlain);
      }
      commit(world, group);
    }
    EXPECT_THAT(batches_, ElementsAre(5));
    EXPECT_EQ(in_place_, 5);
    EXPECT_THAT(parameters[4].to_vector<float>(), ElementsAre(3, 3));
  });
}

TEST_F(UpdateOrder, AParameterIsReplacedBehindTheRecordThatReadsIt) {
  run([this](const World& world) {
    Tensor a = world.f32({0, 0});
    Tensor b = world.f32({1, 2});
    Tensor c = world.f32({3, 4});
    {
      UpdateGroup group(world.device);
      group.sgd(a, b, none_, kPlain);
      group.sgd(b, c, none_, kPlain);
      group.sgd(c, world.f32({5, 5}), none_, kPlain);
      commit(world, group);
    }
    EXPECT_THAT(a.to_vector<float>(), ElementsAre(-1, -2));
    EXPECT_THAT(b.to_vector<float>(), ElementsAre(-2, -2));
    EXPECT_THAT(c.to_vector<float>(), ElementsAre(-2, -1));
    EXPECT_THAT(batches_, ElementsAre(1, 1, 1));
    EXPECT_EQ(in_place_, 3);
  });
}

TEST_F(UpdateOrder, StateIsReplacedBehindTheRecordThatReadsIt) {
  run([this](const World& world) {
    Tensor a = world.f32({0});
    Tensor a_momentum = world.f32({0});
    Tensor b = world.f32({1});
    Tensor b_momentum = world.f32({8});
    Tensor c = world.f32({1});
    Tensor c_momentum = world.f32({8});
    {
      UpdateGroup group(world.device);
      group.sgd(a, b_momentum, a_momentum, kMomentum);
      group.sgd(c, world.f32({1}), c_momentum, kMomentum);
      group.sgd(b, world.f32({1}), b_momentum, kMomentum);
      commit(world, group);
    }
    EXPECT_THAT(a.to_vector<float>(), ElementsAre(-8));
    EXPECT_THAT(b.to_vector<float>(), ElementsAre(-4));
    EXPECT_THAT(c.to_vector<float>(), ElementsAre(-4));
    EXPECT_THAT(batches_, ElementsAre(2, 1));
  });
}

TEST_F(UpdateOrder, AParameterThatItsOwnRecordAloneReadsEndsNoBatch) {
  run([this](const World& world) {
    Tensor a = world.f32({2, 4});
    Tensor b = world.f32({1, 3});
    {
      UpdateGroup group(world.device);
      group.sgd(a, a, none_, {.learning_rate = 0.5});
      group.sgd(b, b, none_, {.learning_rate = 0.5});
      commit(world, group);
    }
    EXPECT_THAT(a.to_vector<float>(), ElementsAre(1, 2));
    EXPECT_THAT(b.to_vector<float>(), ElementsAre(0.5F, 1.5F));
    EXPECT_THAT(batches_, ElementsAre(2));
  });
}

}  // namespace
}  // namespace hearth
