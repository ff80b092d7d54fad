// Rows and products in fused groups: which ops become one kernel, and that no bit of a result
// depends on it, on the oracle and on the cpu backend. Counts are taken in virtual time, so that no
// window ends before its program ends it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/explanation.hpp>

#include "tests/runtime/stepped_runtime.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::live_tensors;
using testing::pass;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;
using Tensors = std::vector<Tensor>;

SteppedOptions on(const std::string& device, Fusion fusion) {
  return {.devices = {{.name = device}}, .fusion = fusion, .round_intermediates = true};
}

/// The elements of a result as f64, which preserves all bits.
std::vector<double> values_of(const Tensor& tensor) {
  return cast(tensor, DType::f64).to_vector<double>();
}

/// On the cpu a fused op rounds like a single one. The oracle computes some single ops in f64,
/// unlike every kernel.
bool are_same(const std::vector<double>& a, const std::vector<double>& b, bool to_the_bit) {
  return std::ranges::equal(a, b, [&](double x, double y) {
    const bool is_same = std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
    return is_same || (!to_the_bit && std::abs(x - y) <= 1e-5 * (1 + std::abs(x)));
  });
}

struct Formula {
  const char* name;
  std::function<Tensor(const Tensors&)> run;
};

Tensor softmax_of_parts(const Tensor& x) {
  const Tensor top = max(x, {-1}, {.keep_dims = true});
  const Tensor shifted = exp(x - top);
  const Tensor total = sum(shifted, {-1}, {.keep_dims = true});
  return shifted / total;
}
Tensor log_softmax_of_parts(const Tensor& x) {
  const Tensor shifted = x - max(x, {-1}, {.keep_dims = true});
  return shifted - log(sum(exp(shifted), {-1}, {.keep_dims = true}));
}

// x [rows, width], weight and bias [width], scale [rows, 1].
const std::vector<Formula>& row_formulas() {
  static const std::vector<Formula> kAll = {
      {"softmax", [](const Tensors& t) { return softmax_of_parts(t[0]); }},
      {"log_softmax", [](const Tensors& t) { return log_softmax_of_parts(t[0]); }},
      {"layer_norm", [](const Tensors& t) { return layer_norm(t[0], t[1], t[2]); }},
      {"rms_norm", [](const Tensors& t) { return rms_norm(t[0], t[1]); }},
      {"scaled softmax",
       [](const Tensors& t) { return softmax(t[0] * t[3] + t[2], -1) * t[1] + t[3]; }},
      {"all folds",
       [](const Tensors& t) {
         const Tensor low = min(t[0] + t[2], {-1}, {.keep_dims = true});
         const Tensor sized = t[0] * 0.001 + 1;
         return (t[0] - low) * t[1] + prod(sized, {-1}, {.keep_dims = true}) * t[3] +
                mean(t[0], {-1}, {.keep_dims = true});
       }},
      {"rows alone",
       [](const Tensors& t) {
         const Tensor total = sum(square(t[0]), {-1});
         return sqrt(total + 1) * 2;
       }},
  };
  return kAll;
}

Tensors row_inputs(const Device& device, std::int64_t rows, std::int64_t width, DType dtype) {
  Generator generator(7);
  Tensors made{random_normal(device, {rows, width}, generator, 0.1, 1, dtype),
               random_normal(device, {width}, generator, 1, 0.3, dtype),
               random_normal(device, {width}, generator, 0, 0.3, dtype),
               random_normal(device, {rows, 1}, generator, 1, 0.2, dtype)};
  device.sync();
  return made;
}

// The first run makes the plan.
constexpr int kTimes = 2;

struct Ran {
  std::vector<double> values;
  DeviceStatistics statistics;
  std::int64_t live = 0;
};

template <class Program>
Ran run(const SteppedOptions& options, const Program& program) {
  Ran ran;
  stepped(options, [&](const World& world) {
    const std::int64_t before = live_tensors(world.device);
    for (int i = 0; i < kTimes; ++i) {
      const Tensor result = program(world.device);
      world.device.sync();
      ran.values = values_of(result);
    }
    world.device.sync();
    ran.statistics = world.device.statistics();
    ran.live = live_tensors(world.device) - before;
  });
  return ran;
}

