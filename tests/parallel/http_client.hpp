// A client of an HttpServer for tests, on a plain socket: it can send anything, and each wait has a
// deadline. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hearth::testing {

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< Names in lower case.
  std::string body;

  [[nodiscard]] std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  }
};

class HttpClient final {
 public:
  /// Connects to 127.0.0.1. Throws std::runtime_error if that fails.
  explicit HttpClient(std::uint16_t port);
  HttpClient(HttpClient&& other) noexcept;
  HttpClient& operator=(HttpClient&&) = delete;
  ~HttpClient();

  /// Sends bytes. Returns false if the server has closed the connection.
  bool send(std::string_view bytes);
  /// Ends the sending direction.
  void finish();
  /// Receives an answer; nullopt if the server closes the connection first. Throws
  /// std::runtime_error if neither happens in time, or if the answer is malformed. `has_body`:
  /// false for an answer to HEAD.
  std::optional<HttpAnswer> receive(bool has_body = true);
  /// Sends a request and receives its answer; throws if there is none. `headers` ends each line
  /// with \r\n.
  HttpAnswer request(std::string_view method,
                     std::string_view target,
                     std::string_view body = {},
                     std::string_view headers = {});
  HttpAnswer get(std::string_view target) { return request("GET", target); }
  HttpAnswer post(std::string_view target, std::string_view body, std::string_view headers = {}) {
    return request("POST", target, body, headers);
  }
  /// Whether the server closes the connection, without another byte, before the tests' patience
  /// ends.
  bool is_closed();

 private:
  /// Reads some bytes. Returns false at the end of the stream.
  bool read();

  int socket_ = -1;
  std::string bytes_;
};

/// The text of a request.
[[nodiscard]] std::string http_request(std::string_view method,
                                       std::string_view target,
                                       std::string_view body = {},
                                       std::string_view headers = {});
/// Bytes of values, as the binary extension sends them.
template <class T>
[[nodiscard]] std::string raw_bytes(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace hearth::testing
