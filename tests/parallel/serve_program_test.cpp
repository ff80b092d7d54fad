// hearth-serve as a user runs it: a folder of ONNX files, one of them broken.
#include "http_client.hpp"

#include "tests/base/temporary_folder.hpp"
#include "tests/examples/program.hpp"

#include <hearth/modules/linear.hpp>
#include <hearth/modules/onnx_save.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <csignal>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace hearth::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// The port in the line "1 model at http://127.0.0.1:PORT/v2".
std::uint16_t port_of(const std::string& output) {
  const std::size_t begin = output.find("http://127.0.0.1:") + 17;
  return static_cast<std::uint16_t>(std::stoi(output.substr(begin)));
}

TEST(ServeProgram, ServesTheModelsOfAFolder) {
  const TemporaryFolder folder;
  const Runtime runtime;
  const Device device = runtime.device();
  Generator generator(1);
  const Linear layer({.in = 3, .out = 2}, device, generator);
  save_onnx(layer, folder.path() / "rows.onnx", ones(device, {1, 3}));
  save_onnx(layer,
            folder.path() / "fixed.onnx",
            {{.name = "x", .example = ones(device, {2, 3}), .dims = {"", ""}}},
            [](const Linear& net, std::span<const Tensor> in) {
              return std::vector<NamedTensor>{{"y", net.forward(in[0])}};
            });
  std::ofstream(folder.path() / "broken.onnx") << "no model";
  std::ofstream(folder.path() / "notes.txt") << "not read";

  Program program("hearth-serve", {folder.path().string(), "--port", "0", "--device", "cpu:0"});
  ASSERT_TRUE(program.wait_for("/v2\n")) << program.output();
  EXPECT_THAT(program.output(), HasSubstr("2 models at"));
  HttpClient client(port_of(program.output()));
  const std::vector<float> expected =
      layer.forward(Tensor::from(device, {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, {2, 3}))
          .to_vector<float>();
  for (const std::string name : {"rows", "fixed"}) {
    const json about = json::parse(client.get("/v2/models/" + name).body);
    const json request{{"inputs",
                        {{{"name", about["inputs"][0]["name"]},
                          {"shape", {2, 3}},
                          {"datatype", "FP32"},
                          {"data", {1, 2, 3, 4, 5, 6}}}}}};
    const HttpAnswer answer = client.post("/v2/models/" + name + "/infer", request.dump());
    ASSERT_EQ(answer.status, 200) << answer.body;
    const std::vector<float> values = json::parse(answer.body)["outputs"][0]["data"];
    EXPECT_THAT(values, ::testing::Pointwise(::testing::FloatNear(1e-5F), expected)) << name;
  }
  EXPECT_EQ(client.get("/v2/models/broken").status, 404);
  program.send(SIGTERM);
  const Outcome end = program.finish();
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_THAT(end.out, HasSubstr("rows: batches of up to 64 rows"));
  EXPECT_THAT(end.out, HasSubstr("fixed: one request at a time: axis 0 of input 'x' is 2"));
  EXPECT_THAT(end.out, HasSubstr("broken: not served: "));
  EXPECT_THAT(end.out, HasSubstr("stopped; all requests are answered"));
}

TEST(ServeProgram, RefusesWhatItCannotServe) {
  const TemporaryFolder folder;
  const Outcome empty = run("hearth-serve", {folder.path().string()});
  EXPECT_EQ(empty.exit_code, 1);
  EXPECT_THAT(empty.out, HasSubstr("no model of"));
  EXPECT_EQ(run("hearth-serve", {"no such folder"}).exit_code, 2);
  EXPECT_EQ(run("hearth-serve", {}).exit_code, 2);
  const Outcome keys = run("hearth-serve", {folder.path().string(), "--key-file", "/dev/null"});
  EXPECT_EQ(keys.exit_code, 2);
  EXPECT_THAT(keys.out, HasSubstr("has no key"));
}

}  // namespace
}  // namespace hearth::testing
