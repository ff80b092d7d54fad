// Propagation of failures: to exactly the dependants, with the first cause and its origin.
#include "stepped_runtime.hpp"

#include <functional>

#include <hearth/runtime/update_group.hpp>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::read_error;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

// The first kernel of sim:0 fails; ops run one by one.
const SteppedOptions kFirstFails{.faults = {{"sim:0", {.failing_submits = {1}}}},
                                 .fusion = Fusion::off};

TEST(Errors, PoisonReachesExactlyTheDependants) {
  stepped(kFirstFails, [](const World& world) {
    const Tensor x = world.f32({1});
    const Tensor bad = x + 1;
    const Tensor good = x + 2;
    const Tensor view = reshape(bad, {1, 1});
    const Tensor both = good * bad;
    const Tensor far = both.to(world.runtime.device("sim:1")) + 1;
    for (const Tensor& tensor : {bad, view, both, far}) {
      EXPECT_EQ(read_error(tensor).code, ErrorCode::kernel_failed);
    }
    EXPECT_EQ(x.item(), 1);
    EXPECT_EQ(good.item(), 3);
    EXPECT_EQ((good + good).item(), 6);
  });
}

TEST(Errors, PoisonCrossesStreams) {
  stepped(kFirstFails, [](const World& world) {
    const Tensor bad = world.f32({1}) + 1;
    Stream other(world.device);
    const StreamScope scope(other);
    EXPECT_EQ(read_error(bad * 2).code, ErrorCode::kernel_failed);
    EXPECT_EQ((world.f32({1}) + 1).item(), 2);
  });
}

TEST(Errors, TheFirstCauseIsKept) {
  stepped({.faults = {{"sim:0", {.failing_submits = {1, 2}}}}}, [](const World& world) {
    const Tensor first = world.f32({1}) + 1;
    const Tensor second = exp(world.f32({1}));
    const Error of_first = read_error(first);
    const Error of_both = read_error(first + second);
    EXPECT_EQ(of_first.op, "add");
    EXPECT_EQ(of_both.op, "add");
    EXPECT_EQ(of_both.sequence, of_first.sequence);
    EXPECT_EQ(read_error(second + first).op, "exp");
  });
}

TEST(Errors, AnErrorSaysWhereItCameFrom) {
  stepped(kFirstFails, [](const World& world) {
    Stream stream(world.device);
    const StreamScope scope(stream);
    const Tensor weight = world.f32({1});
    weight.set_path("encoder.inner.weight");
    const Tensor bad = weight + 1;
    const std::uint32_t line = __LINE__ - 1;
    const Error error = read_error(bad * 2);
    EXPECT_EQ(error.op, "add");
    EXPECT_EQ(error.device, "sim:0");
    EXPECT_EQ(error.stream, stream.id());
    EXPECT_EQ(error.sequence, 2U) << "after the upload";
    EXPECT_EQ(error.module_path, "encoder.inner.weight");
    EXPECT_THAT(error.location.file, EndsWith("errors_test.cpp"));
    EXPECT_EQ(error.location.line, line);
    EXPECT_THAT(error.text, HasSubstr("fails by the fault plan"));
  });
}

