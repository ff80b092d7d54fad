// hearth-bench explain NAME|FILE: which kernels a program's ops become, and why each of them ends.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/explanation.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/replay.hpp>
#include <hearth/runtime/runtime.hpp>

#include "adam_steps.hpp"
#include "commands.hpp"
#include "explain_picture.hpp"

namespace hearth::bench {
namespace {

using Tensors = std::vector<Tensor>;

/// A program of plain ops, by what it is given; its result's sum is differentiated.
struct Program {
  const char* name;
  std::vector<Shape> inputs;
  std::function<Tensor(const Tensors&)> run;
};

Tensor gelu(const Tensor& x) {
  return x * 0.5 * (1 + erf(x * 0.7071067811865476));
}
Tensor gelu_polynomial(const Tensor& x) {
  return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * (x * square(x)))));
}
// Paper: Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.25.
Tensor erf_of_positive(const Tensor& x) {
  const Tensor t = 1 / (x * 0.47047 + 1);
  return 1 - ((t * 0.7478556 - 0.0958798) * t + 0.3480242) * t * exp(-(x * x));
}
Tensor gelu_of_parts(const Tensor& x) {
  const Tensor scaled = x / std::sqrt(2.0);
  const Tensor error = where(scaled > 0, erf_of_positive(scaled), -erf_of_positive(-scaled));
  return x * (error + 1) / 2;
}
// By parts, not by the row kernels: the question is what fusion makes of them.
Tensor softmax_of_parts(const Tensor& x) {
  const Tensor shifted = exp(x - max(x, {-1}, {.keep_dims = true}));
  return shifted / sum(shifted, {-1}, {.keep_dims = true});
}
Tensor rms_norm_of_parts(const Tensor& x, const Tensor& weight) {
  return x * rsqrt(mean(square(x), {-1}, {.keep_dims = true}) + 1e-6) * weight;
}
Tensor layer_norm_of_parts(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor centered = x - mean(x, {-1}, {.keep_dims = true});
  return centered * rsqrt(mean(square(centered), {-1}, {.keep_dims = true}) + 1e-5) * weight + bias;
}
Tensor attention(const Tensor& x, const Tensor& q, const Tensor& k, const Tensor& v) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.shape()[1]));
  const Tensor scores = matmul(matmul(x, q), transpose(matmul(x, k), -2, -1)) * scale;
  return matmul(softmax(scores, -1), matmul(x, v));
}
Tensor transformer_block(const Tensors& t) {
  const Tensor& x = t[0];
  const Tensor normed = layer_norm_of_parts(x, t[1], t[2]);
  const Tensor mixed = x + matmul(attention(normed, t[3], t[4], t[5]), t[6]);
  const Tensor again = layer_norm_of_parts(mixed, t[1], t[2]);
  return mixed + matmul(gelu(matmul(again, t[7]) + t[8]), t[9]);
}
Tensor residual_block(const Tensors& t) {
  const Tensor first = relu(conv2d(t[0], t[1], {.padding = {1, 1}}));
  const Tensor second = conv2d(first, t[2], {.padding = {1, 1}});
  return relu(second + t[0]);
}

const std::vector<Program>& programs() {
  static const std::vector<Program> kPrograms = {
      {"gelu", {{32, 512, 1024}}, [](const Tensors& t) { return gelu(t[0]); }},
      {"gelu_polynomial",
       {{32, 512, 1024}},
       [](const Tensors& t) { return gelu_polynomial(t[0]); }},
      {"gelu_of_parts", {{32, 512, 1024}}, [](const Tensors& t) { return gelu_of_parts(t[0]); }},
      {"softmax", {{512, 1024}}, [](const Tensors& t) { return softmax_of_parts(t[0]); }},
      {"layer_norm",
       {{512, 1024}, {1024}, {1024}},
       [](const Tensors& t) { return layer_norm_of_parts(t[0], t[1], t[2]); }},
      {"rms_norm",
       {{512, 1024}, {1024}},
       [](const Tensors& t) { return rms_norm_of_parts(t[0], t[1]); }},
      {"matmul_bias_gelu",
       {{64, 512}, {512, 2048}, {2048}},
       [](const Tensors& t) { return gelu(matmul(t[0], t[1]) + t[2]); }},
      {"residual_block", {{8, 32, 28, 28}, {32, 32, 3, 3}, {32, 32, 3, 3}}, residual_block},
      {"transformer_block",
       {{8, 64, 128},
        {128},
        {128},
        {128, 128},
        {128, 128},
        {128, 128},
        {128, 128},
        {128, 512},
        {512},
        {512, 128}},
       transformer_block}};
  return kPrograms;
}

