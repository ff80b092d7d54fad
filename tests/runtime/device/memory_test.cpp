// A device's memory as a program sees it: strategies, reports, shortages, traces.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <hearth/runtime/custom_op.hpp>
#include <hearth/runtime/update_group.hpp>

#include "tests/runtime/forwarding_strategy.hpp"
#include "tests/runtime/held_token.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kUnit = kMiB / 8;  // elements of f32: half a MiB

SteppedOptions one_sim(DeviceOptions device) {
  return {.devices = {std::move(device)}};
}

TEST(DeviceMemory, AShortageNamesTheLargestTensorsAndTheirLines) {
  stepped(one_sim({.name = "sim:0", .memory_budget_bytes = 8 * kMiB}), [](const World& world) {
    const Tensor small = zeros(world.device, {kUnit});
    const std::uint32_t line = __LINE__ + 1;
    const Tensor large = ones(world.device, {10 * kUnit});
    world.device.sync();  // work in flight might still release memory, so wait for it
    const Error error = read_error(large + 1);
    EXPECT_EQ(error.code, ErrorCode::out_of_memory);
    EXPECT_THAT(error.text, HasSubstr("5242880 bytes do not fit"));
    EXPECT_THAT(error.text, HasSubstr("large temporaries"));
    EXPECT_THAT(error.text, HasSubstr("the largest free block is"));
    const std::size_t first = error.text.find("f32[1310720] ones");
    EXPECT_LT(first, error.text.find("f32[131072] zeros"));
    EXPECT_THAT(error.text, HasSubstr("memory_test.cpp:" + std::to_string(line)));
    const MemoryReport report = world.device.memory_report();
    EXPECT_EQ(report.rungs.refuse_count, 1U);
    EXPECT_EQ(report.rungs.wait_count, 0U);
    EXPECT_EQ((small + 1).to_vector<float>().front(), 1);
  });
}

TEST(DeviceMemory, AShortageLeavesNothingBehind) {
  stepped(one_sim({.name = "sim:0", .memory_budget_bytes = 8 * kMiB}), [](const World& world) {
    const std::int64_t before = world.device.memory().live_bytes;
    for (int i = 0; i < 3; ++i) {
      const Tensor large = ones(world.device, {10 * kUnit});
      const Tensor failed = large * large + large;
      EXPECT_EQ(read_error(failed).code, ErrorCode::out_of_memory);
      EXPECT_EQ(sum(large).item(), 10.0 * kUnit) << "only what depends on it is lost";
    }
    EXPECT_EQ(world.device.memory().live_bytes, before);
    const Tensor fits = ones(world.device, {6 * kUnit});
    EXPECT_EQ(sum(fits + fits).item(), 12.0 * kUnit);
  });
}

// The first stream still holds its large tensor while the second needs one: the second waits, and
// both get their results.
TEST(DeviceMemory, AStreamWaitsForWhatAnotherReleases) {
  std::uint64_t waits = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SteppedOptions options = one_sim({.name = "sim:0", .memory_budget_bytes = 8 * kMiB});
    options.seed = seed;
    stepped(options, [&](const World& world) {
      Stream first(world.device);
      Stream second(world.device);
      Tensor total;
      Tensor count;
      {
        const StreamScope scope(first);
        Tensor x = ones(world.device, {10 * kUnit});
        count = world.f32({0});
        for (int i = 0; i < 60; ++i) {
          count = count + 1;
        }
        total = sum(std::move(x));
      }
      Tensor other;
      {
        const StreamScope scope(second);
        other = sum(full(world.device, {10 * kUnit}, 2.0));
        EXPECT_EQ(other.item(), 20.0 * kUnit);
      }
      const StreamScope scope(first);
      EXPECT_EQ(total.item(), 10.0 * kUnit);
      EXPECT_EQ(count.item(), 60);
      waits += world.device.memory_report().rungs.wait_count;
      EXPECT_EQ(world.device.memory_report().rungs.refuse_count, 0U);
    });
  }
  // Readers run no ops of asynchronous sims: the actor does, and the first stream's ops come first.
  EXPECT_TRUE(waits > 0 || are_sims_asynchronous())
      << "nobody ever waited: the streams are too tame";
}

