#include "random_program.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/stream.hpp>
#include <hearth/runtime/update_group.hpp>

namespace hearth::testing {
namespace {

class Run {
 public:
  Run(const RandomProgram& program, const Device& device, double noise, std::uint64_t noise_seed)
      : device_(device), random_(program.seed), noise_(noise), noise_random_(noise_seed) {
    for (int i = 0; i < kStreams; ++i) {
      streams_.emplace_back(device);
    }
    const int inputs = 2 + pick(3);
    for (int i = 0; i < inputs; ++i) {
      live_.push_back(make_input(random_shape()));
    }
    ops_ = 4 + pick(program.max_ops - 3);
  }

  std::vector<std::vector<double>> finish() {
    for (int i = 0; i < ops_; ++i) {
      const StreamScope scope(streams_[static_cast<std::size_t>(pick(kStreams))]);
      step();
    }
    std::vector<std::vector<double>> values;
    for (const Tensor& tensor : live_) {
      values.push_back(cast(tensor, DType::f64).to_vector<double>());
    }
    return values;
  }

 private:
  static constexpr int kStreams = 3;
  static constexpr std::int64_t kMostElements = 600;

  int pick(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  double real() { return static_cast<double>(random_() >> 11U) * 0x1p-53 * 4 - 2; }

  Shape random_shape() {
    static constexpr std::array<std::int64_t, 6> kSizes{1, 2, 3, 5, 7, 4};
    Shape shape;
    const int rank = pick(4);
    for (int i = 0; i < rank; ++i) {
      shape.push_back(pick(40) == 0 ? 0 : kSizes[static_cast<std::size_t>(pick(6))]);
    }
    return shape;
  }

  Tensor make_input(const Shape& shape) {
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    std::uniform_real_distribution<double> disturbance(-1, 1);
    for (float& value : values) {
      value = static_cast<float>(real());
      value = static_cast<float>(static_cast<double>(value) *
                                 (1 + noise_ * disturbance(noise_random_)));
    }
    return Tensor::from(device_, std::move(values), shape);
  }

  std::size_t any() { return static_cast<std::size_t>(pick(static_cast<int>(live_.size()))); }
  const Tensor& some() { return live_[any()]; }

  void keep(Tensor tensor) {
    if (tensor.element_count() > kMostElements) {
      tensor = mean(std::move(tensor), {0}, true);
    }
    // Old ones go now and then, in any order, and copies of handles come and go.
    if (live_.size() > 12 || (live_.size() > 3 && pick(4) == 0)) {
      const std::size_t victim = any();
      live_[victim] = std::move(tensor);
    } else {
      live_.push_back(std::move(tensor));
    }
    if (pick(6) == 0) {
      live_.push_back(some());
    }
  }

  // Half of the time the operand is moved in, which may reuse its memory.
  Tensor consume() {
    if (live_.size() < 3 || pick(2) == 0) {
      return some();
    }
    const std::size_t index = any();
    Tensor taken = std::move(live_[index]);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
    return taken;
  }

  void step() {
    switch (pick(8)) {
      case 0:
      case 1:
        return keep(unary(consume()));
      case 2:
        return keep(binary());
      case 3:
        return keep(view(consume()));
      case 4:
        return keep(reduce(consume()));
      case 5:
        return keep(contract());
      case 6:
        return train(some());
      default:
        return keep(mixed());
    }
  }

  // A sweep, and in half of the cases a step with what it gives.
  void train(const Tensor& x) {
    const int kind = pick(4);
    const auto loss = [&](const std::vector<Tensor>& of) {
      switch (kind) {
        case 0:
          return sum(square(tanh(of[0])) * of[1]);
        case 1:
          return mean(sigmoid(of[0] - of[1]) * of[1]);
        case 2:
          return sum(log(abs(of[1]) + 1.0) * cos(of[0]));
        default:
          return mean(exp(tanh(of[0]) * 0.5) / (abs(of[1]) + 1.0));
      }
    };
    std::vector<Tensor> gradients = grad(loss, {x, make_input(x.shape())});
    if (pick(2) == 0) {
      return keep(std::move(gradients[static_cast<std::size_t>(pick(2))]));
    }
    Tensor weights = pick(2) == 0 ? x : make_input(x.shape());
    Tensor momentum = make_input(x.shape());
    UpdateGroup group(device_);
    group.sgd(weights, std::move(gradients[0]), momentum, {.learning_rate = 0.5, .momentum = 0.5});
    if (pick(4) != 0) {
      static_cast<void>(group.commit());
    } else {
      group.commit().get();
    }
    keep(std::move(weights));
  }

  Tensor unary(Tensor x) {
    switch (pick(15)) {
      case 0:
        return -std::move(x);
      case 1:
        return abs(std::move(x));
      case 2:
        return exp(tanh(std::move(x)));
      case 3:
        return log(abs(std::move(x)) + 0.5);
      case 4:
        return sqrt(abs(std::move(x)) + 0.25);
      case 5:
        return rsqrt(abs(std::move(x)) + 0.5);
      case 6:
        return square(tanh(std::move(x)));
      case 7:
        return sin(std::move(x));
      case 8:
        return cos(std::move(x));
      case 9:
        return tanh(std::move(x));
      case 10:
        return erf(std::move(x));
      case 11:
        return sigmoid(std::move(x));
      case 12:
        return recip(abs(std::move(x)) + 0.5);
      case 13:
        return relu(std::move(x));
      default:
        return pow(abs(std::move(x)) + 0.5, 1.5) * 0.25;
    }
  }

  Tensor binary() {
    Tensor a = consume();
    Tensor b = broadcast(a.shape(), some().shape()).has_value() ? some() : Tensor();
    if (b.is_empty() || !broadcast(a.shape(), b.shape()).has_value()) {
      b = pick(2) == 0 ? a : mean(a);
    }
    switch (pick(7)) {
      case 0:
        return std::move(a) + std::move(b);
      case 1:
        return std::move(a) - b;
      case 2:
        return tanh(a) * std::move(b);
      case 3:
        return std::move(a) / (abs(b) + 1.0);
      case 4:
        return minimum(a, b);
      case 5:
        return maximum(std::move(a), std::move(b));
      default:
        return 0.5 - std::move(a) * real();
    }
  }

  Tensor view(Tensor x) {
    const int rank = x.rank();
    switch (pick(5)) {
      case 0:
        return flatten(std::move(x));
      case 1: {
        if (rank < 2) {
          return unsqueeze(std::move(x), 0);
        }
        std::vector<int> axes;
        for (int i = 0; i < rank; ++i) {
          axes.push_back(i);
        }
        for (int i = rank - 1; i > 0; --i) {
          std::swap(axes[static_cast<std::size_t>(i)], axes[static_cast<std::size_t>(pick(i + 1))]);
        }
        return permute(std::move(x), axes);
      }
      case 2: {
        if (rank == 0) {
          return x;
        }
        constexpr std::array<std::int64_t, 4> kSteps{1, 2, -1, -2};
        return slice(std::move(x), pick(rank), {.step = kSteps[static_cast<std::size_t>(pick(4))]});
      }
      case 3: {
        Shape wide;
        wide.push_back(2);
        for (const std::int64_t size : x.shape().dims()) {
          if (wide.rank() < 6) {
            wide.push_back(size);
          }
        }
        return wide.rank() == rank + 1 ? expand(std::move(x), wide) : x;
      }
      default:
        return rank > 0 ? concat(std::array{x, x * 0.5}, pick(rank)) : contiguous(std::move(x));
    }
  }

  Tensor reduce(Tensor x) {
    const int rank = x.rank();
    if (rank == 0 || x.element_count() == 0) {
      return std::move(x) + 1.0;
    }
    const int axis = pick(rank);
    switch (pick(5)) {
      case 0:
        return sum(std::move(x), {axis}) * 0.3;
      case 1:
        return mean(std::move(x), {axis}, pick(2) == 0);
      case 2:
        return max(std::move(x), {axis}, true);
      case 3:
        return softmax(std::move(x), axis);
      default:
        return log_softmax(std::move(x), axis) * 0.3;
    }
  }

  Tensor contract() {
    Tensor a = consume();
    if (a.rank() < 2 || a.element_count() == 0) {
      return unary(std::move(a));
    }
    Tensor b = pick(2) == 0 ? transpose(tanh(a)) : transpose(a) * 0.25;
    return matmul(std::move(a), std::move(b)) * 0.2;
  }

  Tensor mixed() {
    Tensor a = consume();
    switch (pick(4)) {
      case 0:
        return where(greater(a, 0.123), a * 2.0, a - 1.0);
      case 1:
        return cast(cast(std::move(a), DType::f64) * 0.75, DType::f32);
      case 2:
        return where(less_equal(a, -0.321), zeros_like(a), a);
      default:
        return make_input(a.shape()) + a;
    }
  }

  Device device_;
  std::mt19937_64 random_;
  double noise_;
  std::mt19937_64 noise_random_;
  std::vector<Stream> streams_;
  std::vector<Tensor> live_;
  int ops_ = 0;
};

}  // namespace

std::vector<std::vector<double>> run_program(const RandomProgram& program,
                                             const Device& device,
                                             double noise,
                                             std::uint64_t noise_seed) {
  return Run(program, device, noise, noise_seed).finish();
}

}  // namespace hearth::testing
