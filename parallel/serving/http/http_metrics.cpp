#include "http_metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace hearth::detail {
namespace {

std::size_t place_of(unsigned status) noexcept {
  const auto found = std::ranges::find(kHttpStatuses, status);
  return found == kHttpStatuses.end() ? place_of(500)
                                      : static_cast<std::size_t>(found - kHttpStatuses.begin());
}

std::uint64_t value(const std::atomic<std::uint64_t>& count) noexcept {
  return count.load(std::memory_order_relaxed);
}

/// Appends lines in the exposition format. The names of models need no escape.
class Page final {
 public:
  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    print("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class Value>
  void add(std::string_view labels, Value value) {
    add_as("", labels, value);
  }
  /// `suffix`: "_bucket", "_sum" or "_count" of a histogram.
  template <class Value>
  void add_as(std::string_view suffix, std::string_view labels, Value value) {
    if (labels.empty()) {
      print("{}{} {}\n", name_, suffix, value);
    } else {
      print("{}{}{{{}}} {}\n", name_, suffix, labels, value);
    }
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  std::string text_;
  std::string name_;
};

std::string label(const HttpModel& model) {
  return fmt::format("model=\"{}\"", model.name);
}

struct Counter {
  std::string_view name;
  std::string_view help;
  std::uint64_t ServerStatistics::*member;
};

constexpr Counter kCounters[] = {
    {"hearth_model_accepted_total", "Requests that a model accepted.", &ServerStatistics::accepted},
    {"hearth_model_refused_total", "Requests refused as overloaded.", &ServerStatistics::refused},
    {"hearth_model_answered_total", "Requests with an answer.", &ServerStatistics::answered},
    {"hearth_model_failed_total", "Accepted requests with an error.", &ServerStatistics::failed},
    {"hearth_model_expired_total",
     "Accepted requests that missed a deadline or were stopped.",
     &ServerStatistics::expired},
    {"hearth_model_retried_total",
     "Requests that ran again after a lost device.",
     &ServerStatistics::retried},
    {"hearth_model_padded_rows_total",
     "Rows that only filled a batch.",
     &ServerStatistics::padded_rows},
};

void append_batches(Page& page, const HttpModel& model, const ServerStatistics& now) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < now.batch_sizes.size(); ++i) {
    count += now.batch_sizes[i];
    page.add_as("_bucket", fmt::format("{},le=\"{}\"", label(model), std::uint64_t{1} << i), count);
  }
  page.add_as("_bucket", label(model) + ",le=\"+Inf\"", count);
  page.add_as("_sum", label(model), now.rows);
  page.add_as("_count", label(model), count);
}

}  // namespace

void HttpMetrics::count_status(unsigned status) noexcept {
  statuses_[place_of(status)].fetch_add(1, std::memory_order_relaxed);
}

void HttpMetrics::count_inference(std::size_t model,
                                  unsigned status,
                                  std::chrono::nanoseconds time) noexcept {
  OfModel& counts = models_[model];
  counts.statuses[place_of(status)].fetch_add(1, std::memory_order_relaxed);
  const double seconds = std::chrono::duration<double>(time).count();
  const auto bound = std::ranges::lower_bound(kLatencyBounds, seconds);
  counts.times[static_cast<std::size_t>(bound - kLatencyBounds.begin())].fetch_add(
      1, std::memory_order_relaxed);
  counts.time_sum_ns.fetch_add(static_cast<std::uint64_t>(time.count()), std::memory_order_relaxed);
}

std::string HttpMetrics::text(std::span<const HttpModel> models) const {
  Page page;
  page.begin("hearth_http_requests_total", "counter", "Requests by the status of the answer.");
  for (std::size_t i = 0; i < kHttpStatuses.size(); ++i) {
    page.add(fmt::format("code=\"{}\"", kHttpStatuses[i]), value(statuses_[i]));
  }
  page.begin("hearth_http_connections", "gauge", "Open connections.");
  // The ends first: a connection that ends meanwhile counts as open.
  const std::uint64_t closed = value(closed_);
  page.add("", value(opened_) - closed);
  page.begin("hearth_http_connections_total", "counter", "Connections since the start.");
  page.add("", value(opened_));
  page.begin(
      "hearth_http_refused_connections_total", "counter", "Connections beyond max_connections.");
  page.add("", value(refused_));
  page.begin("hearth_http_slow_clients_total", "counter", "Connections closed at a time limit.");
  page.add("", value(slow_));

  page.begin("hearth_inference_requests_total", "counter", "Inference requests by status.");
  for (std::size_t i = 0; i < models.size(); ++i) {
    for (std::size_t j = 0; j < kHttpStatuses.size(); ++j) {
      page.add(fmt::format("{},code=\"{}\"", label(models[i]), kHttpStatuses[j]),
               value(models_[i].statuses[j]));
    }
  }
  page.begin("hearth_inference_seconds",
             "histogram",
             "Time from a request's last byte to the answer's first.");
  for (std::size_t i = 0; i < models.size(); ++i) {
    std::uint64_t count = 0;
    for (std::size_t j = 0; j < kLatencyBounds.size(); ++j) {
      count += value(models_[i].times[j]);
      page.add_as(
          "_bucket", fmt::format("{},le=\"{}\"", label(models[i]), kLatencyBounds[j]), count);
    }
    count += value(models_[i].times.back());
    page.add_as("_bucket", label(models[i]) + ",le=\"+Inf\"", count);
    page.add_as("_sum", label(models[i]), static_cast<double>(value(models_[i].time_sum_ns)) / 1e9);
    page.add_as("_count", label(models[i]), count);
  }

  std::vector<ServerStatistics> statistics;
  statistics.reserve(models.size());
  for (const HttpModel& model : models) {
    statistics.push_back(model.statistics());
  }
  for (const Counter& counter : kCounters) {
    page.begin(counter.name, "counter", counter.help);
    for (std::size_t i = 0; i < models.size(); ++i) {
      page.add(label(models[i]), statistics[i].*counter.member);
    }
  }
  page.begin("hearth_model_waiting_rows", "gauge", "Rows that wait for a batch.");
  for (std::size_t i = 0; i < models.size(); ++i) {
    page.add(label(models[i]), statistics[i].waiting_rows);
  }
  page.begin("hearth_model_version", "gauge", "Version of the weights.");
  for (const HttpModel& model : models) {
    page.add(label(model), model.version());
  }
  page.begin("hearth_model_batch_rows", "histogram", "Rows of a batch.");
  for (std::size_t i = 0; i < models.size(); ++i) {
    append_batches(page, models[i], statistics[i]);
  }
  return page.take();
}

}  // namespace hearth::detail
