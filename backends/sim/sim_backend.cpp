#include <hearth/backends/sim/sim_backend.hpp>

#include "stored_call.hpp"

#include <hearth/backends/reference/reference.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hearth::sim {
namespace {

using std::chrono::nanoseconds;

bool names(const std::vector<std::uint64_t>& numbers, std::uint64_t number) {
  return !numbers.empty() && std::ranges::find(numbers, number) != numbers.end();
}

/// What makes two calls the same kernel.
std::string kernel_key(const KernelCall& call) {
  std::string key(name(call.op.kind()));
  if (call.expression != nullptr) {
    key = fmt::format("{} {:016x}", call.expression->name, call.expression->hash);
  }
  for (const auto& views : {call.inputs, call.outputs}) {
    for (const TensorView& view : views) {
      key += fmt::format(" {}[", name(view.dtype));
      for (const std::int64_t size : view.shape().dims()) {
        key += fmt::format(" {}", size);
      }
      key += " ]";
    }
  }
  return key;
}

bool overlaps(const std::vector<ByteRange>& some, const std::vector<ByteRange>& others) {
  return std::ranges::any_of(some, [&](const ByteRange& a) {
    return std::ranges::any_of(others, [&](const ByteRange& b) { return a.overlaps(b); });
  });
}

/// Whether work may be in flight at all.
bool needs_machine(const SimOptions& options) {
  return options.clock == ClockMode::manual || options.queues > 1 || options.copy_engines > 0 ||
         options.reorder_seed != 0 || options.effects == Effects::at_end || options.has_shadow ||
         options.faults.hanging_submit != 0;
}

}  // namespace

/// Tells the shadow of pages that come and go.
class SimBackend::Pages final : public PageProvider {
 public:
  explicit Pages(SimBackend& sim)
      : sim_(sim),
        pages_({.budget_bytes = sim.options_.budget_bytes,
                .fail_allocation = sim.options_.faults.failing_allocation,
                .fail_count = sim.options_.faults.failing_allocation_count}) {}

  [[nodiscard]] Result<Page> allocate_page(std::int64_t size_bytes) override {
    Result<Page> page = pages_.allocate_page(size_bytes);
    if (page.has_value() && sim_.options_.has_shadow) {
      sim_.shadow_.add_page({page.value().data, page.value().size_bytes});
    }
    return page;
  }
  void free_page(Page page) noexcept override {
    if (sim_.options_.has_shadow) {
      note(sim_.shadow_.remove_page({page.data, page.size_bytes}, has_ended_));
    }
    pages_.free_page(page);
  }
  [[nodiscard]] Result<Page> open_growing_page(std::int64_t reach_bytes) override {
    Result<Page> page = pages_.open_growing_page(reach_bytes);
    if (page.has_value() && sim_.options_.has_shadow) {
      sim_.shadow_.add_page({page.value().data, 0});
    }
    return page;
  }
  [[nodiscard]] Status resize_page(Page& page, std::int64_t size_bytes) override {
    const Page before = page;
    Status status = pages_.resize_page(page, size_bytes);
    if (status.has_value() && sim_.options_.has_shadow) {
      note(sim_.shadow_.resize_page({before.data, before.size_bytes}, page.size_bytes, has_ended_));
    }
    return status;
  }
  // The shadow knows whole pages only.
  [[nodiscard]] Status make_gap(const Page& page,
                                std::int64_t offset_bytes,
                                std::int64_t size_bytes) override {
    return sim_.options_.has_shadow ? PageProvider::make_gap(page, offset_bytes, size_bytes)
                                    : pages_.make_gap(page, offset_bytes, size_bytes);
  }
  [[nodiscard]] Status fill_gap(const Page& page,
                                std::int64_t offset_bytes,
                                std::int64_t size_bytes) override {
    return pages_.fill_gap(page, offset_bytes, size_bytes);
  }
  [[nodiscard]] std::int64_t alignment_bytes() const noexcept override {
    return pages_.alignment_bytes();
  }

 private:
  void note(std::optional<ShadowReport> fault) {
    if (fault) {
      sim_.shadow_reports_.push_back(std::move(*fault));
    }
  }

