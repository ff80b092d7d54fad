// Ops by index: values, refused mistakes, and failures that depend on the data, on the cpu and the
// reference.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::thrown_text;

class OpsIndexTest : public ::testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] Device device() const { return runtime_.device(GetParam()); }
  [[nodiscard]] Tensor i64(const std::vector<std::int64_t>& values, const Shape& shape) const {
    return Tensor::from(device(), values, shape);
  }
  /// 0, 1, 2, ... in f32.
  [[nodiscard]] Tensor counting(const Shape& shape) const {
    return reshape(arange(device(), 0, static_cast<double>(shape.element_count())), shape.dims());
  }
  [[nodiscard]] static std::vector<double> reals(const Tensor& tensor) {
    return cast(tensor, DType::f64).to_vector<double>();
  }
  /// The error that reading throws.
  static std::string failure(const Tensor& tensor) {
    try {
      static_cast<void>(tensor.read_bytes().get());
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_range);
      EXPECT_NE(error.error().location.line, 0U);
      EXPECT_THAT(error.error().text, StartsWith(error.error().op + ": "));
      return error.error().text;
    }
    return "none";
  }

 private:
  /// The sim is asynchronous, like a GPU.
  [[nodiscard]] static DeviceOptions tested(const std::string& name) {
    return {.name = name,
            .sim_schedule = name == "sim:0" ? std::optional(SimSchedule{}) : std::nullopt};
  }

  Runtime runtime_{RuntimeOptions{.devices = {tested(GetParam())}}};
};

// A GPU reports numbers: the flat position in the index tensor, and the index.
auto says(const char* host, const std::string& gpu) {
#ifdef HEARTH_TEST_VULKAN
  constexpr bool kIsGpu = true;
#else
  constexpr bool kIsGpu = false;
#endif
  const bool is_gpu = kIsGpu || testing::tested_kind("") == "cuda";
  return HasSubstr(is_gpu ? gpu + ", but the axis has " : host);
}

TEST_P(OpsIndexTest, GatherTakesTheElementAtEachIndex) {
  const Tensor x = counting({2, 3});
  const Tensor columns = gather(x, -1, i64({2, 0, 1, 1}, {2, 2}));
  EXPECT_EQ(columns.shape(), (Shape{2, 2}));
  EXPECT_THAT(reals(columns), ElementsAre(2, 0, 4, 4));
  EXPECT_THAT(reals(gather(x, 0, i64({1, 0}, {1, 2}))), ElementsAre(3, 1));
  EXPECT_THAT(reals(gather(transpose(x), 0, i64({2, 2}, {1, 2}))), ElementsAre(2, 5));
}

TEST_P(OpsIndexTest, IndexSelectTakesSlicesInTheOrderOfTheIndex) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(reals(index_select(x, 0, i64({1, 1, 0}, {3}))),
              ElementsAre(3, 4, 5, 3, 4, 5, 0, 1, 2));
  EXPECT_THAT(reals(index_select(x, 1, i64({2, 0}, {2}))), ElementsAre(2, 0, 5, 3));
  EXPECT_EQ(index_select(x, 1, i64({}, {0})).shape(), (Shape{2, 0}));
}

TEST_P(OpsIndexTest, EmbeddingGivesARowForEachIndex) {
  const Tensor weight = counting({4, 2});
  const Tensor rows = embedding(weight, i64({3, 0, 1, 3}, {2, 2}));
  EXPECT_EQ(rows.shape(), (Shape{2, 2, 2}));
  EXPECT_THAT(reals(rows), ElementsAre(6, 7, 0, 1, 2, 3, 6, 7));
  EXPECT_EQ(embedding(weight, i64({2}, {})).shape(), (Shape{2}));
  EXPECT_EQ(embedding(weight, i64({}, {0, 3})).shape(), (Shape{0, 3, 2}));
  EXPECT_EQ(embedding(counting({4, 3, 2}), i64({2}, {1})).shape(), (Shape{1, 3, 2}));
  EXPECT_THAT(reals(embedding(counting({4}), i64({2, 2}, {2}))), ElementsAre(2, 2));
}

