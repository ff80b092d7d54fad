// einsum against plain loops over every index, its gradients, and its errors.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using testing::HostRandom;
using testing::HostTensor;
using testing::thrown_text;
using EinsumTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

// The sum over all values of all letters, for an equation with "->" and without dots.
std::vector<double> by_loops(const std::string& equation, const std::vector<HostTensor>& inputs) {
  std::vector<std::string> terms(1);
  for (const char letter : equation.substr(0, equation.find("->"))) {
    if (letter == ',') {
      terms.emplace_back();
    } else {
      terms.back() += letter;
    }
  }
  const std::string output = equation.substr(equation.find("->") + 2);
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    for (std::size_t axis = 0; axis < terms[i].size(); ++axis) {
      sizes[terms[i][axis]] = inputs[i].shape[static_cast<int>(axis)];
    }
  }
  std::int64_t out_count = 1;
  std::int64_t count = 1;
  for (const auto& [letter, size] : sizes) {
    count *= size;
    out_count *= output.find(letter) == std::string::npos ? 1 : size;
  }
  std::vector<double> result(static_cast<std::size_t>(out_count));
  for (std::int64_t number = 0; number < count; ++number) {
    std::map<char, std::int64_t> at;
    std::int64_t rest = number;
    for (const auto& [letter, size] : sizes) {
      at[letter] = rest % size;
      rest /= size;
    }
    const auto place = [&](const std::string& term) {
      std::int64_t index = 0;
      for (const char letter : term) {
        index = index * sizes[letter] + at[letter];
      }
      return static_cast<std::size_t>(index);
    };
    double product = 1;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      product *= inputs[i].values[place(terms[i])];
    }
    result[place(output)] += product;
  }
  return result;
}

TEST_F(EinsumTest, IsTheSumOverAllIndices) {
  const std::map<char, std::int64_t> sizes{{'a', 2}, {'b', 3}, {'c', 1}, {'d', 4}, {'e', 2}};
  HostRandom random(8);
  for (const std::string equation :
       {"ab->ab",       "ab->ba",       "ab->a",        "ab->",          "aa->a",    "aa->",
        "aab->ba",      "abab->ba",     "ab,bd->ad",    "ab,db->da",     "a,b->ab",  "a,a->",
        "a,a->a",       "eab,ebd->ead", "aeb,bed->eda", "ab,ab->a",      "ab,b->ab", "abd,a->d",
        "ac,cb->ab",    "ab,d->ad",     "aab,bd->da",   "ab,bd,de->ae",  "ab,a,b->", "ab,b,ad->d",
        "abd,eb,e->da", "ae,ea->ea",    "abde->edba",   "eabd,ebda->dab"}) {
    std::vector<HostTensor> inputs;
    Shape shape;
    for (const char letter : equation.substr(0, equation.find("->")) + ",") {
      if (letter == ',') {
        inputs.push_back(random.signed_values(shape));
        shape = {};
      } else {
        shape.push_back(sizes.at(letter));
      }
    }
    std::vector<Tensor> tensors;
    for (const HostTensor& input : inputs) {
      tensors.push_back(input.on(device()));
    }
    const std::vector<double> want = by_loops(equation, inputs);
    const std::vector<double> got = reals(einsum(equation, tensors));
    ASSERT_EQ(got.size(), want.size()) << equation;
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], want[i], 1e-12) << equation << " at " << i;
    }
    check_gradients(
        device(), [&](const Tensors& in) { return einsum(equation, in); }, inputs);
  }
}

TEST_F(EinsumTest, DotsStandForAxesThatBroadcast) {
  const Tensor a = counting({2, 3, 4});
  const Tensor b = counting({4, 5});
  EXPECT_EQ(reals(einsum("...ij,jk->...ik", {a, b})), reals(matmul(a, b)));
  EXPECT_EQ(reals(einsum("i...->...i", {a})), reals(permute(a, {1, 2, 0})));
  const Tensor one = counting({1, 4, 5});
  EXPECT_EQ(reals(einsum("...ij,...jk", {a, one})), reals(matmul(a, one)));
  EXPECT_EQ(reals(einsum("...,...->...", {a, counting({3, 1})})), reals(a * counting({3, 1})));
  EXPECT_EQ(einsum("...i->...", {a}).shape(), (Shape{2, 3}));
}

TEST_F(EinsumTest, WithoutAnArrowTheLettersThatOccurOnceRemain) {
  EXPECT_THAT(reals(einsum("ba", {counting({2, 2})})), ElementsAre(0, 2, 1, 3));
  EXPECT_EQ(reals(einsum(" ij , jk ", {counting({2, 2}), counting({2, 2})})),
            reals(matmul(counting({2, 2}), counting({2, 2}))));
  EXPECT_EQ(einsum("ii", {counting({3, 3})}).item(), 12);
}

TEST_F(EinsumTest, TakesIntegersWhereNothingIsSummedByAProduct) {
  EXPECT_THAT(integers(einsum("i,j->ij", {i64({1, 2}, {2}), i64({3, 4}, {2})})),
              ElementsAre(3, 4, 6, 8));
}

TEST_F(EinsumTest, RefusesTypesWithTheEquationAndTheShapesThatItWasGiven) {
  const auto text = [&](std::string_view equation, const Tensors& in) {
    return thrown_text<DtypeError>([&] { (void)einsum(equation, in); });
  };
  const Tensor whole = i64({1, 2}, {2});
  EXPECT_EQ(text("i,i->", {whole, whole}),
            "einsum: \"i,i->\": products that are summed over i take floats, got i64[2], i64[2]: "
            "cast first");
  EXPECT_EQ(text("i,j->ij", {whole > 0, whole > 0}),
            "einsum: \"i,j->ij\": takes no products of bools, got bool[2], bool[2]: logical_and is "
            "one, or cast first");
}

TEST_F(EinsumTest, RefusesWhatDoesNotFit) {
  const Tensor x = counting({2, 3});
  const auto text = [&](std::string_view equation, const Tensors& in) {
    return thrown_text<ArgumentError>([&] { (void)einsum(equation, in); });
  };
  EXPECT_EQ(text("ij,jk->ik", {x}), "einsum: \"ij,jk->ik\": names 2 operands, got 1");
  EXPECT_EQ(text("i->i", {x}), "einsum: \"i->i\": \"i\" does not name the axes of [2, 3]");
  EXPECT_EQ(text("ij,jk->ik", {x, x}), "einsum: \"ij,jk->ik\": j has the sizes 3 and 2");
  EXPECT_EQ(text("ii->i", {x}), "einsum: \"ii->i\": i has the sizes 2 and 3");
  EXPECT_EQ(text("ij->ik", {x}),
            "einsum: \"ij->ik\": the result has a letter twice, or one that is new");
  EXPECT_EQ(text("i1->i", {x}), "einsum: \"i1->i\": '1' is no letter");
  EXPECT_EQ(text("..j->j", {x}), "einsum: \"..j->j\": dots come as one group of three");
  EXPECT_EQ(text("", {}), "einsum: \"\": names 1 operands, got 0");
}

}  // namespace
}  // namespace hearth