/// Runs with fusion and without, on both kinds of device. Returns the number of fused kernels on
/// the cpu.
template <class Program>
std::uint64_t expect_same_bits(const Program& program, const std::string& what) {
  std::uint64_t fused = 0;
  for (const char* const device : {"cpu:0", "sim:0"}) {
    const Ran off = run(on(device, Fusion::off), program);
    const Ran fuses = run(on(device, Fusion::on), program);
    const bool is_cpu = device == std::string("cpu:0");
    EXPECT_TRUE(are_same(off.values, fuses.values, is_cpu)) << what << " on " << device;
    EXPECT_EQ(off.live, fuses.live) << what << " on " << device;
    fused = is_cpu ? fuses.statistics.fused_kernels : fused;
  }
  return fused;
}

TEST(FusedRows, NormsAndSoftmaxOfPlainOpsAreOneKernelThatReadsAndWritesOnce) {
  stepped(on("sim:0", Fusion::on), [](const World& world) {
    for (const std::int64_t width : {1, 2, 10}) {
      const Tensors t = row_inputs(world.device, 6, width, DType::f32);
      for (const Formula& formula : row_formulas()) {
        Tensor y;
        const Explanation said = explain(world.device, [&] { y = formula.run(t); });
        EXPECT_EQ(said.kernels.size(), 1U) << formula.name << " of " << width << "\n"
                                           << said.to_string();
        EXPECT_EQ(said.bytes_read() + said.bytes_written(), said.ideal_bytes) << formula.name;
      }
    }
  });
}

TEST(FusedRows, HaveTheBitsOfSingleOps) {
  std::uint64_t fused = 0;
  for (const std::int64_t width : {1, 2, 7, 16, 63, 255, 256, 1000, 2049}) {
    for (const std::int64_t rows : {1, 3, 33}) {
      for (const Formula& formula : row_formulas()) {
        const DType dtype = (width + rows) % 2 == 0 ? DType::f32 : DType::f64;
        fused += expect_same_bits(
            [&](const Device& device) {
              return formula.run(row_inputs(device, rows, width, dtype));
            },
            fmt::format("{} of [{}, {}] in {}", formula.name, rows, width, name(dtype)));
      }
    }
  }
  EXPECT_GE(fused, 9U * 3 * row_formulas().size()) << "nearly all of them, at least once";
}

TEST(FusedRows, RowsThatAreTooLongRunSingly) {
  for (const std::int64_t width : {8192, 8193}) {
    const Ran ran = run(on("cpu:0", Fusion::on), [&](const Device& device) {
      const Tensors t = row_inputs(device, 2, width, DType::f32);
      return softmax_of_parts(t[0]);
    });
    const Ran off = run(on("cpu:0", Fusion::off), [&](const Device& device) {
      const Tensors t = row_inputs(device, 2, width, DType::f32);
      return softmax_of_parts(t[0]);
    });
    EXPECT_TRUE(are_same(ran.values, off.values, true));
    EXPECT_EQ(off.statistics.kernels - ran.statistics.kernels, width > 8192 ? 2U : 8U);
  }
}