TEST_P(OpsIndexTest, TheGradientOfAnEmbeddingAddsUpWhatIsUsedTwice) {
  const Tensor index = i64({2, 0, 2}, {3});
  const auto loss = [&](const std::vector<Tensor>& in) {
    return sum(embedding(in[0], index) * reshape(arange(device(), 1, 4), {3, 1}));
  };
  EXPECT_THAT(reals(grad(loss, {counting({4, 2})})[0]), ElementsAre(2, 2, 0, 0, 4, 4, 0, 0));
}

TEST_P(OpsIndexTest, AdditionsGoToTheirIndex) {
  const Tensor x = counting({2, 3});
  const Tensor ones_there = ones(device(), {2, 2});
  EXPECT_THAT(reals(scatter_add(x, 1, i64({2, 2, 0, 1}, {2, 2}), ones_there)),
              ElementsAre(0, 1, 4, 4, 5, 5));
  EXPECT_THAT(reals(index_add(x, -1, i64({2, 2}, {2}), ones_there)), ElementsAre(0, 1, 4, 3, 4, 7));
  const Tensor bytes = full(device(), {2}, 200, DType::u8);
  EXPECT_THAT(reals(index_add(bytes, 0, i64({1}, {1}), full(device(), {1}, 100, DType::u8))),
              ElementsAre(200, 44));
}

