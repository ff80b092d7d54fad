// The choices of CPU convolutions: each candidate of a call computes the bytes of the rule.
#include "cpu_contraction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <hearth/streams/op_attributes.hpp>

namespace hearth::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

struct ConvSizes {
  Shape x;
  Shape w;
  ConvAttributes attributes = {};

  [[nodiscard]] Shape y() const {
    const auto places = [&](int axis) {
      const auto i = static_cast<std::size_t>(axis - 2);
      return (x[axis] + 2 * attributes.padding[i] - attributes.dilation[i] * (w[axis] - 1) - 1) /
                 attributes.stride[i] +
             1;
    };
    return {x[0], w[0], places(2), places(3)};
  }
};

// Elements that use the whole mantissa, so that sums in another order have other bits.
SmallTensor random_elements(DType dtype, const Shape& shape, std::mt19937& engine) {
  std::uniform_real_distribution<double> unit(-1, 1);
  std::vector<double> values(static_cast<std::size_t>(shape.element_count()));
  std::ranges::generate(values, [&] { return unit(engine); });
  return {dtype, shape, values};
}

// A convolution, or the gradient of its input, whose result lies between guard bytes.
class ConvCall {
 public:
  ConvCall(OpKind kind, DType dtype, const ConvSizes& sizes, std::mt19937& engine)
      : x_(random_elements(dtype, kind == OpKind::conv2d ? sizes.x : sizes.y(), engine)),
        w_(random_elements(dtype, sizes.w, engine)),
        layout_(kind == OpKind::conv2d ? sizes.y() : sizes.x),
        bytes_(static_cast<std::size_t>(layout_.shape.element_count() * size_bytes(dtype)) +
               2 * kGuard) {
    call_.emplace(kind,
                  std::vector<TensorView>{x_.view(), w_.view()},
                  std::vector<TensorView>{{bytes_.data() + kGuard, &layout_, dtype}});
    call_->with(sizes.attributes);
  }
  [[nodiscard]] KernelCall call() const { return call_->call(); }
  [[nodiscard]] Issue submit(cpu::CpuBackend& device, detail::CandidateId pick) {
    std::ranges::fill(bytes_, std::byte{0x5A});
    const Launch launch{.call = call(), .pick = pick};
    return device.submit({&launch, 1}, {});
  }
  [[nodiscard]] std::vector<std::byte> run(cpu::CpuBackend& device, detail::CandidateId pick) {
    submit(device, pick).status.value();
    return bytes_;
  }
  [[nodiscard]] static bool are_guards_intact(const std::vector<std::byte>& bytes) {
    const auto is_guard = [](std::byte each) { return each == std::byte{0x5A}; };
    return std::all_of(bytes.begin(), bytes.begin() + kGuard, is_guard) &&
           std::all_of(bytes.end() - kGuard, bytes.end(), is_guard);
  }

 private:
  static constexpr std::int64_t kGuard = 64;

  SmallTensor x_;
  SmallTensor w_;
  detail::Layout layout_;
  std::vector<std::byte> bytes_;
  std::optional<SmallCall> call_;
};

