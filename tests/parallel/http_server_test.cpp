// An HttpServer under clients that misbehave, under load, and at its end. Each request gets an
// answer or a closed connection, and the next good request gets its answer.
#include <hearth/parallel/http_server.hpp>

#include "http_client.hpp"
#include "http_models.hpp"

#include <hearth/runtime/base/manual_executor.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using namespace std::chrono_literals;
using ::testing::HasSubstr;

const std::string kGood =
    R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})";
const std::string kInfer = "/v2/models/echo/infer";

/// A server of one model that returns its input, perhaps behind a door.
class Served final {
 public:
  explicit Served(HttpOptions options = any_port(),
                  ServerOptions model_options = {},
                  HttpDoor* door = nullptr)
      : door_(door),
        echo_(echo_server(runtime_, std::move(model_options), door)),
        http_(runtime_, std::move(options)) {
    http_.add("echo", echo_, echo_signature());
    port_ = http_.start();
  }
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;
  /// Opens the door: the model's threads end then.
  ~Served() {
    if (door_ != nullptr) {
      door_->open();
    }
  }

  [[nodiscard]] HttpClient client() const { return HttpClient(port_); }
  /// Whether a good request on a new connection is answered.
  [[nodiscard]] bool is_serving() const {
    const HttpAnswer answer = client().post(kInfer, kGood);
    return answer.status == 200 && answer.body.find("[1,2,3,4]") != std::string::npos;
  }
  [[nodiscard]] std::string metrics() const { return client().get("/metrics").body; }
  HttpServer& http() { return http_; }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  HttpDoor* door_;
  Runtime runtime_{one_cpu()};
  ModelServer<HttpNet> echo_;
  HttpServer http_;
  std::uint16_t port_ = 0;
};

TEST(HttpServer, AConnectionServesManyRequests) {
  const Served served;
  HttpClient client = served.client();
  for (int i = 0; i < 20; ++i) {
    const HttpAnswer answer = client.post(kInfer, kGood);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.header("connection"), "");
  }
}

TEST(HttpServer, AnswersPipelinedRequestsInTheirOrder) {
  const Served served;
  HttpClient client = served.client();
  client.send(http_request("GET", "/v2/health/live") + http_request("POST", kInfer, kGood) +
              http_request("GET", "/v2/health/ready"));
  EXPECT_THAT(client.receive()->body, HasSubstr("live"));
  EXPECT_THAT(client.receive()->body, HasSubstr("[1,2,3,4]"));
  EXPECT_THAT(client.receive()->body, HasSubstr("ready"));
}

