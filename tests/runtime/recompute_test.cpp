// checkpoint() and RecomputeScope: gradients, random numbers and hooks equal those without them,
// bit for bit. Memory shrinks by the values that are not kept, and mistakes in a second run have
// error texts.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/recompute.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>

namespace hearth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::thrown_text;
using Tensors = std::vector<Tensor>;

constexpr std::int64_t kWidth = 64;
constexpr std::int64_t kBytes = kWidth * kWidth * 4;  // of one value
constexpr int kDepth = 8;

Tensor block(const Tensor& x, const Tensor& weight) {
  return sigmoid(tanh(exp(matmul(x, weight) * 0.1)));
}
Tensor norm_block(const Tensor& x, const Tensor& weight, Generator& generator) {
  const Tensor scaled = layer_norm(matmul(x, weight) + x);
  return dropout(gelu(scaled) + silu(transpose(scaled)) * scaled, 0.3, generator);
}

class RecomputeTest : public ::testing::Test {
 protected:
  explicit RecomputeTest(Fusion fusion = Fusion::on)
      : runtime_({.devices = {{.name = "cpu:0"}}, .fusion = fusion}) {
    Generator generator(7);
    x_ = random_normal(device(), {kWidth, kWidth}, generator);
    for (int i = 0; i < kDepth; ++i) {
      weights_.push_back(random_normal(device(), {kWidth, kWidth}, generator, 0, 0.1));
    }
  }
  [[nodiscard]] Device device() const { return runtime_.device("cpu:0"); }
  [[nodiscard]] Tensors with_input() const {
    Tensors all = weights_;
    all.push_back(x_);
    return all;
  }

  /// Applies `step` through all weights; the last of the tensors is the input.
  template <class Step>
  static Tensor through(const Tensors& in, const Step& step) {
    Tensor x = in.back();
    for (std::size_t i = 0; i + 1 < in.size(); ++i) {
      x = step(x, in[i]);
    }
    return mean(x * x);
  }
  static std::vector<std::vector<std::byte>> bytes_of(const Tensors& tensors) {
    std::vector<std::vector<std::byte>> bytes;
    for (const Tensor& tensor : tensors) {
      bytes.push_back(tensor.read_bytes().get());
    }
    return bytes;
  }

  Runtime runtime_;
  Tensor x_;
  Tensors weights_;
};

TEST_F(RecomputeTest, GradientsAreThoseWithoutIt) {
  const auto plain = grad([](const Tensors& in) { return through(in, block); }, with_input());
  const auto checkpointed = grad(
      [](const Tensors& in) {
        return through(in,
                       [](const Tensor& x, const Tensor& w) { return checkpoint(block, x, w); });
      },
      with_input());
  EXPECT_EQ(bytes_of(checkpointed), bytes_of(plain));
}

TEST_F(RecomputeTest, TheSecondRunDrawsTheSameNumbers) {
  const auto gradients = [&](Generator& generator, bool is_checkpointed) {
    return bytes_of(grad(
        [&](const Tensors& in) {
          return through(in, [&](const Tensor& x, const Tensor& w) {
            return is_checkpointed ? checkpoint(norm_block, x, w, std::ref(generator))
                                   : norm_block(x, w, generator);
          });
        },
        with_input()));
  };
  Generator first(3);
  Generator second(3);
  EXPECT_EQ(gradients(second, true), gradients(first, false));
  EXPECT_EQ(second.counter(), first.counter()) << "the second run takes nothing from the generator";
  EXPECT_EQ(gradients(second, true), gradients(first, false)) << "and once more";
}

