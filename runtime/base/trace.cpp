#include <hearth/runtime/base/trace.hpp>

#include <algorithm>
#include <utility>

#include <hearth/runtime/base/thread_context.hpp>

namespace hearth {

void Trace::record(const TraceSpan& span) const {
  if (!is_on()) {
    return;
  }
  std::shared_ptr<const Hooks> hooks;
  {
    const MutexLock lock(mutex_);
    hooks = hooks_;
  }
  for (const Hook& hook : *hooks) {
    hook.call(span);
  }
}

TraceHookId Trace::add_hook(TraceHook hook) {
  const MutexLock lock(mutex_);
  Hooks hooks = *hooks_;
  const TraceHookId id{++last_id_};
  hooks.push_back({.id = id, .call = std::move(hook)});
  publish(std::move(hooks));
  return id;
}

void Trace::remove_hook(TraceHookId id) {
  std::shared_ptr<const Hooks> old;  // dies after the lock, and with it perhaps the hook
  const MutexLock lock(mutex_);
  old = hooks_;
  Hooks hooks = *hooks_;
  hooks.erase(
      std::remove_if(hooks.begin(), hooks.end(), [&](const Hook& hook) { return hook.id == id; }),
      hooks.end());
  publish(std::move(hooks));
}

void Trace::publish(Hooks hooks) {
  const bool is_on = !hooks.empty();
  hooks_ = std::make_shared<Hooks>(std::move(hooks));
  is_on_.store(is_on, std::memory_order_release);  // pairs with the acquire in is_on
}

TraceScope::TraceScope(const Trace& trace, std::string_view name, std::string_view device)
    : trace_(trace.is_on() ? &trace : nullptr) {
  if (trace_ != nullptr) {
    span_ = {.name = name, .device = device, .begin = current_context().clock().now(), .end = {}};
  }
}

TraceScope::~TraceScope() {
  if (trace_ != nullptr) {
    span_.end = current_context().clock().now();
    trace_->record(span_);
  }
}

}  // namespace hearth
