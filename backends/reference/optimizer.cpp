#include "elements.hpp"
#include "evaluators.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <cmath>

namespace hearth::reference {
namespace {

void sgd(const KernelCall& call) {
  const auto a = call.op.attributes<SgdAttributes>();
  const bool has_momentum = call.inputs.size() > 2;
  Reals p = load_reals(call.inputs[0]);
  const Reals grad = load_reals(call.inputs[1]);
  Reals m = has_momentum ? load_reals(call.inputs[2]) : Reals(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) {
    double g = grad[i] + a.weight_decay * p[i];
    if (has_momentum) {
      m[i] = a.first != 0 ? g : a.momentum * m[i] + (1.0 - a.dampening) * g;
      g = a.nesterov != 0 ? g + a.momentum * m[i] : m[i];
    }
    p[i] -= a.learning_rate * g;
  }
  store(call.outputs[0], p);
  if (has_momentum) {
    store(call.outputs[1], m);
  }
}

void adam(const KernelCall& call) {
  const auto a = call.op.attributes<AdamAttributes>();
  Reals p = load_reals(call.inputs[0]);
  const Reals grad = load_reals(call.inputs[1]);
  Reals m = load_reals(call.inputs[2]);
  Reals v = load_reals(call.inputs[3]);
  const double first_correction = 1.0 - std::pow(a.beta1, static_cast<double>(a.step));
  const double second_correction = 1.0 - std::pow(a.beta2, static_cast<double>(a.step));
  for (std::size_t i = 0; i < p.size(); ++i) {
    double g = grad[i];
    if (a.decoupled != 0) {
      p[i] *= 1.0 - a.learning_rate * a.weight_decay;
    } else {
      g += a.weight_decay * p[i];
    }
    m[i] = a.beta1 * m[i] + (1.0 - a.beta1) * g;
    v[i] = a.beta2 * v[i] + (1.0 - a.beta2) * g * g;
    p[i] -= a.learning_rate * (m[i] / first_correction) /
            (std::sqrt(v[i] / second_correction) + a.epsilon);
  }
  store(call.outputs[0], p);
  store(call.outputs[1], m);
  store(call.outputs[2], v);
}

}  // namespace

Status evaluate_optimizer(const KernelCall& call) {
  if (call.op.kind() == OpKind::sgd_step) {
    sgd(call);
  } else {
    adam(call);
  }
  return {};
}

}  // namespace hearth::reference
