// The container of gradients: accumulation, scaling, norms, clipping.
#include <hearth/runtime/gradients.hpp>

#include "reference_test.hpp"
#include "tests/support/tolerance.hpp"

#include <gmock/gmock.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown_text;

class GradientsTest : public testing::ReferenceTest {
 protected:
  [[nodiscard]] Gradients three_and_four() const {
    return Gradients({"a", "b"}, {f32({3, 0}, {2}), f32({4}, {1, 1})});
  }
};

TEST_F(GradientsTest, AreFoundByPath) {
  const Gradients gradients = three_and_four();
  EXPECT_EQ(gradients.size(), 2U);
  EXPECT_FALSE(gradients.empty());
  EXPECT_THAT(reals(gradients.at("b")), ElementsAre(4));
  try {
    (void)gradients.at("c");
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_EQ(error.error().text, "gradients: no parameter 'c'; there are: a, b");
  }
}

TEST_F(GradientsTest, ThatAreNotThereNameTheLineThatAsked) {
  Gradients gradients = three_and_four();
  const auto expect_refused = [](const auto& ask, const char* text, std::uint32_t line) {
    try {
      ask();
      ADD_FAILURE() << "found: " << text;
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.error().text, text);
      EXPECT_EQ(error.error().op, "gradients");
      EXPECT_EQ(error.error().location.line, line);
      EXPECT_THAT(error.error().location.file, ::testing::EndsWith("gradients_test.cpp"));
    }
  };
  const char* const text = "gradients: there is no gradient 9: there are 2, counted from 0";
  expect_refused([&] { (void)gradients[9]; }, text, __LINE__);
  expect_refused([&] { (void)std::as_const(gradients)[9]; }, text, __LINE__);
  expect_refused([&] { (void)gradients.path(9); }, text, __LINE__);
  expect_refused([&] { (void)gradients.has_gradient(9); }, text, __LINE__);
  expect_refused([&] { gradients.leave_out(9); }, text, __LINE__);
  expect_refused(
      [&] { (void)gradients.at("c"); }, "gradients: no parameter 'c'; there are: a, b", __LINE__);
}

TEST_F(GradientsTest, NeedOnePathForEachTensor) {
  EXPECT_THROW(Gradients({"a"}, {}), ArgumentError);
}

TEST_F(GradientsTest, AccumulateAddsParameterByParameter) {
  Gradients gradients;
  gradients.accumulate(three_and_four());
  gradients.accumulate(three_and_four());
  EXPECT_THAT(reals(gradients[0]), ElementsAre(6, 0));
  EXPECT_THAT(reals(gradients[1]), ElementsAre(8));
}

TEST_F(GradientsTest, AccumulateRefusesOtherParameters) {
  Gradients gradients = three_and_four();
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              gradients.accumulate(Gradients({"a"}, {f32({1, 1}, {2})}));
            }),
            "gradients: the parameters differ: a, b and a");
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              gradients.accumulate(Gradients({"a", "c"}, {f32({1, 1}, {2}), f32({4}, {1, 1})}));
            }),
            "gradients: the parameters differ: a, b and a, c");
  EXPECT_THAT(reals(gradients[0]), ElementsAre(3, 0));
}

TEST_F(GradientsTest, AccumulateOfThemselvesDoublesACopyAndRefusesAMove) {
  Gradients gradients = three_and_four();
  gradients.accumulate(gradients);
  EXPECT_THAT(reals(gradients[0]), ElementsAre(6, 0));
  EXPECT_EQ(
      thrown_text<ArgumentError>([&] { gradients.accumulate(std::move(gradients)); }),
      "gradients: accumulate() cannot move 2 gradients into themselves: scale(2) doubles them");
  EXPECT_THAT(reals(gradients[1]), ElementsAre(8)) << "nothing has changed";
}

// A default-made object is an empty sum; a moved-from one is a mistake.
TEST_F(GradientsTest, ThatWereUsedSaySo) {
  Gradients gradients = three_and_four();
  Gradients others = three_and_four();
  others.accumulate(std::move(gradients));
  // NOLINTBEGIN(bugprone-use-after-move): what it throws
  EXPECT_TRUE(gradients.is_used());
  const auto text = [&](const auto& use) {
    return thrown_text<ArgumentError>([&] { use(gradients); });
  };
  const char* const rest =
      " of gradients that were used already: a step, or a std::move, has taken them; compute them "
      "anew, or keep a copy";
  EXPECT_EQ(text([](Gradients& g) { (void)g[0]; }), std::string("gradients: a read") + rest);
  EXPECT_EQ(text([](Gradients& g) { (void)g.path(0); }), std::string("gradients: a read") + rest);
  EXPECT_EQ(text([](Gradients& g) { (void)g.at("a"); }), std::string("gradients: at()") + rest);
  EXPECT_EQ(text([](Gradients& g) { g.scale(2); }), std::string("gradients: scale()") + rest);
  EXPECT_EQ(text([](Gradients& g) { (void)g.norm(); }), std::string("gradients: norm()") + rest);
  EXPECT_EQ(text([](Gradients& g) { (void)g.clip_by_norm(1); }),
            std::string("gradients: norm()") + rest);
  const std::string accumulate = std::string("gradients: accumulate()") + rest;
  EXPECT_EQ(text([&](Gradients& g) { g.accumulate(others); }), accumulate);
  EXPECT_EQ(text([&](Gradients& g) { others.accumulate(std::move(g)); }), accumulate);
  EXPECT_EQ(text([&](Gradients& g) { others.accumulate(g); }), accumulate);
  // NOLINTEND(bugprone-use-after-move)
  gradients = others;
  EXPECT_THAT(reals(gradients[0]), ElementsAre(6, 0)) << "a new value is a new start";
}