  SimBackend& sim_;
  HostPageProvider pages_;
  ShadowMemory::IsOrderedFn has_ended_ = [this](std::uint64_t number) {
    return sim_.is_lost_ || sim_.machine_->has_ended(number);
  };
};

SimBackend::SimBackend(SimOptions options)
    : options_(std::move(options)),
      info_{.name = options_.name,
            .description = options_.computes ? "simulated: the oracle's results in virtual time"
                                             : "simulated: virtual time, no results",
            .is_host = options_.is_host,
            .core_count = 1,
            .computes = options_.computes},
      pages_(std::make_unique<Pages>(*this)) {
  if (needs_machine(options_)) {
    machine_ =
        std::make_unique<SimMachine>(SimMachineOptions{.queues = options_.queues,
                                                       .copy_engines = options_.copy_engines,
                                                       .reorder_seed = options_.reorder_seed});
  }
}

SimBackend::~SimBackend() = default;

PageProvider& SimBackend::pages() noexcept {
  return *pages_;
}

Support SimBackend::supports(const KernelCall& call) const {
  return reference::supports(call);
}

bool SimBackend::may_alias(OpKind /*kind*/, int /*input_index*/) const noexcept {
  return true;
}

// ---- ops ----

Status SimBackend::submit(const KernelCall& call) {
  if (is_lost_) {
    return lost();
  }
  const std::uint64_t number = submitted_ + 1;
  if (number == options_.faults.lost_at_submit) {
    lose(fmt::format("at submit {}", number));
    return lost();
  }
  if (!options_.faults.failing_compiles.empty()) {
    HEARTH_TRY_STATUS(compile(call));
  }
  submitted_ = number;
  const bool fails = names(options_.faults.failing_submits, number);
  return machine_ ? submit_to_machine(call, fails) : submit_at_once(call, fails);
}

Status SimBackend::submit_at_once(const KernelCall& call, bool fails) {
  const nanoseconds end = options_.cost ? now_ + options_.cost(call) : now_;
  if (end >= options_.faults.lost_at) {
    now_ = std::max(now_, options_.faults.lost_at);
    lose(fmt::format("at {} ns", options_.faults.lost_at.count()));
    return lost();
  }
  now_ = end;
  completed_ = submitted_;
  return fails ? Status(planned_failure(call, fmt::format("submit {}", submitted_)))
               : evaluate(call);
}

Status SimBackend::submit_to_machine(const KernelCall& call, bool fails) {
  const std::uint64_t op = submitted_;
  Access access;
  for (const TensorView& view : call.inputs) {
    access.reads.push_back(range_of(view));
  }
  for (const TensorView& view : call.outputs) {
    access.writes.push_back(range_of(view));
  }
  SimCommand command{.engine = machine_->least_busy_queue(),
                     .cost = options_.cost ? options_.cost(call) : nanoseconds(0),
                     .hangs = op == options_.faults.hanging_submit};
  const bool is_late = options_.effects == Effects::at_end && !fails;
  if (is_late) {
    command.effect = [this, stored = std::make_unique<StoredCall>(call)] {
      if (Status status = evaluate(stored->call()); !status.has_value()) {
        late_failures_.push_back(status.error());
      }
    };
  }
  const auto [number, checked] = enqueue(
      std::move(command), std::move(access), !names(options_.faults.forgotten_barriers, op));
  op_numbers_.push_back(number);
  HEARTH_TRY_STATUS(checked);
  Status status = fails ? Status(planned_failure(call, fmt::format("submit {}", op))) : Status();
  const bool is_stuck = machine_->is_stuck(number);
  const std::size_t failures = late_failures_.size();
  if (options_.clock == ClockMode::follows_work && !is_stuck) {
    HEARTH_TRY_STATUS(wait(number));
  }
  if (is_late && late_failures_.size() > failures) {
    status = late_failures_.back();  // of this op: it has ended, and earlier ones had before
    late_failures_.pop_back();
  } else if (!is_late && !fails && !is_stuck) {
    status = evaluate(call);
  }
  return status;
}

