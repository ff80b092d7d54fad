// Reports of passed deadlines: the waiting threads and their targets, and the actors that do not
// answer. An exception in an actor fails its op.
#include "tests/runtime/stepped_runtime.hpp"
#include "tests/runtime/stuck_backend.hpp"

#include <optional>
#include <stdexcept>
#include <thread>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::HeldStream;
using testing::read_error;
using testing::stepped;
using testing::stuck;
using testing::StuckControl;
using testing::World;

TEST(Watchdog, ADeadlineThatPassesTellsWhatTheStreamsWaitFor) {
  stepped([](const World& world) {
    Stream stuck(world.device);
    std::optional<HeldStream> held;
    Tensor late;
    {
      const StreamScope scope(stuck);
      held.emplace(world.device, Deadline::in(300s));
      late = world.f32({5});
    }
    const Tensor sum = late + 1;
    const auto other = world.spawn("other user", [&] { EXPECT_EQ(sum.item(), 6); });
    try {
      static_cast<void>(sum.read_bytes().get({.deadline = Deadline::in(3s)}));
      FAIL() << "the value came";
    } catch (const DeadlineExceeded& error) {
      const std::string report = error.report();
      EXPECT_THAT(report, HasSubstr("thread main (number "));
      EXPECT_THAT(report, HasSubstr("stopped waiting for a readback"));
      EXPECT_THAT(report, HasSubstr("thread other user (number "));
      EXPECT_THAT(report, HasSubstr("waits for a readback of sim:0: 57.000 s more"));
      EXPECT_THAT(report, HasSubstr("device sim:0: generation 0, alive"));
      EXPECT_THAT(report, HasSubstr("waits for the bytes of loan 1 to come back: 297.000 s more"));
      EXPECT_THAT(report, HasSubstr("waits for a tensor that another stream has not made yet"));
      EXPECT_THAT(report, HasSubstr("next is op number 1, add, called at "));
      EXPECT_THAT(report, HasSubstr("watchdog_report_test.cpp:"));
      EXPECT_THAT(report, HasSubstr("device sim:1: generation 0, alive"));
      EXPECT_THAT(error.what(), HasSubstr("error().report() lists the open waits"));
    }
    held->unblock();
    EXPECT_EQ(sum.item(), 6);
    other->join();
  });
}

TEST(Watchdog, AnOperandThatNeverComesReportsToo) {
  stepped([](const World& world) {
    Stream stuck(world.device);
    std::optional<HeldStream> held;
    Tensor late;
    {
      const StreamScope scope(stuck);
      held.emplace(world.device);
      late = world.f32({5});
    }
    const Error error = read_error(late + 1);
    EXPECT_EQ(error.code, ErrorCode::deadline_exceeded);
    EXPECT_THAT(error.report(), HasSubstr("waits for the bytes of loan 1 to come back: for ever"));
    EXPECT_THAT(error.report(), HasSubstr("thread main"));
    held->unblock();
  });
}

