#include <hearth/runtime/update_decision.hpp>

#include <memory>
#include <utility>

namespace hearth {

UpdateDecision::~UpdateDecision() {
  const ErrorRef* const word = word_.load(std::memory_order_acquire);  // partner: abort
  if (word != &yes_) {
    const std::unique_ptr<const ErrorRef> owned(word);
  }
}

bool UpdateDecision::commit() noexcept {
  const ErrorRef* before = nullptr;
  return word_.compare_exchange_strong(before, &yes_, std::memory_order_acq_rel) || before == &yes_;
}

bool UpdateDecision::abort(ErrorRef error) {
  auto reason = std::make_unique<const ErrorRef>(std::move(error));
  const ErrorRef* before = nullptr;
  if (word_.compare_exchange_strong(before, reason.get(), std::memory_order_acq_rel)) {
    static_cast<void>(reason.release());
    return true;
  }
  return before != &yes_;
}

bool UpdateDecision::is_open() const noexcept {
  return word_.load(std::memory_order_acquire) == nullptr;  // partner: commit, abort
}

bool UpdateDecision::is_committed() const noexcept {
  return word_.load(std::memory_order_acquire) == &yes_;  // partner: commit
}

ErrorRef UpdateDecision::error() const noexcept {
  const ErrorRef* const word = word_.load(std::memory_order_acquire);  // partner: abort
  return word == nullptr ? nullptr : *word;
}

}  // namespace hearth
