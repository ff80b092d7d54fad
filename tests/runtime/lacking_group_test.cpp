// An update group with a kernel that cannot run: no part of the group runs.
#include "stepped_runtime.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/runtime/update_group.hpp>

#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using ::testing::Each;
using testing::World;

constexpr SgdUpdate kPlain{.learning_rate = 1};

/// A sim device on which the optimizer's kernel for the `at`-th form of operands in a step is
/// missing, or needs much scratch memory.
struct Lack {
  int at = 0;
  std::int64_t scratch_bytes = 0;
  int asked = 0;  ///< in this step

  [[nodiscard]] bool is_next() { return ++asked == at; }
};

class LackingBackend final : public testing::ForwardingBackend {
 public:
  explicit LackingBackend(Lack& lack)
      : ForwardingBackend(std::make_unique<sim::SimBackend>(sim::SimOptions{.name = "sim:0"})),
        lack_(lack) {}
  [[nodiscard]] Support supports(const KernelCall& call) const override {
    if (call.expression != nullptr && lack_.scratch_bytes == 0 && lack_.is_next()) {
      return {.yes = false, .reason = "sgd_step: not on this device"};
    }
    return ForwardingBackend::supports(call);
  }
  void use_scratch(ScratchMemory& scratch) noexcept override { scratch_ = &scratch; }
  [[nodiscard]] std::int64_t scratch_bytes(const KernelCall& call) const noexcept override {
    const bool is_it = call.expression != nullptr && lack_.scratch_bytes > 0 && lack_.is_next();
    return is_it ? lack_.scratch_bytes : 0;
  }
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    if (launch.call.expression != nullptr && lack_.scratch_bytes > 0) {
      const Result<std::byte*> scratch = scratch_->take(lack_.scratch_bytes);
      if (!scratch.has_value()) {
        return refused(scratch.error());
      }
      std::fill_n(scratch.value(), lack_.scratch_bytes, std::byte{1});
      Issue issue = ForwardingBackend::submit_one(launch, after);
      scratch_->release();
      return issue;
    }
    return ForwardingBackend::submit_one(launch, after);
  }

 private:
  Lack& lack_;
  ScratchMemory* scratch_ = nullptr;
};

class LackingGroup : public ::testing::Test {
 protected:
  static constexpr std::int64_t kMiB = std::int64_t{1} << 20;

  template <class Body>
  void run(Body body) {
    const detail::BackendFactory factory{
        .make = [this](const BackendRequest&) { return std::make_unique<LackingBackend>(lack_); }};
    ManualExecutor executor;
    executor.run([&] {
      Runtime runtime(
          {.devices = {{.name = "sim:0", .memory_budget_bytes = 16 * kMiB}}, .executor = &executor},
          factory);
      body(World{runtime, executor, runtime.device("sim:0")});
    });
  }
  // A step of three parameters of different sizes, all 1 before and 0 after.
  Pending<void> step(const World& world) {
    lack_.asked = 0;
    parameters_.clear();
    for (int i = 0; i < 3; ++i) {
      parameters_.push_back(ones(world.device, {i + 1}));
    }
    Tensor none;
    UpdateGroup group(world.device);
    for (Tensor& parameter : parameters_) {
      group.sgd(parameter, ones(world.device, parameter.shape()), none, kPlain);
    }
    return group.commit();
  }
  void expect_all(float value) const {
    for (const Tensor& parameter : parameters_) {
      EXPECT_THAT(parameter.to_vector<float>(), Each(value));
    }
  }

  Lack lack_;
  std::vector<Tensor> parameters_;
};

TEST_F(LackingGroup, AKernelThatIsMissingAtAnyRecordKeepsEverythingAsItWas) {
  run([&](const World& world) {
    for (lack_.at = 1; lack_.at <= 3; ++lack_.at) {
      const Status status = step(world).wait();
      ASSERT_EQ(testing::code_of(status), ErrorCode::unsupported);
      EXPECT_EQ(status.error().op, "sgd_step");
      EXPECT_EQ(status.error().text, "sgd_step: not on this device");
      expect_all(1);
    }
    lack_.at = 0;
    step(world).get();
    expect_all(0);
    parameters_.clear();
  });
}

TEST_F(LackingGroup, ScratchMemoryThatIsMissingAtAnyRecordKeepsEverythingAsItWas) {
  lack_.scratch_bytes = 12 * kMiB;
  run([&](const World& world) {
    for (lack_.at = 1; lack_.at <= 3; ++lack_.at) {
      {
        const Tensor filler = zeros(world.device, {2 * kMiB});
        const Status status = step(world).wait();
        ASSERT_EQ(testing::code_of(status), ErrorCode::out_of_memory);
        EXPECT_EQ(status.error().op, "sgd_step");
        expect_all(1);
      }
      step(world).get();
      expect_all(0);
    }
    parameters_.clear();
  });
}

