// The routes of an HttpServer and the KServe v2 protocol, over real sockets.
#include <hearth/parallel/http_server.hpp>

#include "http_client.hpp"
#include "http_models.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using nlohmann::json;
using ::testing::HasSubstr;

/// Two inputs, two outputs.
struct HttpPair {
  Linear layer;

  HttpPair(const Device& device, Generator& generator)
      : layer({.in = 4, .out = 3}, device, generator) {}
  [[nodiscard]] std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& y) const {
    return {layer.forward(x) + y, x * 2.0};
  }
  HEARTH_MODULE(HttpPair, layer)
};

class HttpProtocol : public ::testing::Test {
 public:
  HttpProtocol() {
    http.add("net", net, net_signature());
    http.add("echo", echo, echo_signature());
    port = http.start();
    client.emplace(port);
  }

  json infer(const std::string& name, const json& request) {
    const HttpAnswer answer = client->post("/v2/models/" + name + "/infer", request.dump());
    EXPECT_EQ(answer.status, 200) << answer.body;
    return json::parse(answer.body);
  }
  /// Sends a request that is refused with status 400. Returns the text of the error.
  std::string refusal(const std::string& body, const std::string& headers = {}) {
    const HttpAnswer answer = client->post("/v2/models/net/infer", body, headers);
    EXPECT_EQ(answer.status, 400) << answer.body;
    return json::parse(answer.body).at("error");
  }
  std::vector<float> alone(const std::vector<float>& rows) {
    const auto count = static_cast<std::int64_t>(rows.size() / 4);
    return net.answer({{rows, {count, 4}}}).outputs.at(0).values<float>();
  }

  const Runtime runtime{one_cpu()};
  const Frozen<HttpNet> model = http_net(runtime.device());
  ModelServer<HttpNet> net{runtime, model};
  ModelServer<HttpNet> echo = echo_server(runtime);
  HttpServer http{runtime, any_port()};
  std::uint16_t port = 0;
  std::optional<HttpClient> client;
};

TEST_F(HttpProtocol, AnswersWhetherItLivesAndIsReady) {
  EXPECT_EQ(client->get("/v2/health/live").body, R"({"live":true})");
  EXPECT_EQ(client->get("/v2/health/ready").body, R"({"ready":true})");
  EXPECT_EQ(client->get("/v2/models/net/ready").body, R"({"name":"net","ready":true})");
}

TEST_F(HttpProtocol, DescribesItselfAndItsModels) {
  const json server = json::parse(client->get("/v2").body);
  EXPECT_EQ(server.at("name"), "hearth");
  EXPECT_EQ(server.at("extensions"), json::array({"binary_tensor_data"}));
  const json expected{
      {"name", "net"},
      {"versions", json::array({"1"})},
      {"platform", "hearth"},
      {"inputs", {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {-1, 4}}}}},
      {"outputs", {{{"name", "y"}, {"datatype", "FP32"}, {"shape", {-1, 3}}}}},
  };
  EXPECT_EQ(json::parse(client->get("/v2/models/net").body), expected);
  EXPECT_EQ(json::parse(client->get("/v2/models/net/versions/1?a=b").body), expected);
}

TEST_F(HttpProtocol, RefusesWhatItDoesNotHave) {
  for (const char* const path : {"/",
                                 "/v1/models",
                                 "/v2/models",
                                 "/v2/models/",
                                 "/v2/models/other",
                                 "/v2/models/net/other",
                                 "/v2/models/net/ready/more",
                                 "/v2/models/net/versions",
                                 "/v2/models/net/versions/2",
                                 "/v2/models/net/versions/1/other"}) {
    const HttpAnswer answer = HttpClient(port).get(path);
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_TRUE(json::parse(answer.body).at("error").is_string()) << path;
  }
}

TEST_F(HttpProtocol, RefusesOtherMethods) {
  HttpAnswer answer = HttpClient(port).get("/v2/models/net/infer");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.header("allow"), "POST");
  answer = HttpClient(port).post("/v2", "{}");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.header("allow"), "GET, HEAD");
  EXPECT_EQ(HttpClient(port).request("DELETE", "/v2").status, 405);
}

TEST_F(HttpProtocol, AnswersHeadWithoutABody) {
  const HttpAnswer answer = client->request("HEAD", "/v2/health/live");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("content-length"), "13");
  EXPECT_EQ(client->get("/v2/health/live").status, 200);
}