// Rows of several axes, dropped axes, broadcast and strided operands, an operand of one element a
// row.
TEST(FusedRows, OfAllShapesHaveTheBitsOfSingleOps) {
  std::uint64_t fused = 0;
  const std::vector<Formula> formulas = {
      {"two axes", [](const Tensors& t) { return layer_norm(t[0], {.axis_count = 2}) * 2; }},
      {"broadcast first",
       [](const Tensors& t) {
         return softmax(t[0] + reshape(t[1], {1, 5, 1}), -1);
       }},
      {"a strided operand",
       [](const Tensors& t) { return mean(square(t[0] * transpose(t[2], 0, 2)), {2}) + 1; }},
      {"expanded",
       [](const Tensors& t) {
         const Tensor row = expand(mean(t[0] * 2, {-1}, {.keep_dims = true}), {3, 5, 4});
         return t[0] - row;
       }},
      {"sum of all",
       [](const Tensors& t) {
         return sqrt(sum(square(t[0]), {0, 1, 2})) * 3;
       }},
      {"rows of one element first",
       [](const Tensors& t) {
         const Tensor scale = exp(t[3] * 0.5) + 1;
         return t[0] * scale - max(t[0], {-1}, {.keep_dims = true});
       }},
      {"a fill that is needed too",
       [](const Tensors& t) {
         const Tensor half = full(t[0].device(), {}, 0.5);
         const Tensor y = t[0] * half + 1;
         return y + sum(reshape(half, {1, 1}), {0, 1}) * half;
       }},
  };
  for (const Formula& formula : formulas) {
    fused += expect_same_bits(
        [&](const Device& device) {
          Generator generator(3);
          const Tensors t{random_normal(device, {3, 5, 4}, generator),
                          random_normal(device, {5}, generator),
                          random_normal(device, {4, 5, 3}, generator),
                          random_normal(device, {3, 5, 1}, generator)};
          return formula.run(t);
        },
        formula.name);
  }
  EXPECT_GE(fused, formulas.size());
}

// A single sum of such a tensor walks memory in the tensor's own order.
TEST(FusedRows, ATensorInAnotherOrderIsFoldedAsItIsAlone) {
  for (const std::int64_t rows : {3, 40}) {
    expect_same_bits(
        [&](const Device& device) {
          Generator generator(9);
          const Tensor x = transpose(random_normal(device, {500, rows}, generator));
          const Tensor z = random_normal(device, {rows, 500}, generator);
          device.sync();
          const Tensor total = sum(x, {-1}, {.keep_dims = true});
          return concat({z * total + 1, tanh(mean(x, {-1}, {.keep_dims = true})) * z}, 0);
        },
        fmt::format("{} rows", rows));
  }
}

// The bias ends in the group and has the result's shape, but all rows read it.
TEST(FusedRows, AResultDoesNotLieOnWhatOtherRowsRead) {
  for (const std::int64_t size : {3, 40, 300}) {
    expect_same_bits(
        [&](const Device& device) {
          const Tensors t = row_inputs(device, size, size, DType::f32);
          return sum(t[0] + t[1] * 2, {1});
        },
        fmt::format("rows of {} and as many", size));
    expect_same_bits(
        [&](const Device& device) {
          Generator generator(3);
          const Tensor x = random_normal(device, {size, 7, 3, size}, generator);
          const Tensor scale = random_normal(device, {size}, generator);
          device.sync();
          return mean(x * (scale + 1), {1, 2, 3});
        },
        fmt::format("larger rows of {} and as many", size));
  }
}

// A value of the row is read for the row's first part, and its bytes are then overwritten.
TEST(FusedRows, AValueOfARowReachesAllOfALongRow) {
  for (const std::int64_t width : {1000, 1024, 1500, 4000}) {
    expect_same_bits(
        [&](const Device& device) {
          const Tensor x = row_inputs(device, 5, width, DType::f32)[0];
          const Tensor total = sum(x, {-1}, {.keep_dims = true});
          return concat(
              {relu(exp(x / 3.0) * total), tanh(erf(x / 7.0) * max(x, {-1}, {.keep_dims = true}))},
              0);
        },
        fmt::format("rows of {}", width));
  }
}

TEST(FusedRows, GradientsHaveTheBitsOfSingleOps) {
  for (const Formula& formula : row_formulas()) {
    for (const std::int64_t width : {5, 300}) {
      expect_same_bits(
          [&](const Device& device) {
            const Tensors t = row_inputs(device, 9, width, DType::f32);
            const Tensors gradients =
                grad([&](const Tensors& x) { return sum(square(formula.run(x))); }, t);
            Tensors flat;
            for (const Tensor& each : gradients) {
              flat.push_back(reshape(each, {each.shape().element_count()}));
            }
            return concat(flat, 0);
          },
          formula.name);
    }
  }
}

// ---- products ----

