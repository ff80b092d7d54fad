#include <hearth/parallel/http_server.hpp>

#include "http_connection.hpp"

#include <hearth/runtime/base/fiber_loop.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

namespace hearth {

namespace asio = boost::asio;
using asio::ip::tcp;
using detail::FiberLoop;
using detail::FiberThread;
using detail::HttpRoom;
using detail::HttpService;
using detail::HttpSocket;

namespace {

/// How long the fibers have to end once their connections are closed.
constexpr std::chrono::seconds kEndLimit{5};
/// Pause after a failed accept, such as without a free file descriptor.
constexpr std::chrono::milliseconds kAcceptPause{50};

[[noreturn]] void refuse(std::string text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = "HttpServer: " + std::move(text),
                    .op = "HttpServer",
                    .location = loc});
}

bool is_name(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char each) {
    return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
           (each >= '0' && each <= '9') || each == '_' || each == '-' || each == '.';
  });
}

void check(const HttpOptions& options, SourceLoc loc) {
  const auto positive = [&](auto value, const char* name) {
    if (value <= decltype(value){}) {
      refuse(fmt::format("{} is not positive", name), loc);
    }
  };
  positive(options.thread_count, "thread_count");
  positive(options.max_header_bytes, "max_header_bytes");
  positive(options.max_body_bytes, "max_body_bytes");
  positive(options.max_tensors, "max_tensors");
  positive(options.max_connections, "max_connections");
  positive(options.idle_limit, "idle_limit");
  positive(options.read_limit, "read_limit");
  positive(options.write_limit, "write_limit");
  positive(options.answer_limit, "answer_limit");
  if (options.max_header_bytes > (std::int64_t{1} << 24)) {
    refuse(fmt::format("max_header_bytes {}: expected at most 16 MiB", options.max_header_bytes),
           loc);
  }
  if (std::ranges::any_of(options.api_keys, &std::string::empty)) {
    refuse("an API key is empty", loc);
  }
}

void check(const std::vector<ServedTensor>& tensors, const char* what, SourceLoc loc) {
  if (tensors.empty()) {
    refuse(fmt::format("the signature has no {}s", what), loc);
  }
  for (const ServedTensor& tensor : tensors) {
    if (tensor.name.empty() || std::ranges::count(tensors, tensor.name, &ServedTensor::name) > 1) {
      refuse(fmt::format("the {} name '{}' is empty or stands twice", what, tensor.name), loc);
    }
    if (tensor.shape.size() > static_cast<std::size_t>(kMaxRank)) {
      refuse(fmt::format("{} '{}' has {} dimensions: expected at most {}",
                         what,
                         tensor.name,
                         tensor.shape.size(),
                         kMaxRank),
             loc);
    }
  }
}

/// State that the fibers share. They keep it alive, because their thread may be abandoned.
struct Shared {
  Shared(HttpOptions options,
         std::vector<detail::HttpModel> models,
         RuntimeExecutor& executor,
         RuntimeLog& log)
      : service(std::move(options), std::move(models), &log),
        runner(executor, {.shutdown_limit = kEndLimit, .log = &log}),
        rooms(count()) {}

  [[nodiscard]] std::size_t count() const {
    return static_cast<std::size_t>(service.options().thread_count);
  }
  /// Called when a connection or the acceptor has ended.
  void count_end() {
    if (open_count.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      all_ended.set_value();
    }
  }

  HttpService service;
  ContinuationRunner runner;
  std::vector<HttpRoom> rooms;     // each is its loop's
  std::atomic<int> open_count{1};  // connections, and the acceptor
  Promise<void> all_ended;
  std::stop_source abort;
  const detail::HttpTerms terms{.service = service, .runner = runner, .abort = abort.get_token()};
};

}  // namespace

struct HttpServer::State {
  State(const Runtime& runtime, HttpOptions given)
      : executor(&runtime.executor()), log(&runtime.log()), options(std::move(given)) {}

  RuntimeExecutor* executor;
  RuntimeLog* log;
  HttpOptions options;
  std::vector<detail::HttpModel> models;
  std::shared_ptr<Shared> shared;  // from start() on
  Pending<void> all_ended;
  std::vector<std::unique_ptr<FiberLoop>> loops;
  std::shared_ptr<tcp::acceptor> acceptor;  // of the first loop
  bool is_stopped = false;
};

namespace {

/// Accepts clients until the acceptor is closed. Runs in a fiber of the first loop.
void accept_clients(FiberThread& fiber,
                    tcp::acceptor& acceptor,
                    std::vector<FiberLoop*> loops,
                    const std::shared_ptr<Shared>& shared) {
  for (std::size_t next = 0;; next = (next + 1) % loops.size()) {
    FiberLoop& loop = *loops[next];
    auto [error, socket] = fiber.await<boost::system::error_code, HttpSocket>(
        [&](auto done) { acceptor.async_accept(loop.io(), std::move(done)); });
    if (!acceptor.is_open()) {
      return;
    }
    if (error) {
      asio::steady_timer pause(acceptor.get_executor(), kAcceptPause);
      static_cast<void>(fiber.await<boost::system::error_code>(
          [&](auto done) { pause.async_wait(std::move(done)); }));
      continue;
    }
    if (shared->open_count.load(std::memory_order_acquire) >
        shared->service.options().max_connections) {
      shared->service.metrics().count_refused_connection();
      detail::refuse_http(std::move(socket));
      continue;
    }
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    shared->open_count.fetch_add(1, std::memory_order_acq_rel);  // partner: count_end
    loop.start([shared, next, socket = std::move(socket)](FiberThread& own) mutable {
      detail::serve_http(own, std::move(socket), shared->terms, shared->rooms[next]);
      shared->count_end();
    });
  }
}

}  // namespace

