#include "random_draw.hpp"

#include <hearth/runtime/base/thread_context.hpp>

#include <memory>

namespace hearth::detail {
namespace {

struct CurrentDraws final : ContextAttachment {
  DrawScope* innermost = nullptr;
};

// Devices use small keys, counted from 1; this one is "drawlogs".
constexpr std::uint64_t kDrawsKey = 0x647261776c6f6773U;

CurrentDraws& current_draws() {
  ThreadContext& context = current_context();
  auto* current = context.find<CurrentDraws>(kDrawsKey);
  return current != nullptr ? *current
                            : context.attach(kDrawsKey, std::make_unique<CurrentDraws>());
}

DrawScope* innermost_scope() noexcept {
  const auto* current = current_context().find<CurrentDraws>(kDrawsKey);
  return current != nullptr ? current->innermost : nullptr;
}

}  // namespace

DrawScope::DrawScope(std::vector<DrawnNumbers>& log, Way way) : log_(&log), way_(way) {
  CurrentDraws& draws = current_draws();
  outer_ = draws.innermost;
  draws.innermost = this;
}
DrawScope::~DrawScope() {
  current_draws().innermost = outer_;
}

// Takes the numbers from the innermost replay; without one, from the generator.
RandomDraw::RandomDraw(Generator& generator, std::uint64_t blocks)
    : generator_(&generator),
      innermost_(innermost_scope()),
      numbers_{.seed = generator.seed(), .counter = generator.counter(), .blocks = blocks} {
  for (DrawScope* scope = innermost_; scope != nullptr; scope = scope->outer_) {
    if (scope->way_ == DrawScope::Way::record) {
      continue;
    }
    if (scope->next_ < scope->log_->size() && (*scope->log_)[scope->next_].blocks == blocks) {
      numbers_ = (*scope->log_)[scope->next_];
    } else {
      scope->has_drawn_more_ = true;  // the op gets other numbers, and the sweep reports the error
    }
    return;
  }
}

void RandomDraw::take() {
  for (DrawScope* scope = innermost_; scope != nullptr; scope = scope->outer_) {
    if (scope->way_ == DrawScope::Way::replay) {
      ++scope->next_;
      return;
    }
    scope->log_->push_back(numbers_);
  }
  generator_->advance(numbers_.blocks);
}

bool is_replaying() noexcept {
  for (const DrawScope* scope = innermost_scope(); scope != nullptr; scope = scope->outer()) {
    if (scope->is_replay()) {
      return true;
    }
  }
  return false;
}

}  // namespace hearth::detail