// Each kind of failure on sim:0, by the call on the line after a `line =`.
TEST(Errors, EveryKindOfFailureSaysWhereItCameFrom) {
  struct Case {
    std::string op;
    FaultPlan faults;
    std::function<Error(const World& world, Tensor weight, std::uint32_t& line)> fail;
  };
  std::vector<Case> cases = {
      {"add",
       {.failing_submits = {1}},
       [](const World&, const Tensor& weight, std::uint32_t& line) {
         line = __LINE__ + 1;
         const Tensor sum = weight + 1;
         return read_error(sum);
       }},
      {"add",
       {.failing_allocation = 2},
       [](const World&, const Tensor& weight, std::uint32_t& line) {
         line = __LINE__ + 1;
         const Tensor sum = weight + 1;
         return read_error(sum * 2);
       }},
      {"readback",  // the copy that makes it contiguous
       {.failing_submits = {1}},
       [](const World&, const Tensor& weight, std::uint32_t& line) {
         const Tensor turned = transpose(weight);
         line = __LINE__ + 1;
         return turned.read_bytes().wait().error();
       }},
      {"lend",  // the copy for the borrower
       {.failing_submits = {1}},
       [](const World&, const Tensor& weight, std::uint32_t& line) {
         line = __LINE__ + 1;
         const Tensor lent = lend(
             weight, [](const Result<LentRegion>&) {}, Deadline::in(1s));
         return read_error(lent);
       }},
      {"sgd_step",
       {.failing_submits = {1}},
       [](const World& world, Tensor weight, std::uint32_t& line) {
         Tensor none;
         const Tensor gradient = Tensor::from<float>(world.device, {1, 2, 3, 4, 5, 6}, {2, 3});
         line = __LINE__ + 1;
         UpdateGroup group(world.device);
         group.sgd(weight, gradient, none, {.learning_rate = 1});
         return group.commit().wait().error();
       }},
      {"upload",
       {.failing_allocation = 2},
       [](const World& world, const Tensor& weight, std::uint32_t& line) {
         const Tensor there = weight.to(world.runtime.device("sim:1"));
         line = __LINE__ + 1;
         const Tensor back = there.to(world.device);
         return read_error(back);
       }},
  };
  for (Case& each : cases) {
    // With work in flight, an op waits for its end and retries its allocation.
    each.faults.failing_allocation_count = testing::are_sims_asynchronous() ? 2 : 1;
    const SteppedOptions options{
        .devices = {{.name = "sim:0", .memory = MemoryPooling::exclusive}, {.name = "sim:1"}},
        .faults = {{"sim:0", each.faults}},
        .fusion = Fusion::off};
    stepped(options, [&](const World& world) {
      Stream stream(world.device);
      const StreamScope scope(stream);
      const Tensor weight = Tensor::from<float>(world.device, {1, 2, 3, 4, 5, 6}, {2, 3});
      weight.set_path("encoder.inner.weight");
      std::uint32_t line = 0;
      const Error error = each.fail(world, weight, line);
      SCOPED_TRACE(each.op + ": " + error.to_string());
      EXPECT_EQ(error.device, "sim:0");
      EXPECT_EQ(error.stream, stream.id());
      EXPECT_GT(error.sequence, 1U);
      EXPECT_EQ(error.module_path, "encoder.inner.weight");
      EXPECT_THAT(error.location.file, EndsWith("errors_test.cpp"));
      EXPECT_EQ(error.location.line, line);
      EXPECT_FALSE(error.text.empty());
      EXPECT_EQ(error.op, each.op);
    });
  }
}

TEST(Errors, EveryReadOfAPoisonedTensorThrows) {
  stepped(kFirstFails, [](const World& world) {
    const Tensor bad = world.f32({1}) + 1;
    EXPECT_THROW(static_cast<void>(bad.to_vector<float>()), DeviceError);
    EXPECT_THROW(static_cast<void>(bad.to_vector<float>()), DeviceError);
    EXPECT_THROW(static_cast<void>(bad.item()), DeviceError);
    EXPECT_FALSE(bad.read_bytes().wait().has_value());
    EXPECT_NO_THROW(world.device.sync());
  });
}

TEST(Errors, AClassOutOfRangeFailsTheLossAlone) {
  stepped([](const World& world) {
    const Tensor logits = zeros(world.device, {2, 3});
    const Tensor targets = Tensor::from<std::int64_t>(world.device, {0, 3}, {2});
    const Error error = read_error(cross_entropy(logits, targets));
    EXPECT_EQ(error.code, ErrorCode::out_of_range);
    EXPECT_EQ(error.op, "cross_entropy");
    EXPECT_THAT(targets.to_vector<std::int64_t>(), ElementsAre(0, 3));
    EXPECT_THAT((logits + 1).to_vector<float>(), ElementsAre(1, 1, 1, 1, 1, 1));
  });
}

TEST(Errors, OutOfMemoryLeavesTheDeviceUsable) {
  const SteppedOptions options{.devices = {{.name = "sim:0", .memory_budget_bytes = 8 << 20}}};
  stepped(options, [](const World& world) {
    const Tensor small = world.f32({1});
    const Tensor large = zeros(world.device, {4 << 20});
    const Error error = read_error(large + 1);
    EXPECT_EQ(error.code, ErrorCode::out_of_memory);
    EXPECT_THAT(error.text, HasSubstr("16777216 bytes do not fit"));
    EXPECT_EQ(read_error(ones(world.device, {4 << 20})).op, "ones");
    EXPECT_EQ(read_error(zeros(world.device, {4 << 20})).op, "zeros");
    EXPECT_EQ(read_error(full(world.device, {4 << 20}, 2)).op, "full");
    EXPECT_EQ((small + 1).item(), 2);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(sum(ones(world.device, {1 << 20})).item(), 1 << 20);
    }
  });
}

TEST(Errors, AFailingAllocationFailsOneOp) {
  // A page for each tensor. With work in flight, the op waits for its end and retries once.
  const std::int64_t tries = testing::are_sims_asynchronous() ? 2 : 1;
  const SteppedOptions options{
      .devices = {{.name = "sim:0", .memory = MemoryPooling::exclusive}},
      .faults = {{"sim:0", {.failing_allocation = 2, .failing_allocation_count = tries}}}};
  stepped(options, [](const World& world) {
    const Tensor first = world.f32({1});
    const Tensor second = zeros(world.device, {100});
    EXPECT_EQ(read_error(second).code, ErrorCode::out_of_memory);
    EXPECT_EQ(first.item(), 1);
    EXPECT_EQ(mean(ones(world.device, {100})).item(), 1);
  });
}