// A read or loan of a view needs a copy first.
TEST(DeviceMemory, AReadAndALoanWaitForWhatAnotherReleases) {
  for (const bool is_loan : {false, true}) {
    stepped(one_sim({.name = "sim:0", .memory_budget_bytes = 8 * kMiB}), [&](const World& world) {
      Stream first(world.device);
      Tensor large;
      {
        const StreamScope scope(first);
        large = ones(world.device, {10 * kUnit});
        world.device.sync();
      }
      const Tensor view = transpose(ones(world.device, {4, kUnit}));
      world.device.sync();
      auto token = std::make_unique<HeldToken>(world.device);
      Pending<std::vector<std::byte>> read;
      Promise<LentRegion> region;
      Pending<LentRegion> lent = region.pending();
      Tensor back;
      if (is_loan) {
        back = lend(
            view,
            [&region](Result<LentRegion> got) {
              got.has_value() ? region.set_value(std::move(got).value())
                              : region.set_error(got.shared_error());
            },
            Deadline::never());
      } else {
        read = view.read_bytes();
      }
      {
        const StreamScope scope(first);
        Tensor count = world.f32({0});
        for (int i = 0; i < 20; ++i) {
          count = std::move(count) + 1;
        }
        large = Tensor();
      }
      token.reset();
      if (is_loan) {
        std::move(lent).get().done();
        EXPECT_EQ(sum(back).item(), 4.0 * kUnit);
      } else {
        EXPECT_EQ(read.get().size(), static_cast<std::size_t>(4 * kUnit * 4));
      }
      // When work in flight ends, the lane retries, and may wait again.
      EXPECT_GE(world.device.memory_report().rungs.wait_count, 1U);
      EXPECT_EQ(world.device.memory_report().rungs.refuse_count, 0U);
    });
  }
}

TEST(DeviceMemory, WhatTheWholeBudgetDoesNotHoldIsNotWaitedFor) {
  stepped(one_sim({.name = "sim:0", .memory_budget_bytes = 8 * kMiB}), [](const World& world) {
    Stream busy(world.device);
    Stream greedy(world.device);
    Tensor count;
    {
      const StreamScope scope(busy);
      Tensor x = ones(world.device, {10 * kUnit});
      count = world.f32({0});
      for (int i = 0; i < 60; ++i) {
        count = count + 1;
      }
      x = Tensor();
    }
    {
      const StreamScope scope(greedy);
      EXPECT_EQ(read_error(ones(world.device, {20 * kUnit})).code, ErrorCode::out_of_memory);
    }
    const StreamScope scope(busy);
    EXPECT_EQ(count.item(), 60);
    EXPECT_EQ(world.device.memory_report().rungs.wait_count, 0U);
  });
}

// Each stream holds a tensor and needs another one that does not fit: the younger request fails, so
// that the older one can go on.
TEST(DeviceMemory, WhenAllWaitTheYoungestFailsAndTheOthersGoOn) {
  stepped(one_sim({.name = "sim:0", .memory_budget_bytes = 8 * kMiB}), [](const World& world) {
    Stream first(world.device);
    Stream second(world.device);
    std::vector<Tensor> tensors;
    for (Stream* stream : {&first, &second}) {
      const StreamScope scope(*stream);
      tensors.push_back(ones(world.device, {6 * kUnit}));
      world.device.sync();
    }
    std::vector<Tensor> results;
    for (Stream* stream : {&first, &second}) {
      const StreamScope scope(*stream);
      Tensor filler = world.f32({1});
      for (int i = 0; i < 60; ++i) {
        filler = filler + 1;
      }
      results.push_back(cast(std::move(tensors[results.size()]), DType::i32));
    }
    int failed = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const StreamScope scope(i == 0 ? first : second);
      failed += results[i].read_bytes().wait().has_value() ? 0 : 1;
    }
    EXPECT_EQ(failed, 1);
    EXPECT_EQ(world.device.memory_report().rungs.refuse_count, 1U);
    results.clear();
    EXPECT_EQ(mean(ones(world.device, {12 * kUnit})).item(), 1);
  });
}

TEST(DeviceMemory, TrimReturnsWhatNoTensorNeeds) {
  stepped(one_sim({.name = "sim:0"}), [](const World& world) {
    static_cast<void>(sum(ones(world.device, {kUnit})).item());
    EXPECT_GE(world.device.trim(), kMiB / 2);
    EXPECT_EQ(world.device.memory().reserved_bytes, 0);
    EXPECT_EQ(sum(ones(world.device, {kUnit})).item(), kUnit);
  });
}