TEST(Watchdog, ALoanThatIsNotGivenBackReportsAndSaysWhereItWasLent) {
  stepped([](const World& world) {
    HeldStream held(world.device, Deadline::in(5s));
    const Error error = read_error(held.tensor());
    EXPECT_EQ(error.code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(error.op, "lend");
    EXPECT_EQ(error.device, "sim:0");
    EXPECT_NE(error.stream, 0U);
    EXPECT_EQ(error.sequence, 2U);
    EXPECT_THAT(error.location.file, EndsWith("stepped_runtime.hpp"));
    EXPECT_THAT(error.report(), HasSubstr("device sim:0: generation 0, alive"));
  });
}

TEST(Watchdog, AWaitThatIsTooLongNamesTheLineThatAskedForTheValue) {
  stepped([](const World& world) {
    HeldStream held(world.device);
    const std::uint32_t first_line = __LINE__ + 1;
    const Pending<double> read = held.tensor().item_later();
    const Pending<void> all = world.device.sync_later();
    for (const Status& status :
         {read.wait({.deadline = Deadline::in(1s)}), all.wait({.deadline = Deadline::in(1s)})}) {
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
      EXPECT_THAT(status.error().location.file, EndsWith("watchdog_report_test.cpp"));
      EXPECT_THAT(status.error().location.line, ::testing::AnyOf(first_line, first_line + 1));
    }
    held.unblock();
  });
}

TEST(Watchdog, AStreamThatStaysFullReports) {
  stepped([](const World& world) {
    HeldStream held(world.device);
    std::vector<Tensor> kept;
    try {
      for (int i = 0; i < 1000; ++i) {
        kept.push_back(zeros(world.device, {1}));
      }
      FAIL() << "the stream took everything";
    } catch (const DeadlineExceeded& error) {
      EXPECT_THAT(error.what(), HasSubstr("stayed full: 256 ops wait"));
      EXPECT_THAT(error.error().report(),
                  HasSubstr("256 ops queued, waits for the bytes of loan 1"));
    }
    held.unblock();
  });
}

TEST(Watchdog, AnActorThatDoesNotAnswerIsNamedWithTheOpItIsAt) {
  StuckControl control(2);
  stepped({.devices = {{.name = "sim:0"}, {.name = "sim:1"}}, .backends = stuck(control)},
          [&](const World& world) {
            const Device other = world.runtime.device("sim:1");
            const Tensor sum = exp(zeros(world.device, {1}));
            const Pending<void> done = world.device.sync_later();
            EXPECT_TRUE(detail::PendingAccess::is_ready_by(control.is_in, Deadline::in(1s)));
            const detail::TimePoint start = testing::now();
            const Status status = done.wait({.deadline = Deadline::in(5s)});
            ASSERT_EQ(testing::code_of(status), ErrorCode::deadline_exceeded);
            EXPECT_EQ(testing::now() - start, 5s) << "nobody is asked yet";
            EXPECT_THAT(status.error().text, HasSubstr("op number 2 of stream 1, exp, called at "));
            const std::string report = status.error().report();
            EXPECT_EQ(testing::now() - start, 5s + detail::Watchdog::kAnswerLimit);
            EXPECT_THAT(report, HasSubstr("device sim:0: thread number "));
            EXPECT_THAT(report, HasSubstr("op number 2 of stream 1, exp, called at "));
            EXPECT_THAT(report, HasSubstr("no answer within 100ms"));
            EXPECT_THAT(report, HasSubstr("device sim:1: generation 0, alive"));
            EXPECT_EQ((zeros(other, {1}) + 1).item(), 1) << "the others go on";
            control.release.set_value();
            EXPECT_EQ(sum.item(), 1) << "it comes back";
          });
}

TEST(Watchdog, AShortWaitIsExactThoughNobodyElseHasBegunTheWork) {
  StuckControl control(2);
  stepped({.devices = {{.name = "sim:0"}}, .backends = stuck(control)}, [&](const World& world) {
    const Tensor sum = exp(zeros(world.device, {1}));
    const detail::TimePoint start = testing::now();
    EXPECT_THROW(static_cast<void>(sum.item_later().get({.deadline = Deadline::in(3s)})),
                 DeadlineExceeded);
    EXPECT_EQ(testing::now() - start, 3s);
    const std::stop_source stop;
    const auto asker = world.spawn("asker", [asked = stop]() mutable { asked.request_stop(); });
    try {
      static_cast<void>(sum.item_later().get({.stop = stop.get_token()}));
      ADD_FAILURE() << "nobody has begun the work";
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::cancelled);
    }
    asker->join();
    control.release.set_value();
    EXPECT_EQ(sum.item(), 1);
  });
}

