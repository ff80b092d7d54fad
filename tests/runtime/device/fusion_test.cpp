// Devices that fuse: the ops of each kernel, the values that reach memory, the plans, and that
// results do not change if a kernel cannot run. Counts are of sims in virtual time, so that no
// window ends before its program ends it.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/update_group.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "tests/runtime/stepped_runtime.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::code_of;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using testing::live_tensors;
using testing::pass;
using ::testing::Pointwise;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

SteppedOptions fusing(FaultPlan faults = {}) {
  return {.devices = {{.name = "sim:0"}, {.name = "sim:1"}},
          .faults = {{"sim:0", std::move(faults)}},
          .fusion = Fusion::on};
}

Tensor gelu(const Tensor& x) {
  return x * 0.5 * (1 + erf(x * 0.7071067811865476));
}
/// GELU with a name for each step; the tensors are dropped when the function ends.
Tensor named_gelu(const Tensor& x) {
  const Tensor scaled = x / 1.4142135623730951;
  const Tensor error = erf(scaled);
  const Tensor shifted = error + 1;
  const Tensor product = x * shifted;
  return product / 2;
}
Tensor gelu_by_tanh(const Tensor& x) {
  return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * (x * square(x)))));
}

/// The error function by a polynomial with 18 numbers, for positive x.
///
/// Paper: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.25.
Tensor erf_of_positive(const Tensor& x) {
  const Tensor t = 1 / (x * 0.47047 + 1);
  return 1 - ((t * 0.7478556 - 0.0958798) * t + 0.3480242) * t * exp(-(x * x));
}
Tensor gelu_of_parts(const Tensor& x) {
  const Tensor scaled = x / 1.4142135623730951;
  const Tensor error = where(scaled > 0, erf_of_positive(scaled), -erf_of_positive(-scaled));
  return x * (error + 1) / 2;
}

/// The change of the device's statistics during `body`.
template <class Body>
DeviceStatistics done_by(const World& world, const Body& body) {
  world.device.sync();
  const DeviceStatistics before = world.device.statistics();
  body();
  DeviceStatistics after = world.device.statistics();
  after.kernels -= before.kernels;
  after.fused_ops -= before.fused_ops;
  after.fused_kernels -= before.fused_kernels;
  after.plans -= before.plans;
  return after;
}

// The adoption of the tensor timed out: a stream that is held up still reads it. A group whose
// records include its drop, but none of its uses, must not free it.
TEST(Fusion, ADropAmongAGroupsRecordsWaitsForTheGuestsOfItsTensor) {
  SteppedOptions options = fusing();
  options.wait_limit = 5s;
  stepped(options, [](const World& world) {
    Stream reader(world.device);
    std::optional<testing::HeldStream> held;
    const Tensor other = world.f32({3, 4});
    Tensor adopted = world.f32({1, 2});
    Tensor seen;
    {
      const StreamScope scope(reader);
      held.emplace(world.device);
      seen = adopted + 10;
    }
    adopted.adopt();
    pass(20s);
    const std::uint64_t fused = world.device.statistics().fused_ops;
    Tensor first = other + 1;
    adopted = Tensor();
    const Tensor second = first * 2;
    first = Tensor();
    EXPECT_THAT(second.to_vector<float>(), ElementsAre(8, 10));
    EXPECT_EQ(world.device.statistics().fused_ops - fused, 2U);
    std::vector<Tensor> fresh;
    for (float i = 0; i < 300; ++i) {
      fresh.push_back(world.f32({i, i}));
      ASSERT_EQ(fresh.back().to_vector<float>().front(), i);
    }
    held->unblock();
    EXPECT_THAT(seen.to_vector<float>(), ElementsAre(11, 12));
  });
}

// One value is read after its group and then dropped, beside one that is dropped unread.
TEST(Fusion, AValueThatAnOpBehindTheGroupReadsIsThere) {
  for (const Fusion fusion : {Fusion::off, Fusion::on}) {
    SteppedOptions options = fusing();
    options.fusion = fusion;
    stepped(options, [](const World& world) {
      const Tensor x = reshape(world.f32({1, 2, 3, 4}), {2, 2});
      Tensor product;
      Tensor later;
      for (int i = 0; i < 3; ++i) {
        const Tensor read = x + 1;
        const Tensor unread = read * 2;
        product = matmul(unread + 1, x);
        later = matmul(read, x);
        later = later + read;
      }
      EXPECT_THAT(product.to_vector<float>(), ElementsAre(26, 38, 42, 62));
      EXPECT_THAT(later.to_vector<float>(), ElementsAre(13, 19, 23, 33));
      product = Tensor();
      later = Tensor();
      world.device.sync();
      EXPECT_EQ(live_tensors(world.device), 1);
    });
  }
}