HttpServer::HttpServer(const Runtime& runtime, HttpOptions options, SourceLoc loc)
    : state_(std::make_unique<State>(runtime, std::move(options))) {
  check(state_->options, loc);
  boost::system::error_code error;
  asio::ip::make_address(state_->options.address, error);
  if (error) {
    refuse(fmt::format("'{}' is no IP address", state_->options.address), loc);
  }
  if (state_->executor->is_manual()) {
    refuse("sockets need real threads: the runtime's executor steps them", loc);
  }
}

HttpServer::~HttpServer() {
  static_cast<void>(stop(Deadline::in(state_->options.shutdown_limit)));
}

void HttpServer::add(detail::HttpModel model, SourceLoc loc) {
  if (state_->shared) {
    refuse("add() comes before start()", loc);
  }
  if (!is_name(model.name)) {
    refuse(fmt::format("the name '{}': expected letters, digits, '_', '-' and '.'", model.name),
           loc);
  }
  if (std::ranges::find(state_->models, model.name, &detail::HttpModel::name) !=
      state_->models.end()) {
    refuse(fmt::format("there is a model '{}' already", model.name), loc);
  }
  check(model.signature.inputs, "input", loc);
  check(model.signature.outputs, "output", loc);
  state_->models.push_back(std::move(model));
}

std::uint16_t HttpServer::start(SourceLoc loc) {
  State& state = *state_;
  if (state.shared) {
    refuse("start() was called before", loc);
  }
  const asio::ip::address address = asio::ip::make_address(state.options.address);
  std::vector<std::unique_ptr<FiberLoop>> loops;
  loops.reserve(static_cast<std::size_t>(state.options.thread_count));
  for (int i = 0; i < state.options.thread_count; ++i) {
    loops.push_back(std::make_unique<FiberLoop>(
        *state.executor,
        detail::FiberLoopOptions{
            .name = fmt::format("http:{}", i), .shutdown_limit = kEndLimit, .log = state.log}));
  }
  const auto acceptor = std::make_shared<tcp::acceptor>(loops.front()->io());
  std::uint16_t port = 0;
  try {
    const tcp::endpoint endpoint(address, state.options.port);
    acceptor->open(endpoint.protocol());
    acceptor->set_option(tcp::acceptor::reuse_address(true));
    acceptor->bind(endpoint);
    acceptor->listen();
    port = acceptor->local_endpoint().port();
  } catch (const boost::system::system_error& error) {
    throw_error(Error{.code = ErrorCode::io_error,
                      .text = fmt::format("HttpServer: cannot listen on {} port {}: {}",
                                          state.options.address,
                                          state.options.port,
                                          error.code().message()),
                      .op = "HttpServer",
                      .location = loc});
  }
  if (!address.is_loopback() && state.options.api_keys.empty()) {
    state.log->warn(
        fmt::format("HttpServer listens on {} port {} without API keys and without "
                    "TLS: every client of the network may use its models",
                    state.options.address,
                    port));
  } else if (!address.is_loopback()) {
    state.log->warn(fmt::format(
        "HttpServer listens on {} port {} without TLS: API keys and data travel in plain text",
        state.options.address,
        port));
  }
  state.shared = std::make_shared<Shared>(state.options, state.models, *state.executor, *state.log);
  state.all_ended = state.shared->all_ended.pending();
  state.loops = std::move(loops);
  state.acceptor = acceptor;
  std::vector<FiberLoop*> all;
  all.reserve(state.loops.size());
  for (const std::unique_ptr<FiberLoop>& loop : state.loops) {
    all.push_back(loop.get());
  }
  all.front()->start([shared = state.shared, acceptor, all](FiberThread& fiber) {
    accept_clients(fiber, *acceptor, all, shared);
    shared->count_end();
  });
  return port;
}

bool HttpServer::stop(Deadline deadline) {
  State& state = *state_;
  if (!state.shared || state.is_stopped) {
    return true;
  }
  state.is_stopped = true;
  Shared& shared = *state.shared;
  shared.service.set_draining();
  const auto in_each_loop = [&](void (HttpRoom::*action)()) {
    for (std::size_t i = 0; i < state.loops.size(); ++i) {
      state.loops[i]->post([shared = state.shared, i, action] { (shared->rooms[i].*action)(); });
    }
  };
  state.loops.front()->post([acceptor = state.acceptor] { acceptor->close(); });
  in_each_loop(&HttpRoom::end_idle);
  const bool is_drained = state.all_ended.wait({.deadline = deadline}).has_value();
  if (!is_drained) {
    shared.abort.request_stop();
    in_each_loop(&HttpRoom::close_all);
  }
  const Deadline end = Deadline::in(kEndLimit);
  for (const std::unique_ptr<FiberLoop>& loop : state.loops) {
    static_cast<void>(loop->end(end));
  }
  return is_drained;
}

}  // namespace hearth
