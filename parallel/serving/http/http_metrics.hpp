// HttpMetrics: counters of an HttpServer, and their text in the exposition format of Prometheus.
// Shared by the loops and their fibers. Threads: any. Invariant: a counter never decreases.
#pragma once

#include <hearth/parallel/http_model.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hearth::detail {

/// Statuses that an HttpServer answers with.
inline constexpr std::array<unsigned, 16> kHttpStatuses{
    200, 400, 401, 404, 405, 406, 408, 413, 415, 417, 429, 431, 500, 501, 503, 504};
/// Upper bounds of a latency histogram, in seconds; the last bucket has none.
inline constexpr std::array<double, 14> kLatencyBounds{
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30};

class HttpMetrics final {
 public:
  explicit HttpMetrics(std::size_t model_count) : models_(model_count) {}

  void count_status(unsigned status) noexcept;
  /// Counts an inference request of a model. `time`: from its last byte to the answer's first.
  void count_inference(std::size_t model, unsigned status, std::chrono::nanoseconds time) noexcept;
  void count_connection() noexcept { opened_.fetch_add(1, std::memory_order_relaxed); }
  void count_end() noexcept { closed_.fetch_add(1, std::memory_order_relaxed); }
  void count_refused_connection() noexcept { refused_.fetch_add(1, std::memory_order_relaxed); }
  void count_slow_client() noexcept { slow_.fetch_add(1, std::memory_order_relaxed); }

  /// Returns the text of /metrics.
  [[nodiscard]] std::string text(std::span<const HttpModel> models) const;

 private:
  using Count = std::atomic<std::uint64_t>;
  using Statuses = std::array<Count, kHttpStatuses.size()>;
  struct OfModel {
    Statuses statuses{};
    std::array<Count, kLatencyBounds.size() + 1> times{};
    Count time_sum_ns{0};
  };

  Statuses statuses_{};
  Count opened_{0};
  Count closed_{0};
  Count refused_{0};
  Count slow_{0};
  std::vector<OfModel> models_;
};

}  // namespace hearth::detail