TEST_F(HttpProtocol, InfersFromJson) {
  const json answer = infer("net",
                            {{"id", "seven"},
                             {"inputs",
                              {{{"name", "x"},
                                {"shape", {2, 4}},
                                {"datatype", "FP32"},
                                {"data", {0.5, -1, 2, 1e-3, 1, 2, 3, 4}}}}}});
  EXPECT_EQ(answer.at("id"), "seven");
  EXPECT_EQ(answer.at("model_name"), "net");
  EXPECT_EQ(answer.at("model_version"), "1");
  const json& output = answer.at("outputs").at(0);
  EXPECT_EQ(output.at("name"), "y");
  EXPECT_EQ(output.at("datatype"), "FP32");
  EXPECT_EQ(output.at("shape"), json::array({2, 3}));
  EXPECT_EQ(output.at("data").get<std::vector<float>>(), alone({0.5F, -1, 2, 1e-3F, 1, 2, 3, 4}));
}

TEST_F(HttpProtocol, TakesNestedArraysAndFieldsInAnyOrder) {
  const std::string text = R"({"outputs":[{"name":"y"}],"unknown":{"a":[1,{"b":null}]},
    "inputs":[{"data":[[1,2,3,4],[5,6,7,8]],"datatype":"FP32","shape":[2,4],"name":"x"}]})";
  const HttpAnswer answer = client->post("/v2/models/net/versions/1/infer", text);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(json::parse(answer.body).at("outputs").at(0).at("data").get<std::vector<float>>(),
            alone({1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(HttpProtocol, InfersFromBinaryTensors) {
  const std::vector<float> rows{1, 2, 3, 4, -5, 6, 7, 8};
  // Every alignment of the tensor in the body.
  for (int spaces = 0; spaces < 8; ++spaces) {
    const std::string head =
        R"({"inputs":[{"name":"x","shape":[2,4],"datatype":"FP32","parameters":{"binary_data_size":32}}],)"
        R"("outputs":[{"name":"y","parameters":{"binary_data":true}}]})" +
        std::string(static_cast<std::size_t>(spaces), ' ');
    const HttpAnswer answer =
        client->post("/v2/models/net/infer",
                     head + raw_bytes<float>(rows),
                     "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.header("content-type"), "application/octet-stream");
    const std::size_t size = std::stoul(answer.header("inference-header-content-length"));
    const json described = json::parse(answer.body.substr(0, size)).at("outputs").at(0);
    EXPECT_EQ(described.at("parameters").at("binary_data_size"), 24);
    EXPECT_FALSE(described.contains("data"));
    EXPECT_EQ(answer.body.substr(size), raw_bytes<float>(alone(rows)));
  }
}

TEST_F(HttpProtocol, SeveralInputsAndOutputsMayUseBothForms) {
  Generator generator(3);
  const Frozen<HttpPair> pair_model = freeze(HttpPair(runtime.device(), generator));
  ModelServer pair(runtime, pair_model);
  HttpServer other(runtime, any_port());
  other.add("pair",
            pair,
            {.inputs = {{.name = "x", .shape = {-1, 4}}, {.name = "y", .shape = {-1, 3}}},
             .outputs = {{.name = "sum", .shape = {-1, 3}}, {.name = "twice", .shape = {-1, 4}}}});
  HttpClient to_pair(other.start());
  const std::vector<float> x{1, 2, 3, 4};
  const std::vector<float> y{0.5F, 0.25F, -1};
  const Answer expected = pair.answer({{x, {1, 4}}, {y, {1, 3}}});
  // y comes first, so its bytes do too.
  const std::string head =
      R"({"inputs":[{"name":"y","shape":[1,3],"datatype":"FP32","parameters":{"binary_data_size":12}},)"
      R"({"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}],)"
      R"("parameters":{"binary_data_output":true},)"
      R"("outputs":[{"name":"twice","parameters":{"binary_data":false}},{"name":"sum"}]})";
  const HttpAnswer answer =
      to_pair.post("/v2/models/pair/infer",
                   head + raw_bytes<float>(y),
                   "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const std::size_t size = std::stoul(answer.header("inference-header-content-length"));
  const json outputs = json::parse(answer.body.substr(0, size)).at("outputs");
  EXPECT_EQ(outputs.at(0).at("name"), "twice");
  EXPECT_EQ(outputs.at(0).at("data"), json::array({2.0, 4.0, 6.0, 8.0}));
  EXPECT_EQ(outputs.at(1).at("name"), "sum");
  EXPECT_EQ(answer.body.substr(size), raw_bytes<float>(expected.outputs.at(0).values<float>()));
}

/// Values of each type that its JSON and its bytes must keep.
template <class T>
std::vector<T> telling_values() {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return {T(1.5F), T(-0.0078125F), T(65024.0F), T(0.0F)};
  } else if constexpr (std::is_floating_point_v<T>) {
    return {Limits::max(), T(-0.1), Limits::denorm_min(), T(1) / 3};
  } else {
    return {Limits::max(), Limits::min(), T(0), T(7)};
  }
}

TEST_F(HttpProtocol, KeepsEveryTypeInBothForms) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    visit_dtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      std::string bytes;
      if constexpr (std::is_same_v<T, bool>) {
        bytes = {'\1', '\0', '\1', '\1'};
      } else {
        bytes = raw_bytes<T>(telling_values<T>());
      }
      ModelServer<HttpNet> typed = echo_server(runtime);
      HttpServer other(runtime, any_port());
      other.add("typed", typed, echo_signature(dtype));
      HttpClient to_typed(other.start());
      const json metadata = json::parse(to_typed.get("/v2/models/typed").body);
      const std::string type = metadata.at("inputs").at(0).at("datatype");
      // Binary to JSON, and that JSON to binary.
      const std::string head = R"({"inputs":[{"name":"x","shape":[2,2],"datatype":")" + type +
                               R"(","parameters":{"binary_data_size":)" +
                               std::to_string(bytes.size()) + "}}]}";
      const HttpAnswer first =
          to_typed.post("/v2/models/typed/infer",
                        head + bytes,
                        "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
      ASSERT_EQ(first.status, 200) << type << first.body;
      // As text: a parser would round its numbers.
      const std::size_t data = first.body.find("\"data\":");
      const std::string elements =
          first.body.substr(data + 7, first.body.find(']', data) - data - 6);
      std::string body = R"({"inputs":[{"name":"x","shape":[2,2],"datatype":")";
      body += type;
      body += R"(","data":)";
      body += elements;
      body += R"(}],"parameters":{"binary_data_output":true}})";
      const HttpAnswer second = to_typed.post("/v2/models/typed/infer", body);
      ASSERT_EQ(second.status, 200) << type << elements << second.body;
      const std::size_t size = std::stoul(second.header("inference-header-content-length"));
      EXPECT_EQ(second.body.substr(size), bytes) << type << elements;
    });
  }
}