TEST(Errors, AnEmptyTensorIsRefusedAtTheCall) {
  stepped([](const World& world) {
    const Tensor empty;
    EXPECT_THROW(static_cast<void>(empty + world.f32({1})), ArgumentError);
    EXPECT_THROW(static_cast<void>(empty.to_vector<float>()), ArgumentError);
    try {
      static_cast<void>(empty.to(world.device));
      FAIL() << "an empty tensor was copied";
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.error().text, "to: an operand is an empty tensor");
    }
    EXPECT_THROW(static_cast<void>(empty.shape()), ArgumentError);
    EXPECT_THROW(empty.publish(), ArgumentError);
  });
}

TEST(Errors, TensorsOfTwoDevicesAreRefusedAtTheCall) {
  stepped([](const World& world) {
    const Tensor here = world.f32({1});
    const Tensor there = here.to(world.runtime.device("sim:1"));
    try {
      static_cast<void>(here + there);
      FAIL() << "operands of two devices were taken";
    } catch (const DeviceMismatch& error) {
      EXPECT_THAT(error.what(), HasSubstr("f32[1] on sim:0, f32[1] on sim:1"));
    }
  });
}

TEST(Errors, TensorsOfTwoRuntimesDoNotMix) {
  stepped([](const World& world) {
    stepped([&](const World& other) {
      try {
        static_cast<void>(world.f32({1}) + other.f32({1}));
        FAIL() << "operands of two Runtimes were taken";
      } catch (const DeviceMismatch& error) {
        EXPECT_THAT(error.what(), HasSubstr("different devices, of two Runtimes: f32[1] on sim:0"));
        EXPECT_THAT(error.what(), HasSubstr("tensors of two Runtimes do not mix"));
      }
    });
  });
}

TEST(Errors, AnUnknownDeviceNamesThoseThatExist) {
  stepped([](const World& world) {
    try {
      static_cast<void>(world.runtime.device("cuda:0"));
      FAIL() << "an unknown device was found";
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.code(), ErrorCode::not_found);
      EXPECT_THAT(error.what(), HasSubstr("no device 'cuda:0': this runtime has sim:0, sim:1"));
    }
  });
}

TEST(Errors, AnEmptyDeviceIsRefused) {
  const Device device;
  EXPECT_THROW(static_cast<void>(device.name()), ArgumentError);
  EXPECT_THROW(static_cast<void>(zeros(device, {1})), ArgumentError);
}

TEST(Errors, ALostDeviceStaysLostWhileOthersGoOn) {
  const SteppedOptions options{.faults = {{"sim:0", {.lost_at_submit = 2}}}};
  stepped(options, [](const World& world) {
    const Device other = world.runtime.device("sim:1");
    const Tensor before = world.f32({1}) + 1;
    EXPECT_EQ(before.item(), 2);
    const Tensor lost = before + 1;
    EXPECT_EQ(read_error(lost).code, ErrorCode::device_lost);
    EXPECT_EQ(read_error(before).code, ErrorCode::device_lost) << "its bytes are gone";
    EXPECT_EQ(read_error(world.f32({1})).code, ErrorCode::device_lost);
    EXPECT_EQ(read_error(zeros(world.device, {1})).code, ErrorCode::device_lost);
    EXPECT_EQ(read_error(reshape(before, {1, 1})).code, ErrorCode::device_lost);
    EXPECT_THROW(world.device.sync(), DeviceError);
    EXPECT_EQ(read_error(lost.to(other)).code, ErrorCode::device_lost);
    EXPECT_EQ((Tensor::from<float>(other, {1}, {1}) + 1).item(), 2);
  });
}

TEST(Errors, AWrongNumberOfValuesIsRefusedAtTheCall) {
  stepped([](const World& world) {
    EXPECT_THROW(static_cast<void>(Tensor::from<float>(world.device, {1, 2}, {3})), ShapeError);
    EXPECT_THROW(static_cast<void>(world.f32({1, 2}).item()), ShapeError);
    EXPECT_THROW(static_cast<void>(world.f32({1}).to_vector<double>()), DtypeError);
  });
}

// The wait ends before the read is done; the queued read must not write into bytes that the caller
// has freed. The address sanitizer detects it.
TEST(Errors, AReadMayComeAfterItsReaderGaveUp) {
  stepped([](const World& world) {
    Stream stuck(world.device);
    const StreamScope scope(stuck);
    const Tensor x = full(world.device, {1000}, 3);
    testing::HeldStream held(world.device);
    EXPECT_THROW(static_cast<void>(x.to_vector<float>()), DeadlineExceeded);
    EXPECT_THROW(static_cast<void>(sum(x).item()), DeadlineExceeded);
    const std::vector<float> in_its_place(1000, 7);
    held.unblock();
    world.device.sync();
    EXPECT_THAT(in_its_place, ::testing::Each(7));
  });
}

}  // namespace
}  // namespace hearth