TEST(Watchdog, AWaitThatNamesNoDeadlineHasThatOfItsRuntime) {
  StuckControl control(2);
  stepped({.devices = {{.name = "sim:0"}}, .wait_limit = 2s, .backends = stuck(control)},
          [&](const World& world) {
            const Tensor sum = exp(zeros(world.device, {1}));
            EXPECT_TRUE(detail::PendingAccess::is_ready_by(control.is_in, Deadline::in(1s)));
            testing::pass(1s);
            const detail::TimePoint start = testing::now();
            try {
              static_cast<void>(sum.item());
              ADD_FAILURE() << "the kernel came back";
            } catch (const DeadlineExceeded& error) {
              EXPECT_THAT(error.error().text, HasSubstr("op number 2 of stream 1, exp, called at "))
                  << "at what it hangs";
              EXPECT_THAT(error.error().text, HasSubstr(", for 2.000 s or longer"))
                  << "and how long";
            }
            EXPECT_EQ(testing::now() - start, 2s);
            EXPECT_THROW(static_cast<void>(world.device.memory_report()), DeadlineExceeded);
            EXPECT_EQ(testing::now() - start, 4s);
            EXPECT_THROW(world.device.sync(), DeadlineExceeded);
            EXPECT_EQ(testing::now() - start, 6s);
            Pending<double> next = sum.item_later().then(world.runtime.continuations(),
                                                         [](double value) { return value + 1; });
            EXPECT_THROW(next.get(), DeadlineExceeded);
            EXPECT_EQ(testing::now() - start, 8s);
            control.release.set_value();
            EXPECT_EQ(sum.to_vector<float>().front(), 1);
            EXPECT_EQ(next.get(), 2);
          });
}

// A device that is busy for much longer than the limit, with ops that each take less.
TEST(Watchdog, ADeviceThatGetsOnKeepsItsReadersWaiting) {
  constexpr int kOps = 20;
  StuckControl control;
  control.kernel_time = 1500ms;
  stepped({.devices = {{.name = "sim:0"}, {.name = "sim:1"}},
           .wait_limit = 2s,
           .backends = stuck(control)},
          [&](const World& world) {
            Tensor sum = zeros(world.device, {1});
            for (int i = 0; i < kOps; ++i) {
              sum = std::move(sum) + 1;
            }
            const auto other = world.spawn("other stream", [&] {
              EXPECT_EQ((sum + 1).item(), kOps + 1) << "an op whose operand comes late";
            });
            const Tensor copy = sum.to(world.runtime.device("sim:1"));
            const detail::TimePoint start = testing::now();
            EXPECT_EQ(copy.item(), kOps) << "bytes that come late from another device";
            EXPECT_GT(testing::now() - start, (kOps - 1) * 1500ms);
            world.device.sync();
            other->join();
            Tensor kept = zeros(world.device, {1});
            for (int i = 0; i < 200; ++i) {
              kept = std::move(kept) + 1;
            }
            EXPECT_EQ(kept.item(), 200) << "a stream that is full for long";
          });
}

// Also bytes that pass through a device that does nothing but wait for them.
TEST(Watchdog, AChainOfDevicesWaitsAsLongAsItsFirstGetsOn) {
  constexpr int kOps = 20;
  StuckControl control;
  control.kernel_time = 1500ms;
  stepped({.devices = {{.name = "sim:0"}, {.name = "sim:1"}, {.name = "sim:2"}},
           .wait_limit = 2s,
           .fusion = Fusion::off,
           .backends = stuck(control)},
          [&](const World& world) {
            Tensor sum = zeros(world.device, {1});
            for (int i = 0; i < kOps; ++i) {
              sum = std::move(sum) + 1;
            }
            const Tensor halfway = sum.to(world.runtime.device("sim:1"));
            const auto other = world.spawn("other stream", [&] {
              EXPECT_EQ((halfway + 1).item(), kOps + 1)
                  << "a lane that waits for a lane that waits";
            });
            const detail::TimePoint start = testing::now();
            EXPECT_EQ(halfway.to(world.runtime.device("sim:2")).item(), kOps);
            EXPECT_GT(testing::now() - start, (kOps - 1) * 1500ms);
            other->join();
          });
}

// The loan that holds up the first device never ends, and each device waits for the other.
TEST(Watchdog, DevicesThatWaitForEachOtherAndStandStillGiveUpAtTheLimit) {
  stepped({.wait_limit = 2s}, [](const World& world) {
    const Device other = world.runtime.device("sim:1");
    std::optional<HeldStream> held;
    Stream standing(world.device);
    Tensor late;
    {
      const StreamScope scope(standing);
      held.emplace(world.device);
      late = zeros(world.device, {1}) + 1;
    }
    const Tensor there = late.to(other);
    Stream third(world.device);
    const StreamScope scope(third);
    const Tensor back = there.to(world.device);
    const detail::TimePoint start = testing::now();
    EXPECT_EQ(read_error(back).code, ErrorCode::deadline_exceeded);
    EXPECT_LE(testing::now() - start, 3s);
    held->unblock();
  });
}

