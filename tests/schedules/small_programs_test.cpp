// Small programs with all their cuts: up to 8 ops over two tensors and a weight, every fuser on and
// off, the window ended after each op by a boundary or by time, on the cpu and on an asynchronous
// sim. Results equal those of ops that run singly; on the cpu to the bit.
// SMALL_PROGRAMS sets the number of each size (30 by default; 72,900 cover all programs of up to 2
// ops). SMALL_FIRST sets the first number.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>

#include "tests/runtime/stepped_runtime.hpp"
#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::live_tensors;
using testing::pass;
using testing::stepped;
using testing::SteppedOptions;
using testing::World;

constexpr int kMostOps = 8;
constexpr std::uint64_t kKinds = 15;

/// One op: its kind, its operands, and the life of its first operand.
struct SmallOp {
  std::uint64_t kind = 0;
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint64_t end = 0;  ///< 0: lives on; 1: ends with the op; 2: ends after the op.
};
using Program = std::vector<SmallOp>;

// Counts through all programs of a size: digit by digit, the first op fastest.
std::uint64_t take_digit(std::uint64_t& number, std::uint64_t count) {
  const std::uint64_t digit = number % count;
  number /= count;
  return digit;
}
Program program_of(std::uint64_t number, int ops) {
  Program program;
  program.reserve(static_cast<std::size_t>(ops));
  for (int i = 0; i < ops; ++i) {
    const auto known = static_cast<std::uint64_t>(i) + 2;
    SmallOp op;
    op.kind = take_digit(number, kKinds);
    op.a = take_digit(number, known);
    op.b = take_digit(number, known);
    op.end = take_digit(number, 3);
    program.push_back(op);
  }
  return program;
}
std::uint64_t program_count(int ops) {
  std::uint64_t count = 1;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(ops); ++i) {
    const std::uint64_t of_op = kKinds * (i + 2) * (i + 2) * 3;
    count = count > (std::uint64_t{1} << 62U) / of_op ? std::uint64_t{1} << 62U : count * of_op;
  }
  return count;
}

/// All values are [3, 3], except intermediate rows, so that any op may follow any other.
Tensor apply(std::uint64_t kind, Tensor a, const Tensor& b, const std::vector<Tensor>& inputs) {
  const Tensor& weight = inputs[2];
  switch (kind) {
    case 0:
      return std::move(a) + b;
    case 1:
      return std::move(a) * b;
    case 2:
      return relu(std::move(a));
    case 3:
      return tanh(std::move(a));
    case 4:
      return 0.5 - std::move(a);
    case 5: {
      const Tensor top = max(b, {-1}, {.keep_dims = true});
      return std::move(a) - top;
    }
    case 6:
      return softmax(std::move(a), -1);
    case 7: {
      Tensor total = sum(std::move(a), {-1}, {.keep_dims = true});
      return b + std::move(total);
    }
    case 8:
      return matmul(std::move(a), weight);
    case 9:
      return reshape(cumsum(std::move(a), 0), {3, 3});
    case 10:
      return transpose(std::move(a));
    case 11:
      return index_select(std::move(a), 0, inputs[3]);
    case 12:
      return embedding(reshape(std::move(a), {9}), inputs[4]);
    case 13:
      return attention(std::move(a), b, weight, {.causal = true});
    default:
      return where(std::move(a) < b, b, weight);
  }
}

enum class CutBy : std::uint8_t { boundary, time };

/// Every value that exists at the end, in the order of creation.
std::vector<double> run_program(const World& world,
                                const std::vector<Tensor>& inputs,
                                const Program& program,
                                std::size_t cut,
                                CutBy by) {
  std::vector<Tensor> values{inputs[0], inputs[1] + 0};
  for (std::size_t i = 0; i < program.size(); ++i) {
    const SmallOp& op = program[i];
    const auto alive = [&](std::uint64_t wanted) {
      while (!values[wanted].is_valid()) {
        wanted = (wanted + 1) % values.size();
      }
      return wanted;
    };
    const std::uint64_t a = alive(op.a);
    const Tensor other = values[alive(op.b)];
    Tensor first = op.end == 1 ? std::move(values[a]) : values[a];
    values.push_back(apply(op.kind, std::move(first), other, inputs));
    if (op.end != 0) {
      values[a] = Tensor();
    }
    if (i == cut && by == CutBy::boundary) {
      world.device.sync();
    } else if (i == cut) {
      pass(1ms);
    }
  }
  std::vector<double> seen;
  for (const Tensor& value : values) {
    if (value.is_valid()) {
      const std::vector<double> elements = cast(value, DType::f64).to_vector<double>();
      seen.insert(seen.end(), elements.begin(), elements.end());
    }
  }
  return seen;
}

/// Omits some fusers: groups that it refuses run as smaller groups, or singly.
class Fusers final : public testing::ForwardingBackend {
 public:
  struct Which {
    bool rows = true;
    bool anchors = true;
  };
  Fusers(std::unique_ptr<Backend> inner, Which which)
      : ForwardingBackend(std::move(inner)), which_(which) {}

  [[nodiscard]] Support supports(const KernelCall& call) const override {
    if (call.epilogue != nullptr && !which_.anchors) {
      return {.yes = false, .reason = "no anchors"};
    }
    return ForwardingBackend::supports(call);
  }

