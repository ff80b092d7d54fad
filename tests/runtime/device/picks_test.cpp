#include "runtime/device/tuning/picks.hpp"

#include <array>
#include <cstring>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/backends/constant.hpp>
#include <hearth/runtime/base/machine_load.hpp>

#include "tuned_product.hpp"

namespace hearth {
namespace {

using detail::Candidate;
using detail::kRulePick;
using detail::TuneEntry;
using testing::PlannedBackend;

// A product on memory of its own, with shapes in its record.
class Product {
 public:
  explicit Product(std::uint32_t shape, std::int64_t rows = 8)
      : wanted_(testing::wanted_product(rows, 8, 8)) {
    wanted_.record.operands[0].shape = ShapeId{shape};
    wanted_.record.operands[1].shape = ShapeId{2};
    views_[0] = {.data = bytes_.data(), .layout = &wanted_.inputs[0].layout};
    views_[1] = {.data = bytes_.data(), .layout = &wanted_.inputs[1].layout};
    views_[2] = {.data = bytes_.data(), .layout = &wanted_.outputs[0].layout};
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void transpose_b() {
    Strides strides{};
    strides[0] = 1;
    strides[1] = 8;
    wanted_.inputs[1].layout = detail::Layout(Shape{8, 8}, strides);
  }
  void keep_b(Constant& constant) { views_[1].constant = &constant; }
  void move_a(std::ptrdiff_t bytes) { views_[0].data += bytes; }
  [[nodiscard]] KernelCall call() const {
    return {.op = OpView(wanted_.record, nullptr),
            .inputs = std::span(views_).first(2),
            .outputs = std::span(views_).subspan(2)};
  }

 private:
  alignas(64) std::array<std::byte, 1024> bytes_{};
  WantedCall wanted_;
  std::array<TensorView, 3> views_;
};

class NoForms final : public Constant {
 public:
  [[nodiscard]] const std::byte* find(const ConstantForm&) const noexcept override {
    return nullptr;
  }
  [[nodiscard]] std::byte* keep(const ConstantForm&, std::int64_t) noexcept override {
    return nullptr;
  }
};

std::vector<Candidate> three() {
  return {{.id = 0, .bits = 1, .text_hash = 7, .name = "rule"},
          {.id = 4, .bits = 1, .text_hash = 7, .name = "same"},
          {.id = 5, .bits = 2, .text_hash = 7, .name = "other bits"}};
}

TuneEntry entry_for(const KernelCall& call, detail::CandidateId pick) {
  return {.key = key_of(call, 1),
          .ladder = {{.id = pick, .text_hash = 7}, {.id = kRulePick, .text_hash = 7}},
          .tuned_at = detail::time_of_day()};
}

class PicksTest : public ::testing::Test {
 protected:
  PlannedBackend backend{three(), [](const Launch&, Issue issue) { return issue; }};
  Picks picks{1, true};
};

TEST_F(PicksTest, ACallWithoutAnEntryFollowsTheRuleAndIsWanted) {
  const Product product(1);
  EXPECT_EQ(picks.pick(product.call(), backend), kRulePick);
  EXPECT_EQ(picks.pick(product.call(), backend), kRulePick);
  EXPECT_EQ(backend.listed_count, 1) << "the second one is found in the table";
  const WantedCalls wanted = picks.wanted();
  ASSERT_EQ(wanted.calls.size(), 1U);
  EXPECT_EQ(wanted.calls[0].key, key_of(product.call(), 1));
  EXPECT_EQ(wanted.calls[0].inputs[1].layout.shape, (Shape{8, 8}));
}

TEST_F(PicksTest, AnEntryGivesItsPick) {
  const Product product(1);
  picks.add({entry_for(product.call(), 4)});
  EXPECT_EQ(picks.pick(product.call(), backend), 4);
  EXPECT_TRUE(picks.wanted().calls.empty());
}

TEST_F(PicksTest, NewEntriesReplacePicksInTheTable) {
  const Product product(1);
  EXPECT_EQ(picks.pick(product.call(), backend), kRulePick);
  picks.add({entry_for(product.call(), 4)});
  EXPECT_EQ(picks.pick(product.call(), backend), 4);
  EXPECT_TRUE(picks.wanted().calls.empty()) << "it is settled now";
}

TEST_F(PicksTest, AnOldEntryIsUsedAndWanted) {
  const Product product(1);
  TuneEntry old = entry_for(product.call(), 4);
  old.tuned_at -= std::chrono::hours(24 * 91);
  picks.add({old});
  EXPECT_EQ(picks.pick(product.call(), backend), 4);
  EXPECT_EQ(picks.wanted().calls.size(), 1U);
}

TEST_F(PicksTest, AnEntryOfOtherKernelsIsWantedAgain) {
  const Product product(1);
  TuneEntry other = entry_for(product.call(), 4);
  other.ladder.back().text_hash = 8;
  picks.add({other});
  EXPECT_EQ(picks.pick(product.call(), backend), kRulePick);
  EXPECT_EQ(picks.wanted().calls.size(), 1U);
}

// Sizes, strides and alignment each make a call of its own.
TEST_F(PicksTest, AnEntryHoldsForItsKeyAlone) {
  const Product tuned(1);
  picks.add({entry_for(tuned.call(), 4)});
  Product transposed(1);
  transposed.transpose_b();
  EXPECT_EQ(picks.pick(transposed.call(), backend), kRulePick);
  Product shifted(1);
  shifted.move_a(16);
  EXPECT_EQ(picks.pick(shifted.call(), backend), kRulePick);
  const Product longer(3, 9);
  EXPECT_EQ(picks.pick(longer.call(), backend), kRulePick);
  EXPECT_EQ(picks.pick(tuned.call(), backend), 4);
  EXPECT_EQ(picks.wanted().calls.size(), 3U);
}

// Beside packed forms, which constants keep, the choices have other times.
TEST_F(PicksTest, ACallWithAConstantFollowsTheRule) {
  Product product(1);
  picks.add({entry_for(product.call(), 4)});
  NoForms weights;
  product.keep_b(weights);
  EXPECT_EQ(picks.pick(product.call(), backend), kRulePick);
  EXPECT_TRUE(picks.wanted().calls.empty());
  EXPECT_EQ(backend.listed_count, 0);
}

TEST(CallTraits, DifferForDifferentConvolutions) {
  std::set<std::uint64_t> numbers;
  std::size_t count = 0;
  for (const std::int64_t each : {2, 3, 255, 256, 65'535, 65'536, 1 << 24}) {
    for (int field = 0; field < 7; ++field) {
      ConvAttributes attributes;
      (field < 2   ? attributes.stride.at(static_cast<std::size_t>(field))
       : field < 4 ? attributes.padding.at(static_cast<std::size_t>(field - 2))
       : field < 6 ? attributes.dilation.at(static_cast<std::size_t>(field - 4))
                   : attributes.groups) = each;
      OpRecord record;
      record.kind = OpKind::conv2d;
      record.blob_size_bytes = sizeof(attributes);
      std::array<std::byte, sizeof(attributes)> blob{};
      std::memcpy(blob.data(), &attributes, sizeof(attributes));
      numbers.insert(detail::conv_traits(OpView(record, blob.data())));
      ++count;
    }
  }
  EXPECT_EQ(numbers.size(), count);
}

TEST_F(PicksTest, ACandidateOfOtherBitsIsNeverPicked) {
  const Product product(1);
  picks.add({entry_for(product.call(), 5)});
  EXPECT_EQ(picks.pick(product.call(), backend), kRulePick);
}

TEST_F(PicksTest, ARefusedPickIsDroppedForGood) {
  const Product product(1);
  picks.add({entry_for(product.call(), 4)});
  ASSERT_EQ(picks.pick(product.call(), backend), 4);
  picks.refuse(product.call(), 4);
  EXPECT_EQ(picks.pick(product.call(), backend), kRulePick);
  picks.add({});
  EXPECT_EQ(picks.pick(product.call(), backend), kRulePick) << "also after a new look";
}

TEST_F(PicksTest, WithoutCollectionNothingIsWanted) {
  Picks reader(1, false);
  const Product product(1);
  EXPECT_EQ(reader.pick(product.call(), backend), kRulePick);
  EXPECT_TRUE(reader.wanted().calls.empty());
}

TEST_F(PicksTest, ADeviceWithoutCandidatesWantsNothing) {
  PlannedBackend none({}, [](const Launch&, Issue issue) { return issue; });
  const Product product(1);
  EXPECT_EQ(picks.pick(product.call(), none), kRulePick);
  EXPECT_TRUE(picks.wanted().calls.empty());
}

}  // namespace
}  // namespace hearth