TEST_F(RecomputeTest, CallsMayBeNested) {
  const auto pair = [](const Tensor& x, const Tensor& a, const Tensor& b, Generator& generator) {
    const Tensor middle = checkpoint(norm_block, x, a, std::ref(generator));
    const Tensor last = checkpoint(norm_block, middle, b, std::ref(generator));
    return last + dropout(x, 0.5, generator);
  };
  const auto plain = [](const Tensor& x, const Tensor& a, const Tensor& b, Generator& generator) {
    const Tensor middle = norm_block(x, a, generator);
    const Tensor last = norm_block(middle, b, generator);
    return last + dropout(x, 0.5, generator);
  };
  const auto gradients = [&](bool is_checkpointed) {
    Generator generator(11);
    return bytes_of(grad(
        [&](const Tensors& in) {
          Tensor x = in.back();
          for (std::size_t i = 0; i + 2 < in.size(); i += 2) {
            x = is_checkpointed ? checkpoint(pair, x, in[i], in[i + 1], std::ref(generator))
                                : plain(x, in[i], in[i + 1], generator);
          }
          return mean(square(x));
        },
        with_input()));
  };
  EXPECT_EQ(gradients(true), gradients(false));
}

TEST_F(RecomputeTest, AFunctionMayReturnSeveralTensors) {
  const auto halves = [](const Tensor& x, const Tensor& w) {
    const Tensor whole = tanh(matmul(x, w));
    std::vector<Tensor> parts = split(whole, kWidth / 2);
    parts.push_back(x);          // unchanged
    parts.push_back(whole > 0);  // without a gradient
    return parts;
  };
  const auto loss = [](const Tensors& parts) {
    return sum(square(parts[1])) + sum(parts[2] * parts[3]);  // parts[0] is not used
  };
  const Tensors in{x_, weights_[0]};
  const auto plain = grad([&](const Tensors& of) { return loss(halves(of[0], of[1])); }, in);
  const auto checkpointed =
      grad([&](const Tensors& of) { return loss(checkpoint(halves, of[0], of[1])); }, in);
  EXPECT_EQ(bytes_of(checkpointed), bytes_of(plain));
}

// Passed by address, because captures are not allowed.
struct Runs {
  int count = 0;
  int recomputed = 0;
};
Tensor counted(Runs* runs, const Tensor& x) {
  ++runs->count;
  runs->recomputed += is_recomputing() ? 1 : 0;
  return exp(x);
}

TEST_F(RecomputeTest, TheFunctionRunsASecondTimeOnlyWhereItsGradientIsNeeded) {
  Runs runs;
  EXPECT_EQ(checkpoint(counted, &runs, x_).shape(), x_.shape());
  EXPECT_EQ(runs.count, 1) << "no grad call";
  (void)grad([&](const Tensors& in) { return sum(checkpoint(counted, &runs, in[0])); }, {x_});
  EXPECT_EQ(runs.count, 3);
  EXPECT_EQ(runs.recomputed, 1);
  (void)grad(
      [&](const Tensors& in) {
        (void)checkpoint(counted, &runs, in[0]);
        (void)checkpoint(counted, &runs, x_);
        return sum(in[0]);
      },
      {x_});
  EXPECT_EQ(runs.count, 5) << "nothing depends on them";
  EXPECT_FALSE(is_recomputing());
}

TEST_F(RecomputeTest, TheHookGetsEachGradientOnceAndComplete) {
  const auto seen_by_hook = [&](bool is_checkpointed) {
    struct Model {
      Tensor inside;
      Tensor both;
      Tensor outside;
      void visit(const std::string&, const std::function<void(const std::string&, Tensor&)>& fn) {
        fn("inside", inside);
        fn("both", both);
        fn("outside", outside);
      }
    };
    const Model model{weights_[0], weights_[1], weights_[2]};
    std::vector<std::pair<std::size_t, std::vector<float>>> seen;
    (void)value_and_grad(
        model,
        [&](const Model& m) {
          const Tensor h = block(x_, m.both);
          const auto inner = [](const Tensor& in, const Tensor& a, const Tensor& b) {
            return block(block(in, a), b);
          };
          const Tensor y =
              is_checkpointed ? checkpoint(inner, h, m.inside, m.both) : inner(h, m.inside, m.both);
          return mean(matmul(y, m.outside));
        },
        [&](std::size_t index, const Tensor& gradient) {
          seen.emplace_back(index, gradient.to_vector<float>());
        });
    return seen;
  };
  const auto plain = seen_by_hook(false);
  const auto checkpointed = seen_by_hook(true);
  ASSERT_EQ(plain.size(), 3U);
  EXPECT_EQ(checkpointed, plain);
}

