// HttpService: the routes of an HttpServer, without sockets: which request gets which answer.
// Shared by the loops and their fibers. Private to this room.
// Threads: any.
// Invariants: (1) a request without permission reads no body and learns nothing of the models;
// (2) an error's body is {"error": "..."}.
#pragma once

#include "http_metrics.hpp"

#include <hearth/parallel/http_model.hpp>
#include <hearth/parallel/http_options.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/pending.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::detail {

enum class HttpVerb : std::uint8_t { get, head, post, other };

/// A request line with the headers that matter. Views into the request.
struct HttpHead {
  HttpVerb verb = HttpVerb::get;
  std::string_view target;
  std::string_view authorization;
  std::string_view content_encoding;
  std::optional<std::string_view> json_bytes = {};  ///< kInferenceHeader.
};

struct HttpReply {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::optional<std::size_t> json_bytes = {};  ///< For kInferenceHeader.
  std::string_view allow = {};                 ///< With status 405.
};

[[nodiscard]] HttpReply error_reply(unsigned status, std::string_view text);

class HttpService final {
 public:
  enum class Kind : std::uint8_t {
    live,
    ready,
    server,
    model,
    model_ready,
    infer,
    metrics,
  };
  struct Route {
    Kind kind = Kind::live;
    std::size_t model = 0;
  };

  HttpService(HttpOptions options, std::vector<HttpModel> models, Log* log);

  /// Finds the route of a request before its body is read. Returns a reply if there is none, or if
  /// the client may not use it.
  [[nodiscard]] std::optional<HttpReply> admit(const HttpHead& head, Route& route) const;
  /// Waits until an answer is ready, as the calling thread or fiber can. An empty result: the
  /// server stops, and the answer was abandoned.
  using Wait = std::function<Pending<Answer>(Pending<Answer>)>;
  /// Answers an admitted request. `body` is kept alive by `owner`. `abort` drops the request if it
  /// waits for a batch.
  [[nodiscard]] HttpReply answer(const Route& route,
                                 const HttpHead& head,
                                 std::string_view body,
                                 const std::shared_ptr<const void>& owner,
                                 const Wait& wait,
                                 const std::stop_token& abort);

  /// Logs an exception that ended a connection.
  void note_fault(const std::exception& fault) const;
  void set_draining() noexcept { is_draining_.store(true, std::memory_order_release); }
  [[nodiscard]] bool is_draining() const noexcept {
    return is_draining_.load(std::memory_order_acquire);  // partner: set_draining
  }
  [[nodiscard]] const HttpOptions& options() const noexcept { return options_; }
  [[nodiscard]] HttpMetrics& metrics() noexcept { return metrics_; }

 private:
  [[nodiscard]] std::optional<HttpReply> find_route(std::string_view path, Route& route) const;
  [[nodiscard]] bool is_permitted(std::string_view authorization) const noexcept;
  [[nodiscard]] HttpReply ready() const;
  [[nodiscard]] HttpReply infer(const HttpModel& model,
                                const HttpHead& head,
                                std::string_view body,
                                const std::shared_ptr<const void>& owner,
                                const Wait& wait,
                                const std::stop_token& abort) const;
  [[nodiscard]] HttpReply reply_of(const Error& error) const;

  const HttpOptions options_;
  const std::vector<HttpModel> models_;
  Log* const log_;
  HttpMetrics metrics_;
  std::atomic<bool> is_draining_{false};
};

}  // namespace hearth::detail