// Dropout's random words depend on the index in the whole tensor, also if its operand lies in
// another order.
TEST(Fusion, ADropoutInAFormulaDrawsWhatItDrawsAlone) {
  for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
    std::vector<double> singly;
    for (const Fusion fusion : {Fusion::off, Fusion::on}) {
      SteppedOptions options = fusing();
      options.fusion = fusion;
      stepped(options, [&](const World& world) {
        Generator generator(7);
        const Tensor x = random_normal(world.device, {17, 1, 9}, generator, 1, 0.5, dtype);
        Tensor y;
        const DeviceStatistics done = done_by(world, [&] {
          y = dropout(relu(transpose(x, 0, 2)), 0.5, generator) * 2;
          y = dropout(y + 1, 0.25, generator);
          world.device.sync();
        });
        const std::vector<double> values = cast(y, DType::f64).to_vector<double>();
        if (fusion == Fusion::off) {
          singly = values;
          return;
        }
        EXPECT_EQ(done.kernels, 1U);
        EXPECT_EQ(done.fused_ops, 5U);
        EXPECT_THAT(values, Pointwise(DoubleNear(dtype == DType::f16 ? 2e-2 : 1e-5), singly));
        EXPECT_GT(std::ranges::count(values, 0.0), 10);
      });
    }
  }
}

/// An inline device whose fused kernels fail after they have written.
class FailsAtItsEnd final : public testing::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

 private:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    Issue issue = ForwardingBackend::submit_one(launch, after);
    if (launch.call.op.kind() == OpKind::expression) {
      issue = {.status = Error{.code = ErrorCode::kernel_failed, .text = "at its end"}};
    }
    return issue;
  }
};

TEST(Fusion, AKernelThatHasOverwrittenItsInputAndFailsIsNotRunAgain) {
  SteppedOptions options = fusing();
  options.backends = detail::BackendFactory{.make = [](const BackendRequest& request) {
    return std::make_unique<FailsAtItsEnd>(testing::make_sim(request, {}));
  }};
  stepped(options, [](const World& world) {
    Tensor x = world.f32({1, 2, 3});
    const Tensor spoilt = (std::move(x) + 1) * 3;
    EXPECT_EQ(testing::read_error(spoilt).text, "at its end");
    const Tensor kept = world.f32({1, 2, 3});
    EXPECT_THAT(((kept + 1) * 3).to_vector<float>(), ElementsAre(6, 9, 12));
    EXPECT_EQ(live_tensors(world.device), 2);
  });
}

/// Records the number of parameters in each fused call, and in its kernel.
class CountsNumbers final : public testing::ForwardingBackend {
 public:
  struct Call {
    std::uint32_t listed = 0;
    std::size_t stored = 0;
    std::size_t read = 0;
  };
  CountsNumbers(std::unique_ptr<Backend> inner, std::vector<Call>& calls) noexcept
      : ForwardingBackend(std::move(inner)), calls_(calls) {}

 private:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    const OpView& op = launch.call.op;
    if (op.kind() == OpKind::expression) {
      calls_.push_back({.listed = op.attributes<ExpressionAttributes>().parameter_count,
                        .stored = op.record().blob_size_bytes / sizeof(std::uint64_t),
                        .read = launch.call.expression->kernel.parameters.size()});
    }
    return ForwardingBackend::submit_one(launch, after);
  }
  std::vector<Call>& calls_;
};

TEST(Fusion, AKernelIsCalledWithItsOwnNumbersThoughOpsThatNobodyNeedsHadSome) {
  std::vector<CountsNumbers::Call> calls;
  SteppedOptions options = fusing();
  options.backends = detail::BackendFactory{.make = [&](const BackendRequest& request) {
    return std::make_unique<CountsNumbers>(testing::make_sim(request, {}), calls);
  }};
  stepped(options, [](const World& world) {
    const Tensor x = world.f32({1, -2, 3});
    world.device.sync();
    Tensor unneeded = (x + 5) * 7 - 1;
    const Tensor y = neg(relu(x * 2)) + abs(x);
    unneeded = Tensor();
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(-1, 2, -3));
  });
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].read, 1U);
  EXPECT_EQ(calls[0].listed, 1U);
  EXPECT_EQ(calls[0].stored, 1U);
}