Status SimBackend::evaluate(const KernelCall& call) const {
  if (!options_.computes) {
    return {};
  }
  const Status status = reference::evaluate(call);
  if (status.has_value()) {
    return status;
  }
  Error error = status.error();
  error.device = info_.name;
  return error;
}

Status SimBackend::compile(const KernelCall& call) {
  const std::string key = kernel_key(call);
  if (compiled_.contains(key)) {
    return {};
  }
  ++compile_count_;
  if (names(options_.faults.failing_compiles, compile_count_)) {
    return planned_failure(call, fmt::format("compile {} ({})", compile_count_, key));
  }
  compiled_.insert(key);
  return {};
}

Error SimBackend::planned_failure(const KernelCall& call, const std::string& what) const {
  return {.code = ErrorCode::kernel_failed,
          .text = fmt::format("{}: {} fails as planned", info_.name, what),
          .op = std::string(name(call.op.kind())),
          .device = info_.name};
}

// ---- what waits for what ----

std::vector<std::uint64_t> SimBackend::conflicts(const Access& access) {
  std::erase_if(in_flight_,
                [this](const InFlight& each) { return machine_->has_ended(each.number); });
  std::vector<std::uint64_t> numbers;
  for (const InFlight& each : in_flight_) {
    if (overlaps(each.writes, access.reads) || overlaps(each.writes, access.writes) ||
        overlaps(each.reads, access.writes)) {
      numbers.push_back(each.number);
    }
  }
  return numbers;
}

SimBackend::Enqueued SimBackend::enqueue(SimCommand command, Access access, bool waits) {
  if (waits) {
    command.after = conflicts(access);
  }
  const std::uint64_t number = machine_->submit(std::move(command));
  std::optional<ShadowReport> fault;
  if (options_.has_shadow) {
    fault = shadow_.access(number, access.reads, access.writes, [&](std::uint64_t earlier) {
      return machine_->is_ordered(earlier, number);
    });
  }
  in_flight_.push_back({number, std::move(access.reads), std::move(access.writes)});
  return {number, report(std::move(fault))};
}

Status SimBackend::report(std::optional<ShadowReport> fault) {
  if (!fault) {
    return {};
  }
  Error error{
      .code = ErrorCode::internal,
      .text = fmt::format("{}: shadow memory: {}: {}", info_.name, name(fault->fault), fault->text),
      .device = info_.name};
  shadow_reports_.push_back(std::move(*fault));
  return error;
}

Status SimBackend::wait(std::uint64_t number) {
  const nanoseconds limit = options_.faults.lost_at == nanoseconds::max()
                                ? nanoseconds::max()
                                : options_.faults.lost_at - nanoseconds(1);
  if (machine_->run_until(number, limit)) {
    return {};
  }
  if (machine_->is_stuck(number)) {
    return Error{.code = ErrorCode::deadline_exceeded,
                 .text = fmt::format(
                     "{}: submit {} hangs as planned", info_.name, options_.faults.hanging_submit),
                 .device = info_.name};
  }
  lose(fmt::format("at {} ns", options_.faults.lost_at.count()));
  return lost();
}

Status SimBackend::finish() {
  if (is_lost_) {
    return lost();
  }
  for (const InFlight& each : in_flight_) {
    if (!machine_->has_ended(each.number)) {
      HEARTH_TRY_STATUS(wait(each.number));
    }
  }
  return {};
}

// ---- copies ----