TEST(FusedProducts, BiasAndGeluBehindAProductAreInItsKernel) {
  for (const char* const device : {"cpu:0", "sim:0"}) {
    stepped(on(device, Fusion::on), [](const World& world) {
      Generator generator(1);
      const Tensor x = random_normal(world.device, {40, 30}, generator);
      const Tensor w = random_normal(world.device, {30, 50}, generator);
      const Tensor b = random_normal(world.device, {50}, generator);
      Tensor y;
      const Explanation said = explain(world.device, [&] { y = gelu(matmul(x, w) + b); });
      EXPECT_EQ(said.kernels.size(), 1U) << said.to_string();
      EXPECT_EQ(said.bytes_read() + said.bytes_written(), said.ideal_bytes);
    });
  }
}

TEST(FusedProducts, HaveTheBitsOfSingleOps) {
  std::uint64_t fused = 0;
  struct Sizes {
    Shape a;
    Shape b;
    bool is_transposed = false;
  };
  const std::vector<Sizes> all = {{{1, 7}, {7, 300}},
                                  {{5, 33}, {33, 17}},
                                  {{40, 64}, {64, 40}},
                                  {{200, 3}, {3, 9}},
                                  {{64, 200}, {64, 200}, true},
                                  {{2, 20, 30}, {30, 25}},
                                  {{3, 20, 30}, {3, 30, 25}},
                                  {{4, 0}, {0, 6}},
                                  {{150, 400}, {400, 130}}};
  for (const Sizes& sizes : all) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
      fused += expect_same_bits(
          [&](const Device& device) {
            Generator generator(5);
            const Tensor a = random_normal(device, sizes.a, generator, 0, 0.3, dtype);
            const Tensor b = random_normal(device, sizes.b, generator, 0, 0.3, dtype);
            const Tensor right = sizes.is_transposed ? transpose(b) : b;
            const std::int64_t columns = right.shape()[right.shape().rank() - 1];
            const Tensor bias = random_normal(device, {columns}, generator, 0, 1, dtype);
            const Tensor product = matmul(a, right);
            const Tensor residual = ones_like(product) * 0.25;
            device.sync();
            const Tensor before = matmul(a, right) + bias;
            const Tensor active = before * 0.5 * (1 + erf(before * 0.7071067811865476));
            return concat({before, active + residual, product}, 0);
          },
          fmt::format("{} by {} in {}", sizes.a.to_string(), sizes.b.to_string(), name(dtype)));
    }
  }
  EXPECT_GE(fused, all.size() * 2);
}

// Some of these have no single step from row to row of all matrices.
TEST(FusedProducts, OfManyMatricesTakeOperandsThatLieAnyWay) {
  struct Operand {
    const char* name;
    std::function<Tensor(const Device&, Generator&)> make;
  };
  const auto normal = [](Shape shape) {
    return [shape](const Device& device, Generator& generator) {
      return random_normal(device, shape, generator);
    };
  };
  const std::vector<Operand> operands = {
      {"a matrix for all", normal({20, 25})},
      {"a column for all", normal({20, 1})},
      {"a row for each", normal({3, 1, 25})},
      {"a column for each", normal({3, 20, 1})},
      {"a number for each", normal({3, 1, 1})},
      {"turned",
       [](const Device& device, Generator& generator) {
         return transpose(random_normal(device, {3, 25, 20}, generator));
       }},
      {"in another order of matrices and rows",
       [](const Device& device, Generator& generator) {
         return transpose(random_normal(device, {20, 3, 25}, generator), 0, 1);
       }},
      {"each other row",
       [](const Device& device, Generator& generator) {
         return slice(random_normal(device, {3, 40, 25}, generator), 1, {.step = 2});
       }},
  };
  for (const Operand& operand : operands) {
    expect_same_bits(
        [&](const Device& device) {
          Generator generator(5);
          const Tensor a = random_normal(device, {3, 20, 30}, generator);
          const Tensor b = random_normal(device, {3, 30, 25}, generator);
          const Tensor beside = operand.make(device, generator);
          device.sync();
          return relu(matmul(a, b) + beside) * 2;
        },
        operand.name);
  }
}

// ---- ops between the ops of a group ----