TEST_F(GradientsTest, ScaleMultipliesAll) {
  Gradients gradients = three_and_four();
  gradients.scale(0.5);
  EXPECT_THAT(reals(gradients[0]), ElementsAre(1.5, 0));
  EXPECT_THAT(reals(gradients[1]), ElementsAre(2));
}

TEST_F(GradientsTest, NormIsEuclideanOverAll) {
  const Tensor norm = three_and_four().norm();
  EXPECT_EQ(norm.shape(), Shape{});
  EXPECT_EQ(norm.dtype(), DType::f32);
  EXPECT_EQ(norm.item(), 5);
}

TEST_F(GradientsTest, NormOfHalfTypesDoesNotOverflow) {
  const Gradients gradients({"a"}, {cast(f32({30000, 40000}, {2}), DType::f16)});
  EXPECT_EQ(gradients.norm().dtype(), DType::f32);
  const testing::Tolerance tolerance = testing::tolerance(testing::Precision::rounded, DType::f16);
  EXPECT_TRUE(tolerance.accepts(gradients.norm().item(), 50000));
}

TEST_F(GradientsTest, NormOfMixedTypesIsTheWiderOne) {
  const Gradients gradients({"a", "b", "steps"}, {f32({3}, {1}), f64({4}, {1}), i32({12}, {1})});
  EXPECT_EQ(gradients.norm().dtype(), DType::f64);
  EXPECT_EQ(gradients.norm().item(), 5);  // integers have no gradients
}

TEST_F(GradientsTest, NormSpansDevices) {
  const Gradients gradients({"a", "b"}, {f32({3}, {1}), f32({4}, {1}).to(other_device())});
  EXPECT_EQ(gradients.norm().item(), 5);
}

TEST_F(GradientsTest, NormOfNothingIsRefused) {
  EXPECT_THAT(thrown_text<ArgumentError>([] { (void)Gradients().norm(); }),
              HasSubstr("nothing to take the norm of"));
}

// 1.7e-8 is 0 in f16.
TEST_F(GradientsTest, OfSixteenBitsAreClippedByAFactorThatTheyCannotHold) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Gradients gradients({"a"}, {cast(f32({60000, 0}, {2}), dtype)});
    (void)gradients.clip_by_norm(1e-3);
    EXPECT_NEAR(reals(gradients.at("a"))[0], 1e-3, 4e-6);
    EXPECT_EQ(gradients.at("a").dtype(), dtype);
  }
}

TEST_F(GradientsTest, ClipScalesDownToTheNorm) {
  Gradients gradients({"a", "b"}, {f32({3, 0}, {2}), f32({4}, {1}).to(other_device())});
  EXPECT_EQ(gradients.clip_by_norm(2.5).item(), 5);
  EXPECT_THAT(reals(gradients[0]), ElementsAre(1.5, 0));
  EXPECT_THAT(reals(gradients[1]), ElementsAre(2));
  EXPECT_EQ(gradients[1].device(), other_device());
}

TEST_F(GradientsTest, ClipLeavesShorterGradientsAlone) {
  Gradients gradients = three_and_four();
  EXPECT_EQ(gradients.clip_by_norm(6).item(), 5);
  EXPECT_THAT(reals(gradients[0]), ElementsAre(3, 0));
  Gradients zero({"a"}, {f32({0, 0}, {2})});
  EXPECT_EQ(zero.clip_by_norm(0).item(), 0);
  EXPECT_THAT(reals(zero[0]), ElementsAre(0, 0));
}

TEST_F(GradientsTest, ClipRefusesANegativeNorm) {
  Gradients gradients = three_and_four();
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)gradients.clip_by_norm(-1); }),
              HasSubstr("a norm of -1"));
  EXPECT_THROW((void)gradients.clip_by_norm(std::numeric_limits<double>::quiet_NaN()),
               ArgumentError);
}

TEST_F(GradientsTest, PublishAndAdoptKeepTheValues) {
  Gradients gradients = three_and_four();
  gradients.publish();
  gradients.adopt();
  EXPECT_THAT(reals(gradients[0]), ElementsAre(3, 0));
}

}  // namespace
}  // namespace hearth
