#include "logged_memory.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <hearth/memory/forwarding_strategy.hpp>
#include <hearth/memory/make_memory_strategy.hpp>

#include "runtime/client/device_endpoint.hpp"

namespace hearth {
namespace {

constexpr std::int64_t kWorthALine = std::int64_t{1} << 20;  // bytes

std::string describe(const MemoryRungs& rungs) {
  return fmt::format(
      "pages given back {} times, blocks borrowed {}, staging dropped {}, waited {}, refused {}",
      rungs.trim_count,
      rungs.borrow_count,
      rungs.unstage_count,
      rungs.wait_count,
      rungs.refuse_count);
}

class LoggedMemory final : public ForwardingStrategy {
 public:
  LoggedMemory(std::unique_ptr<MemoryStrategy> real,
               std::string device,
               std::shared_ptr<RuntimeTables> tables)
      : ForwardingStrategy(std::move(real)),
        device_(std::move(device)),
        tables_(std::move(tables)) {}

  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override {
    const Acquire outcome = ForwardingStrategy::acquire(size_bytes, kind, out);
    waited_ += outcome == Acquire::needs_wait ? 1U : 0U;
    refused_ += outcome != Acquire::ok && outcome != Acquire::needs_wait ? 1U : 0U;
    log_growth(size_bytes);
    return outcome;
  }
  std::int64_t trim() noexcept override {
    const std::int64_t bytes = ForwardingStrategy::trim();
    tables_->log.debug(
        [&] { return fmt::format("device {}: trimmed, {} bytes given back", device_, bytes); });
    return bytes;
  }

 private:
  void log_growth(std::int64_t size_bytes) noexcept {
    try {
      const MemoryReport now = report();
      log_pages(now);
      log_rungs(now.rungs, size_bytes);
    } catch (...) {  // NOLINT(bugprone-empty-catch): a lost line is better than a lost block
    }
  }
  void log_pages(const MemoryReport& now) {
    const std::int64_t held = now.total.reserved_bytes;
    const std::int64_t change = held > logged_bytes_ ? held - logged_bytes_ : logged_bytes_ - held;
    if (change < std::max(kWorthALine, logged_bytes_ / 8)) {
      return;
    }
    tables_->log.debug([&] {
      return fmt::format("device {}: memory {} from {} to {} bytes, {} of them live, budget {}",
                         device_,
                         held > logged_bytes_ ? "grows" : "shrinks",
                         logged_bytes_,
                         held,
                         now.total.live_bytes,
                         now.budget_bytes);
    });
    logged_bytes_ = held;
  }
  void log_rungs(MemoryRungs now, std::int64_t size_bytes) {
    now.wait_count += waited_;
    now.refuse_count += refused_;
    const std::uint64_t all = now.trim_count + now.borrow_count + now.wait_count + now.refuse_count;
    if (all < next_rungs_) {
      return;
    }
    next_rungs_ = 2 * all;
    tables_->log.debug([&] {
      return fmt::format(
          "device {}: short of memory for {} bytes; so far {}", device_, size_bytes, describe(now));
    });
  }

  std::string device_;
  std::shared_ptr<RuntimeTables> tables_;
  std::int64_t logged_bytes_ = 0;
  std::uint64_t waited_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t next_rungs_ = 1;
};

}  // namespace

MakeMemory with_log(MakeMemory make,
                    MemoryPooling pooling,
                    std::string device,
                    std::shared_ptr<RuntimeTables> tables) {
  return [make = std::move(make), pooling, device = std::move(device), tables = std::move(tables)](
             PageProvider& pages, std::int64_t budget_bytes) -> std::unique_ptr<MemoryStrategy> {
    std::unique_ptr<MemoryStrategy> real =
        make ? make(pages, budget_bytes) : make_memory_strategy(pooling, pages, budget_bytes);
    return real ? std::make_unique<LoggedMemory>(std::move(real), device, tables) : nullptr;
  };
}

std::string describe(const MemoryReport& report) {
  return fmt::format("peak {} bytes live, {} held of {}; {}",
                     report.total.peak_live_bytes,
                     report.total.peak_reserved_bytes,
                     report.budget_bytes,
                     describe(report.rungs));
}

}  // namespace hearth