TEST_F(HttpProtocol, AnswersWithValuesThatJsonCannotHoldInBinaryOnly) {
  const std::vector<float> rows{1, std::numeric_limits<float>::quiet_NaN()};
  const std::string input =
      R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}])";
  const auto ask = [&](const std::string& head) {
    return client->post("/v2/models/echo/infer",
                        head + raw_bytes<float>(rows),
                        "Inference-Header-Content-Length: " + std::to_string(head.size()) + "\r\n");
  };
  const HttpAnswer refused = ask(input + "}");
  EXPECT_EQ(refused.status, 406);
  EXPECT_THAT(refused.body, HasSubstr("binary_data"));
  const HttpAnswer answer = ask(input + R"(,"parameters":{"binary_data_output":true}})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.ends_with(raw_bytes<float>(rows)));
}

TEST_F(HttpProtocol, ARefusalNamesTheFieldAndTheRule) {
  const auto with = [](const std::string& fields) {
    return R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32",)" + fields + "}]}";
  };
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "the JSON is invalid"},
      {"[]", "the request is no JSON object"},
      {"7", "the request is no JSON object"},
      {"{", "the JSON is invalid"},
      {"{}x", "the JSON is invalid"},
      {std::string("{}\0x", 4), "the JSON is invalid"},
      {"{\"a\":\"\xff\"}", "the JSON is invalid"},
      {R"({"a":1e999})", "the JSON is invalid"},
      {R"({"inputs":[{"name":"\ud800"}]})", "the JSON is invalid"},
      {"{}", "input 'x' is missing in the request"},
      {R"({"inputs":7})", "inputs must not be a number"},
      {R"({"inputs":[7]})", "inputs[0] must not be a number"},
      {R"({"inputs":[{}]})", "inputs[0]: it has no name"},
      {R"({"inputs":[{"name":"x","shape":[1,4],"data":[]}]})", "inputs[0]: it has no datatype"},
      {R"({"inputs":[{"name":"x","datatype":"FP32","data":[]}]})", "inputs[0]: it has no shape"},
      {R"({"inputs":[{"name":"x","datatype":"BYTES"}]})",
       "inputs[0].datatype: BYTES is not supported"},
      {R"({"inputs":[{"name":"x","datatype":"FP32","datatype":"FP64"}]})",
       "inputs[0].datatype: it stands twice"},
      {R"({"inputs":[{"name":"x","shape":[1,-4]}]})", "inputs[0].shape must not be negative"},
      {R"({"inputs":[{"name":"x","shape":[1,1.5]}]})", "inputs[0].shape must not be a fraction"},
      {R"({"inputs":[{"name":"x","shape":[1,1,1,1,1,1,1,1,1]}]})", "at most 8 sizes"},
      {with(R"("data":[1,2,3,4],"parameters":{"binary_data_size":16})"),
       "expected either data or binary_data_size"},
      {with(R"("name":"z")"), "input 'z': the model has x"},
      {with(R"("data":[1,2,3])"), "input 'x': 3 elements do not fill FP32 [1, 4]"},
      {with(R"("data":[[1,2],[3,4]])"), "its arrays are [2, 2], its shape is [1, 4]"},
      {with(R"("data":[[1,2],[3]])"), "arrays of one level have 2 and 1 entries"},
      {with(R"("data":[1,[2],3,4])"), "elements and arrays are mixed"},
      {with(R"("data":[[1],2,3,4])"), "elements and arrays are mixed"},
      {with(R"("data":[[[[[[[[[1]]]]]]]]])"), "arrays are nested deeper than 8"},
      {with(R"("data":[1,2,3,true])"), "inputs[0].data: true is no FP32"},
      {with(R"("data":[1,2,3,1e39])"), "inputs[0].data: 1e+39 is no FP32"},
      {with(R"("data":[1,2,3,"4"])"), "inputs[0].data must not be a string"},
      {with(R"("data":[1,2,3,null])"), "inputs[0].data must not be null"},
      {with(R"("parameters":{"binary_data_size":16})"), "binary_data_size 16: the body has 0"},
      {with(R"("parameters":{"binary_data_size":8})"), "8 bytes do not fill FP32 [1, 4]"},
      {with(R"("data":[1,2,3,4]},{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4])"),
       "input 'x' stands twice"},
      {R"({"inputs":[{"name":"x","shape":[1,5],"datatype":"FP32","data":[1,2,3,4,5]}]})",
       "input 'x': shape [1, 5]: expected [-1, 4]"},
      {R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"INT32","data":[1,2,3,4]}]})",
       "input 'x': datatype INT32: expected FP32"},
      {R"({"inputs":[{"name":"x","shape":[0,4],"datatype":"FP32","data":[]}]})", "rows"},
      {R"({"outputs":[{"name":"z"}]})", "output 'z': the model has y"},
      {R"({"outputs":[{"name":"y"},{"name":"y"}]})", "output 'y' stands twice"},
      {R"({"parameters":{"timeout":-1}})", "parameters.timeout must not be negative"},
      {R"({"inputs":[],"inputs":[{"name":"x"}],"inputs":[]})", "inputs"},
      {std::string(100, '[') + std::string(100, ']'), "the request is no JSON object"},
      {R"({"a":)" + std::string(100, '[') + std::string(100, ']') + "}", "nested deeper than 32"},
  };
  for (const auto& [body, text] : cases) {
    EXPECT_THAT(refusal(body), HasSubstr(text)) << body;
  }
  EXPECT_THAT(refusal("{}", "Inference-Header-Content-Length: 3\r\n"),
              HasSubstr("Inference-Header-Content-Length 3"));
  EXPECT_THAT(refusal("{}", "Inference-Header-Content-Length: 2x\r\n"),
              HasSubstr("Inference-Header-Content-Length 2x"));
  EXPECT_THAT(
      refusal(with(R"("data":[1,2,3,4])") + "abc", "Inference-Header-Content-Length: 74\r\n"),
      HasSubstr("3 bytes follow the last tensor"));
  EXPECT_EQ(client->get("/v2/health/live").status, 200);  // the same connection
}