// Equal lines, with other tensors, in another order, or with more ops after them.
TEST(Fusion, AGroupThatComesAgainAsAnotherIsNoneThatIsRemembered) {
  const auto of_three = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return neg(relu(a - b) * c + b);
  };
  const auto of_rows = [](const Tensor& a) {
    return neg(abs(sum(a, {-1}, {.keep_dims = true}) * a));
  };
  const auto along = [](const Tensor& a, int axis) { return neg(softmax(abs(a), axis) * a); };
  std::vector<std::vector<float>> singly;
  for (const Fusion fusion : {Fusion::off, Fusion::on}) {
    SteppedOptions options{.devices = {{.name = "cpu:0"}}, .fusion = fusion};
    stepped(options, [&](const World& world) {
      Generator generator(3);
      const Tensor x = random_normal(world.device, {150, 150}, generator);
      const Tensor y = random_normal(world.device, {150, 150}, generator);
      const Tensor turned = transpose(x);
      std::vector<std::vector<float>> seen;
      const auto see = [&](const Tensor& result) {
        world.device.sync();
        seen.push_back(result.to_vector<float>());
      };
      for (int times = 0; times < 3; ++times) {
        for (const Tensor* other : {&x, &y, &turned}) {
          see(of_three(x, *other, x));
          see(of_three(x, *other, *other));
          see(of_three(*other, x, y));
          see(of_rows(*other));
          see(along(*other, 1));
          see(along(*other, 0));
        }
      }
      if (fusion == Fusion::off) {
        singly = std::move(seen);
      } else {
        EXPECT_TRUE(seen == singly);
        EXPECT_GT(world.device.statistics().fused_kernels, 20U);
      }
    });
  }
}

TEST(Fusion, AGroupThatComesAgainTakesWhatStandsBehindIt) {
  stepped(fusing(), [](const World& world) {
    const Tensor x = world.f32({-1, 2, 3});
    const auto run = [&](bool goes_on) {
      return done_by(world, [&] {
        Tensor y = neg(relu(x * 2) + 1);
        if (goes_on) {
          y = std::move(y) * 3;
        }
        world.device.sync();
        EXPECT_EQ(y.to_vector<float>()[1], goes_on ? -15 : -5);
      });
    };
    for (int times = 0; times < 4; ++times) {
      EXPECT_EQ(run(false).kernels, 1U);
      EXPECT_EQ(run(false).fused_ops, 4U);
      const DeviceStatistics longer = run(true);
      EXPECT_EQ(longer.kernels, 1U);
      EXPECT_EQ(longer.fused_ops, 5U);
    }
    EXPECT_EQ(world.device.statistics().plans, 2U);
  });
}

// A first op that waits for room on the device runs alone; its group gets a plan later.
TEST(Fusion, PlansDoNotDependOnHowFullTheDeviceIs) {
  std::vector<std::uint64_t> plans;
  for (const bool is_full : {false, true}) {
    SteppedOptions options = fusing();
    for (DeviceOptions& device : options.devices) {
      device.sim_schedule = SimSchedule{.queues = 2};
    }
    stepped(options, [&](const World& world) {
      const Tensor x = world.f32({1, 2});
      world.device.sync();
      Tensor total;
      for (int i = 0; i < (is_full ? 256 : 1); ++i) {
        total = argmax(x, 0);
      }
      for (int i = 0; i < 2; ++i) {
        const Tensor y = exp(neg((x + 1) * 2));
        world.device.sync();
      }
      plans.push_back(world.device.statistics().plans);
    });
  }
  EXPECT_EQ(plans[0], 1U);
  EXPECT_EQ(plans[1], 1U);
}

TEST(Fusion, ALimitLeavesTheGroupsBehindItToRunSingly) {
  for (const std::uint64_t limit : {0U, 1U, 2U, 5U}) {
    SteppedOptions options = fusing();
    options.fusion_limit = limit;
    stepped(options, [limit](const World& world) {
      const Tensor x = world.f32({-3, -1, -0.25, 0, 0.5, 2});
      for (int i = 0; i < 4; ++i) {
        EXPECT_NEAR(gelu(x).to_vector<float>()[5], 1.9545F, 1e-3);
      }
      EXPECT_EQ(world.device.statistics().fused_kernels, std::min<std::uint64_t>(limit, 4));
    });
  }
}