TEST(DeviceMemory, ThePeaksStartAgain) {
  stepped(one_sim({.name = "sim:0"}), [](const World& world) {
    static_cast<void>(sum(ones(world.device, {8 * kUnit})).item());
    world.device.trim();
    const MemoryUsage before = world.device.memory_report().total;
    EXPECT_GE(before.peak_live_bytes, 4 * kMiB);
    EXPECT_GE(before.peak_reserved_bytes, 4 * kMiB);
    world.device.reset_peak_memory();
    const MemoryUsage after = world.device.memory_report().total;
    EXPECT_EQ(after.peak_live_bytes, after.live_bytes);
    EXPECT_EQ(after.peak_reserved_bytes, after.reserved_bytes);
    EXPECT_LT(after.peak_reserved_bytes, before.peak_reserved_bytes);
  });
}

TEST(DeviceMemory, AnUpdatesTensorsAreNamedByTheUpdate) {
  stepped(one_sim({.name = "sim:0"}), [](const World& world) {
    Tensor weight = zeros(world.device, {10, 10});
    Tensor mean = zeros_like(weight);
    Tensor variance = zeros_like(weight);
    UpdateGroup group(world.device);
    group.adam(weight, ones_like(weight), mean, variance, {.learning_rate = 1});
    group.commit().get();
    for (const LiveTensor& tensor : world.device.largest_tensors(3)) {
      EXPECT_EQ(tensor.origin.op, "adam_step");
    }
    const Tensor twice = custom_op("twice", [](const Tensor& x) { return x + x; })(weight);
    EXPECT_EQ(world.device.largest_tensors().size(), 4U);
    EXPECT_THAT(world.device.largest_tensors(),
                ::testing::Contains(::testing::Truly(
                    [](const LiveTensor& tensor) { return tensor.origin.op == "twice"; })));
  });
}

TEST(DeviceMemory, TheLargestTensorsSayWhatMadeThem) {
  stepped(one_sim({.name = "sim:0"}), [](const World& world) {
    const Tensor a = zeros(world.device, {10, 10});
    const Tensor b = exp(zeros(world.device, {30, 10}));
    const std::vector<LiveTensor> tensors = world.device.largest_tensors();
    ASSERT_EQ(tensors.size(), 2U);
    EXPECT_EQ(tensors[0].size_bytes, 1200);
    EXPECT_EQ(tensors[0].origin.op, "exp") << "in place of the zeros, which are gone";
    EXPECT_EQ(tensors[0].origin.type, "f32[30, 10]");
    EXPECT_EQ(tensors[1].origin.op, "zeros") << "as the program wrote it";
    EXPECT_EQ(world.device.largest_tensors(1).size(), 1U);
  });
}

TEST(DeviceMemory, ATraceTellsOfEachBlockFromItsBeginningToItsEnd) {
  stepped(one_sim({.name = "sim:0"}), [](const World& world) {
    const Tensor a = zeros(world.device, {10});
    world.device.start_memory_trace();
    static_cast<void>(exp(a + 1).to_vector<float>());
    std::vector<std::string> lines;
    for (const MemoryEvent& event : world.device.take_memory_trace()) {
      const char* what = event.what == MemoryEvent::What::made       ? "made "
                         : event.what == MemoryEvent::What::replaced ? "replaced "
                                                                     : "freed ";
      lines.push_back(what + event.tensor.origin.op);
    }
    EXPECT_THAT(lines, ElementsAre("made zeros", "made add", "replaced exp", "freed exp"));
    EXPECT_TRUE(world.device.take_memory_trace().empty()) << "it was taken";
  });
}

// ---- scratch memory of kernels ----

DeviceOptions one_cpu(std::int64_t budget_bytes) {
  return {.name = "cpu:0", .memory_budget_bytes = budget_bytes};
}

/// Its kernel first converts all elements to f32: 4 MiB here.
Tensor halves(const Device& device) {
  return softmax(ones(device, {512, 1024}, DType::f16), 1);
}