// The product lies between two halves of a formula, reads a tensor whose last use is in the second
// half, and drops its own argument.
TEST(FusedRows, AnOpInBetweenFindsWhatItReads) {
  expect_same_bits(
      [](const Device& device) {
        const Tensor w = reshape(arange(device, 0, 9), {3, 3}).to(DType::f32);
        Tensor x = ones(device, {3, 3}) + w;
        device.sync();
        Tensor a = x + 1;
        const Tensor m = matmul(x, w);  // reads x, whose last reader comes later
        Tensor y = std::move(x) * a;
        a = Tensor();
        Tensor z = cumsum(y, 0);
        y = std::move(y) + 2;
        return std::move(y) * 3 + m + z;
      },
      "a product in between");
}

TEST(FusedRows, AViewThatIsNeededOutsideIsThere) {
  expect_same_bits(
      [](const Device& device) {
        const Tensor x = reshape(arange(device, 0, 12), {3, 4}).to(DType::f32);
        device.sync();
        const Tensor total = sum(x * 2, {-1}, {.keep_dims = true});  // [3, 1]
        const Tensor dropped = reshape(total, {3});                  // needed by an op of its own
        const Tensor centred = x * 2 - total;
        return concat({centred, expand(reshape(cumsum(dropped, 0), {3, 1}), {3, 4})}, 0);
      },
      "a view");
}

// ---- ends and cuts, exhaustively ----

/// One random op on [2, 3] or on vectors; an op that does not fit leaves the shape.
Tensor some_op(std::uint64_t kind, const Tensor& a, const Tensor& b) {
  const bool is_wide = a.shape() == Shape{2, 3};
  switch (kind) {
    case 0:
      return a * 0.5 + b * 0;
    case 1:
      return tanh(a);
    case 2:
      return is_wide ? a - mean(a, {-1}, {.keep_dims = true}) : a + 1;
    case 3:
      return is_wide ? softmax(a, -1) : square(a);
    case 4:
      return is_wide ? matmul(matmul(a, transpose(a)), a) : abs(a);
    case 5:
      return is_wide ? max(a, {-1}, {.keep_dims = true}) * b : a * b;
    default:
      return is_wide ? expand(sum(a, {-1}, {.keep_dims = true}), {2, 3}) : neg(a);
  }
}

enum class End : std::uint8_t { none, boundary, cut };

/// Eight ops; after each of them the window ends, is cut by time, or goes on.
Tensor eight_ops(const World& world, std::uint64_t program, const std::vector<End>& ends) {
  Tensors values{reshape(world.f32({0.5F, -1, 2, 3, -0.25F, 1}), {2, 3}), world.f32({1, 2, -1})};
  std::uint64_t choice = program * 2654435761U + 1;
  const auto some = [&](std::uint64_t shift) {
    return values[static_cast<std::size_t>((choice >> shift) % values.size())];
  };
  for (const End end : ends) {
    choice = choice * 6364136223846793005U + 1442695040888963407U;
    Tensor made = some_op((choice >> 40) % 7, some(20), some(30));
    if (made.shape() == Shape{2, 3} || made.shape() == Shape{3}) {
      values.push_back(std::move(made));
    }
    if (values.size() > 4) {
      values.erase(values.begin() + 2);  // a dropped handle
    }
    if (end == End::boundary) {
      world.device.sync();
    } else if (end == End::cut) {
      pass(1ms);
    }
  }
  Tensor all = zeros(world.device, {2, 3});
  for (const Tensor& value : values) {
    all = all + value;
  }
  return all;
}

/// Its results for `count` ways to end and cut its window, beginning with no end.
std::vector<std::vector<double>> results_of(std::uint64_t program, Fusion fusion, unsigned count) {
  std::vector<std::vector<double>> results;
  stepped(on("cpu:0", fusion), [&](const World& world) {
    for (unsigned mask = 0; mask < count; ++mask) {
      std::vector<End> ends;
      for (unsigned i = 0; i < 8; ++i) {
        const End end = (mask + i) % 2 == 0 ? End::boundary : End::cut;
        ends.push_back((mask >> i & 1U) != 0 ? end : End::none);
      }
      results.push_back(values_of(eight_ops(world, program, ends)));
    }
    world.device.sync();
    EXPECT_EQ(live_tensors(world.device), 0);
  });
  return results;
}

