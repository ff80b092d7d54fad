#include "http_service.hpp"

#include "v2_match.hpp"
#include "v2_reader.hpp"
#include "v2_writer.hpp"

#include <hearth/runtime/base/thread_context.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <utility>

namespace hearth::detail {
namespace {

unsigned status_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::shape_mismatch:
    case ErrorCode::dtype_mismatch:
    case ErrorCode::invalid_argument:
    case ErrorCode::out_of_range:
    case ErrorCode::bad_format:
      return 400;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::overloaded:
      return 429;
    case ErrorCode::device_lost:
    case ErrorCode::device_closed:
    case ErrorCode::cancelled:
    case ErrorCode::out_of_memory:
      return 503;
    case ErrorCode::deadline_exceeded:
      return 504;
    default:
      return 500;
  }
}

/// Compares in a time that depends on the length of `given` alone.
bool is_equal_in_constant_time(std::string_view given, std::string_view key) noexcept {
  std::size_t difference = given.size() ^ key.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const char expected = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<std::size_t>(static_cast<unsigned char>(given[i] ^ expected));
  }
  return difference == 0;
}

/// Removes and returns the part of a path before the next slash.
std::string_view take_segment(std::string_view& path) noexcept {
  const std::size_t end = std::min(path.find('/'), path.size());
  const std::string_view segment = path.substr(0, end);
  path.remove_prefix(std::min(end + 1, path.size()));
  return segment;
}

}  // namespace

HttpReply error_reply(unsigned status, std::string_view text) {
  return {.status = status, .body = write_v2_error(text)};
}

HttpService::HttpService(HttpOptions options, std::vector<HttpModel> models, Log* log)
    : options_(std::move(options)),
      models_(std::move(models)),
      log_(log),
      metrics_(models_.size()) {}

bool HttpService::is_permitted(std::string_view authorization) const noexcept {
  constexpr std::string_view kScheme = "Bearer ";
  if (options_.api_keys.empty()) {
    return true;
  }
  if (!authorization.starts_with(kScheme)) {
    return false;
  }
  authorization.remove_prefix(kScheme.size());
  bool is_known = false;
  for (const std::string& key : options_.api_keys) {  // all of them: their order is no secret's
    is_known = is_equal_in_constant_time(authorization, key) || is_known;
  }
  return is_known;
}

std::optional<HttpReply> HttpService::find_route(std::string_view path, Route& route) const {
  const auto found = [&](Kind kind) {
    route.kind = kind;
    return std::nullopt;
  };
  const HttpReply none = error_reply(404, fmt::format("there is no {}", path));
  if (path == "/metrics") {
    return found(Kind::metrics);
  }
  if (path == "/v2" || path == "/v2/") {
    return found(Kind::server);
  }
  constexpr std::string_view kModels = "/v2/models/";
  if (!path.starts_with(kModels)) {
    return none;
  }
  std::string_view rest = path.substr(kModels.size());
  const std::string_view name = take_segment(rest);
  const auto model = std::ranges::find(models_, name, &HttpModel::name);
  if (model == models_.end()) {
    return error_reply(404, fmt::format("there is no model '{}'", name));
  }
  route.model = static_cast<std::size_t>(model - models_.begin());
  std::string_view last = take_segment(rest);
  if (last == "versions") {
    const std::string_view version = take_segment(rest);
    const std::string current = std::to_string(model->version());
    if (version != current) {
      return error_reply(
          404,
          fmt::format(
              "there is no version '{}' of '{}': it serves version {}", version, name, current));
    }
    last = take_segment(rest);
  }
  if (!rest.empty()) {
    return none;
  }
  if (last.empty()) {
    return found(Kind::model);
  }
  if (last == "ready") {
    return found(Kind::model_ready);
  }
  return last == "infer" ? found(Kind::infer) : std::optional<HttpReply>(none);
}

std::optional<HttpReply> HttpService::admit(const HttpHead& head, Route& route) const {
  const std::string_view path = head.target.substr(0, head.target.find('?'));
  const bool is_live = path == "/v2/health/live";
  if (is_live || path == "/v2/health/ready") {
    route.kind = is_live ? Kind::live : Kind::ready;
  } else {
    if (!is_permitted(head.authorization)) {
      return error_reply(401, "expected the header Authorization: Bearer KEY, with a known key");
    }
    if (std::optional<HttpReply> refusal = find_route(path, route)) {
      return refusal;
    }
  }
  const bool is_post = route.kind == Kind::infer;
  const bool is_right = is_post ? head.verb == HttpVerb::post
                                : head.verb == HttpVerb::get || head.verb == HttpVerb::head;
  if (!is_right) {
    HttpReply reply = error_reply(405, fmt::format("{} takes {}", path, is_post ? "POST" : "GET"));
    reply.allow = is_post ? "POST" : "GET, HEAD";
    return reply;
  }
  if (!head.content_encoding.empty() && head.content_encoding != "identity") {
    return error_reply(
        415, fmt::format("content encoding '{}' is not supported", head.content_encoding));
  }
  return std::nullopt;
}