TEST(KernelScratch, CountsInTheStatisticsAndIsGivenBackByTrim) {
  const Runtime runtime({.devices = {one_cpu(64 * kMiB)}});
  const Device device = runtime.device("cpu:0");
  EXPECT_EQ(sum(halves(device)).item(), 512);
  const MemoryStatistics after = device.memory();
  EXPECT_GE(after.peak_live_bytes, 5 * kMiB) << "the tensors alone take 1 or 2 MiB";
  EXPECT_GE(after.reserved_bytes, 4 * kMiB);
  EXPECT_EQ(after.live_bytes, 0) << "nothing is out between two kernels";
  EXPECT_GE(device.trim(), 4 * kMiB);
  EXPECT_EQ(device.memory().reserved_bytes, 0);
}

TEST(KernelScratch, ThatDoesNotFitTheBudgetIsRefusedAsATensorIs) {
  const Runtime runtime({.devices = {one_cpu(4 * kMiB)}});
  const Device device = runtime.device("cpu:0");
  const Error error = read_error(halves(device));
  EXPECT_EQ(error.code, ErrorCode::out_of_memory);
  EXPECT_EQ(error.op, "softmax");
  EXPECT_THAT(error.text, HasSubstr("scratch memory of the kernel: "));
  EXPECT_THAT(error.text, HasSubstr("bytes do not fit: the device's budget is used up"));
  EXPECT_EQ(sum(ones(device, {100})).item(), 100);
  EXPECT_EQ(device.memory_report().rungs.refuse_count, 1U);
}

/// Its adds request more scratch than exists and run without it; its products fail.
class DoesWithout final : public ForwardingBackend {
 public:
  DoesWithout()
      : ForwardingBackend(std::make_unique<sim::SimBackend>(sim::SimOptions{.name = "sim:0"})) {}
  void use_scratch(ScratchMemory& scratch) noexcept override { scratch_ = &scratch; }
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    if (launch.call.op.kind() == OpKind::mul) {
      return refused({.code = ErrorCode::kernel_failed, .text = "the product's own mistake"});
    }
    if (launch.call.op.kind() == OpKind::add) {
      EXPECT_FALSE(scratch_->take(64 * kMiB).has_value());
    }
    return ForwardingBackend::submit_one(launch, after);
  }

 private:
  ScratchMemory* scratch_ = nullptr;
};

TEST(KernelScratch, ThatAKernelDidWithoutIsNotTheNextOnesMistake) {
  const detail::BackendFactory factory{
      .make = [](const BackendRequest&) -> std::unique_ptr<Backend> {
        return std::make_unique<DoesWithout>();
      }};
  const Runtime runtime(
      {.devices = {{.name = "sim:0", .memory_budget_bytes = 8 * kMiB}}, .fusion = Fusion::off},
      factory);
  const Tensor x = ones(runtime.device("sim:0"), {3});
  EXPECT_EQ(sum(x + 1).item(), 6);
  const Error error = read_error(x * 3);
  EXPECT_EQ(error.code, ErrorCode::kernel_failed);
  EXPECT_THAT(error.text, HasSubstr("the product's own mistake"));
}

TEST(KernelScratch, IsWaitedForAsATensorIs) {
  stepped(one_sim(one_cpu(8 * kMiB)), [](const World& world) {
    Stream first(world.device);
    Tensor large;
    {
      const StreamScope scope(first);
      large = ones(world.device, {10 * kUnit});
      world.device.sync();
    }
    const Tensor x = ones(world.device, {512, 1024}, DType::f16);
    world.device.sync();
    auto token = std::make_unique<HeldToken>(world.device);
    const Tensor y = softmax(x, 1);
    {
      const StreamScope scope(first);
      Tensor count = world.f32({0});
      for (int i = 0; i < 20; ++i) {
        count = std::move(count) + 1;
      }
      large = Tensor();
    }
    token.reset();
    EXPECT_EQ(sum(y).item(), 512);
    EXPECT_EQ(world.device.memory_report().rungs.wait_count, 1U);
  });
}

class EveryPooling : public ::testing::TestWithParam<MemoryPooling> {};
INSTANTIATE_TEST_SUITE_P(DeviceMemory,
                         EveryPooling,
                         ::testing::Values(MemoryPooling::default_pooling,
                                           MemoryPooling::exclusive,
                                           MemoryPooling::debug),
                         [](const auto& it) { return std::string(name(it.param)); });