Status SimBackend::copy(Access access, std::int64_t size_bytes, UniqueFunction<void()> effect) {
  const bool is_late = options_.effects == Effects::at_end;
  const bool is_download = access.writes.empty();
  const std::vector<std::uint64_t> earlier = conflicts(access);
  for (const std::uint64_t number : earlier) {
    if (machine_->is_stuck(number) || (is_late && options_.copy_engines == 0)) {
      HEARTH_TRY_STATUS(wait(number));
    }
  }
  if (options_.copy_engines == 0) {
    if (options_.has_shadow) {
      const auto is_waited_for = [](std::uint64_t) { return true; };
      HEARTH_TRY_STATUS(
          report(shadow_.access(ShadowMemory::kHost, access.reads, access.writes, is_waited_for)));
    }
    effect();
    return {};
  }
  SimCommand command{.engine = machine_->least_busy_copy_engine(),
                     .cost = nanoseconds(static_cast<std::int64_t>(
                         static_cast<double>(size_bytes) * 1e9 / options_.copy_bytes_per_second))};
  if (is_late) {
    command.effect = std::move(effect);
  }
  const auto [number, checked] = enqueue(std::move(command), std::move(access), true);
  HEARTH_TRY_STATUS(checked);
  if (!is_late) {
    effect();
  }
  const bool host_waits = options_.clock == ClockMode::follows_work || (is_download && is_late);
  return host_waits ? wait(number) : Status();
}

Status SimBackend::upload(std::byte* to, std::span<const std::byte> from) {
  if (is_lost_) {
    return lost();
  }
  if (!machine_) {
    std::copy(from.begin(), from.end(), to);
    return {};
  }
  const auto size = static_cast<std::int64_t>(from.size());
  return copy({.reads = {}, .writes = {{to, size}}},
              size,
              [to, bytes = std::vector<std::byte>(from.begin(), from.end())] {
                std::copy(bytes.begin(), bytes.end(), to);
              });
}

Status SimBackend::download(std::span<std::byte> to, const std::byte* from) {
  if (is_lost_) {
    return lost();
  }
  ++download_count_;
  if (machine_) {
    const auto size = static_cast<std::int64_t>(to.size());
    HEARTH_TRY_STATUS(copy({.reads = {{from, size}}, .writes = {}}, size, [to, from] {
      std::copy_n(from, to.size(), to.data());
    }));
  } else {
    std::copy_n(from, to.size(), to.data());
  }
  if (names(options_.faults.corrupted_downloads, download_count_)) {
    corrupt(to);
  }
  return {};
}

void SimBackend::corrupt(std::span<std::byte> bytes) {
  if (!bytes.empty()) {
    bytes.back() ^= std::byte{0x20};  // in a float's exponent: nobody takes it for rounding
  }
}

Status SimBackend::check_host_access(ByteRange range, bool writes) {
  if (!options_.has_shadow) {
    return {};
  }
  // The host waits for nothing here: only what has ended is ordered before it.
  const auto has_ended = [this](std::uint64_t number) { return machine_->has_ended(number); };
  const std::span<const ByteRange> bytes(&range, 1);
  const std::span<const ByteRange> none;
  return report(
      shadow_.access(ShadowMemory::kHost, writes ? none : bytes, writes ? bytes : none, has_ended));
}

// ---- time ----

std::uint64_t SimBackend::completed() noexcept {
  while (!is_lost_ && !op_numbers_.empty() && machine_->has_ended(op_numbers_.front())) {
    op_numbers_.pop_front();
    ++completed_;
  }
  return completed_;
}

nanoseconds SimBackend::now() const noexcept {
  return machine_ ? machine_->now() : now_;
}

nanoseconds SimBackend::busy_until() const {
  return machine_ ? machine_->busy_until() : now_;
}

void SimBackend::advance(nanoseconds duration) {
  const nanoseconds left = options_.faults.lost_at - now();
  const bool ends = !is_lost_ && left <= duration;
  if (machine_) {
    machine_->advance(is_lost_ ? nanoseconds(0)
                               : std::min(duration, ends ? left - nanoseconds(1) : left));
  } else {
    now_ += duration;
  }
  if (ends) {
    static_cast<void>(completed());
    lose(fmt::format("at {} ns", options_.faults.lost_at.count()));
  }
}

void SimBackend::lose(std::string why) {
  static_cast<void>(completed());  // what had ended by now
  is_lost_ = true;
  why_lost_ = std::move(why);
}

Error SimBackend::lost() const {
  return {.code = ErrorCode::device_lost,
          .text = fmt::format("{}: lost {} as planned", info_.name, why_lost_),
          .device = info_.name};
}

}  // namespace hearth::sim