TEST(Fusion, AFormulaOfPlainOpsIsOneKernel) {
  for (Tensor (*const formula)(const Tensor&) : {gelu, named_gelu, gelu_by_tanh, gelu_of_parts}) {
    std::vector<float> singly;
    for (const Fusion fusion : {Fusion::off, Fusion::on}) {
      SteppedOptions options = fusing();
      options.fusion = fusion;
      stepped(options, [&](const World& world) {
        const Tensor x = world.f32({-3, -1, -0.25, 0, 0.5, 2});
        Tensor y;
        const DeviceStatistics done = done_by(world, [&] {
          y = formula(x);
          world.device.sync();
        });
        const std::vector<float> values = y.to_vector<float>();
        if (fusion == Fusion::off) {
          singly = values;
          return;
        }
        EXPECT_EQ(done.kernels, 1U);
        EXPECT_EQ(done.fused_kernels, 1U);
        EXPECT_GE(done.fused_ops, 5U);
        EXPECT_THAT(values, Pointwise(FloatNear(1e-6F), singly));
        EXPECT_EQ(live_tensors(world.device), 2) << "x and y";
      });
    }
  }
}

// The tape keeps values for the sweep: they are results of the same kernel.
TEST(Fusion, UnderATapeAFormulaIsOneKernelAndItsSweepAtMostTwo) {
  for (Tensor (*const formula)(const Tensor&) : {gelu, named_gelu, gelu_by_tanh, gelu_of_parts}) {
    const bool is_exact = formula == gelu || formula == named_gelu;  // the others are close
    stepped(fusing(), [&](const World& world) {
      const Tensor x = world.f32({-1, 0.5, 2});
      std::vector<Tensor> gradients;
      std::uint64_t forward = 0;
      const DeviceStatistics done = done_by(world, [&] {
        gradients = grad(
            [&](const std::vector<Tensor>& inputs) {
              Tensor y;
              forward = done_by(world, [&] {
                          y = formula(inputs[0]);
                          world.device.sync();
                        }).kernels;
              return sum(y);
            },
            {x});
        world.device.sync();
      });
      EXPECT_EQ(forward, 1U);
      EXPECT_LE(done.kernels - forward, 2U) << "nobody reads the sum";
      EXPECT_THAT(gradients[0].to_vector<float>(),
                  Pointwise(FloatNear(is_exact ? 1e-6F : 1e-3F),
                            std::vector<float>{-0.0833155F, 0.8674951F, 1.0852319F}));
    });
  }
}

// A plan does not depend on sizes or numbers, so steps and lengths share it.
TEST(Fusion, OnePlanServesAllSizesAndNumbers) {
  stepped(fusing(), [](const World& world) {
    const DeviceStatistics done = done_by(world, [&] {
      for (std::int64_t size = 0; size < 40; ++size) {
        const Tensor x = Tensor::from(
            world.device, std::vector<float>(static_cast<std::size_t>(3 * size), 1), {size, 3});
        const Tensor y = (x * static_cast<double>(size) + 1) * 2;
        EXPECT_THAT(y.to_vector<float>(), Each(2.0F * static_cast<float>(size) + 2.0F));
      }
    });
    EXPECT_EQ(done.plans, 1U);
    EXPECT_EQ(done.fused_kernels, 40U);
  });
}

TEST(Fusion, InputsThatBroadcastAndOtherTypesAreReadByTheKernel) {
  stepped(fusing(), [](const World& world) {
    const Tensor rows = Tensor::from(world.device, std::vector<double>{1, 2}, {2, 1});
    const Tensor columns = Tensor::from(world.device, std::vector<double>{10, 20, 30}, {3});
    const Tensor wide = permute(reshape(arange(world.device, 0, 6), {3, 2}), {1, 0});
    Tensor y;
    const DeviceStatistics done = done_by(world, [&] {
      const Tensor a = wide.to(DType::f64) + columns;  // [2, 3]
      y = where(a > 21.5, a * rows, -a);
      world.device.sync();
    });
    EXPECT_EQ(done.fused_kernels, 1U);
    EXPECT_THAT(y.to_vector<double>(), ElementsAre(-10, 22, 34, -11, 46, 70));
  });
}

TEST(Fusion, AResultTakesTheBytesOfWhatItIsTheLastToRead) {
  stepped(fusing(), [](const World& world) {
    Tensor x = world.f32({1, 2, 3}) + 0.0F;
    world.device.sync();
    const std::int64_t before = world.device.memory().in_place_count;
    const Tensor y = (std::move(x) + 1) * 3;
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(6, 9, 12));
    EXPECT_EQ(world.device.memory().in_place_count - before, 1);
  });
}

