// Failures found in reviews, each with the program that showed it.
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/modules/adam.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/module.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/lent_region.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/update_group.hpp>

#include "tests/base/temporary_folder.hpp"

namespace hearth::testing {
namespace {

TEST(Regressions, AdoptAfterSixForeignUsersDoesNotWaitForThem) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  Tensor shared = full(device, {4}, 1);
  std::vector<Stream> streams;
  for (int i = 0; i < 6; ++i) {
    streams.emplace_back(device);
    const StreamScope scope(streams.back());
    static_cast<void>(mean(shared).item());
  }
  Stream last(device);
  Tensor sum;
  {
    const StreamScope scope(streams[0]);
    shared.adopt();
    sum = shared + 1.0;
  }
  Tensor after;
  {
    const StreamScope scope(last);
    after = sum + 1.0;
  }
  EXPECT_EQ(mean(after).item(), 3);
}

TEST(Regressions, OneGroupCannotUpdateAParameterTwice) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  Tensor parameter = ones(device, {4});
  Tensor none;
  UpdateGroup group(device);
  group.sgd(parameter, ones(device, {4}), none, {.learning_rate = 0.5});
  EXPECT_THROW(group.sgd(parameter, ones(device, {4}), none, {.learning_rate = 0.5}),
               ArgumentError);
  group.commit().get();
  EXPECT_EQ(mean(parameter).item(), 0.5);
}

TEST(Regressions, AThrowingLoanTakerAndThrowingWorkOnTheDeviceHarmNobody) {
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const Device device = runtime.device("cpu:0");
  const Tensor refused = lend(
      ones(device, {4}),
      [](const Result<LentRegion>&) { throw std::runtime_error("no"); },
      Deadline::in(std::chrono::seconds(5)));
  const Tensor bystander = ones(device, {4}) * 3;
  EXPECT_EQ(mean(bystander).item(), 3);
  EXPECT_THROW(static_cast<void>(mean(refused).item()), DeviceError);

  Promise<LentRegion> promise;
  Pending<LentRegion> pending = promise.pending();
  const Tensor lent = lend(
      ones(device, {4}),
      [&promise](Result<LentRegion> region) { promise.set_value(std::move(region).value()); },
      Deadline::in(std::chrono::seconds(30)));
  LentRegion region = std::move(pending).get();
  region.run_on_device([] { throw std::runtime_error("no"); });
  region.done();
  try {
    static_cast<void>(mean(lent).item());
    FAIL() << "bytes that were perhaps half written were read";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::worker_failed);
    EXPECT_EQ(error.error().text, "work on lent bytes threw: no");
  }
  EXPECT_EQ(mean(bystander).item(), 3);
}

TEST(Regressions, LentBytesStayMappedAfterTheRuntime) {
  LentRegion region;
  Tensor lent;
  {
    const Runtime runtime(
        {.devices = {{.name = "cpu:0"}}, .shutdown_limit = std::chrono::milliseconds(50)});
    const Device device = runtime.device("cpu:0");
    Promise<LentRegion> promise;
    Pending<LentRegion> pending = promise.pending();
    lent = lend(
        ones(device, {1024}),
        [&promise](Result<LentRegion> taken) { promise.set_value(std::move(taken).value()); },
        Deadline::in(std::chrono::seconds(30)));
    region = std::move(pending).get();
  }
  ASSERT_TRUE(region.is_valid());
  region.bytes()[7] = std::byte{1};
  region.done();
}

TEST(Regressions, AdamRecoversFromMemoryThatWasShortOnItsFirstStep) {
  const Runtime runtime(
      {.devices = {{.name = "cpu:0", .memory_budget_bytes = std::int64_t{64} << 20}}});
  const Device device = runtime.device("cpu:0");
  Generator generator(1);
  Linear model({.in = 1000, .out = 2000, .bias = false}, device, generator);  // 8 MB
  Adam adam({.learning_rate = 1e-3});
  const Tensor x = ones(device, {1, 1000});
  const auto step = [&] {
    auto [loss, gradients] = value_and_grad(
        model, [&](const Linear& tracked) { return mean(square(tracked.forward(x))); });
    return adam.step(model, std::move(gradients)).wait();
  };
  {
    const Tensor hog = ones(device, {10'500'000});  // 42 MB
    device.sync();
    const Status failed = step();
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, ErrorCode::out_of_memory) << failed.error().to_string();
  }
  device.sync();
  const Status good = step();
  EXPECT_TRUE(good.has_value()) << good.error().to_string();
  EXPECT_EQ(adam.step_count(), 1);
}

TEST(Regressions, ADeeplyNestedWeightsFileIsRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "deep.safetensors";
  const std::string text = "{\"a\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  {
    std::ofstream file(path, std::ios::binary);
    const std::uint64_t length = text.size();
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text;
  }
  const Runtime runtime({.devices = {{.name = "cpu:0"}}});
  Generator generator(1);
  Linear model({.in = 2, .out = 2}, runtime.device("cpu:0"), generator);
  EXPECT_THROW(static_cast<void>(load_weights(model, path)), FileError);
  EXPECT_THROW(save_weights(model, path, {{"key", "\xff\xfe"}}), Exception);
}

}  // namespace
}  // namespace hearth::testing
