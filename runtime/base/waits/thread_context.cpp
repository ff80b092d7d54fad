#include <hearth/runtime/base/thread_context.hpp>

#include <algorithm>
#include <atomic>

namespace hearth::detail {
constinit thread_local ThreadContext* thread_context = nullptr;

namespace {

ThreadId next_thread_id() noexcept {
  static constinit std::atomic<std::uint64_t> count{0};
  return ThreadId{count.fetch_add(1, std::memory_order_relaxed) + 1};
}

constinit thread_local bool has_foreign_context_ended = false;

struct ForeignContext {
  ThreadContext context{""};

  ForeignContext() = default;
  ForeignContext(const ForeignContext&) = delete;
  ForeignContext& operator=(const ForeignContext&) = delete;
  ~ForeignContext() {
    context.clear_attachments();
    has_foreign_context_ended = true;
    if (thread_context == &context) {
      thread_context = nullptr;
    }
  }
};

}  // namespace

ThreadContext& make_foreign_context() {
  if (has_foreign_context_ended) {
    // The destructor of a static object still uses the library, so this context is leaked.
    thread_context = std::make_unique<ThreadContext>("").release();
  } else {
    thread_local ForeignContext foreign;
    thread_context = &foreign.context;
  }
  return *thread_context;
}

ThreadContext* exchange_current_context(ThreadContext* context) noexcept {
  return std::exchange(thread_context, context);
}

ThreadContext::ThreadContext(std::string name)
    : id_(next_thread_id()),
      name_(name.empty() ? "thread-" + std::to_string(id_.value) : std::move(name)),
      parker_(make_intrusive<Parker>()) {}

ThreadContext::ThreadContext(std::string name, Clock& clock, LogicalThread& logical_thread)
    : id_(next_thread_id()),
      name_(std::move(name)),
      clock_(&clock),
      logical_thread_(&logical_thread),
      parker_(make_intrusive<Parker>(logical_thread)) {}

ThreadContext::~ThreadContext() {
  clear_attachments();
}

bool ThreadContext::find_slow(std::uint64_t key) noexcept {
  const auto entry = std::ranges::find(attachments_, key, &Entry::key);
  if (entry == attachments_.end()) {
    return false;
  }
  hot_key_ = key;
  hot_ = entry->attachment.get();
  return true;
}

void ThreadContext::add(std::uint64_t key, std::unique_ptr<ContextAttachment> attachment) {
  HEARTH_ASSERT(!find_slow(key), "a thread attachment's key is taken");
  hot_key_ = key;
  hot_ = attachment.get();
  attachments_.push_back(Entry{key, std::move(attachment)});
}

void ThreadContext::detach(std::uint64_t key) {
  const auto entry = std::ranges::find(attachments_, key, &Entry::key);
  if (entry == attachments_.end()) {
    return;
  }
  // Removed from the list first: its destructor may look up attachments and must not find itself.
  const std::unique_ptr<ContextAttachment> ended = std::move(entry->attachment);
  attachments_.erase(entry);
  hot_ = nullptr;
}

void ThreadContext::drop_obsolete() {
  std::vector<std::uint64_t> keys;
  for (const Entry& entry : attachments_) {
    if (entry.attachment->is_obsolete()) {
      keys.push_back(entry.key);
    }
  }
  for (const std::uint64_t key : keys) {
    detach(key);
  }
}

void ThreadContext::clear_attachments() {
  while (!attachments_.empty()) {
    detach(attachments_.back().key);
  }
}

}  // namespace hearth::detail