// ---- mistakes in a second run ----

TEST_F(RecomputeTest, AnotherResultIsRefused) {
  Runs runs;
  const auto grows = [](Runs* of, const Tensor& x) {
    return of->count++ == 0 ? exp(x) : exp(concat({x, x}));
  };
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              (void)grad([&](const Tensors& in) { return sum(checkpoint(grows, &runs, in[0])); },
                         {x_});
            }),
            "checkpoint: the function returned f32[64, 64] first, and f32[128, 64] when it ran "
            "again for the gradient");
}

TEST_F(RecomputeTest, OtherNumbersAreRefused) {
  for (const int first_draws : {1, 2, 3}) {
    Runs runs;
    Generator generator(1);
    const auto draws = [](Runs* of, int first, const Tensor& x, Generator& from) {
      Tensor y = x;
      for (int i = 0; i < (of->count == 0 ? first : 2); ++i) {
        y = dropout(y, 0.5, from);
      }
      ++of->count;
      return y;
    };
    const auto run = [&] {
      (void)grad(
          [&](const Tensors& in) {
            return sum(checkpoint(draws, &runs, first_draws, in[0], std::ref(generator)));
          },
          {x_});
    };
    if (first_draws == 2) {
      EXPECT_NO_THROW(run());
    } else {
      EXPECT_EQ(thrown_text<ArgumentError>(run),
                "checkpoint: the function drew other random numbers when it ran again for the "
                "gradient");
    }
  }
}

TEST_F(RecomputeTest, ATensorThatLeavesTheFunctionByAnotherWayIsRefused) {
  Tensor leaked;
  const auto leaks = [](Tensor* out, const Tensor& x) {
    *out = exp(x);
    return tanh(*out);
  };
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              (void)grad(
                  [&](const Tensors& in) {
                    const Tensor y = checkpoint(leaks, &leaked, in[0]);
                    return sum(y * leaked);
                  },
                  {x_});
            }),
            "checkpoint: a tensor that the function made was used outside of it: return it from "
            "the function");
}

TEST_F(RecomputeTest, AMistakeInTheSecondRunNamesItsLine) {
  Runs runs;
  const auto fails = [](Runs* of, const Tensor& x) {
    Tensor y = exp(x);
    if (of->count++ == 1) {
      y = y + reshape(y, {-1});  // the line of the error
    }
    return y;
  };
  const auto line = static_cast<std::uint32_t>(__LINE__ - 4);
  try {
    (void)grad([&](const Tensors& in) { return sum(checkpoint(fails, &runs, in[0])); }, {x_});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ShapeError& error) {
    EXPECT_THAT(error.error().text, HasSubstr("add: shapes do not broadcast"));
    EXPECT_EQ(error.error().location.line, line);
  }
}

TEST_F(RecomputeTest, AFunctionThatThrowsLeavesTheTapeAsItWas) {
  const auto throws = [](const Tensor& x) -> Tensor { return matmul(x, reshape(exp(x), {-1, 1})); };
  const auto gradients = grad(
      [&](const Tensors& in) {
        EXPECT_THROW((void)checkpoint(throws, in[0]), ShapeError);
        return sum(checkpoint([](const Tensor& x) { return exp(x); }, in[0]) * 2);
      },
      {x_});
  const auto plain = grad([](const Tensors& in) { return sum(exp(in[0]) * 2); }, {x_});
  EXPECT_EQ(bytes_of(gradients), bytes_of(plain));
}

// ---- a budget ----

TEST_F(RecomputeTest, ABudgetChangesNoBit) {
  const auto gradients = [&] {
    Generator generator(5);
    return bytes_of(grad(
        [&](const Tensors& in) {
          return through(in, [&](const Tensor& x, const Tensor& w) {
            return norm_block(block(x, w), w, generator);
          });
        },
        with_input()));
  };
  const auto plain = gradients();
  for (const std::int64_t kept : {std::int64_t{0}, 7 * kBytes, 40 * kBytes, 1000 * kBytes}) {
    const RecomputeScope scope({.kept_bytes = kept});
    EXPECT_EQ(gradients(), plain) << kept;
    if (kept == 1000 * kBytes) {
      EXPECT_EQ(scope.report().dropped_bytes, 0);
      EXPECT_LE(scope.report().peak_kept_bytes, kept);
    } else {
      EXPECT_GT(scope.report().recomputed_op_count, 0) << kept;
    }
  }
}

