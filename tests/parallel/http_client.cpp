#include "http_client.hpp"

#include <array>
#include <cctype>
#include <stdexcept>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hearth::testing {
namespace {

/// How long a test waits for anything that must come.
constexpr int kPatienceMs = 30'000;

void await_event(int socket, short events) {
  pollfd waiting{.fd = socket, .events = events, .revents = 0};
  if (::poll(&waiting, 1, kPatienceMs) <= 0) {
    throw std::runtime_error("the server did nothing in time");
  }
}

}  // namespace

HttpClient::HttpClient(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(socket_);
    throw std::runtime_error("cannot connect");
  }
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), bytes_(std::move(other.bytes_)) {}

HttpClient::~HttpClient() {
  if (socket_ >= 0) {
    ::close(socket_);
  }
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    await_event(socket_, POLLOUT);
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void HttpClient::finish() {
  ::shutdown(socket_, SHUT_WR);
}

bool HttpClient::read() {
  await_event(socket_, POLLIN);
  std::array<char, 65536> some{};
  const ssize_t size = ::recv(socket_, some.data(), some.size(), 0);
  if (size <= 0) {
    return false;
  }
  bytes_.append(some.data(), static_cast<std::size_t>(size));
  return true;
}

std::optional<HttpAnswer> HttpClient::receive(bool has_body) {
  std::size_t end = 0;
  while ((end = bytes_.find("\r\n\r\n")) == std::string::npos) {
    if (!read()) {
      return std::nullopt;
    }
  }
  HttpAnswer answer;
  if (!bytes_.starts_with("HTTP/1.1 ")) {
    throw std::runtime_error("malformed answer: " + bytes_);
  }
  answer.status = std::stoi(bytes_.substr(9, 3));
  for (std::size_t line = bytes_.find("\r\n") + 2; line < end;) {
    const std::size_t next = bytes_.find("\r\n", line);
    const std::size_t colon = bytes_.find(": ", line);
    std::string name = bytes_.substr(line, colon - line);
    for (char& letter : name) {
      letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
    answer.headers[name] = bytes_.substr(colon + 2, next - colon - 2);
    line = next + 2;
  }
  bytes_.erase(0, end + 4);
  if (has_body && answer.status != 100) {
    const std::size_t size = std::stoul(answer.header("content-length"));
    while (bytes_.size() < size) {
      if (!read()) {
        throw std::runtime_error("the connection ended inside a body");
      }
    }
    answer.body = bytes_.substr(0, size);
    bytes_.erase(0, size);
  }
  return answer;
}

HttpAnswer HttpClient::request(std::string_view method,
                               std::string_view target,
                               std::string_view body,
                               std::string_view headers) {
  send(http_request(method, target, body, headers));
  std::optional<HttpAnswer> answer = receive(method != "HEAD");
  if (!answer) {
    throw std::runtime_error("the connection ended without an answer");
  }
  return *std::move(answer);
}

bool HttpClient::is_closed() {
  return bytes_.empty() && !read();
}

std::string http_request(std::string_view method,
                         std::string_view target,
                         std::string_view body,
                         std::string_view headers) {
  std::string text;
  text.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: test\r\n");
  text.append(headers);
  if (!body.empty() || method == "POST") {
    text.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
  }
  return text.append("\r\n").append(body);
}

}  // namespace hearth::testing