TEST_P(EveryPooling, ComputesTheSameAndReturnsAllOfIt) {
  stepped(one_sim({.name = "sim:0", .memory_budget_bytes = 256 * kMiB, .memory = GetParam()}),
          [](const World& world) {
            {
              Tensor x = world.f32({1, 2, 3});
              for (int i = 0; i < 20; ++i) {
                x = relu(x * 2 - x) + matmul(reshape(x, {1, 3}), reshape(x, {3, 1})) * 0;
              }
              EXPECT_THAT(reshape(x, {3}).to_vector<float>(), ElementsAre(1, 2, 3));
            }
            world.device.sync();
            const MemoryReport report = world.device.memory_report();
            EXPECT_EQ(report.total.live_bytes, 0);
            EXPECT_EQ(report.damage_count, 0U);
            EXPECT_GT(report.total.acquire_count, 0U);
            EXPECT_FALSE(report.pools.empty());
            world.device.trim();
            EXPECT_EQ(world.device.memory_report().total.reserved_bytes, 0);
          });
}

TEST_P(EveryPooling, GoesOnAfterAShortage) {
  stepped(one_sim({.name = "sim:0", .memory_budget_bytes = 8 * kMiB, .memory = GetParam()}),
          [](const World& world) {
            const Tensor large = ones(world.device, {10 * kUnit});
            EXPECT_EQ(read_error(large + 1).code, ErrorCode::out_of_memory);
            EXPECT_EQ(sum(ones(world.device, {kUnit})).item(), kUnit);
          });
}

/// A sim whose add writes one byte too many.
class Overwriting final : public ForwardingBackend {
 public:
  Overwriting()
      : ForwardingBackend(std::make_unique<sim::SimBackend>(sim::SimOptions{.name = "sim:0"})) {}
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    Issue issue = ForwardingBackend::submit_one(launch, after);
    if (launch.call.op.kind() == OpKind::add) {
      const TensorView& out = launch.call.outputs[0];
      out.data[out.layout->shape.element_count() * size_bytes(out.dtype)] = std::byte{0};
    }
    return issue;
  }
};

TEST(DeviceMemory, TheDebugStrategyFailsAnOpThatWritesOutsideItsResult) {
  const detail::BackendFactory factory{
      .make = [](const BackendRequest&) -> std::unique_ptr<Backend> {
        return std::make_unique<Overwriting>();
      }};
  const Runtime runtime({.devices = {{.name = "sim:0", .memory = MemoryPooling::debug}}}, factory);
  const Device device = runtime.device("sim:0");
  const Tensor x = ones(device, {3});
  const Error error = read_error(x + 1);
  EXPECT_EQ(error.code, ErrorCode::kernel_failed);
  EXPECT_EQ(error.op, "add");
  EXPECT_THAT(error.text, HasSubstr("0 bytes behind a block of 12 bytes"));
  EXPECT_NE(error.location.line, 0U);
  EXPECT_EQ(device.memory_report().damage_count, 1U);
  EXPECT_EQ(sum(x).item(), 3);
}

/// A strategy as a program could write it: counts calls and forwards them.
class Counting final : public ForwardingStrategy {
 public:
  Counting(PageProvider& pages, std::int64_t budget_bytes, int& acquire_count)
      : ForwardingStrategy(pages, budget_bytes), acquire_count_(acquire_count) {}
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override {
    ++acquire_count_;
    return ForwardingStrategy::acquire(size_bytes, kind, out);
  }

 private:
  int& acquire_count_;
};

TEST(DeviceMemory, AProgramMayBringItsOwnStrategy) {
  int acquire_count = 0;
  std::int64_t budget = 0;
  const auto make = [&](PageProvider& pages, std::int64_t budget_bytes) {
    budget = budget_bytes;
    return std::make_unique<Counting>(pages, budget_bytes, acquire_count);
  };
  stepped(one_sim({.name = "sim:0", .memory_budget_bytes = 32 * kMiB, .make_memory = make}),
          [](const World& world) {
            EXPECT_EQ(sum(world.f32({1, 2})).item(), 3);
          });
  EXPECT_EQ(acquire_count, 2);
  EXPECT_EQ(budget, 32 * kMiB);
}