TEST_F(RecomputeTest, ABudgetAndCheckpointsGoTogether) {
  const auto gradients = [&](bool is_checkpointed) {
    Generator generator(5);
    return bytes_of(grad(
        [&](const Tensors& in) {
          return through(in, [&](const Tensor& x, const Tensor& w) {
            const Tensor y = block(x, w);
            return is_checkpointed ? checkpoint(norm_block, y, w, std::ref(generator))
                                   : norm_block(y, w, generator);
          });
        },
        with_input()));
  };
  const auto plain = gradients(false);
  for (const std::int64_t kept : {std::int64_t{0}, 5 * kBytes}) {
    const RecomputeScope scope({.kept_bytes = kept});
    EXPECT_EQ(gradients(true), plain);
  }
}

TEST_F(RecomputeTest, ScopesNestAndEnd) {
  const auto run = [&] {
    (void)grad([](const Tensors& in) { return through(in, block); }, with_input());
  };
  const RecomputeScope outer({.kept_bytes = 0});
  {
    const RecomputeScope inner({.kept_bytes = 1000 * kBytes});
    run();
    EXPECT_EQ(inner.report().dropped_bytes, 0);
    EXPECT_EQ(outer.report().peak_kept_bytes, 0) << "the innermost one counts";
  }
  run();
  EXPECT_GT(outer.report().dropped_bytes, 0);
  EXPECT_EQ(thrown_text<ArgumentError>([] { const RecomputeScope bad({.kept_bytes = -1}); }),
            "RecomputeScope: kept_bytes is -1, below 0");
}

// ---- memory ----

// Without fusion, so that only the tape's values and the operands of the running op are live.
class RecomputeMemoryTest : public RecomputeTest {
 protected:
  RecomputeMemoryTest() : RecomputeTest(Fusion::off) {}

  /// Live values at the peak of one grad call, beyond those before.
  template <class Step>
  [[nodiscard]] double peak_values(const Step& step) {
    device().sync();
    const std::int64_t before = device().memory().live_bytes;
    device().reset_peak_memory();
    {
      const auto gradients =
          grad([&](const Tensors& in) { return through(in, step); }, with_input());
      device().sync();
    }
    const std::int64_t peak = device().memory().peak_live_bytes - before;
    return static_cast<double>(peak) / static_cast<double>(kBytes);
  }
};

// A block keeps exp, tanh and sigmoid; at the end there are as many gradients as weights, and the
// input's.
TEST_F(RecomputeMemoryTest, PeaksGoDownByWhatIsNotKept) {
  constexpr double kAtWork = 8;  // gradients in progress, and operands and results of an op
  const double plain = peak_values(block);
  EXPECT_GE(plain, 3 * kDepth);
  const double checkpointed =
      peak_values([](const Tensor& x, const Tensor& w) { return checkpoint(block, x, w); });
  EXPECT_LE(checkpointed, kDepth + 3 + kAtWork) << "its input a block, and what one block keeps";
  EXPECT_LE(checkpointed, plain - 2 * kDepth + kAtWork);
  const RecomputeScope scope({.kept_bytes = 0});
  const double in_budget = peak_values(block);
  EXPECT_LE(in_budget, kDepth + 3 + kAtWork) << "exp a block, of which the rest is made";
  const RecomputeReport report = scope.report();
  EXPECT_EQ(report.dropped_bytes, 2 * kDepth * kBytes) << "tanh and sigmoid of each block";
  EXPECT_EQ(report.recomputed_op_count, 2 * kDepth);
  EXPECT_LE(report.peak_kept_bytes, (kDepth + 1) * kBytes + 64);
}

}  // namespace
}  // namespace hearth
