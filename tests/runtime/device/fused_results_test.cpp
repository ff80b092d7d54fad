// Groups with more results than a kernel writes: the ops of the first kernel, recalled groups that
// equal gathered ones, and right values of many results.
// Counts are taken in virtual time, so that no window ends before its program ends it.
#include <functional>
#include <vector>

#include "runtime/device/dispatch/fused_group.hpp"
#include "tests/runtime/stepped_runtime.hpp"

namespace hearth {
namespace {

using ::testing::Each;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

/// A value of a group: its sources, and whether it ends there.
struct Value {
  std::vector<std::uint8_t> sources = {};
  bool is_internal = false;
  GroupRole role = GroupRole::computes;
};
FusedGroup group_of(const std::vector<Value>& values) {
  static const OpRecord kRecord = {};
  FusedGroup group;
  for (const Value& value : values) {
    FusedGroup::Member made{.op = OpView(kRecord, nullptr), .operand = {}};
    made.role = value.role;
    made.is_internal = value.is_internal;
    made.first_source = static_cast<std::uint8_t>(group.sources.size());
    made.source_count = static_cast<std::uint8_t>(value.sources.size());
    for (const std::uint8_t source : value.sources) {
      group.sources.push_back({.is_made = true, .number = source});
    }
    group.members.push_back(made);
  }
  return group;
}

TEST(FusedResults, TheMostFirstOpsAreThoseWithFewEnoughValuesThatOthersNeed) {
  const Value kept{};
  EXPECT_EQ(group_of({kept, kept, kept}).ops_with_outputs(2), 2U);
  EXPECT_EQ(group_of({kept, kept, kept}).ops_with_outputs(3), 3U);

  // Of the first two values both are needed; of the first three only the last.
  const FusedGroup joined =
      group_of({{.is_internal = true}, {.is_internal = true}, {.sources = {0, 1}}});
  EXPECT_EQ(joined.ops_with_outputs(1), 3U);
  EXPECT_EQ(group_of({{.is_internal = true}, {.is_internal = true}, {.sources = {0, 1}}, kept})
                .ops_with_outputs(1),
            3U);

  // An unread value is not needed; a view is no op.
  EXPECT_EQ(group_of({{.is_internal = true}, kept, kept}).ops_with_outputs(1), 2U);
  EXPECT_EQ(group_of({kept, {.sources = {0}, .is_internal = true, .role = GroupRole::views}, kept})
                .ops_with_outputs(1),
            1U);
}

SteppedOptions fusing() {
  return {.devices = {{.name = "sim:0"}}, .fusion = Fusion::on};
}
std::uint64_t kernels_of(const World& world, const std::function<void()>& body) {
  world.device.sync();
  const std::uint64_t before = world.device.statistics().kernels;
  body();
  world.device.sync();
  return world.device.statistics().kernels - before;
}

// Of 30 results of two ops each a kernel writes 24: 48 ops, not half of 60.
TEST(FusedResults, AKernelTakesAsManyOpsAsItsResultsAllow) {
  stepped(fusing(), [](const World& world) {
    const Tensor x = world.f32({1, 2});
    for (int times = 0; times < 3; ++times) {
      std::vector<Tensor> kept;
      EXPECT_EQ(kernels_of(world,
                           [&] {
                             for (int i = 0; i < 30; ++i) {
                               kept.push_back(neg(x + i));
                             }
                           }),
                2U);
      EXPECT_EQ(kept[29].to_vector<float>(), (std::vector<float>{-30, -31}));
    }
    EXPECT_EQ(world.device.statistics().plans, 2U) << "of 24 results, and of six";
  });
}

// Each result may need room for a whole row, so a kernel writes fewer: the mean, which the others
// need, and seven more.
TEST(FusedResults, AlongRowsAKernelWritesEight) {
  stepped(fusing(), [](const World& world) {
    const Tensor x = full(world.device, {4, 6}, 2);
    for (const int count : {7, 12}) {
      std::vector<Tensor> kept;
      const std::uint64_t kernels = kernels_of(world, [&] {
        const Tensor middle = mean(x, {-1}, {.keep_dims = true});
        for (int i = 0; i < count; ++i) {
          kept.push_back(x - middle + i);
        }
      });
      EXPECT_EQ(kernels, count > static_cast<int>(kMostRowOutputs) ? 2U : 1U);
      EXPECT_THAT(kept.back().to_vector<float>(), Each(static_cast<float>(count - 1)));
    }
  });
}

// Thirty results are two kernels. If ten of them are dropped after the last op, they are one.
TEST(FusedResults, AGroupIsRememberedWithWhatStandsBehindItsOps) {
  stepped(fusing(), [](const World& world) {
    const Tensor a = full(world.device, {8}, 1);
    const Tensor b = full(world.device, {8}, 2);
    const auto run = [&](std::size_t dropped) {
      std::vector<Tensor> kept;
      const std::uint64_t kernels = kernels_of(world, [&] {
        for (int i = 0; i < 30; ++i) {
          kept.push_back(a + b);
        }
        kept.resize(kept.size() - dropped);
      });
      for (const Tensor& each : kept) {
        EXPECT_THAT(each.to_vector<float>(), Each(3.0F));
      }
      return kernels;
    };
    for (int times = 0; times < 4; ++times) {
      EXPECT_EQ(run(0), 2U);
      EXPECT_EQ(run(10), 1U);
      EXPECT_EQ(run(2), 2U);
    }
  });
}

/// Eight of [5, 7], two of them transposed; then rows, columns and numbers.
std::vector<Tensor> sixteen_inputs(const Device& device, DType dtype) {
  Generator generator(3);
  std::vector<Tensor> made;
  for (int i = 0; i < 8; ++i) {
    const bool is_turned = i % 4 == 3;
    Tensor x = random_normal(device, is_turned ? Shape{7, 5} : Shape{5, 7}, generator, 0, 1, dtype);
    made.push_back(is_turned ? permute(x, {1, 0}) : x);
  }
  for (const Shape& shape : {Shape{7},
                             Shape{5, 1},
                             Shape{1, 1},
                             Shape{1, 7},
                             Shape{5, 1},
                             Shape{},
                             Shape{7},
                             Shape{5, 1}}) {
    made.push_back(random_normal(device, shape, generator, 0, 1, dtype));
  }
  device.sync();
  return made;
}

using Values = std::vector<std::vector<double>>;

/// The maximum number of results of a kernel, from its maximum number of inputs.
Values values_of_many(const World& world, DType dtype, std::uint64_t wanted_kernels) {
  const std::vector<Tensor> in = sixteen_inputs(world.device, dtype);
  std::vector<Tensor> made;
  const std::uint64_t kernels = kernels_of(world, [&] {
    for (std::size_t i = 0; i < kMostGroupOutputs; ++i) {
      made.push_back(in[i % 8] * in[8 + (i + i / 8) % 8] + static_cast<double>(i));
    }
  });
  EXPECT_EQ(kernels, wanted_kernels) << name(dtype);
  Values values;
  for (Tensor& each : made) {  // all at once, because after single ops a stream expects no others
    each = cast(each, DType::f64);
  }
  for (const Tensor& each : made) {
    values.push_back(each.to_vector<double>());
  }
  return values;
}

TEST(FusedResults, ManyOfManyInputsHaveTheBitsOfSingleOps) {
  for (const char* const device : {"cpu:0", "sim:0"}) {
    SteppedOptions options{
        .devices = {{.name = device}}, .fusion = Fusion::off, .round_intermediates = true};
    for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
      Values singly;
      options.fusion = Fusion::off;
      stepped(options, [&](const World& world) {
        singly = values_of_many(world, dtype, 2U * kMostGroupOutputs);
      });
      options.fusion = Fusion::on;
      stepped(options, [&](const World& world) {
        for (int times = 0; times < 3; ++times) {
          EXPECT_EQ(values_of_many(world, dtype, 1), singly) << name(dtype) << " on " << device;
        }
      });
    }
  }
}

// Each result is large enough for stores that bypass the caches, and both are one value of one
// loop.
TEST(FusedResults, TwoThatAreOneLargeValueAreBothThere) {
  stepped({.devices = {{.name = "cpu:0"}}, .fusion = Fusion::on}, [](const World& world) {
    constexpr std::int64_t kMany = std::int64_t{1} << 23U;
    const Tensor x = full(world.device, {kMany}, 2);
    const Tensor y = full(world.device, {kMany}, 2);
    for (int times = 0; times < 2; ++times) {
      std::vector<Tensor> made;
      const std::uint64_t kernels = kernels_of(world, [&] { made = {exp(x - y), exp(x - y)}; });
      EXPECT_EQ(kernels, 1U);
      for (const Tensor& each : made) {
        EXPECT_EQ(sum(each).item(), static_cast<double>(kMany));
      }
    }
  });
}

}  // namespace
}  // namespace hearth
