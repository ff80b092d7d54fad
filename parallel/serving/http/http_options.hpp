// Options of an HttpServer, and the names that clients use for a model's inputs and outputs. In a
// target of its own, hearth::http.
// Values. Threads: any.
#pragma once

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/dtype.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace hearth {

/// An input or output of a served model.
struct ServedTensor {
  std::string name;          ///< Name in requests and answers.
  DType dtype = DType::f32;  ///< Type of the elements.
  /// Shape with the rows on axis 0; -1: any size. Requests that do not fit are refused.
  std::vector<std::int64_t> shape = {};
  /// Whether the input decides shapes, as RequestInput::by_value. Axis 0 need not count rows then.
  bool by_value = false;
};

/// Inputs and outputs of a served model.
struct ServedSignature {
  std::vector<ServedTensor> inputs;   ///< In the order of the forward pass.
  std::vector<ServedTensor> outputs;  ///< In the order of the forward pass.
};

struct HttpOptions {
  std::string address = "127.0.0.1";  ///< Address to listen on; "0.0.0.0" or "::" for all networks.
  std::uint16_t port = 8000;  ///< Port to listen on; 0: any free one, which start() returns.
  int thread_count = 1;       ///< Threads that read and write; models run on others.
  /// Keys of which a client sends one, as `Authorization: Bearer KEY`. Empty: no key is needed. The
  /// two health routes never need one.
  std::vector<std::string> api_keys = {};
  std::int64_t max_header_bytes = 16 << 10;  ///< Most bytes of a request line and its headers.
  std::int64_t max_body_bytes = 16 << 20;    ///< Most bytes of a request's body.
  int max_tensors = 64;                      ///< Most inputs, and most outputs, of a request.
  int max_connections = 1024;  ///< Connections at a time; further ones get status 503.
  /// Time that a connection may stay open without a request.
  std::chrono::nanoseconds idle_limit = std::chrono::seconds(60);
  /// Time from the first byte of a request to its last one. Slower clients are closed.
  std::chrono::nanoseconds read_limit = std::chrono::seconds(30);
  /// Time until a client has taken its answer. Slower clients are closed.
  std::chrono::nanoseconds write_limit = std::chrono::seconds(30);
  /// Deadline of a request that names no `timeout`, and the longest that one may name.
  std::chrono::nanoseconds answer_limit = std::chrono::seconds(30);
  /// Limit of the destructor's wait for requests in flight.
  std::chrono::nanoseconds shutdown_limit = kDefaultWait;
};

}  // namespace hearth