TEST(HttpServer, ClosesTheConnectionWhenTheClientWishes) {
  const Served served;
  HttpClient client = served.client();
  const HttpAnswer answer = client.post(kInfer, kGood, "Connection: close\r\n");
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_TRUE(client.is_closed());
  HttpClient old = served.client();
  old.send("GET /v2/health/live HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.receive()->status, 200);
  EXPECT_TRUE(old.is_closed());
}

TEST(HttpServer, TakesBodiesInPieces) {
  const Served served;
  HttpClient client = served.client();
  client.send("POST " + kInfer + " HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const char letter : kGood) {
    client.send(std::string("1\r\n") + letter + "\r\n");
  }
  client.send("0\r\n\r\n");
  EXPECT_EQ(client.receive()->status, 200);
}

TEST(HttpServer, LetsAClientAskBeforeItsBody) {
  const Served served;
  HttpClient client = served.client();
  const std::string request = http_request("POST", kInfer, kGood, "Expect: 100-continue\r\n");
  client.send(request.substr(0, request.size() - kGood.size()));
  EXPECT_EQ(client.receive()->status, 100);
  client.send(kGood);
  EXPECT_EQ(client.receive()->status, 200);
  HttpClient other = served.client();
  EXPECT_EQ(other.post(kInfer, kGood, "Expect: a miracle\r\n").status, 417);
  EXPECT_TRUE(other.is_closed());
}

TEST(HttpServer, LimitsHeadersAndBodies) {
  HttpOptions options = any_port();
  options.max_body_bytes = 1000;
  options.max_header_bytes = 2000;
  const Served served(options);
  // Refused by its announced length, before the body.
  HttpClient announced = served.client();
  announced.send("POST " + kInfer + " HTTP/1.1\r\nHost: test\r\nContent-Length: 1001\r\n\r\n");
  std::optional<HttpAnswer> answer = announced.receive();
  EXPECT_EQ(answer->status, 413);
  EXPECT_THAT(answer->body, HasSubstr("more than 1000 bytes"));
  announced.finish();
  EXPECT_TRUE(announced.is_closed());
  // Not announced.
  HttpClient chunked = served.client();
  chunked.send("POST " + kInfer + " HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 11; ++i) {
    chunked.send("64\r\n" + std::string(100, ' ') + "\r\n");
  }
  EXPECT_EQ(chunked.receive()->status, 413);
  HttpClient headers = served.client();
  EXPECT_EQ(headers.request("GET", "/v2", {}, "X: " + std::string(3000, 'x') + "\r\n").status, 431);
  HttpClient coded = served.client();
  EXPECT_EQ(coded.post(kInfer, kGood, "Content-Encoding: gzip\r\n").status, 415);
  EXPECT_TRUE(served.is_serving());
}

TEST(HttpServer, AnswersMalformedRequestsAndClosesTheirConnections) {
  const Served served;
  for (const char* const bytes :
       {"nonsense\r\n\r\n",
        "GET\r\n\r\n",
        "GET /v2 HTTP/9.9\r\n\r\n",
        "GET /v2 HTTP/1.1\r\nno colon\r\n\r\n",
        "\x16\x03\x01\x02\r\n\r\n",
        "POST /v2 HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "POST /v2 HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"}) {
    HttpClient client = served.client();
    client.send(bytes);
    const std::optional<HttpAnswer> answer = client.receive();
    EXPECT_TRUE(answer && answer->status == 400) << bytes;
    client.finish();
    EXPECT_TRUE(client.is_closed()) << bytes;
  }
  EXPECT_TRUE(served.is_serving());
}

TEST(HttpServer, AClientNeedsAKey) {
  HttpOptions options = any_port();
  options.api_keys = {"first", "second key"};
  const Served served(options);
  const auto status = [&](std::string_view headers) {
    return served.client().request("POST", kInfer, kGood, headers).status;
  };
  EXPECT_EQ(status("Authorization: Bearer first\r\n"), 200);
  EXPECT_EQ(status("Authorization: Bearer second key\r\n"), 200);
  for (const char* const headers : {"",
                                    "Authorization: Bearer\r\n",
                                    "Authorization: Bearer \r\n",
                                    "Authorization: Bearer firs\r\n",
                                    "Authorization: Bearer firstfirst\r\n",
                                    "Authorization: Bearer First\r\n",
                                    "Authorization: Basic first\r\n"}) {
    EXPECT_EQ(status(headers), 401) << headers;
  }
  // A client without a key learns nothing of the models.
  EXPECT_EQ(served.client().get("/v2/models/none").status, 401);
  EXPECT_EQ(served.client().get("/metrics").status, 401);
  const HttpAnswer refused = served.client().get("/v2");
  EXPECT_EQ(refused.header("www-authenticate"), "Bearer");
  EXPECT_EQ(served.client().get("/v2/health/live").status, 200);
  EXPECT_EQ(served.client().get("/v2/health/ready").status, 200);
}

TEST(HttpServer, ClosesSlowClients) {
  HttpOptions options = any_port();
  options.read_limit = 30ms;
  options.idle_limit = 60s;
  const Served served(options);
  HttpClient head = served.client();
  head.send("POST " + kInfer + " HTTP/1.1\r\nHost:");
  EXPECT_TRUE(head.is_closed());
  HttpClient body = served.client();
  const std::string request = http_request("POST", kInfer, kGood);
  body.send(request.substr(0, request.size() - 5));
  EXPECT_TRUE(body.is_closed());
  EXPECT_THAT(served.metrics(), HasSubstr("\nhearth_http_slow_clients_total 2\n"));
}

TEST(HttpServer, ClosesIdleConnections) {
  HttpOptions options = any_port();
  options.idle_limit = 30ms;
  const Served served(options);
  HttpClient never = served.client();
  EXPECT_TRUE(never.is_closed());
  HttpClient once = served.client();
  EXPECT_EQ(once.get("/v2/health/live").status, 200);
  EXPECT_TRUE(once.is_closed());
}

TEST(HttpServer, ClosesClientsThatTakeNoAnswer) {
  HttpOptions options = any_port();
  options.write_limit = 30ms;
  options.max_body_bytes = 64 << 20;
  const Served served(options);
  HttpClient client = served.client();
  // Its answer of 16 MB does not fit into the buffers of the sockets.
  const std::string head =
      R"({"inputs":[{"name":"x","shape":[1,4000000],"datatype":"FP32","parameters":{"binary_data_size":16000000}}],)"
      R"("parameters":{"binary_data_output":true}})";
  std::string body = head;
  body.resize(head.size() + 16'000'000);
  client.send(
      http_request("POST",
                   kInfer,
                   body,
                   "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n"));
  while (served.metrics().find("\nhearth_http_slow_clients_total 1\n") == std::string::npos) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(served.is_serving());
}

TEST(HttpServer, RefusesConnectionsBeyondItsLimit) {
  HttpOptions options = any_port();
  options.max_connections = 2;
  const Served served(options);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(served.client());
    EXPECT_EQ(clients.back().get("/v2/health/live").status, 200);
  }
  HttpClient third = served.client();
  const std::optional<HttpAnswer> refusal = third.receive();
  EXPECT_EQ(refusal->status, 503);
  EXPECT_EQ(refusal->body, R"({"error":"too many connections"})");
  EXPECT_EQ(refusal->header("retry-after"), "1");
  EXPECT_TRUE(third.is_closed());
  EXPECT_EQ(clients.front().get("/v2/health/live").status, 200);
  // A place is free once a connection has ended.
  clients.pop_back();
  for (bool is_served = false; !is_served;) {
    HttpClient next = served.client();
    next.send(http_request("GET", "/v2/health/live"));
    const std::optional<HttpAnswer> answer = next.receive();
    is_served = answer && answer->status == 200;
  }
}

TEST(HttpServer, ManyConnectionsGetTheirOwnAnswers) {
  HttpOptions options = any_port();
  options.thread_count = 2;
  const Served served(options);
  constexpr int kClients = 200;
  std::vector<HttpClient> clients;
  clients.reserve(kClients);
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(served.client());
  }
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < kClients; ++i) {
      const std::string number = std::to_string(i + round);
      clients[static_cast<std::size_t>(i)].send(http_request(
          "POST",
          kInfer,
          R"({"inputs":[{"name":"x","shape":[1,1],"datatype":"FP32","data":[)" + number + "]}]}"));
    }
    for (int i = 0; i < kClients; ++i) {
      const std::optional<HttpAnswer> answer = clients[static_cast<std::size_t>(i)].receive();
      ASSERT_TRUE(answer && answer->status == 200);
      EXPECT_THAT(answer->body, HasSubstr("\"data\":[" + std::to_string(i + round) + "]"));
    }
  }
}

