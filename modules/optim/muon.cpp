#include <hearth/modules/muon.hpp>

#include "adam_moments.hpp"

#include <hearth/runtime/ops.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace hearth {
namespace {

// The nearest orthogonal matrix, about. Products of the smaller side cost less.
Tensor orthogonal(const Tensor& u, int iterations, double epsilon) {
  constexpr double kA = 3.4445;
  constexpr double kB = -4.775;
  constexpr double kC = 2.0315;
  const bool is_tall = u.size(0) > u.size(1);
  Tensor o = is_tall ? transpose(u) : u;
  o = o / maximum(sqrt(sum(square(o))), epsilon);
  for (int i = 0; i < iterations; ++i) {
    const Tensor gram = matmul(o, transpose(o));
    o = kA * o + matmul(kB * gram + kC * matmul(gram, gram), o);
  }
  return is_tall ? transpose(o) : o;
}

double scale_of(const Shape& shape, MuonScale scale) {
  const auto rows = static_cast<double>(shape[0]);
  const auto columns = static_cast<double>(shape[1]);
  return scale == MuonScale::original ? std::sqrt(std::max(1.0, rows / columns))
                                      : 0.2 * std::sqrt(std::max(rows, columns));
}

Tensor momentum_of(const UpdateOperands& o, double momentum) {
  return momentum * o.state[0] + (1 - momentum) * o.gradient;
}

}  // namespace

std::vector<UpdateFormula> MuonRule::formula() const {
  UpdateFormula matrices{.slots = {"momentum"}};
  matrices.update = [rule = *this](const UpdateOperands& o) {
    return std::vector<Tensor>{(1.0 - o.rate * o.weight_decay) * o.parameter - o.rate * o.inputs[0],
                               momentum_of(o, rule.momentum)};
  };
  matrices.inputs = [rule = *this](const UpdateOperands& o) {
    Tensor u = momentum_of(o, rule.momentum);
    if (rule.nesterov) {
      u = rule.momentum * u + (1 - rule.momentum) * o.gradient;
    }
    return std::vector<Tensor>{orthogonal(u, rule.iterations, rule.epsilon) *
                               scale_of(u.shape(), rule.scale)};
  };
  matrices.updates = [patterns = adamw](std::string_view path, const Shape& shape) {
    return shape.rank() == 2 && std::ranges::none_of(patterns, [&](const std::string& pattern) {
             return detail::matches(pattern, path);
           });
  };
  return {matrices,
          detail::adam_formula({.beta1 = beta1, .beta2 = beta2, .epsilon = adamw_epsilon})};
}

std::vector<OptimizerSetting> MuonRule::settings() const {
  return {{.name = "momentum", .value = momentum, .below = 1},
          {.name = "nesterov", .value = nesterov ? 1.0 : 0.0},
          {.name = "iterations", .value = static_cast<double>(iterations), .least = 1},
          {.name = "epsilon", .value = epsilon},
          {.name = "scale", .value = static_cast<double>(scale), .below = 2},
          {.name = "beta1", .value = beta1, .below = 1},
          {.name = "beta2", .value = beta2, .below = 1},
          {.name = "adamw_epsilon", .value = adamw_epsilon}};
}

}  // namespace hearth