TEST(Watchdog, TimeInWhichNobodyCouldRunEndsNoWait) {
  StuckControl control(2);
  stepped({.devices = {{.name = "sim:0"}}, .wait_limit = 2s, .backends = stuck(control)},
          [&](const World& world) {
            const Tensor sum = exp(zeros(world.device, {1}));
            const auto stopper = world.spawn("stopper", [&] {
              testing::pass(1s);
              world.executor.stand_still(1h);
              testing::pass(500ms);
              control.release.set_value();
            });
            EXPECT_EQ(sum.item(), 1);
            stopper->join();
          });
}

TEST(Watchdog, EagerReportsComeWithTheError) {
  StuckControl control(2);
  stepped({.devices = {{.name = "sim:0"}}, .eager_reports = true, .backends = stuck(control)},
          [&](const World& world) {
            const Tensor sum = exp(zeros(world.device, {1}));
            const detail::TimePoint start = testing::now();
            try {
              static_cast<void>(sum.item_later().get({.deadline = Deadline::in(3s)}));
              ADD_FAILURE() << "the kernel came back";
            } catch (const DeadlineExceeded& error) {
              EXPECT_THAT(error.what(), HasSubstr("watchdog report: thread main (number "));
              EXPECT_THAT(error.what(), HasSubstr("device sim:0: thread number "));
            }
            EXPECT_EQ(testing::now() - start, 3s + detail::Watchdog::kAnswerLimit);
            control.release.set_value();
            EXPECT_EQ(sum.item(), 1);
          });
}

TEST(Supervision, ARuntimeDoesNotWaitForAKernelThatNeverComesBack) {
  StuckControl control(1);
  const detail::BackendFactory factory = stuck(control);
  ManualExecutor executor;
  executor.run([&] {
    std::optional<Runtime> runtime;
    runtime.emplace(RuntimeOptions{.devices = {{.name = "sim:0"}, {.name = "sim:1"}},
                                   .shutdown_limit = 10s,
                                   .executor = &executor},
                    factory);
    const Tensor stuck_one = zeros(runtime->device("sim:0"), {1});
    const Tensor good = zeros(runtime->device("sim:1"), {1});
    EXPECT_EQ(good.item(), 0);
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(control.is_in, Deadline::in(1s)));
    const detail::TimePoint start = testing::now();
    runtime.reset();
    EXPECT_EQ(testing::now() - start, 15s) << "the limit, and a little";
    EXPECT_THROW(static_cast<void>(stuck_one.item()), DeviceError);
    control.release.set_value();  // it ends later, with its objects still alive
    testing::pass(1s);
  });
}

// One wait for all kernels, not one for each.
TEST(Supervision, ARuntimeWaitsOnceForAllKernelsThatNeverComeBack) {
  StuckControl first(1);
  StuckControl second(1);
  const detail::BackendFactory factories[] = {stuck(first, "sim:0"), stuck(second, "sim:1")};
  const detail::BackendFactory factory{.make = [&](const BackendRequest& request) {
    return factories[request.name == "sim:1" ? 1 : 0].make(request);
  }};
  ManualExecutor executor;
  executor.run([&] {
    std::optional<Runtime> runtime;
    runtime.emplace(RuntimeOptions{.devices = {{.name = "sim:0"}, {.name = "sim:1"}},
                                   .shutdown_limit = 10s,
                                   .executor = &executor},
                    factory);
    const Tensor a = zeros(runtime->device("sim:0"), {1});
    const Tensor b = zeros(runtime->device("sim:1"), {1});
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(first.is_in, Deadline::in(1s)));
    EXPECT_TRUE(detail::PendingAccess::is_ready_by(second.is_in, Deadline::in(1s)));
    const detail::TimePoint start = testing::now();
    ::testing::internal::CaptureStderr();
    runtime.reset();
    const std::string lines = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(lines, HasSubstr("device sim:0 does not end: "));
    EXPECT_THAT(lines, HasSubstr("device sim:1 does not end: "));
    EXPECT_EQ(testing::now() - start, 15s);
    first.release.set_value();
    second.release.set_value();
    testing::pass(1s);
  });
}

