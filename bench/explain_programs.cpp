#include "explain_programs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/replay.hpp>

#include "adam_steps.hpp"

namespace hearth::bench {
namespace {

using Tensors = std::vector<Tensor>;

/// A program of plain ops over given inputs. The sum of its result is differentiated.
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
// Written in parts, not with the row kernels, to show what fusion makes of them.
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

const std::vector<Program>& programs_of_ops() {
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

/// Edit distance: letters to insert, remove or replace.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0U : 1U);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.at(to.size());
}

/// The nearest known name, if one is near.
std::string nearest_to(std::string_view name) {
  std::string nearest;
  std::size_t least = name.size() / 3 + 2;
  for (const std::string& each : explained_programs()) {
    const std::size_t far =
        !name.empty() && each.starts_with(name) ? std::size_t{1} : distance(name, each);
    if (far < least) {
      least = far;
      nearest = each;
    }
  }
  return nearest;
}

std::string why_unreadable(const std::string& path) {
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) {
    return "there is none";
  }
  if (std::filesystem::is_directory(status)) {
    return "it is a folder";
  }
  return std::ifstream(path) ? "" : "it may not be read";
}

}  // namespace

std::vector<std::string> explained_programs() {
  std::vector<std::string> names;
  for (const Program& program : programs_of_ops()) {
    names.emplace_back(program.name);
  }
  names.emplace_back("cross_entropy");
  names.emplace_back("adamw_200");
  return names;
}

std::string joined_names() {
  std::string text;
  for (const std::string& name : explained_programs()) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

bool is_built_in(const std::string& name) {
  const std::vector<std::string> names = explained_programs();
  return std::ranges::find(names, name) != names.end();
}

bool has_gradients(const std::string& name) {
  return name != "adamw_200" && is_built_in(name);
}

void require_program(const std::string& name) {
  if (is_built_in(name)) {
    return;
  }
  const std::string why = why_unreadable(name);
  if (why.empty()) {
    return;
  }
  const std::string nearest = nearest_to(name);
  throw std::runtime_error(
      fmt::format("explain: '{}' is no program of its own, and no recording: {}.{}\n"
                  "Programs: {}",
                  name,
                  why,
                  nearest.empty() ? "" : fmt::format(" Did you mean {}?", nearest),
                  joined_names()));
}

// Results are kept until the next run, so that they count as stored.
std::function<void()> explained_program(const std::string& name,
                                        const Device& device,
                                        bool backward) {
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
  for (const Program& program : programs_of_ops()) {
    if (program.name == name) {
      return [&program, inputs = made(device, program.inputs), backward, kept] {
        kept->clear();
        *kept = backward ? grad([&](const Tensors& t) { return sum(program.run(t)); }, inputs)
                         : Tensors{program.run(inputs)};
      };
    }
  }
  throw std::logic_error("explain: no program is called " + name);
}

void take_lines(Explanation& explanation, const OpTrace& trace) {
  for (ExplainedKernel& kernel : explanation.kernels) {
    if (kernel.location.file == std::string_view(kRecordedPlace)) {
      const OpTrace::Place& place = trace.places.at(kernel.location.line);
      kernel.location = {place.file.c_str(), place.line};
    }
  }
}

}  // namespace hearth::bench
