#include "http_connection.hpp"

#include "v2_message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/rate_policy.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/span_body.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

namespace hearth::detail {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Code = boost::system::error_code;

namespace {

/// How long, and how many bytes, a client may go on sending after a request that is refused. A
/// connection that is closed with unread bytes is reset, and the client might lose the answer.
constexpr std::chrono::seconds kLingerLimit{2};
constexpr std::size_t kLingerBytes = std::size_t{1} << 20;
/// Longest time of a timer: the sum of now and a longer one might overflow.
constexpr std::chrono::nanoseconds kLongestLimit = std::chrono::hours(24);
constexpr std::size_t kFirstReadBytes = std::size_t{4} << 10;
constexpr unsigned kHttpVersion = 11;
/// Read buffers of idle connections are at most this large.
constexpr std::size_t kKeptBufferBytes = std::size_t{16} << 10;

std::string_view view(beast::string_view text) noexcept {
  return {text.data(), text.size()};
}

HttpVerb verb_of(http::verb verb) noexcept {
  switch (verb) {
    case http::verb::get:
      return HttpVerb::get;
    case http::verb::head:
      return HttpVerb::head;
    case http::verb::post:
      return HttpVerb::post;
    default:
      return HttpVerb::other;
  }
}

HttpHead head_of(const http::fields& fields, http::verb verb, beast::string_view target) {
  HttpHead head{.verb = verb_of(verb),
                .target = view(target),
                .authorization = view(fields[http::field::authorization]),
                .content_encoding = view(fields[http::field::content_encoding])};
  if (const auto found = fields.find({kInferenceHeader.data(), kInferenceHeader.size()});
      found != fields.end()) {
    head.json_bytes = view(found->value());
  }
  return head;
}

/// The answer to a request that could not be read; nullopt if the client is gone or too slow.
std::optional<HttpReply> reply_of(Code error, const HttpOptions& options) {
  if (error == http::error::header_limit) {
    return error_reply(
        431, fmt::format("the headers have more than {} bytes", options.max_header_bytes));
  }
  if (error == http::error::body_limit) {
    return error_reply(413, fmt::format("the body has more than {} bytes", options.max_body_bytes));
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error.category() != http::make_error_code(http::error::bad_method).category()) {
    return std::nullopt;
  }
  return error_reply(400, "the request is no HTTP: " + error.message());
}

}  // namespace

class HttpConnection final {
 public:
  HttpConnection(FiberThread& fiber, HttpSocket socket, const HttpTerms& terms, HttpRoom& room)
      : fiber_(fiber),
        stream_(std::move(socket)),
        terms_(terms),
        service_(terms.service),
        options_(service_.options()),
        room_(room) {
    room_.connections.insert(this);
    service_.metrics().count_connection();
  }
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;
  ~HttpConnection() {
    service_.metrics().count_end();
    room_.connections.erase(this);
  }

  void serve() {
    while (await_request() && serve_request()) {
    }
    close();
  }
  void end_idle() {
    if (is_idle_) {
      stream_.cancel();
    }
  }
  void close_now() { stream_.close(); }

 private:
  using Stream = beast::
      basic_stream<asio::ip::tcp, asio::io_context::executor_type, beast::unlimited_rate_policy>;
  using Parser = http::request_parser<http::string_body>;

  /// Waits for the first byte of a request. Returns false if none comes.
  bool await_request();
  /// Returns whether the connection stays open.
  bool serve_request();
  bool read_body(Parser& parser);
  bool write(const HttpReply& reply, bool keep_alive, bool is_head);
  /// Answers a request that was not read completely, and closes the connection.
  void refuse(const HttpReply& reply, bool is_head);
  void end_after(Code error);
  /// Reads on for a while, so that the client gets the answer before the connection's end.
  void linger();
  void close();
  void expire_after(std::chrono::nanoseconds limit) {
    stream_.expires_after(std::min(limit, kLongestLimit));
  }
  void count_if_slow(Code error) {
    if (error == beast::error::timeout) {
      service_.metrics().count_slow_client();
    }
  }