TEST(Fusion, OtherShapesKindsAndTypesThatMayFailEndAGroup) {
  stepped(fusing(), [](const World& world) {
    const Tensor x = world.f32({1, 2, 3, 4});
    const Tensor n = Tensor::from(world.device, std::vector<std::int32_t>{6, 8, 10, 12}, {4});
    Tensor y;
    const DeviceStatistics done = done_by(world, [&] {
      const Tensor a = (x + 1) * 2;                    // one kernel
      const Tensor total = sum(a);                     // no elementwise op
      const Tensor b = (a - total) * 2;                // one kernel
      const Tensor c = (total + 1) * 2;                // of another shape
      const Tensor quotients = ((n + 2) * 2) / n * 2;  // two, around an op that may fail
      y = b + c + quotients.to(DType::f32);
      world.device.sync();
    });
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(14, 18, 22, 26));
    EXPECT_EQ(done.kernels, 4U);
  });
}

// More than a kernel supports: the group ends before, and the rest forms the next.
TEST(Fusion, GroupsStayWithinWhatAKernelTakes) {
  stepped(fusing(), [](const World& world) {
    std::vector<Tensor> inputs;
    inputs.reserve(40);
    for (int i = 0; i < 40; ++i) {
      inputs.push_back(full(world.device, {4}, i));
    }
    Tensor total;
    std::vector<Tensor> kept;
    const DeviceStatistics done = done_by(world, [&] {
      total = inputs[0] + 0.5;
      for (int i = 1; i < 40; ++i) {
        total = total + inputs[static_cast<std::size_t>(i)];
      }
      for (int i = 0; i < 20; ++i) {
        kept.push_back(total * i);
      }
      world.device.sync();
    });
    EXPECT_THAT(total.to_vector<float>(), Each(780.5F));
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(kept[static_cast<std::size_t>(i)].to_vector<float>(),
                  Each(780.5F * static_cast<float>(i)));
    }
    EXPECT_LT(done.kernels, 40U);
    EXPECT_GE(done.fused_ops, 40U);
  });
}

// Ops that time cuts off run by existing plans, and make none.
TEST(Fusion, ACutMakesNoPlan) {
  stepped(fusing(), [](const World& world) {
    const Tensor x = world.f32({1, 2});
    world.device.sync();
    const auto cut_off = [&] {
      const Tensor y = (x + 1) * 2;
      pass(1ms);  // longer than a linger
      EXPECT_THAT((y - 1).to_vector<float>(), ElementsAre(3, 5));
    };
    EXPECT_EQ(done_by(world, cut_off).plans, 0U);
    const DeviceStatistics whole =
        done_by(world, [&] { EXPECT_THAT(((x + 1) * 2).to_vector<float>(), ElementsAre(4, 6)); });
    EXPECT_EQ(whole.plans, 1U);
    const DeviceStatistics again = done_by(world, cut_off);
    EXPECT_EQ(again.plans, 0U);
    EXPECT_EQ(again.fused_kernels, 1U);
  });
}

// The ops of a refused kernel run singly: each one reports its own error.
TEST(Fusion, WhereAKernelIsRefusedItsOpsRunSingly) {
  stepped(fusing({.failing_submits = {1}}), [](const World& world) {
    const Tensor y = (world.f32({1, 2}) + 1) * 2;
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(4, 6));
    EXPECT_EQ(world.device.statistics().fused_kernels, 0U);
    EXPECT_EQ(world.device.statistics().poisoned_ops, 0U);
    EXPECT_EQ(live_tensors(world.device), 1);
  });
  stepped(fusing({.failing_submits = {1, 3}}), [](const World& world) {
    const Tensor sum = world.f32({1, 2}) + 1;
    const Tensor product = sum * 2;
    EXPECT_EQ(testing::read_error(product).op, "mul");
    EXPECT_THAT(sum.to_vector<float>(), ElementsAre(2, 3));
  });
}

TEST(Fusion, WhereMemoryIsShortOpsRunSinglyAndWait) {
  constexpr std::int64_t kLarge = (std::int64_t{20} << 20) / 16;
  SteppedOptions options = fusing();
  options.devices[0].memory_budget_bytes = std::int64_t{12} << 20;
  stepped(options, [](const World& world) {
    const Tensor x = ones(world.device, {kLarge});
    world.device.sync();
    const Tensor a = x + 1;
    const Tensor b = a * 2;  // there is room for one of the two
    EXPECT_EQ(testing::read_error(b).code, ErrorCode::out_of_memory);
    EXPECT_EQ(sum(a).item(), 2.0 * kLarge);
  });
}

