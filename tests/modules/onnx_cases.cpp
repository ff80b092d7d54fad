#include "onnx_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include <hearth/modules/generator_scope.hpp>

#include "modules/onnx/values/host_array.hpp"
#include "tests/support/onnx_tolerance.hpp"

namespace hearth::testing {
namespace {

namespace fs = std::filesystem;

// Cases whose results are random draws: only shapes and types are compared.
constexpr std::array<std::string_view, 10> kRandomCases{
    "node/test_bernoulli",
    "node/test_bernoulli_double",
    "node/test_bernoulli_double_expanded",
    "node/test_bernoulli_expanded",
    "node/test_bernoulli_seed",
    "node/test_bernoulli_seed_expanded",
    "node/test_training_dropout",
    "node/test_training_dropout_default",
    "node/test_training_dropout_default_mask",
    "node/test_training_dropout_mask",
};

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text.substr(0, 300);
}

OnnxHostArray on_host(const OnnxValue& value) {
  return value.has_host()
             ? value.host()
             : onnx::download(value.tensor(), value.type(), WaitOptions{}, SourceLoc{});
}

std::string element_text(const OnnxHostArray& array, std::size_t i) {
  return onnx::has_strings(array) ? array.strings()[i] : fmt::format("{}", onnx::real_at(array, i));
}

bool is_equal(const OnnxHostArray& got, const OnnxHostArray& want, std::size_t i) {
  if (onnx::has_strings(want)) {
    return got.strings()[i] == want.strings()[i];
  }
  if (!onnx::has_reals(want)) {
    return got.integers()[i] == want.integers()[i];
  }
  return kOnnxCaseTolerance.accepts(got.reals()[i], want.reals()[i]);
}

std::string difference(const OnnxValue& got, const OnnxValue& want, bool is_random);

std::string tensor_difference(const OnnxValue& got, const OnnxValue& want, bool is_random) {
  if (got.is_none() || got.is_sequence()) {
    return "the result is no tensor";
  }
  if (got.type() != want.type() || got.shape() != want.shape()) {
    return fmt::format("{}{} instead of {}{}",
                       name(got.type()),
                       got.shape().to_string(),
                       name(want.type()),
                       want.shape().to_string());
  }
  if (is_random) {
    return {};
  }
  const OnnxHostArray has = on_host(got);
  const OnnxHostArray wants = on_host(want);
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.shape().element_count()); ++i) {
    if (!is_equal(has, wants, i)) {
      return fmt::format(
          "element {} is {} instead of {}", i, element_text(has, i), element_text(wants, i));
    }
  }
  return {};
}

std::string difference(const OnnxValue& got, const OnnxValue& want, bool is_random) {
  if (want.is_none()) {
    return got.is_none() ? "" : "a value instead of nothing";
  }
  if (!want.is_sequence()) {
    return tensor_difference(got, want, is_random);
  }
  if (!got.is_sequence() || got.items().size() != want.items().size()) {
    return "no sequence of the right length";
  }
  for (std::size_t i = 0; i < want.items().size(); ++i) {
    std::string text = difference(got.items()[i], want.items()[i], is_random);
    if (!text.empty()) {
      return fmt::format("item {}: {}", i, text);
    }
  }
  return {};
}

// Tensors lie on the device, as a program gives them; what no device holds stays on the host.
OnnxValue given(const OnnxValue& read, const Device& device) {
  if (read.is_sequence()) {
    std::vector<OnnxValue> items;
    for (const OnnxValue& item : read.items()) {
      items.push_back(given(item, device));
    }
    return OnnxValue::sequence(std::move(items), read.type());
  }
  if (read.is_none() || read.type() == OnnxType::string) {
    return read;
  }
  return {onnx::upload(read.host(), device, {}), read.type()};
}

// The files hold a bf16 by its bits as a u16.
OnnxValue read_value(const fs::path& file, const OnnxPort& port) {
  OnnxValue value = read_onnx_value(file, port);
  if (port.type != OnnxType::bf16 || value.type() != OnnxType::u16) {
    return value;
  }
  std::vector<double> reals;
  for (const std::int64_t bits : value.host().integers()) {
    bf16 element;
    element.bits = static_cast<std::uint16_t>(bits);
    reals.push_back(static_cast<float>(element));
  }
  return onnx::host_reals(std::move(reals), value.shape(), OnnxType::bf16);
}

std::string judge_set(const OnnxModel& model,
                      const fs::path& set,
                      bool is_random,
                      const Device& device) {
  const OnnxReport& report = model.report();
  OnnxValues inputs;
  for (std::size_t i = 0; fs::exists(set / fmt::format("input_{}.pb", i)); ++i) {
    const OnnxPort& port = report.inputs.at(i);
    const fs::path file = set / fmt::format("input_{}.pb", i);
    inputs.emplace(port.name, given(read_value(file, port), device));
  }
  // Draws are those of training.
  OnnxValues results = model.run(inputs, {.mode = is_random ? Mode::train : Mode::eval});
  for (std::size_t i = 0; fs::exists(set / fmt::format("output_{}.pb", i)); ++i) {
    const OnnxPort& port = report.outputs.at(i);
    const OnnxValue want = read_value(set / fmt::format("output_{}.pb", i), port);
    const std::string text = difference(results.at(port.name), want, is_random);
    if (!text.empty()) {
      return fmt::format("result '{}': {}", port.name, text);
    }
  }
  return {};
}

}  // namespace

fs::path onnx_case_folder() {
  const char* const given = std::getenv("HEARTH_ONNX_CASES");
  fs::path folder = given == nullptr ? "/usr/share/libonnx-testdata/data" : given;
  return fs::is_directory(folder) ? folder : fs::path();
}

std::vector<OnnxCase> onnx_cases(const std::string& suite) {
  std::vector<OnnxCase> all;
  for (const fs::directory_entry& entry : fs::directory_iterator(onnx_case_folder() / suite)) {
    if (fs::exists(entry.path() / "model.onnx")) {
      all.push_back({suite + "/" + entry.path().filename().string(), entry.path()});
    }
  }
  std::ranges::sort(all, {}, &OnnxCase::name);
  return all;
}

OnnxVerdict judge_case(const OnnxCase& one, const Device& device) {
  Generator generator(1);
  const GeneratorScope scope(generator);
  const bool is_random = std::ranges::find(kRandomCases, one.name) != kRandomCases.end();
  try {
    const OnnxModel model = load_onnx(one.folder / "model.onnx", device);
    for (const fs::directory_entry& set : fs::directory_iterator(one.folder)) {
      if (!set.is_directory()) {
        continue;
      }
      // The second run takes shapes from the cache of the first.
      for (int run = 0; run < 2; ++run) {
        std::string text = judge_set(model, set.path(), is_random, device);
        if (!text.empty()) {
          return {OnnxOutcome::wrong, one_line(fmt::format("run {}: {}", run + 1, text))};
        }
      }
    }
  } catch (const OnnxError& error) {
    const OnnxProblem& first = error.report().problems.front();
    return {OnnxOutcome::refused, one_line(fmt::format("{}: {}", first.op, first.reason))};
  } catch (const ArgumentError& error) {
    return {OnnxOutcome::refused, one_line(error.error().text)};
  } catch (const std::exception& error) {
    return {OnnxOutcome::wrong, one_line(error.what())};
  }
  return {};
}

}  // namespace hearth::testing