  FiberThread& fiber_;
  Stream stream_;
  const HttpTerms& terms_;
  HttpService& service_;
  const HttpOptions& options_;
  HttpRoom& room_;
  beast::flat_buffer buffer_;
  bool is_idle_ = false;
};

bool HttpConnection::await_request() {
  if (buffer_.size() != 0) {
    return true;  // the client sent it behind the last one
  }
  if (buffer_.capacity() > kKeptBufferBytes) {
    buffer_ = {};
  }
  for (;;) {
    // A server that stops still answers what has arrived.
    Code ignored;
    if (service_.is_draining() && stream_.socket().available(ignored) == 0) {
      return false;
    }
    is_idle_ = true;
    expire_after(options_.idle_limit);
    const auto [error, size] = fiber_.await<Code, std::size_t>([&](auto done) {
      stream_.async_read_some(buffer_.prepare(kFirstReadBytes), std::move(done));
    });
    is_idle_ = false;
    if (!error) {
      buffer_.commit(size);
      return true;
    }
    if (error != asio::error::operation_aborted || !stream_.socket().is_open()) {
      return false;
    }
  }
}

bool HttpConnection::serve_request() {
  Parser parser;
  parser.header_limit(static_cast<std::uint32_t>(options_.max_header_bytes));
  parser.body_limit(static_cast<std::uint64_t>(options_.max_body_bytes));
  expire_after(options_.read_limit);
  const auto [error, size] = fiber_.await<Code, std::size_t>(
      [&](auto done) { http::async_read_header(stream_, buffer_, parser, std::move(done)); });
  static_cast<void>(size);
  if (error) {
    end_after(error);
    return false;
  }
  const auto& request = parser.get();
  const HttpHead head = head_of(request.base(), request.method(), request.target());
  HttpService::Route route;
  const bool is_head = head.verb == HttpVerb::head;
  const std::optional<HttpReply> refusal = service_.admit(head, route);
  if (refusal && !parser.is_done()) {
    refuse(*refusal, is_head);
    return false;
  }
  const bool keep_alive = request.keep_alive();
  if (refusal) {
    return write(*refusal, keep_alive && !service_.is_draining(), is_head);
  }
  if (!read_body(parser)) {
    return false;
  }
  const auto body = std::make_shared<const std::string>(std::move(parser.get().body()));
  const auto wait = [this](Pending<Answer> answer) {
    return fiber_.await_result(std::move(answer), terms_.runner, terms_.abort);
  };
  const HttpReply reply = service_.answer(route, head, *body, body, wait, terms_.abort);
  return write(reply, keep_alive && !service_.is_draining(), is_head);
}

bool HttpConnection::read_body(Parser& parser) {
  if (parser.is_done()) {
    return true;
  }
  const beast::string_view expected = parser.get()[http::field::expect];
  if (!expected.empty()) {
    if (!beast::iequals(expected, "100-continue")) {
      refuse(error_reply(417, "the header Expect takes 100-continue"), false);
      return false;
    }
    http::response<http::empty_body> go_on(http::status::continue_, kHttpVersion);
    const auto [error, size] = fiber_.await<Code, std::size_t>(
        [&](auto done) { http::async_write(stream_, go_on, std::move(done)); });
    static_cast<void>(size);
    if (error) {
      end_after(error);
      return false;
    }
  }
  const auto [error, size] = fiber_.await<Code, std::size_t>(
      [&](auto done) { http::async_read(stream_, buffer_, parser, std::move(done)); });
  static_cast<void>(size);
  if (error) {
    end_after(error);
    return false;
  }
  return true;
}

bool HttpConnection::write(const HttpReply& reply, bool keep_alive, bool is_head) {
  service_.metrics().count_status(reply.status);
  http::response<http::span_body<const char>> response(static_cast<http::status>(reply.status),
                                                       kHttpVersion);
  response.set(http::field::server, "hearth/" HEARTH_VERSION);
  response.set(http::field::content_type, reply.content_type);
  if (reply.json_bytes) {
    response.set({kInferenceHeader.data(), kInferenceHeader.size()},
                 std::to_string(*reply.json_bytes));
  }
  if (!reply.allow.empty()) {
    response.set(http::field::allow, {reply.allow.data(), reply.allow.size()});
  }
  if (reply.status == 401) {
    response.set(http::field::www_authenticate, "Bearer");
  }
  if (reply.status == 429 || reply.status == 503) {
    response.set(http::field::retry_after, "1");
  }
  response.content_length(reply.body.size());
  response.keep_alive(keep_alive);
  if (!is_head) {
    response.body() = {reply.body.data(), reply.body.size()};
  }
  expire_after(options_.write_limit);
  const auto [error, size] = fiber_.await<Code, std::size_t>(
      [&](auto done) { http::async_write(stream_, response, std::move(done)); });
  static_cast<void>(size);
  count_if_slow(error);
  return !error && keep_alive;
}

void HttpConnection::refuse(const HttpReply& reply, bool is_head) {
  static_cast<void>(write(reply, false, is_head));
  linger();
}

void HttpConnection::end_after(Code error) {
  count_if_slow(error);
  if (const std::optional<HttpReply> reply = reply_of(error, options_)) {
    refuse(*reply, false);
  }
}

void HttpConnection::linger() {
  Code ignored;
  stream_.socket().shutdown(HttpSocket::shutdown_send, ignored);
  stream_.expires_after(kLingerLimit);
  is_idle_ = true;  // a server that stops does not wait for this
  std::size_t left = kLingerBytes;
  while (left > 0) {
    buffer_.clear();
    const auto [error, size] = fiber_.await<Code, std::size_t>([&](auto done) {
      stream_.async_read_some(buffer_.prepare(kFirstReadBytes), std::move(done));
    });
    if (error) {
      return;
    }
    left -= std::min(left, size);
  }
}

void HttpConnection::close() {
  Code ignored;
  stream_.socket().shutdown(HttpSocket::shutdown_both, ignored);
  stream_.close();
}

void HttpRoom::end_idle() {
  for (HttpConnection* const connection : connections) {
    connection->end_idle();
  }
}

void HttpRoom::close_all() {
  for (HttpConnection* const connection : connections) {
    connection->close_now();
  }
}

void serve_http(FiberThread& fiber, HttpSocket socket, const HttpTerms& terms, HttpRoom& room) {
  HttpConnection connection(fiber, std::move(socket), terms, room);
  try {
    connection.serve();
  } catch (const std::exception& fault) {  // such as no memory: the other connections go on
    terms.service.note_fault(fault);
  }
}

void refuse_http(HttpSocket socket) {
  const std::string body = error_reply(503, "too many connections").body;
  const std::string refusal = fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
      "Connection: close\r\nContent-Length: {}\r\n\r\n{}",
      body.size(),
      body);
  Code ignored;
  socket.non_blocking(true, ignored);
  socket.send(asio::buffer(refusal), 0, ignored);  // fits into its buffer
  socket.shutdown(HttpSocket::shutdown_send, ignored);
}

}  // namespace hearth::detail