std::function<void()> adamw_200(const Device& device) {
  constexpr std::int64_t kWidth = 64;
  return [steps = std::make_shared<AdamSteps>(device, kWidth)] { steps->step(); };
}

Tensors made(const Device& device, const std::vector<Shape>& shapes) {
  Generator generator(1);
  Tensors tensors;
  for (const Shape& shape : shapes) {
    tensors.push_back(random_normal(device, shape, generator, 0, 0.1));
  }
  return tensors;
}

// What it returns is kept until the next run, so that results count as left.
std::function<void()> subject_of(const std::string& name, const Device& device, bool backward) {
  if (name == "adamw_200") {
    return adamw_200(device);
  }
  const auto kept = std::make_shared<Tensors>();
  if (name == "cross_entropy") {
    const Tensor logits = made(device, {{512, 1024}})[0];
    const Tensor targets = zeros(device, {512}, DType::i64);
    return [logits, targets, backward, kept] {
      kept->clear();
      *kept = backward
                  ? grad([&](const Tensors& t) { return cross_entropy(t[0], targets); }, {logits})
                  : Tensors{cross_entropy(logits, targets)};
    };
  }
  for (const Program& program : programs()) {
    if (program.name == name) {
      return [&program, inputs = made(device, program.inputs), backward, kept] {
        kept->clear();
        *kept = backward ? grad([&](const Tensors& t) { return sum(program.run(t)); }, inputs)
                         : Tensors{program.run(inputs)};
      };
    }
  }
  return [name, device] { static_cast<void>(replay(name, device)); };
}

std::string names() {
  std::string text = "cross_entropy, adamw_200";
  for (const Program& program : programs()) {
    text += std::string(", ") + program.name;
  }
  return text;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) {
    throw std::runtime_error("cannot write " + path);
  }
}

}  // namespace

// The program runs twice before: devices make plans at first sight, and steps reuse what the first
// one made.
int explain_command(int argc, char** argv) {
  CLI::App app("Says which kernels a program's ops become, and why each of them ends.",
               "hearth-bench explain");
  std::string name;
  std::string device_name = "cpu:0";
  std::string fusion = "on";
  std::string picture;
  bool backward = false;
  bool as_json = false;
  app.add_option("NAME", name, "One of " + names() + "; or the file of a recording")->required();
  app.add_flag("--backward", backward, "With the gradients of all inputs");
  app.add_flag("--json", as_json, "As one JSON object");
  app.add_option("--svg", picture, "Draw it into this file too");
  app.add_option("--device", device_name, "Where it runs")->capture_default_str();
  app.add_option("--fusion", fusion, "off, single or on")
      ->check(CLI::IsMember({"off", "single", "on"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const std::map<std::string, Fusion> kinds{
      {"off", Fusion::off}, {"single", Fusion::single}, {"on", Fusion::on}};
  const Runtime runtime({.devices = {{.name = device_name}}, .fusion = kinds.at(fusion)});
  const Device device = runtime.device(device_name);
  const std::function<void()> subject = subject_of(name, device, backward);
  constexpr int kWarmRuns = 2;
  for (int i = 0; i < kWarmRuns; ++i) {
    subject();
    device.sync();  // a boundary: only what is whole between two of them gets a plan
  }
  const Explanation explanation = explain(device, subject);
  std::printf("%s", (as_json ? explanation.to_json() : explanation.to_text()).c_str());
  if (!picture.empty()) {
    write(picture,
          draw_explanation(explanation, name + (backward ? ", forward and backward" : "")));
  }
  return 0;
}

}  // namespace hearth::bench
