// Requests with random mistakes. Each gets an answer of class 2xx or 4xx or a closed connection,
// and a good request after it is answered. HTTP_MUTATIONS: how many; HTTP_SEED: the first seed.
#include <hearth/parallel/http_server.hpp>

#include "http_client.hpp"
#include "http_models.hpp"

#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words

std::uint64_t number_of(const char* variable, std::uint64_t fallback) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): no other thread
  return text == nullptr ? fallback : std::stoull(text);
}

std::vector<std::string> good_requests() {
  const std::string binary_head =
      R"({"id":"1","inputs":[{"name":"x","shape":[2,4],"datatype":"FP32","parameters":{"binary_data_size":32}}],)"
      R"("parameters":{"binary_data_output":true,"timeout":1000000}})";
  const std::string infer = "/v2/models/net/infer";
  return {
      http_request("GET", "/v2/models/net/versions/1"),
      http_request("GET", "/metrics"),
      http_request("POST",
                   infer,
                   R"({"inputs":[{"name":"x","shape":[2,4],"datatype":"FP32",)"
                   R"("data":[[1,2.5,-3e1,4],[5,6,7,8]]}],"outputs":[{"name":"y"}]})"),
      http_request(
          "POST",
          infer,
          binary_head + std::string(32, '\x3f'),
          "Inference-Header-Content-Length: " + std::to_string(binary_head.size()) + "\r\n"),
      "POST " + infer +
          " HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
          "40\r\n{\"inputs\":[{\"name\":\"x\",\"shape\":[1,4],\"datatype\":\"FP32\",\"data\":[1\r\n"
          "a\r\n,2,3,4]}]}\r\n0\r\n\r\n",
      http_request("POST", infer, R"({"inputs":[]})", "Expect: 100-continue\r\n"),
  };
}

/// Changes a text at random places.
std::string mutated(std::string text, std::mt19937_64& random) {
  static constexpr std::string_view kBytes = "{}[]\",:0123456789-+.eE \r\n\tx\x01\x7f\xff";
  const auto below = [&random](std::size_t count) { return count == 0 ? 0 : random() % count; };
  for (std::size_t i = 1 + below(4); i > 0 && !text.empty(); --i) {
    const std::size_t place = below(text.size());
    const char byte = kBytes[below(kBytes.size())];
    switch (below(6)) {
      case 0:
        text[place] = byte;
        break;
      case 1:
        text.insert(place, 1, byte);
        break;
      case 2:
        text.erase(place, 1 + below(8));
        break;
      case 3:
        text.insert(place, text.substr(place, below(40)));
        break;
      case 4:
        text.resize(place);
        break;
      default:
        text.insert(place, below(20), byte);
        break;
    }
  }
  return text;
}

TEST(HttpMutations, EachEndsWithAnAnswerOrAClose) {
  const std::uint64_t count = number_of("HTTP_MUTATIONS", 3000);
  const std::uint64_t first = number_of("HTTP_SEED", 1);
  const Runtime runtime(one_cpu());
  ModelServer net(runtime, http_net(runtime.device()));
  HttpServer http(runtime, any_port());
  http.add("net", net, net_signature());
  const std::uint16_t port = http.start();
  const std::vector<std::string> requests = good_requests();
  for (const std::string& request : requests) {
    HttpClient client(port);
    client.send(request);
    const int status = client.receive()->status;
    EXPECT_TRUE(status == 200 || status == 100) << request;
  }
  int answered = 0;
  int closed = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::mt19937_64 random(seed);
    HttpClient client(port);
    client.send(mutated(requests[random() % requests.size()], random));
    client.finish();
    bool has_answer = false;
    while (const std::optional<HttpAnswer> answer = client.receive()) {
      has_answer = true;
      const int kind = answer->status / 100;
      ASSERT_TRUE(kind == 2 || kind == 4 || answer->status == 100)
          << "HTTP_SEED=" << seed << ": " << answer->status << " " << answer->body;
    }
    ++(has_answer ? answered : closed);
    if (seed % 50 == 0) {
      HttpClient good(port);
      good.send(requests[2]);
      const std::optional<HttpAnswer> answer = good.receive();
      ASSERT_TRUE(answer && answer->status == 200) << "HTTP_SEED=" << seed;
    }
  }
  // The mistakes are of both kinds, and no connection is left.
  EXPECT_GT(answered, static_cast<int>(count / 4));
  EXPECT_GT(closed, 0);
  HttpClient last(port);
  while (last.get("/metrics").body.find("\nhearth_http_connections 1\n") == std::string::npos) {
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace hearth