TEST(Fusion, ALostDeviceFailsEachOpOfAGroup) {
  stepped(fusing({.lost_at_submit = 1}), [](const World& world) {
    const Tensor a = world.f32({1, 2}) + 1;
    const Tensor b = a * 2;
    EXPECT_EQ(testing::read_error(b).code, ErrorCode::device_lost);
    EXPECT_EQ(testing::read_error(a).code, ErrorCode::device_lost);
  });
}

// Only results that depend on the failed op carry the failure.
TEST(Fusion, AFailureThatComesLateSpoilsWhatDependsOnIt) {
  SteppedOptions options = fusing({.late_failures = {1}});
  options.devices[0].sim_schedule = SimSchedule{.queues = 2};
  stepped(options, [](const World& world) {
    const Tensor n = Tensor::from(world.device, std::vector<std::int32_t>{6, 8}, {2});
    const Tensor bad = n / 2;
    const Tensor good = n + 1;
    const Tensor spoilt = (bad + 1) * 2;
    const Tensor right = (good + 1) * 2;
    EXPECT_EQ(testing::read_error(spoilt).op, "div");
    EXPECT_THAT(right.to_vector<std::int32_t>(), ElementsAre(16, 20));
    EXPECT_GE(world.device.statistics().fused_kernels, 1U);
  });
}

// Equal lines read values that may have failed, have not failed, and have failed.
TEST(Fusion, AGroupThatComesAgainCarriesTheFailuresOfThisTime) {
  int failures = 0;
  for (std::uint64_t failing = 0; failing < 16; ++failing) {
    SteppedOptions options = fusing({.late_failures = {failing}});
    options.devices[0].sim_schedule = SimSchedule{.queues = 2};
    stepped(options, [&](const World& world) {
      const Tensor n = Tensor::from(world.device, std::vector<std::int32_t>{6, 8}, {2});
      for (int times = 0; times < 8; ++times) {
        const Tensor divided = n / 2;
        if (times % 3 == 2) {
          static_cast<void>(divided.read_bytes().wait());  // the failure is then known
        }
        const Tensor result = neg(abs((divided + 1) * 2));
        const Status status = result.read_bytes().wait();
        const Status before = divided.read_bytes().wait();
        EXPECT_EQ(status.has_value(), before.has_value()) << failing << ", " << times;
        if (status.has_value()) {
          EXPECT_THAT(result.to_vector<std::int32_t>(), ElementsAre(-8, -10));
        } else {
          EXPECT_EQ(status.error().op, "div");
          ++failures;
        }
      }
    });
  }
  EXPECT_EQ(failures, 8) << "each time once";
}

TEST(Fusion, AStreamThatIsCancelledRunsNoGroup) {
  stepped(fusing(), [](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    const Tensor x = world.f32({1, 2});
    world.device.sync();
    const Tensor y = (x + 1) * 2;
    stream.cancel();
    EXPECT_EQ(testing::read_error(y).code, ErrorCode::cancelled);
    EXPECT_EQ(world.device.statistics().fused_kernels, 0U);
  });
}

// A strategy that checks memory after each op names the op that wrote out of bounds.
TEST(Fusion, MemoryThatIsCheckedAfterEachOpIsNotFused) {
  SteppedOptions options = fusing();
  options.devices[0].memory = MemoryPooling::debug;
  stepped(options, [](const World& world) {
    const Tensor y = (world.f32({1, 2}) + 1) * 2;
    EXPECT_THAT(y.to_vector<float>(), ElementsAre(4, 6));
    EXPECT_EQ(world.device.statistics().fused_kernels, 0U);
  });
}

TEST(Fusion, ARestartedDeviceFusesOn) {
  stepped(fusing({.lost_at_submit = 3}), [](const World& world) {
    const auto compute = [&] { return ((world.f32({1, 2}) + 1) * 2).read_bytes().wait(); };
    EXPECT_TRUE(compute().has_value());
    while (compute().has_value()) {
    }
    world.device.restart();
    EXPECT_TRUE(compute().has_value());
    EXPECT_EQ(world.device.statistics().plans, 1U);
  });
}

}  // namespace
}  // namespace hearth
