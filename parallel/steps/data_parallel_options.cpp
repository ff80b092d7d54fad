#include <hearth/parallel/data_parallel_options.hpp>

namespace hearth {
namespace {

Optimizer made_of(const Sgd::Config& config, SourceLoc where) {
  return Sgd(config, where);
}
Optimizer made_of(const Adam::Config& config, SourceLoc where) {
  return Adam(config, where);
}
Optimizer made_of(const AdamW::Config& config, SourceLoc where) {
  return AdamW(config, where);
}
Optimizer made_of(const RuleConfig& config, SourceLoc where) {
  return Optimizer(detail::RuleStepper(config, where));
}

}  // namespace

Optimizer make_optimizer(const OptimizerConfig& config, SourceLoc where) {
  return std::visit([where](const auto& chosen) { return made_of(chosen, where); }, config);
}

}  // namespace hearth