TEST(HttpServer, RefusesRequestsBeyondTheQueue) {
  HttpDoor door;
  const Served served(any_port(), {.max_batch = 1, .max_waiting_rows = 2}, &door);
  std::vector<HttpClient> clients;
  clients.push_back(served.client());
  clients.back().send(http_request("POST", kInfer, kGood));
  door.wait_for(1);  // it runs
  for (int i = 0; i < 2; ++i) {
    clients.push_back(served.client());
    clients.back().send(http_request("POST", kInfer, kGood));
  }
  while (served.metrics().find("\nhearth_model_waiting_rows{model=\"echo\"} 2\n") ==
         std::string::npos) {
    std::this_thread::yield();
  }
  HttpClient late = served.client();
  const HttpAnswer refusal = late.post(kInfer, kGood);
  EXPECT_EQ(refusal.status, 429);
  EXPECT_EQ(refusal.header("retry-after"), "1");
  door.open();
  for (HttpClient& client : clients) {
    EXPECT_EQ(client.receive()->status, 200);
  }
  EXPECT_EQ(late.post(kInfer, kGood).status, 200);
}

TEST(HttpServer, ARequestEndsAtItsDeadline) {
  HttpDoor door;
  HttpOptions options = any_port();
  options.answer_limit = 40ms;
  const Served served(options, {}, &door);
  HttpClient client = served.client();
  EXPECT_EQ(client.post(kInfer, kGood).status, 504);
  const std::string hurried =
      kGood.substr(0, kGood.size() - 1) + R"(,"parameters":{"timeout":1000}})";
  HttpClient other = served.client();
  EXPECT_EQ(other.post(kInfer, hurried).status, 504);
  const std::string patient =
      kGood.substr(0, kGood.size() - 1) + R"(,"parameters":{"timeout":18446744073709551615}})";
  EXPECT_EQ(other.post(kInfer, patient).status, 504);  // answer_limit
}