 private:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    const OpView& op = launch.call.op;
    if (!which_.rows && op.kind() == OpKind::expression &&
        op.attributes<ExpressionAttributes>().row_axes > 0) {
      return refused({.code = ErrorCode::unsupported, .text = "no rows"});
    }
    return ForwardingBackend::submit_one(launch, after);
  }

  Which which_;
};

struct Numbers {
  std::uint64_t per_size = 30;
  std::uint64_t first = 0;
};
Numbers wanted_numbers() {
  const auto number = [](const char* variable, std::uint64_t otherwise) {
    const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  return {number("SMALL_PROGRAMS", 30), number("SMALL_FIRST", 0)};
}

/// Programs spread evenly over all of a size, by a step coprime to the radices.
std::vector<Program> sampled_programs() {
  const Numbers numbers = wanted_numbers();
  std::vector<Program> programs;
  programs.reserve(numbers.per_size * kMostOps);
  for (int ops = 1; ops <= kMostOps; ++ops) {
    const std::uint64_t all = program_count(ops);
    const std::uint64_t count = std::min(all, numbers.per_size);
    // Odd, and no multiple of 3, 5 or 7: all programs are visited before one repeats.
    std::uint64_t step = std::max<std::uint64_t>(all / count / 210 * 210 + 11, 1);
    step = count == all ? 1 : step;
    for (std::uint64_t i = 0; i < count; ++i) {
      programs.push_back(program_of((numbers.first + i) * step, ops));
    }
  }
  return programs;
}

std::vector<Tensor> inputs_on(const Device& device, DType dtype) {
  Generator generator(5);
  std::vector<Tensor> inputs;
  inputs.reserve(5);
  for (int i = 0; i < 3; ++i) {
    inputs.push_back(random_normal(device, {3, 3}, generator, 0.1, 0.7, dtype));
  }
  const std::vector<std::int64_t> places{8, 0, 4, 4, 1, 7, 2, 2, 5};
  inputs.push_back(Tensor::from(device, std::vector<std::int64_t>{2, 0, 2}, {3}));
  inputs.push_back(Tensor::from(device, places, {3, 3}));
  device.sync();
  return inputs;
}

// The oracle behind the sim computes some single ops in f64, unlike every kernel.
bool are_same(const std::vector<double>& a, const std::vector<double>& b, bool to_the_bit) {
  return std::ranges::equal(a, b, [&](double x, double y) {
    const bool is_same = std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
    return is_same || (std::isnan(x) && std::isnan(y)) ||
           (!to_the_bit && std::abs(x - y) <= 1e-4 * (1 + std::abs(x)));
  });
}

SteppedOptions options_for(const std::string& device, Fusion fusion, Fusers::Which which) {
  SteppedOptions options{.devices = {{.name = device}}, .fusion = fusion};
  if (device.starts_with("sim")) {
    options.devices[0].sim_schedule = SimSchedule{.queues = 2, .reorder_seed = 3};
  }
  options.backends = detail::BackendFactory{.make = [which](const BackendRequest& request) {
    return std::make_unique<Fusers>(make_backend(request).value(), which);
  }};
  return options;
}

/// Runs each program without a cut, and with one after each of its ops, of both kinds. Returns the
/// number of fused ops.
std::uint64_t expect_same(const std::string& device, DType dtype, const std::vector<Program>& all) {
  std::vector<std::vector<double>> singly;
  singly.reserve(all.size());
  stepped(options_for(device, Fusion::off, {}), [&](const World& world) {
    const std::vector<Tensor> inputs = inputs_on(world.device, dtype);
    for (const Program& program : all) {
      singly.push_back(run_program(world, inputs, program, program.size(), CutBy::time));
    }
  });
  std::uint64_t fused = 0;
  for (const Fusers::Which which :
       {Fusers::Which{true, true}, {true, false}, {false, true}, {false, false}}) {
    stepped(options_for(device, Fusion::on, which), [&](const World& world) {
      const std::vector<Tensor> inputs = inputs_on(world.device, dtype);
      const std::int64_t live = live_tensors(world.device);
      for (std::size_t i = 0; i < all.size(); ++i) {
        for (std::size_t cut = 0; cut <= all[i].size(); ++cut) {
          const CutBy by = (cut + i) % 2 == 0 ? CutBy::boundary : CutBy::time;
          const std::vector<double> seen = run_program(world, inputs, all[i], cut, by);
          EXPECT_TRUE(are_same(singly[i], seen, device.starts_with("cpu")))
              << fmt::format("{}: program {} of {} ops, cut behind op {}, rows {}, anchors {}",
                             device,
                             i,
                             all[i].size(),
                             cut,
                             which.rows,
                             which.anchors);
        }
      }
      world.device.sync();
      EXPECT_EQ(live_tensors(world.device), live);
      fused += world.device.statistics().fused_ops;
    });
  }
  return fused;
}

TEST(SmallPrograms, HaveTheBitsOfSingleOpsWhateverFusesAndWhereverTheWindowEndsOnTheCpu) {
  const std::vector<Program> programs = sampled_programs();
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_GT(expect_same("cpu:0", dtype, programs), programs.size()) << name(dtype);
  }
}

TEST(SmallPrograms, HaveTheValuesOfSingleOpsOnAnAsynchronousSim) {
  const std::vector<Program> programs = sampled_programs();
  EXPECT_GT(expect_same("sim:0", DType::f32, programs), programs.size());
}

}  // namespace
}  // namespace hearth