TEST_F(HttpProtocol, KeepsTheSignOfZero) {
  const HttpAnswer answer = client->post(
      "/v2/models/echo/infer",
      R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[-0.0,0.0]}]})");
  EXPECT_THAT(answer.body, HasSubstr("\"data\":[-0.0,0]"));
}

TEST_F(HttpProtocol, LimitsTheNumberOfTensors) {
  std::string outputs;
  for (int i = 0; i < 65; ++i) {
    outputs += i == 0 ? R"({"name":"y"})" : R"(,{"name":"y"})";
  }
  EXPECT_THAT(refusal(R"({"outputs":[)" + outputs + "]}"),
              HasSubstr("outputs: more than 64 entries"));
}

TEST_F(HttpProtocol, RefusesMoreRowsThanABatchHas) {
  std::string data = "0";
  for (int i = 1; i < 65 * 4; ++i) {
    data += ",0";
  }
  EXPECT_THAT(refusal(R"({"inputs":[{"name":"x","shape":[65,4],"datatype":"FP32","data":[)" + data +
                      "]}]}"),
              HasSubstr("65 rows: expected at most max_batch, 64"));
}

TEST_F(HttpProtocol, AnErrorOfTheModelIsItsStatus) {
  ModelServer<HttpNet> faulty(
      runtime, model, {}, [](const HttpNet&, std::span<const Tensor> in) -> std::vector<Tensor> {
        if (in[0].shape()[1] == 3) {
          throw std::runtime_error("the model is broken");
        }
        return {reshape(in[0], {7})};
      });
  HttpServer other(runtime, any_port());
  other.add("faulty", faulty, echo_signature());
  HttpClient to_faulty(other.start());
  const auto ask = [&](int width) {
    return to_faulty.post("/v2/models/faulty/infer",
                          R"({"inputs":[{"name":"x","shape":[1,)" + std::to_string(width) +
                              R"(],"datatype":"FP32","data":[)" + (width == 3 ? "1,2,3" : "1,2") +
                              "]}]}");
  };
  EXPECT_EQ(ask(2).status, 400);
  const HttpAnswer broken = ask(3);
  EXPECT_EQ(broken.status, 500);
  EXPECT_THAT(broken.body, HasSubstr("the model is broken"));
}