TEST_P(OpsIndexTest, OneHotHasOneOneInEachRow) {
  const Tensor hot = one_hot(i64({2, 0}, {2, 1}), 3);
  EXPECT_EQ(hot.shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(hot.dtype(), DType::f32);
  EXPECT_THAT(reals(hot), ElementsAre(0, 0, 1, 1, 0, 0));
  const Tensor bools = one_hot(i64({1}, {}), 2, DType::boolean);
  EXPECT_EQ(bools.dtype(), DType::boolean);
  EXPECT_THAT(reals(bools), ElementsAre(0, 1));
  EXPECT_EQ(one_hot(i64({}, {0}), 3, DType::f16).shape(), (Shape{0, 3}));
  EXPECT_THAT(
      failure(one_hot(i64({0, 3}, {2}), 3)),
      says("one_hot: index 3 at [1, 0] is outside axis 1 of size 3", "one_hot: index 1 is 3"));
}

TEST_P(OpsIndexTest, AnIndexOutsideTheAxisPoisonsTheResult) {
  const Tensor x = counting({2, 3});
  const Tensor below = gather(x, 1, i64({0, -1}, {1, 2}));
  EXPECT_THAT(
      failure(below + 1),
      says("gather: index -1 at [0, 1] is outside axis 1 of size 3", "gather: index 1 is -1"));
  EXPECT_THAT(
      failure(embedding(x, i64({0, 1, 2}, {3}))),
      says("embedding: index 2 at [2] is outside axis 0 of size 2", "embedding: index 2 is 2"));
  EXPECT_THAT(failure(index_select(x, 0, i64({2}, {1}))), HasSubstr("index_select: index"))
      << "that is its own name";
  EXPECT_THAT(
      failure(index_add(x, 0, i64({2}, {1}), ones(device(), {1, 3}))),
      says("index_add: index 2 at [0] is outside axis 0 of size 2", "index_add: index 0 is 2"));
  EXPECT_THAT(failure(scatter_add(x, 0, i64({5}, {1, 1}), ones(device(), {1, 1}))),
              says("scatter_add: index 5 at [0, 0] is outside axis 0 of size 2",
                   "scatter_add: index 0 is 5"));
  // Also without an element to select.
  EXPECT_THAT(failure(index_select(zeros(device(), {2, 0}), 0, i64({7}, {1})) + 1),
              says("index 7", "index 0 is 7"));
  EXPECT_THAT(reals(x + 1), ElementsAre(1, 2, 3, 4, 5, 6)) << "others are as they were";
}

// An inner failure carries the name and the line of the program's call.
TEST_P(OpsIndexTest, AClassOutsideTheClassesNamesWhatWasCalled) {
  const Tensor scores = counting({2, 3});
  const Tensor strays = i64({0, 9}, {2});
  EXPECT_THAT(
      failure(nll_loss(scores, strays)),
      says("nll_loss: index 9 at [1, 0] is outside axis 1 of size 3", "nll_loss: index 1 is 9"));
  EXPECT_THAT(failure(cross_entropy(scores, strays, {.class_weights = ones(device(), {3})})),
              StartsWith("cross_entropy: "));
  // Each failure alone: of a gradient whose forward op stays unread.
  const auto slope = [&](const auto& loss, const Tensor& x) {
    return failure(grad([&](const std::vector<Tensor>& in) { return sum(loss(in[0])); }, {x})[0]);
  };
  EXPECT_THAT(slope([&](const Tensor& x) { return embedding(x, strays); }, scores),
              says("embedding_backward: index 9 at [1] is outside axis 0 of size 2",
                   "embedding_backward: index 1 is 9"));
  EXPECT_THAT(slope([&](const Tensor& x) { return nll_loss(x, strays); }, scores),
              says("nll_loss_backward: index 9 at [1, 0] is outside axis 1 of size 3",
                   "nll_loss_backward: index 1 is 9"));
  EXPECT_THAT(slope([&](const Tensor& x) { return index_select(x, 0, strays); }, scores),
              HasSubstr("index_add: index"));
}

TEST_P(OpsIndexTest, MistakesAreRefusedBeforeAnythingIsQueued) {
  const Tensor x = counting({2, 3});
  const Tensor index = i64({0, 1}, {2});
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)gather(x, 0, index); }),
              HasSubstr("gather: the index must have rank 2"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)index_select(x, 0, counting({2})); }),
              HasSubstr("index_select: the index must be i32 or i64"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)embedding(x, counting({2})); }),
              HasSubstr("embedding: the index must be i32 or i64"));
  EXPECT_THAT(thrown_text<DtypeError>([&] {
                (void)embedding(x, counting({1, 8}));
              }),
              HasSubstr("f32[1, 8]"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)index_select(x, 2, index); }),
              HasSubstr("index_select: axis 2"));
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)index_add(x, 0, index, cast(x, DType::f64)); }),
              HasSubstr("index_add: element types differ: x f32[2, 3], source f64[2, 3]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)index_add(x, 0, index, counting({3, 3}));
              }),
              HasSubstr("index_add: the source must be [2, 3]"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)one_hot(index, 0); }),
              HasSubstr("one_hot: needs 1 or more classes, got 0"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)gather(x, 0, Tensor()); }),
              HasSubstr("gather: an operand is an empty tensor"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)embedding(x, 1); }),
              HasSubstr("embedding: an operand is a number"));
}

TEST_P(OpsIndexTest, GradientsOfHalvesAreSummedInMoreBits) {
  // 2048 + 1 is no f16; the 2048 ones are summed before they are rounded.
  const Tensor index = zeros(device(), {4096}, DType::i32);
  const Tensor source = ones(device(), {4096, 1}, DType::f16);
  const Tensor none = zeros(device(), {1, 1}, DType::f16);
  EXPECT_THAT(reals(index_add(none, 0, index, source)), ElementsAre(4096));
  const Tensor rows = ones(device(), {4096, 64}, DType::f16);
  const Tensor sums = index_add(zeros(device(), {1, 64}, DType::f16), 0, index, rows);
  EXPECT_EQ(reals(sums), std::vector<double>(64, 4096));
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         OpsIndexTest,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0", "sim:0"),
                         [](const auto& param) { return std::string(param.param).substr(0, 3); });

}  // namespace
}  // namespace hearth
