#include <hearth/runtime/base/trace.hpp>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/base/unique_number.hpp>

namespace hearth::detail {
namespace {

struct Chunk {
  std::array<TraceEvent, Trace::kChunkEvents> events;
  std::atomic<std::size_t> count{0};
};

}  // namespace

/// Events of one thread. The thread writes; the thread that stops the trace reads.
struct Trace::Buffer {
  std::uint64_t thread_id = 0;
  std::string thread_name;
  Chunk* current = nullptr;  // owned by the thread
  std::atomic<std::uint64_t> dropped_count{0};
  Mutex mutex;
  std::vector<std::unique_ptr<Chunk>> chunks HEARTH_GUARDED_BY(mutex);
};

struct Trace::Session {
  Session(std::uint64_t unique, std::size_t most_events)
      : number(unique),
        begin(current_context().clock().now()),
        chunks_left(static_cast<std::int64_t>((most_events + kChunkEvents - 1) / kChunkEvents)) {}

  const std::uint64_t number;
  const TimePoint begin;
  std::atomic<std::int64_t> chunks_left;
  std::atomic<std::uint64_t> lost_count{0};  // events of threads that got no buffer
  Mutex mutex;
  std::vector<std::shared_ptr<Buffer>> buffers HEARTH_GUARDED_BY(mutex);

  // Returns null if the limit of events is reached or memory is short.
  Chunk* add_chunk(Buffer& buffer) noexcept {
    if (chunks_left.load(std::memory_order_acquire) <= 0 ||
        chunks_left.fetch_sub(1, std::memory_order_acq_rel) <= 0) {
      return nullptr;
    }
    try {
      auto chunk = std::make_unique<Chunk>();
      const MutexLock lock(buffer.mutex);
      buffer.chunks.push_back(std::move(chunk));
      return buffer.chunks.back().get();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }
};

/// Links a thread to its buffer of the newest session that it has seen.
struct Trace::Attachment final : ContextAttachment {
  std::shared_ptr<Session> session;
  std::shared_ptr<Buffer> buffer;
};

std::size_t TraceLog::event_count() const noexcept {
  std::size_t count = 0;
  for (const Thread& thread : threads) {
    count += thread.events.size();
  }
  return count;
}

Trace::Trace() : key_(unique_number()) {}
Trace::~Trace() = default;

Status Trace::start(std::size_t most_events) {
  auto fresh = std::make_shared<Session>(unique_number(), std::max<std::size_t>(most_events, 1));
  const MutexLock lock(mutex_);
  if (open_) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text =
                     "trace: this runtime is traced already, by a TraceScope or "
                     "HEARTH_TRACE_FILE"};
  }
  open_ = std::move(fresh);
  session_.store(open_->number, std::memory_order_release);  // partner: is_on
  add_reader();
  return {};
}

// A thread may be writing at this moment. Its attachment keeps its buffer until the thread sees the
// next session or ends.
Result<TraceLog> Trace::stop() {
  std::shared_ptr<Session> ended;
  {
    const MutexLock lock(mutex_);
    ended = std::exchange(open_, nullptr);
    session_.store(0, std::memory_order_release);  // partner: is_on
  }
  if (!ended) {
    return Error{.code = ErrorCode::invalid_argument, .text = "trace: it has ended already"};
  }
  remove_reader();
  std::vector<std::shared_ptr<Buffer>> buffers;
  {
    const MutexLock lock(ended->mutex);
    buffers = ended->buffers;
  }
  TraceLog log{.begin = ended->begin,
               .threads = {},
               .dropped_count = ended->lost_count.load(std::memory_order_acquire)};
  for (const std::shared_ptr<Buffer>& buffer : buffers) {
    TraceLog::Thread thread{.id = buffer->thread_id, .name = buffer->thread_name, .events = {}};
    const MutexLock lock(buffer->mutex);
    for (const std::unique_ptr<Chunk>& chunk : buffer->chunks) {
      const std::size_t count = chunk->count.load(std::memory_order_acquire);  // partner: add
      thread.events.insert(thread.events.end(),
                           chunk->events.begin(),
                           chunk->events.begin() + static_cast<std::ptrdiff_t>(count));
    }
    log.dropped_count += buffer->dropped_count.load(std::memory_order_acquire);
    log.threads.push_back(std::move(thread));
  }
  return log;
}

// Returns null if the session has ended or memory is short.
[[gnu::noinline]] Trace::Attachment* Trace::attach(std::uint64_t session) noexcept {
  std::shared_ptr<Session> open;
  {
    const MutexLock lock(mutex_);
    open = open_;
  }
  if (!open || open->number != session) {
    return nullptr;
  }
  try {
    ThreadContext& context = current_context();
    auto buffer = std::make_shared<Buffer>();
    buffer->thread_id = context.id().value;
    buffer->thread_name = context.name();
    auto* attachment = context.find<Attachment>(key_);
    if (attachment == nullptr) {
      attachment = &context.attach(key_, std::make_unique<Attachment>());
    }
    {
      const MutexLock lock(open->mutex);
      open->buffers.push_back(buffer);
    }
    attachment->buffer = std::move(buffer);
    attachment->session = std::move(open);
    return attachment;
  } catch (const std::bad_alloc&) {
    open->lost_count.fetch_add(1, std::memory_order_acq_rel);
    return nullptr;
  }
}

void Trace::add(const TraceEvent& event) noexcept {
  const std::uint64_t session = session_.load(std::memory_order_acquire);  // partner: start, stop
  if (session == 0) {
    return;
  }
  auto* attachment = current_context().find<Attachment>(key_);
  if (attachment == nullptr || !attachment->session || attachment->session->number != session) {
    attachment = attach(session);
    if (attachment == nullptr) {
      return;
    }
  }
  Buffer& buffer = *attachment->buffer;
  Chunk* chunk = buffer.current;
  std::size_t count =
      chunk != nullptr ? chunk->count.load(std::memory_order_acquire) : kChunkEvents;  // own
  if (count == kChunkEvents) {
    chunk = attachment->session->add_chunk(buffer);
    if (chunk == nullptr) {
      buffer.dropped_count.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    buffer.current = chunk;
    count = 0;
  }
  chunk->events[count] = event;
  chunk->count.store(count + 1, std::memory_order_release);  // partner: stop
}

std::string_view Trace::keep(std::string_view text) {
  const MutexLock lock(mutex_);
  const auto known = texts_.find(text);
  return known != texts_.end() ? *known : *texts_.emplace(text).first;
}

TraceSpan::TraceSpan(Trace* trace, TraceEvent what) noexcept
    : trace_(trace != nullptr && trace->is_on() ? trace : nullptr), event(what) {
  if (trace_ != nullptr) {
    event.begin = current_context().clock().now();
  }
}

TraceSpan::~TraceSpan() {
  if (trace_ != nullptr) {
    event.end = current_context().clock().now();
    trace_->add(event);
  }
}

}  // namespace hearth::detail