TEST_F(LackingGroup, ScratchMemoryIsKeptForAGroupThatWaitsForItsDecision) {
  lack_ = {.at = 2, .scratch_bytes = 8 * kMiB};
  run([&](const World& world) {
    parameters_ = {ones(world.device, {1}), ones(world.device, {2})};
    const auto decision = std::make_shared<UpdateDecision>();
    Promise<PreparedUpdate> heard;
    Pending<PreparedUpdate> prepared = heard.pending();
    Promise<void> outcome;
    const Pending<void> done = outcome.pending();
    Tensor none;
    UpdateGroup group(world.device);
    for (Tensor& parameter : parameters_) {
      group.sgd(parameter, ones(world.device, parameter.shape()), none, kPlain);
    }
    group.commit(
        [&outcome](ErrorRef error) {
          error ? outcome.set_error(std::move(error)) : outcome.set_value();
        },
        {.decision = decision, .prepared = [&heard](Result<PreparedUpdate> update) {
           heard.set_value(std::move(update).value());
         }});
    PreparedUpdate update = std::move(prepared).get();
    Stream other(world.device);
    {
      const StreamScope scope(other);
      EXPECT_EQ(testing::read_error(zeros(world.device, {3 * kMiB})).code, ErrorCode::out_of_memory)
          << "12 MiB beside the 8";
      const Tensor filler = zeros(world.device, {kMiB});
      EXPECT_EQ(sum(filler).item(), 0);
      EXPECT_TRUE(decision->commit());
      update.settle();
      EXPECT_TRUE(done.wait().has_value());
    }
    expect_all(0);
    parameters_.clear();
  });
}

// 200 parameters have few forms, and the backend's answer for a form holds for all of them.
TEST_F(LackingGroup, UpdatesOfEqualFormsAskOnce) {
  run([&](const World& world) {
    lack_ = {.at = 0};
    constexpr int kEach = 5;
    std::vector<Tensor> parameters;
    parameters.reserve(3 * kEach + 1);
    for (int i = 0; i < 3 * kEach; ++i) {
      parameters.push_back(ones(world.device, {i % 3 + 1}));
    }
    parameters.push_back(ones(world.device, {3, 1}));  // the element count of other parameters
    Tensor none;
    UpdateGroup group(world.device);
    for (Tensor& parameter : parameters) {
      group.sgd(parameter, ones(world.device, parameter.shape()), none, kPlain);
    }
    group.commit().get();
    EXPECT_EQ(lack_.asked, 4);
    for (const Tensor& parameter : parameters) {
      EXPECT_THAT(parameter.to_vector<float>(), Each(0));
    }
  });
}

// Kernels are compiled before the first of them runs.
TEST(LackingGroups, AKernelThatCannotBeCompiledAtAnyRecordKeepsEverythingAsItWas) {
  for (const bool is_async : {false, true}) {
    for (const std::uint64_t failing : {1U, 2U, 3U}) {
      testing::SteppedOptions options{
          .faults = {{"sim:0", FaultPlan{.failing_compiles = {failing}}}}};
      if (is_async) {
        options.devices[0].sim_schedule = SimSchedule{.queues = 2};
      }
      testing::stepped(options, [&](const World& world) {
        std::vector<Tensor> parameters = {
            world.f32({1}), world.f32({1, 1}), world.f32({1, 1, 1})};  // one kernel a form
        const std::vector<Tensor> gradients = {
            world.f32({1}), world.f32({1, 1}), world.f32({1, 1, 1})};
        const auto step = [&] {
          UpdateGroup group(world.device);
          Tensor none;
          for (std::size_t i = 0; i < parameters.size(); ++i) {
            group.sgd(parameters[i], gradients[i], none, kPlain);
          }
          return group.commit().wait();
        };
        EXPECT_EQ(testing::code_of(step()), ErrorCode::kernel_failed);
        for (const Tensor& parameter : parameters) {
          EXPECT_THAT(parameter.to_vector<float>(), Each(1.0F));
        }
        EXPECT_TRUE(step().has_value());
        for (const Tensor& parameter : parameters) {
          EXPECT_THAT(parameter.to_vector<float>(), Each(0.0F));
        }
      });
    }
  }
}

}  // namespace
}  // namespace hearth