TEST(FusedRows, EveryEndAndCutOfEightOpsGivesTheSameBits) {
  constexpr std::uint64_t kPrograms = 12;
  for (std::uint64_t program = 0; program < kPrograms; ++program) {
    const std::vector<double> single = results_of(program, Fusion::off, 1)[0];
    for (const std::vector<double>& fused : results_of(program, Fusion::on, 256)) {
      ASSERT_TRUE(are_same(fused, single, true)) << "program " << program;
    }
  }
}

// A result that reads only single elements has all of its elements, whatever rows were computed
// beside it.
TEST(FusedRows, AResultOfSingleElementsIsWhole) {
  for (const char* device : {"reference:0", "cpu:0"}) {
    stepped(on(device, Fusion::on), [&](const World& world) {
      const Tensor three = full(world.device, {}, 3.0);
      const Tensor x = Tensor::from<float>(world.device, {1, 5, 2, 4}, {2, 2});
      world.device.sync();
      Tensor unneeded = sum(relu(x), {-1});  // rows that no op needs
      const Tensor alone = three - zeros(world.device, {2, 2});
      const Tensor beside = relu(x) + 1;
      unneeded = Tensor();
      world.device.sync();
      EXPECT_EQ(values_of(alone), (std::vector<double>{3, 3, 3, 3})) << device;
      EXPECT_EQ(values_of(beside), (std::vector<double>{2, 6, 3, 5})) << device;
      const Tensor rows = softmax_of_parts(x);  // rows that an op needs
      const Tensor again = three - zeros(world.device, {2, 2});
      const Tensor shifted = rows + three;
      world.device.sync();
      EXPECT_EQ(values_of(again), (std::vector<double>{3, 3, 3, 3})) << device;
      EXPECT_EQ(values_of(shifted).size(), 4U) << device;
    });
  }
}

// The incoming gradient is one number, so that a result has the shape of the rows but one value for
// each.
TEST(FusedRows, AResultThatRepeatsANumberAlongItsRowsIsWhole) {
  using Of = Tensor (*)(const Tensor&);
  const Of functions[] = {[](const Tensor& x) { return tanh(x); },
                          [](const Tensor& x) { return sigmoid(x); },
                          [](const Tensor& x) { return exp(x); },
                          [](const Tensor& x) { return relu(x); }};
  for (const Shape& shape : {Shape{1, 4}, Shape{16, 513}, Shape{3000, 5}, Shape{2, 3, 1000}}) {
    for (const Of f : functions) {
      for (const bool is_mean : {false, true}) {
        const auto program = [&](const Device& device) {
          Generator generator(3);
          const Tensor x = random_normal(device, shape, generator, 0, 0.1);
          device.sync();
          return grad(
              [&](const Tensors& in) {
                const Tensor of_rows = mean(in[0], -1, {.keep_dims = true});
                const Tensor y = in[0] * f(of_rows);
                return is_mean ? mean(y) : sum(y);
              },
              Tensors{x})[0];
        };
        for (const char* const device : {"cpu:0", "sim:0"}) {
          std::vector<double> values[2];
          for (const Fusion fusion : {Fusion::off, Fusion::on}) {
            stepped(on(device, fusion), [&](const World& world) {
              values[fusion == Fusion::on] = values_of(program(world.device));
            });
          }
          EXPECT_TRUE(are_same(values[0], values[1], std::string(device) == "cpu:0"))
              << shape.to_string() << " on " << device;
        }
      }
    }
  }
}

TEST(FusedRows, OfTwoZerosTheFirstIsTheLargest) {
  for (const char* device : {"reference:0", "cpu:0"}) {
    stepped(on(device, Fusion::on), [&](const World& world) {
      const Tensor x = Tensor::from<float>(world.device, {-0.0F, 0.0F}, {1, 2});
      const Tensor top = max(relu(x), {-1}, {.keep_dims = true}) * 1.0;
      EXPECT_TRUE(device != std::string("reference:0") || std::signbit(values_of(top)[0]));
      EXPECT_EQ(values_of(top)[0], 0);
    });
  }
}

}  // namespace
}  // namespace hearth