TEST_F(HttpProtocol, AnswersWithNewWeights) {
  net.publish(http_net(runtime.device(), 2));
  EXPECT_EQ(json::parse(client->get("/v2/models/net").body).at("versions"), json::array({"2"}));
  const json answer =
      infer("net",
            {{"inputs",
              {{{"name", "x"}, {"shape", {1, 4}}, {"datatype", "FP32"}, {"data", {1, 2, 3, 4}}}}}});
  EXPECT_EQ(answer.at("model_version"), "2");
  EXPECT_EQ(answer.at("outputs").at(0).at("data").get<std::vector<float>>(), alone({1, 2, 3, 4}));
}

TEST_F(HttpProtocol, CountsInTheFormatOfPrometheus) {
  infer("net",
        {{"inputs",
          {{{"name", "x"}, {"shape", {1, 4}}, {"datatype", "FP32"}, {"data", {1, 2, 3, 4}}}}}});
  EXPECT_EQ(HttpClient(port).get("/nothing").status, 404);
  const HttpAnswer answer = client->get("/metrics");
  EXPECT_EQ(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const std::regex line(R"((# HELP [a-z_]+ .*|# TYPE [a-z_]+ (counter|gauge|histogram)|)"
                        R"([a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [-+.e0-9]+))");
  std::istringstream lines(answer.body);
  for (std::string text; std::getline(lines, text);) {
    EXPECT_TRUE(std::regex_match(text, line)) << text;
  }
  for (const char* const text :
       {"\nhearth_http_requests_total{code=\"200\"} 1\n",
        "\nhearth_http_requests_total{code=\"404\"} 1\n",
        "\nhearth_inference_requests_total{model=\"net\",code=\"200\"} 1\n",
        "\nhearth_inference_requests_total{model=\"echo\",code=\"200\"} 0\n",
        "\nhearth_inference_seconds_bucket{model=\"net\",le=\"+Inf\"} 1\n",
        "\nhearth_inference_seconds_count{model=\"net\"} 1\n",
        "\nhearth_model_answered_total{model=\"net\"} 1\n",
        "\nhearth_model_batch_rows_bucket{model=\"net\",le=\"1\"} 1\n",
        "\nhearth_model_batch_rows_sum{model=\"net\"} 1\n",
        "\nhearth_model_version{model=\"net\"} 1\n",
        "\nhearth_model_waiting_rows{model=\"net\"} 0\n",
        "\nhearth_http_connections_total 2\n"}) {
    EXPECT_THAT(answer.body, HasSubstr(text));
  }
}

}  // namespace
}  // namespace hearth