TEST(HttpServer, AnswersRequestsInFlightWhenItStops) {
  HttpDoor door;
  Served served(any_port(), {}, &door);
  HttpClient idle = served.client();
  EXPECT_EQ(idle.get("/v2/health/ready").status, 200);
  std::vector<HttpClient> busy;
  for (int i = 0; i < 3; ++i) {
    busy.push_back(served.client());
    busy.back().send(http_request("POST", kInfer, kGood));
  }
  door.wait_for(1);
  while (served.metrics().find("\nhearth_model_accepted_total{model=\"echo\"} 3\n") ==
         std::string::npos) {
    std::this_thread::yield();
  }
  std::atomic<bool> is_drained = false;
  std::jthread stopper([&] { is_drained = served.http().stop(Deadline::in(30s)); });
  EXPECT_TRUE(idle.is_closed());
  EXPECT_FALSE(is_drained);
  door.open();
  for (HttpClient& client : busy) {
    const std::optional<HttpAnswer> answer = client.receive();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->header("connection"), "close");
    EXPECT_TRUE(client.is_closed());
  }
  stopper.join();
  EXPECT_TRUE(is_drained);
  EXPECT_THROW(static_cast<void>(served.client()), std::runtime_error);
  EXPECT_TRUE(served.http().stop());
}

TEST(HttpServer, AbandonsRequestsAtTheDeadlineOfItsStop) {
  HttpDoor door;
  Served served(any_port(), {}, &door);
  HttpClient busy = served.client();
  busy.send(http_request("POST", kInfer, kGood));
  door.wait_for(1);
  EXPECT_FALSE(served.http().stop(Deadline::in(20ms)));
  const std::optional<HttpAnswer> answer = busy.receive();
  EXPECT_TRUE(!answer || answer->status == 503);
  door.open();  // the client of this answer is gone
}

TEST(HttpServer, ReportsWrongUse) {
  const Runtime runtime(one_cpu());
  ModelServer<HttpNet> echo = echo_server(runtime);
  const auto refused = [&](HttpOptions options) {
    EXPECT_THROW(HttpServer(runtime, std::move(options)), ArgumentError);
  };
  refused({.address = "no address"});
  refused({.thread_count = 0});
  refused({.api_keys = {"key", ""}});
  refused({.max_header_bytes = 0});
  refused({.max_body_bytes = -1});
  refused({.max_tensors = 0});
  refused({.max_connections = 0});
  refused({.idle_limit = 0s});
  refused({.read_limit = -1s});
  refused({.write_limit = 0s});
  refused({.answer_limit = 0s});

  HttpServer http(runtime, any_port());
  EXPECT_THROW(http.add("a/b", echo, echo_signature()), ArgumentError);
  EXPECT_THROW(http.add("", echo, echo_signature()), ArgumentError);
  EXPECT_THROW(http.add("echo", echo, {}), ArgumentError);
  EXPECT_THROW(
      http.add(
          "echo", echo, {.inputs = {{.name = "x"}, {.name = "x"}}, .outputs = {{.name = "y"}}}),
      ArgumentError);
  http.add("echo", echo, echo_signature());
  EXPECT_THROW(http.add("echo", echo, echo_signature()), ArgumentError);
  const std::uint16_t port = http.start();
  EXPECT_THROW(static_cast<void>(http.start()), ArgumentError);
  EXPECT_THROW(http.add("late", echo, echo_signature()), ArgumentError);

  HttpServer second(runtime, {.port = port});
  try {
    static_cast<void>(second.start());
    ADD_FAILURE() << "two servers listen on one port";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::io_error);
    EXPECT_THAT(error.what(), HasSubstr("port " + std::to_string(port)));
  }
}

TEST(HttpServer, IsNotForThreadsThatATestSteps) {
  ManualExecutor executor;
  executor.run([&] {
    RuntimeOptions options = one_cpu();
    options.executor = &executor;
    const Runtime runtime(options);
    EXPECT_THROW(HttpServer(runtime, any_port()), ArgumentError);
  });
}

}  // namespace
}  // namespace hearth
