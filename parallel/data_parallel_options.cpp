#include <hearth/parallel/data_parallel_options.hpp>

namespace hearth {
namespace {

Optimizer made_of(const Sgd::Config& config) {
  return Sgd(config);
}
Optimizer made_of(const Adam::Config& config) {
  return Adam(config);
}
Optimizer made_of(const AdamW::Config& config) {
  return AdamW(config);
}

}  // namespace

Optimizer make_optimizer(const OptimizerConfig& config) {
  return std::visit([](const auto& chosen) { return made_of(chosen); }, config);
}

}  // namespace hearth
