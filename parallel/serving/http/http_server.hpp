// HttpServer: ModelServers for clients on the network, by the KServe v2 protocol (Open Inference
// Protocol) over HTTP/1.1, with the binary extension, health, metadata and metrics. In a target of
// its own, hearth::http.
// Owned by the program; the Runtime and the ModelServers outlive it.
// Threads: all functions by one at a time.
// Invariants: (1) a request that was accepted is answered, also while the server stops; (2) memory
// and time of each client have limits; (3) by default it listens on loopback.
#pragma once

#include <hearth/parallel/http_model.hpp>
#include <hearth/parallel/http_options.hpp>
#include <hearth/parallel/model_server.hpp>
#include <hearth/runtime/runtime.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace hearth {

class HttpServer final {
 public:
  /// Errors: ArgumentError for limits that are not positive, an empty key, an address that is no IP
  /// address, or a Runtime whose executor steps threads.
  explicit HttpServer(const Runtime& runtime,
                      HttpOptions options = {},
                      SourceLoc loc = SourceLoc::current());
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  /// Stops, within shutdown_limit.
  ~HttpServer();

  /// Serves a model as `/v2/models/NAME`. Call it before start().
  ///
  /// Errors: ArgumentError for a name that is taken or has characters besides letters, digits and
  /// `_ - .`; for a signature without inputs or outputs, or with two equal names; after start().
  template <class Model>
  void add(std::string name,
           ModelServer<Model>& server,
           ServedSignature signature,
           SourceLoc loc = SourceLoc::current()) {
    add(detail::HttpModel{
            .name = std::move(name),
            .signature = std::move(signature),
            .ask =
                [&server](std::vector<RequestInput> inputs, const RequestOptions& options) {
                  return server.ask(std::move(inputs), options);
                },
            .statistics = [&server] { return server.statistics(); },
            .version = [&server] { return server.version(); },
            .is_ready =
                [&server] {
                  for (std::size_t i = 0; i < server.devices().size(); ++i) {
                    if (server.is_in_service(i)) {
                      return true;
                    }
                  }
                  return false;
                }},
        loc);
  }

  /// Listens and serves. Returns the port.
  ///
  /// Errors: Exception io_error if the address cannot be used; ArgumentError if it was started.
  std::uint16_t start(SourceLoc loc = SourceLoc::current());
  /// Accepts no further connection, answers the requests that have arrived, and closes all
  /// connections. At the deadline it closes those that are left. Returns whether all requests were
  /// answered. Further calls return at once.
  bool stop(Deadline deadline = Deadline::in(kDefaultWait));

 private:
  struct State;

  void add(detail::HttpModel model, SourceLoc loc);

  std::unique_ptr<State> state_;
};

}  // namespace hearth
