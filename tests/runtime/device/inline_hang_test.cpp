// An op that never ends on an inline sim, where no thread can wait for it. Every op that depends on
// it or follows it is poisoned at once, and no report states that it happened.
#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <hearth/runtime/update_group.hpp>

#include "tests/runtime/lent.hpp"
#include "tests/runtime/stepped_runtime.hpp"

namespace hearth::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kHang = ErrorCode::deadline_exceeded;

/// Both sims are inline, whatever the environment sets; op number `submit` of the first one hangs.
SteppedOptions hanging(std::uint64_t submit, Fusion fusion = Fusion::off) {
  SteppedOptions options;
  options.fusion = fusion;
  options.backends = detail::BackendFactory{
      .make = [submit, is_first = std::make_shared<bool>(true)](
                  const BackendRequest& request) -> std::unique_ptr<Backend> {
        const bool hangs = request.name == "sim:0" && std::exchange(*is_first, false);
        return std::make_unique<sim::SimBackend>(sim::SimOptions{
            .name = request.name, .faults = {.hanging_submit = hangs ? submit : 0}});
      }};
  return options;
}

TEST(InlineHang, PoisonsReadsViewsAndWhatIsMadeOfIt) {
  for (const Fusion fusion : {Fusion::off, Fusion::on}) {
    stepped(hanging(2, fusion), [](const World& world) {
      const Tensor before = ones(world.device, {2, 2});
      static_cast<void>(before.to_vector<float>());
      const Tensor hung = before + 1;
      for (const Tensor& each : {hung, reshape(hung, {4}), hung * 2, sum(exp(hung) + before)}) {
        const Error error = read_error(each);
        EXPECT_EQ(error.code, kHang);
        EXPECT_EQ(error.op, "add");
        EXPECT_THAT(error.text, HasSubstr("submit 2 hangs by the fault plan"));
      }
      EXPECT_THAT(before.to_vector<float>(), ElementsAre(1, 1, 1, 1));
      EXPECT_EQ(read_error(zeros(world.device, {1})).code, kHang) << "it stands behind the hang";
    });
  }
}

TEST(InlineHang, IsWhatASyncReportsEachTime) {
  stepped(hanging(1), [](const World& world) {
    world.device.sync();
    const Tensor hung = ones(world.device, {2});
    EXPECT_EQ(read_error(hung).code, kHang);
    for (int i = 0; i < 2; ++i) {
      const Status status = world.device.sync_later().wait();
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().code, kHang);
      EXPECT_EQ(status.error().op, "sync");
      EXPECT_THAT(status.error().text, HasSubstr("the device does not answer: sim:0: submit 1"));
    }
    EXPECT_EQ(world.device.catch_up_later().wait().error().code, kHang);
    world.runtime.device("sim:1").sync();
  });
}

TEST(InlineHang, LendsNothing) {
  stepped(hanging(2), [](const World& world) {
    const Tensor a = full(world.device, {4}, 7);
    const Tensor b = a + 1;
    const Lent kept = lend_out(b);
    const Lent last = lend_out(a + 1);
    for (const Lent* each : {&kept, &last}) {
      EXPECT_EQ(each->region.wait().error().code, kHang);
      EXPECT_EQ(read_error(each->result).code, kHang);
    }
    EXPECT_EQ(read_error(b).code, kHang);
  });
}

TEST(InlineHang, GoesAlongToOtherStreamsAndDevices) {
  stepped(hanging(1), [](const World& world) {
    const Device other = world.runtime.device("sim:1");
    Tensor hung = ones(world.device, {2});
    hung.publish();
    const auto thread = world.spawn("other", [&] {
      hung.adopt();
      EXPECT_EQ(read_error(hung + 1).code, kHang);
    });
    thread->join();
    const Tensor copy = hung.to(other);
    EXPECT_EQ(read_error(copy + 1).code, kHang);
    EXPECT_THAT(ones(other, {1}).to_vector<float>(), ElementsAre(1));
  });
}

TEST(InlineHang, EndsWithARestart) {
  stepped(hanging(1), [](const World& world) {
    EXPECT_EQ(read_error(ones(world.device, {2})).code, kHang);
    world.device.restart();
    EXPECT_THAT(ones(world.device, {2}).to_vector<float>(), ElementsAre(1, 1));
    world.device.sync();
  });
}

// ---- updates ----

std::optional<std::vector<float>> values_of(const Tensor& tensor) {
  try {
    return tensor.to_vector<float>();
  } catch (const Exception&) {
    return std::nullopt;
  }
}

TEST(InlineHang, EndsAJointUpdateOnAllDevices) {
  for (const std::uint64_t submit : {1U, 2U}) {
    stepped(hanging(submit), [&](const World& world) {
      const auto decision = std::make_shared<UpdateDecision>();
      std::vector<PreparedUpdate> prepared;
      std::vector<Tensor> parameters;
      std::vector<ErrorRef> ends(2);
      for (const Device& device : world.runtime.devices()) {
        Tensor parameter = Tensor::from(device, std::vector<float>{1, 2}, {2});
        Tensor gradient = ones(device, {2});
        Tensor none;
        UpdateGroup group(device);
        group.sgd(parameter, std::move(gradient), none, {.learning_rate = 1});
        group.commit([&end = ends[parameters.size()]](ErrorRef error) { end = std::move(error); },
                     {.decision = decision, .prepared = [&](Result<PreparedUpdate> update) {
                        if (update.has_value()) {
                          prepared.push_back(std::move(update).value());
                        }
                      }});
        parameters.push_back(std::move(parameter));
      }
      pass(1s);
      if (prepared.size() == 2) {
        EXPECT_TRUE(decision->commit());
      }
      for (PreparedUpdate& each : prepared) {
        each.settle();
      }
      pass(1s);
      ASSERT_TRUE(ends[0]) << "it did not happen there";
      const bool is_decided = decision->is_committed();
      EXPECT_EQ(is_decided, submit == 2) << "a gradient that hangs prepares nothing";
      EXPECT_EQ(!ends[1], is_decided);
      EXPECT_THAT(parameters[1].to_vector<float>(),
                  is_decided ? ElementsAre(0, 1) : ElementsAre(1, 2));
      EXPECT_EQ(values_of(parameters[0]).has_value(), !is_decided);
    });
  }
}

}  // namespace
}  // namespace hearth::testing
