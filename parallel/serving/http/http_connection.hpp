// HttpConnection: one client of an HttpServer, from its first byte to its close: requests in
// sequence, each read, answered and written by the connection's fiber. Private to this room.
// Owned by its fiber. Threads: those of its loop.
// Invariants: (1) each read and write has a limit; (2) a malformed request ends the connection;
// (3) a request that was read completely is answered, also while the server stops.
#pragma once

#include "http_service.hpp"

#include <hearth/runtime/base/fiber_loop.hpp>
#include <hearth/runtime/base/pending.hpp>

#include <cstddef>
#include <memory>
#include <unordered_set>

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace hearth::detail {

class HttpConnection;

using HttpSocket =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;

/// The connections of one loop. Threads: the loop's.
struct HttpRoom {
  std::unordered_set<HttpConnection*> connections;

  /// Ends the waits of connections that read no request.
  void end_idle();
  /// Closes all connections.
  void close_all();
};

/// Objects that the connections of a server share.
struct HttpTerms {
  HttpService& service;
  ContinuationRunner& runner;  ///< Wakes a fiber when its model has answered.
  std::stop_token abort;       ///< Ends the waits for models.
};

/// Serves a client until it leaves, misbehaves, or the server stops. Runs in a fiber.
void serve_http(FiberThread& fiber, HttpSocket socket, const HttpTerms& terms, HttpRoom& room);

/// Answers a client with status 503 and closes it, without reading from it.
void refuse_http(HttpSocket socket);

}  // namespace hearth::detail
