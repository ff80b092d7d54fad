// hearth-models: what is in files of models of other programs. Opens no device.
//   hearth-models inspect FILE [--json]
// FILE: an ONNX model, or weights (safetensors, PyTorch's files, an index). The exit status is 1 if
// the library cannot run the model, or cannot read a tensor; 2 for a wrong call or an unreadable
// file.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <hearth/modules/onnx_model.hpp>
#include <hearth/modules/weight_file.hpp>

namespace hearth::bench {
namespace {

constexpr int kHasProblems = 1;
constexpr int kFailed = 2;

constexpr const char* kUsage =
    "hearth-models: shows what is in files of models, without a device.\n"
    "Usage: hearth-models inspect FILE [--json]\n"
    "FILE: *.onnx, *.safetensors, *.pt, *.pth, an index of weights or its folder.\n"
    "Exit status: 0 if the library can load all of it; 1 if not; 2 for a wrong call.\n";

int inspect_model(const std::filesystem::path& file, bool is_json) {
  const OnnxReport report = check_onnx(file);
  std::fputs((is_json ? report.to_json() + "\n" : report.to_string()).c_str(), stdout);
  return report.problems.empty() ? 0 : kHasProblems;
}

std::string line_of(const WeightFile::Entry& entry) {
  return entry.unsupported.empty()
             ? fmt::format("{}: {}\n", entry.name, describe(entry.dtype, entry.shape))
             : fmt::format("{}: not read: {}\n", entry.name, entry.unsupported);
}

nlohmann::json json_of(const WeightFile::Entry& entry) {
  nlohmann::json json{{"name", entry.name}, {"size_bytes", entry.size_bytes}};
  if (!entry.unsupported.empty()) {
    json["problem"] = entry.unsupported;
    return json;
  }
  json["type"] = name(entry.dtype);
  json["shape"] = std::vector<std::int64_t>(entry.shape.dims().begin(), entry.shape.dims().end());
  return json;
}

int inspect_weights(const std::filesystem::path& path, bool is_json) {
  const WeightFile file = read_weights(path);
  nlohmann::json json{{"file", path.string()},
                      {"metadata", file.metadata()},
                      {"main_part", file.main_part()},
                      {"tensors", nlohmann::json::array()}};
  std::string text;
  for (const WeightFile::Entry& entry : file.entries()) {
    text += line_of(entry);
    json["tensors"].push_back(json_of(entry));
  }
  text += fmt::format("{} tensors\n", file.entries().size());
  if (is_json) {
    text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  std::fputs(text.c_str(), stdout);
  const bool is_whole = std::ranges::all_of(
      file.entries(), [](const WeightFile::Entry& entry) { return entry.unsupported.empty(); });
  return is_whole ? 0 : kHasProblems;
}

int run(const std::vector<std::string_view>& arguments) {
  const bool is_help = std::ranges::any_of(
      arguments, [](std::string_view each) { return each == "--help" || each == "-h"; });
  if (is_help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  const bool is_json = std::ranges::find(arguments, "--json") != arguments.end();
  const std::size_t wanted = is_json ? 3 : 2;
  if (arguments.size() != wanted || arguments[0] != "inspect") {
    std::fputs(kUsage, stderr);
    return kFailed;
  }
  const std::filesystem::path file = arguments[1] == "--json" ? arguments[2] : arguments[1];
  return file.extension() == ".onnx" ? inspect_model(file, is_json)
                                     : inspect_weights(file, is_json);
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) {
  try {
    return hearth::bench::run({argv + 1, argv + std::max(argc, 1)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hearth-models: %s\n", error.what());
    return hearth::bench::kFailed;
  }
}