class CpuConvChoices : public ::testing::Test {
 protected:
  std::int64_t draw(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  ConvSizes random_sizes(std::int64_t most_side) {
    ConvAttributes attributes;
    const bool is_depthwise = draw(0, 2) == 0;
    const std::int64_t groups = is_depthwise ? draw(1, 40) : draw(0, 4) == 0 ? draw(2, 4) : 1;
    const std::int64_t inputs = is_depthwise ? draw(1, 2) : draw(1, 24);
    const std::int64_t side = is_depthwise && draw(0, 1) == 0 ? draw(1, 2) * 2 + 1 : 0;
    const Shape w{groups * draw(1, is_depthwise ? 3 : 24),
                  inputs,
                  side > 0 ? side : draw(1, 4),
                  side > 0 ? side : draw(1, 4)};
    Shape x{draw(1, 3), groups * inputs, 1, 1};
    for (int axis = 2; axis < 4; ++axis) {
      const auto i = static_cast<std::size_t>(axis - 2);
      attributes.stride[i] = draw(1, 3) == 1 ? draw(2, 3) : 1;
      attributes.padding[i] = draw(0, w[axis] - 1);
      attributes.dilation[i] = draw(1, 5) == 1 ? 2 : 1;
      x.set(axis, attributes.dilation[i] * w[axis] + draw(0, most_side));
    }
    attributes.groups = groups;
    return {x, w, attributes};
  }
  ConvCall random_call(std::int64_t most_side) {
    constexpr DType kTypes[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::bf16};
    const OpKind kind = draw(0, 1) == 0 ? OpKind::conv2d : OpKind::conv2d_backward_input;
    const DType dtype = kTypes[draw(0, 4)];
    const ConvSizes sizes = random_sizes(most_side);
    return {kind, dtype, sizes, engine_};
  }

  std::mt19937 engine_{21};  // NOLINT(cert-msc51-cpp): repeatable
  cpu::CpuBackend baseline_{serial_device(cpu::IsaLevel::baseline)};
  cpu::CpuBackend avx2_{serial_device(cpu::IsaLevel::avx2)};
  cpu::CpuBackend avx512_{serial_device(cpu::IsaLevel::avx512)};
  cpu::CpuBackend crew_{cpu::CpuOptions{}};

  std::vector<cpu::CpuBackend*> devices() {
#ifdef HEARTH_CPU_ONE_LEVEL  // for the thread sanitizer, to which serial devices show nothing
    return {&crew_};
#else
    return {&baseline_, &avx2_, &avx512_, &crew_};
#endif
  }
};

// CHOICES_CALLS=100000 runs as many calls, of smaller sizes.
TEST_F(CpuConvChoices, EachCandidateComputesTheBytesOfTheRule) {
  const char* const wanted = std::getenv("CHOICES_CALLS");  // NOLINT(concurrency-mt-unsafe)
  const int count = wanted == nullptr ? 120 : std::stoi(wanted);
  std::map<std::string, int> runs;
  for (int i = 0; i < count; ++i) {
    ConvCall call = random_call(count > 1000 ? 24 : 60);
    for (cpu::CpuBackend* const device : devices()) {
      const std::vector<detail::Candidate> candidates = device->kernels().candidates(call.call());
      const std::vector<std::byte> expected = call.run(*device, detail::kRulePick);
      ASSERT_TRUE(ConvCall::are_guards_intact(expected));
      for (const detail::Candidate& each : candidates) {
        ASSERT_EQ(each.bits, candidates[0].bits);
        ASSERT_TRUE(call.run(*device, each.id) == expected) << each.name << " in call " << i;
        ++runs[std::string(each.name)];
      }
    }
  }
  EXPECT_GE(runs.size(), 6U) << "the rule and most rows ran";
}

// The cut of the stem of a picture model: 1024 pixels a block took 0.845 of the time.
TEST_F(CpuConvChoices, RowsDifferInTheirPlansAlone) {
  const ConvCall stem(OpKind::conv2d,
                      DType::f32,
                      {.x = {1, 3, 112, 112},
                       .w = {64, 3, 7, 7},
                       .attributes = {.stride = {2, 2}, .padding = {3, 3}}},
                      engine_);
  const std::vector<detail::Candidate> list = avx512_.kernels().candidates(stem.call());
  ASSERT_GT(list.size(), 2U);
  EXPECT_EQ(list[0].id, detail::kRulePick);
  std::set<detail::CandidateId> ids;
  for (const detail::Candidate& each : list) {
    ids.insert(each.id);
    EXPECT_EQ(each.text_hash, list[0].text_hash);
    EXPECT_NE(each.text_hash, 0U);
  }
  EXPECT_THAT(ids, SizeIs(list.size()));
}

TEST_F(CpuConvChoices, ANumberWithoutARowIsRefused) {
  ConvCall call = random_call(20);
  const Issue issue = call.submit(avx512_, 999);
  EXPECT_TRUE(issue.is_pick_refused);
  EXPECT_FALSE(issue.may_have_begun);
}

}  // namespace
}  // namespace hearth::testing
