// Ops that wait for values, on a device that never answers: only their WaitOptions end the wait.
#include <hearth/runtime/selection_ops.hpp>
#include <hearth/runtime/vision_ops.hpp>

#include "tests/runtime/stepped_runtime.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <vector>

namespace hearth {
namespace {

using testing::stepped;
using testing::SteppedOptions;
using testing::World;

/// `options_of` is called on the device's virtual time.
void expect_ends(const std::function<WaitOptions()>& options_of, ErrorCode code) {
  const SteppedOptions options{.devices = {{.name = "sim:0", .sim_schedule = SimSchedule{}}},
                               .faults = {{"sim:0", FaultPlan{.hanging_submit = 1}}},
                               .wait_limit = std::chrono::hours(1)};
  stepped(options, [&](const World& world) {
    const Tensor x = world.f32({0, 1, 2, 3}) + 1;
    const Tensor box = reshape(x, {1, 4});
    const Tensor score = slice(x, 0, {.stop = 1});
    for (const auto& call : std::vector<std::function<void()>>{
             [&] { (void)nonzero(x, options_of()); },
             [&] { (void)masked_select(x, greater(x, 0), options_of()); },
             [&] { (void)unique(x, {}, options_of()); },
             [&] { (void)bincount(cast(x, DType::i64), {}, options_of()); },
             [&] { (void)nms(box, score, 0.5, options_of()); },
             [&] { (void)batched_nms(box, score, cast(score, DType::i64), 0.5, options_of()); }}) {
      try {
        call();
        ADD_FAILURE() << "nothing ended the wait";
      } catch (const Exception& error) {
        EXPECT_EQ(error.code(), code) << error.what();
      }
    }
  });
}

TEST(StoppedWaits, EndAtARequestedStop) {
  const auto stop = std::make_unique<std::stop_source>();
  stop->request_stop();
  expect_ends([&] { return WaitOptions{.stop = stop->get_token()}; }, ErrorCode::cancelled);
}

TEST(StoppedWaits, EndAtTheirDeadline) {
  expect_ends([] { return WaitOptions{.deadline = Deadline::in(std::chrono::seconds(1))}; },
              ErrorCode::deadline_exceeded);
}

}  // namespace
}  // namespace hearth