TEST(Supervision, ARuntimeDoesNotWaitForAContinuationThatNeverReturns) {
  ManualExecutor executor;
  executor.run([&] {
    Promise<void> release;
    const auto released = std::make_shared<const Pending<void>>(release.pending());
    std::optional<Runtime> runtime;
    runtime.emplace(RuntimeOptions{
        .devices = {{.name = "sim:0"}}, .shutdown_limit = 10s, .executor = &executor});
    Pending<double> hung = zeros(runtime->device("sim:0"), {1})
                               .item_later()
                               .then(runtime->continuations(), [released](double value) {
                                 static_cast<void>(released->wait({.deadline = Deadline::never()}));
                                 return value + 1;
                               });
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(hung, Deadline::in(1s)));
    const detail::TimePoint start = testing::now();
    ::testing::internal::CaptureStderr();
    runtime.reset();
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("the thread of continuations does not end: runs one; 0 more wait"));
    EXPECT_EQ(testing::now() - start, 10s);
    release.set_value();
    EXPECT_EQ(hung.get(), 1);
  });
}

TEST(Supervision, ADownloadThatThrowsFailsItsReadAlone) {
  StuckControl control;
  stepped({.devices = {{.name = "sim:0"}}, .backends = stuck(control)}, [&](const World& world) {
    const Tensor x = zeros(world.device, {1}) + 1;
    control.throws_at_download = true;
    const Error error = read_error(x);
    EXPECT_EQ(error.code, ErrorCode::kernel_failed);
    EXPECT_EQ(error.op, "readback");
    EXPECT_THAT(error.text, HasSubstr("the cable was pulled"));
    control.throws_at_download = false;
    EXPECT_EQ(x.item(), 1);
  });
}

TEST(Supervision, ATakerOfALoanThatThrowsPoisonsTheTensorWithWhatItSaid) {
  stepped([](const World& world) {
    const Tensor lent = lend(
        world.f32({1}),
        [](const Result<LentRegion>&) { throw std::runtime_error("no room for it"); },
        Deadline::in(5s));
    const std::uint32_t line = __LINE__ - 3;
    const Error error = read_error(lent);
    EXPECT_EQ(error.code, ErrorCode::worker_failed);
    EXPECT_THAT(error.text, HasSubstr("no room for it"));
    EXPECT_EQ(error.op, "lend");
    EXPECT_NEAR(error.location.line, line, 2);
    EXPECT_EQ(world.f32({2}).item(), 2) << "the actor goes on";
  });
}

TEST(Supervision, WorkOnLentBytesThatThrowsPoisonsTheTensor) {
  stepped([](const World& world) {
    HeldStream held(world.device);
    held.region().run_on_device([] { throw std::runtime_error("a chunk went wrong"); });
    held.unblock();
    const Error error = read_error(held.tensor());
    EXPECT_EQ(error.code, ErrorCode::worker_failed);
    EXPECT_THAT(error.text, HasSubstr("a chunk went wrong"));
    EXPECT_EQ(world.f32({2}).item(), 2);
  });
}

// With real threads: two devices wait for one another in a collective that never ends.
TEST(Watchdog, AHangInACollectiveIsReportedWithinItsDeadlineAndTheProcessLives) {
  const Runtime runtime({.devices = {{.name = "sim:0"}, {.name = "sim:1"}}});
  std::vector<LentRegion> regions(2);
  std::vector<Tensor> results;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Device device = runtime.devices()[rank];
    const auto region = std::make_shared<Promise<LentRegion>>();
    Pending<LentRegion> pending = region->pending();
    results.push_back(lend(
        ones(device, {4}),
        [region](Result<LentRegion> lent) { region->set_value(std::move(lent).value()); },
        Deadline::in(2s)));  // for the devices, which need not begin at once
    regions[rank] = std::move(pending).get();
  }
  for (const Tensor& result : results) {
    const Error error = read_error(result);
    EXPECT_EQ(error.code, ErrorCode::deadline_exceeded);
    EXPECT_THAT(error.report(), HasSubstr("watchdog report"));
    EXPECT_THAT(error.report(), HasSubstr("device " + error.device));
  }
  for (const Device& device : runtime.devices()) {
    EXPECT_EQ(sum(ones(device, {3})).item(), 3) << "everything goes on";
  }
}

}  // namespace
}  // namespace hearth
