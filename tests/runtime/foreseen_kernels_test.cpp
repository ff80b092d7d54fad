// A device that compiles a kernel at its first request: the ops that wait for a compilation, and
// the requests before their turn.
#include "stepped_runtime.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_table.hpp>

#include "tests/support/forwarding_backend.hpp"

namespace hearth {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::World;

/// The key of a kernel: a kind, and the layouts of its operands.
std::string kernel_of(const KernelCall& call) {
  std::string text(call.expression != nullptr ? "group" : name(call.op.kind()));
  for (const TensorView& view : call.inputs) {
    const std::span strides(view.strides());
    text += fmt::format(
        " {}{}", view.shape().dims(), strides.first(static_cast<std::size_t>(view.shape().rank())));
  }
  return text;
}

struct Compiled {
  std::set<std::string> made;
  std::vector<std::string> foreseen;
  std::vector<std::string> waited;  ///< Kernels for whose compilation an op waited.
};

class CompilingBackend final : public testing::ForwardingBackend {
 public:
  CompilingBackend(std::unique_ptr<Backend> inner, Compiled& compiled)
      : ForwardingBackend(std::move(inner)), compiled_(compiled) {}

  void precompile(const KernelCall& call) override {
    compiled_.foreseen.push_back(kernel_of(call));
    compiled_.made.insert(kernel_of(call));
  }
  [[nodiscard]] bool has_kernel(const KernelCall& call) override {
    return compiled_.made.contains(kernel_of(call));
  }
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    const std::string kernel = kernel_of(launch.call);
    if (!compiled_.made.contains(kernel)) {
      if (launch.is_deferrable) {
        Issue issue = refused({.code = ErrorCode::unsupported, .text = "it is being compiled"});
        issue.is_compiling = true;
        return issue;
      }
      compiled_.made.insert(kernel);
      compiled_.waited.push_back(kernel);
    }
    return ForwardingBackend::submit_one(launch, after);
  }

 private:
  Compiled& compiled_;
};

class ForeseenKernels : public ::testing::Test {
 protected:
  template <class Body>
  void run(Body body) {
    testing::SteppedOptions options{
        .fusion = Fusion::on,
        .backends = detail::BackendFactory{.make = [this](const BackendRequest& request) {
          return std::make_unique<CompilingBackend>(testing::make_sim(request, {}), compiled_);
        }}};
    options.devices[0].sim_schedule = SimSchedule{.queues = 2};
    testing::stepped(options, body);
  }
  static Tensor counting(const World& world, const Shape& shape) {
    return reshape(arange(world.device, 0, static_cast<double>(shape.element_count())), shape);
  }

  Compiled compiled_;
};

TEST_F(ForeseenKernels, AreThoseOfTheRecordsBehindTheOneThatWaits) {
  run([&](const World& world) {
    const Tensor x = counting(world, {2, 3});
    const Tensor w = counting(world, {2, 3});
    EXPECT_EQ(sum(x + w).item(), 30);  // they are compiled
    compiled_ = {};
    const Tensor y = cumsum(x, 1);
    const Tensor product = matmul(y, transpose(w));
    const Tensor largest = topk(product, 1).values;
    EXPECT_THAT(largest.to_vector<float>(), ElementsAre(19, 97));
    // The layout of the transposed matrix was known before the matrix was computed.
    EXPECT_THAT(compiled_.waited, ElementsAre("cumsum [2, 3][3, 1]"));
    EXPECT_THAT(compiled_.foreseen,
                ElementsAre("matmul [2, 3][3, 1] [3, 2][1, 3]", "topk [2, 2][2, 1]"));
  });
}

TEST_F(ForeseenKernels, AreAskedForOnceAndLeaveOutWhatAGroupWillTake) {
  run([&](const World& world) {
    const Tensor x = counting(world, {4});
    EXPECT_EQ(sum(x).item(), 6);
    compiled_ = {};
    const Tensor a = cumsum(x, 0);
    const Tensor b = a * 2 + 1;
    const Tensor c = cumsum(reshape(b, {2, 2}), 0);
    EXPECT_THAT(c.to_vector<float>(), ElementsAre(1, 3, 8, 16));
    EXPECT_THAT(compiled_.foreseen, Not(Contains("mul [4][1]")));
    EXPECT_THAT(compiled_.foreseen, Contains("cumsum [2, 2][2, 1]").Times(1));
    EXPECT_THAT(compiled_.waited, ElementsAre("cumsum [4][1]", "group [4][1]"));
  });
}

TEST_F(ForeseenKernels, AGroupsOwnIsWaitedForWhereItsOpsHaveNone) {
  run([&](const World& world) {
    const Tensor x = counting(world, {4});
    EXPECT_EQ(sum(x).item(), 6);
    compiled_ = {};
    const Tensor b = exp(x * 0) + 1;
    EXPECT_THAT(b.to_vector<float>(), ElementsAre(2, 2, 2, 2));
    EXPECT_THAT(compiled_.waited, ElementsAre("group [4][1]"));
    EXPECT_EQ(world.device.statistics().early_groups, 0U);
  });
}

TEST_F(ForeseenKernels, AGroupWhoseOpsHaveTheirsDoesNotWait) {
  run([&](const World& world) {
    const Tensor x = counting(world, {4});
    static_cast<void>((x * 0).to_vector<float>());
    static_cast<void>(exp(x).to_vector<float>());
    static_cast<void>((x + 1).to_vector<float>());
    compiled_.waited.clear();
    const Tensor b = exp(x * 0) + 1;
    EXPECT_THAT(b.to_vector<float>(), ElementsAre(2, 2, 2, 2));
    EXPECT_THAT(compiled_.waited, IsEmpty());
    EXPECT_EQ(world.device.statistics().early_groups, 1U);
  });
}

}  // namespace
}  // namespace hearth