TEST(DeviceMemory, AMakerThatGivesNothingIsRefused) {
  const auto make = [](PageProvider&, std::int64_t) { return std::unique_ptr<MemoryStrategy>(); };
  try {
    const Runtime runtime({.devices = {{.name = "sim:0", .make_memory = make}}});
    FAIL() << "a device without memory was opened";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("make_memory gave no strategy"));
  }
}

struct Kept {
  std::int64_t bytes = 0;  ///< For copies; while it is not 0, the machine has no page.
  bool is_all_used = false;
  int trims = 0;
};

class PagesOfAFullMachine final : public PageProvider {
 public:
  PagesOfAFullMachine(PageProvider& inner, const Kept& kept) : inner_(inner), kept_(kept) {}
  [[nodiscard]] Result<Page> allocate_page(std::int64_t size_bytes) override {
    if (kept_.bytes > 0 || kept_.is_all_used) {
      return Error{.code = ErrorCode::out_of_memory, .text = "the machine is full"};
    }
    return inner_.allocate_page(size_bytes);
  }
  void free_page(Page page) noexcept override { inner_.free_page(page); }
  [[nodiscard]] std::int64_t alignment_bytes() const noexcept override {
    return inner_.alignment_bytes();
  }

 private:
  PageProvider& inner_;
  const Kept& kept_;
};

class KeepsStaging final : public ForwardingBackend {
 public:
  KeepsStaging(std::unique_ptr<Backend> inner, Kept& kept)
      : ForwardingBackend(std::move(inner)),
        kept_(kept),
        pages_(ForwardingBackend::pages(), kept) {}
  [[nodiscard]] PageProvider& pages() noexcept override { return pages_; }
  std::int64_t trim() noexcept override {
    ++kept_.trims;
    return std::exchange(kept_.bytes, 0);
  }

 private:
  Kept& kept_;
  PagesOfAFullMachine pages_;
};

TEST(DeviceMemory, WhatIsKeptForCopiesGoesBeforeAnOpIsRefused) {
  Kept kept;
  SteppedOptions options = one_sim({.name = "sim:0", .memory_budget_bytes = 64 * kMiB});
  options.backends = detail::BackendFactory{.make = [&](const BackendRequest& request) {
    return std::make_unique<KeepsStaging>(make_sim(request, {}), kept);
  }};
  stepped(options, [&](const World& world) {
    const Tensor small = ones(world.device, {4});
    world.device.sync();
    kept.bytes = 5 * kMiB;
    const Tensor large = ones(world.device, {10 * kUnit});
    EXPECT_EQ(sum(large).item(), 10.0 * kUnit);
    EXPECT_EQ(world.device.memory_report().rungs.unstage_count, 1U);
    EXPECT_EQ(kept.trims, 1);
    kept.is_all_used = true;
    EXPECT_EQ(read_error(ones(world.device, {20 * kUnit})).code, ErrorCode::out_of_memory);
    EXPECT_EQ(world.device.memory_report().rungs.unstage_count, 1U) << "there was none";
    EXPECT_EQ(world.device.memory_report().rungs.refuse_count, 1U);
    kept = {.bytes = 5 * kMiB, .trims = kept.trims};
    EXPECT_EQ(sum(ones(world.device, {20 * kUnit})).item(), 20.0 * kUnit);
    EXPECT_EQ(world.device.memory_report().rungs.unstage_count, 2U);
  });
}

TEST(DeviceMemory, ABudgetThatIsUsedUpLeavesWhatIsKeptForCopies) {
  Kept kept;
  SteppedOptions options = one_sim({.name = "sim:0", .memory_budget_bytes = 8 * kMiB});
  options.backends = detail::BackendFactory{.make = [&](const BackendRequest& request) {
    return std::make_unique<KeepsStaging>(make_sim(request, {}), kept);
  }};
  stepped(options, [&](const World& world) {
    const Tensor first = ones(world.device, {10 * kUnit});
    EXPECT_EQ(read_error(first + 1).code, ErrorCode::out_of_memory);
    EXPECT_EQ(kept.trims, 0);
    EXPECT_EQ(world.device.memory_report().rungs.unstage_count, 0U);
  });
}

}  // namespace
}  // namespace hearth::testing