HttpReply HttpService::ready() const {
  if (is_draining()) {
    return error_reply(503, "the server stops");
  }
  for (const HttpModel& model : models_) {
    if (!model.is_ready()) {
      return error_reply(503, fmt::format("model '{}' has no device in service", model.name));
    }
  }
  return {.body = write_v2_ready("")};
}

HttpReply HttpService::answer(const Route& route,
                              const HttpHead& head,
                              std::string_view body,
                              const std::shared_ptr<const void>& owner,
                              const Wait& wait,
                              const std::stop_token& abort) {
  const HttpModel* const model = models_.empty() ? nullptr : &models_[route.model];
  switch (route.kind) {
    case Kind::live:
      return {.body = write_v2_live()};
    case Kind::ready:
      return ready();
    case Kind::server:
      return {.body = write_v2_server()};
    case Kind::model:
      return {.body = write_v2_metadata(model->name, model->version(), model->signature)};
    case Kind::model_ready:
      return model->is_ready() && !is_draining()
                 ? HttpReply{.body = write_v2_ready(model->name)}
                 : error_reply(503, fmt::format("model '{}' is not ready", model->name));
    case Kind::metrics:
      return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
              .body = metrics_.text(models_)};
    case Kind::infer:
      break;
  }
  const TimePoint begin = current_context().clock().now();
  HttpReply reply = infer(*model, head, body, owner, wait, abort);
  metrics_.count_inference(route.model, reply.status, current_context().clock().now() - begin);
  return reply;
}

HttpReply HttpService::infer(const HttpModel& model,
                             const HttpHead& head,
                             std::string_view body,
                             const std::shared_ptr<const void>& owner,
                             const Wait& wait,
                             const std::stop_token& abort) const {
  std::size_t json_bytes = body.size();
  if (head.json_bytes) {
    const char* const end = head.json_bytes->data() + head.json_bytes->size();
    const auto read = std::from_chars(head.json_bytes->data(), end, json_bytes);
    if (read.ec != std::errc() || read.ptr != end || json_bytes > body.size()) {
      return error_reply(400,
                         fmt::format("{} {}: expected a number of bytes of the body, which has {}",
                                     kInferenceHeader,
                                     *head.json_bytes,
                                     body.size()));
    }
  }
  Result<V2Request> request =
      read_v2_request(body.substr(0, json_bytes), {.max_tensors = options_.max_tensors});
  if (!request.has_value()) {
    return reply_of(request.error());
  }
  const std::string id = request.value().id;
  std::chrono::nanoseconds limit = options_.answer_limit;
  if (const auto timeout = request.value().timeout_us) {
    const auto most = std::chrono::duration_cast<std::chrono::microseconds>(limit);
    limit = std::chrono::microseconds(
        std::min<std::uint64_t>(*timeout, static_cast<std::uint64_t>(most.count())));
  }
  Result<MatchedRequest> matched =
      match_v2_request(std::move(request).value(),
                       std::as_bytes(std::span<const char>(body.substr(json_bytes))),
                       owner,
                       model.signature);
  if (!matched.has_value()) {
    return reply_of(matched.error());
  }
  try {
    // The model ends a request within 50 ms of its deadline.
    Pending<Answer> pending = wait(model.ask(std::move(matched.value().inputs),
                                             {.deadline = Deadline::in(limit), .stop = abort}));
    if (!pending.is_valid()) {
      return error_reply(503, "the server stops");
    }
    const Answer answer = std::move(pending).get();
    Result<V2Body> written =
        write_v2_answer(answer, model.name, id, model.signature, matched.value().outputs);
    if (!written.has_value()) {
      return written.error().code == ErrorCode::unsupported ? error_reply(406, written.error().text)
                                                            : reply_of(written.error());
    }
    V2Body& out = written.value();
    return {.content_type = out.json_bytes ? "application/octet-stream" : "application/json",
            .body = std::move(out.bytes),
            .json_bytes = out.json_bytes};
  } catch (const Exception& exception) {
    return reply_of(exception.error());
  }
}

void HttpService::note_fault(const std::exception& fault) const {
  log_->write_counted(LogLevel::warn, fault.what(), [&] {
    return fmt::format("HttpServer closed a connection: {}", fault.what());
  });
}

HttpReply HttpService::reply_of(const Error& error) const {
  const unsigned status = status_of(error.code);
  if (status == 500) {
    log_->write_counted(LogLevel::warn, error.text, [&] {
      return "HttpServer answered a request with status 500: " + error.to_string();
    });
  }
  return error_reply(status, error.text);
}

}  // namespace hearth::detail
