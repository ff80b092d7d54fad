// hearth-serve: serves the ONNX models of a folder over HTTP, by the KServe v2 protocol.
//   hearth-serve FOLDER [--port 8000] [--device cpu:0]
// Ctrl-C or SIGTERM ends it, after it has answered what has arrived. The exit status is 1 if no
// model can be served, 2 for a wrong call or an address in use.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <hearth/modules/onnx_model.hpp>
#include <hearth/parallel/http_server.hpp>
#include <hearth/parallel/model_server.hpp>
#include <hearth/runtime/base/interrupt.hpp>
#include <hearth/runtime/runtime.hpp>

namespace hearth::bench {
namespace {

constexpr int kNothingServed = 1;
constexpr int kFailed = 2;

struct ServeArguments {
  std::filesystem::path folder;
  std::vector<std::string> devices{"auto"};
  std::filesystem::path key_file;
  std::int64_t max_batch = 64;
  HttpOptions http;
};

/// A model of the folder behind its server.
struct ServedFile {
  std::string name;
  ServedSignature signature;
  std::string why_no_rows;  ///< Empty: it runs in batches.
  std::unique_ptr<ModelServer<OnnxModel>> server;
};

// Sizes that the file leaves open become -1.
ServedTensor served(const OnnxPort& port) {
  ServedTensor tensor{.name = port.name, .dtype = device_type(port.type).value()};
  for (const std::string& size : port.dims) {
    const bool is_number = size.find_first_not_of("0123456789") == std::string::npos;
    tensor.shape.push_back(is_number ? std::stoll(size) : -1);
  }
  return tensor;
}

ServedSignature signature_of(const OnnxReport& report) {
  ServedSignature signature;
  std::ranges::transform(report.inputs, std::back_inserter(signature.inputs), served);
  std::ranges::transform(report.outputs, std::back_inserter(signature.outputs), served);
  return signature;
}

/// Returns the files of the folder whose names end in .onnx, in the order of their names.
std::vector<std::filesystem::path> models_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".onnx") {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  return files;
}

/// Loads a file. Errors: Exception, with what the file lacks.
ServedFile load(const std::filesystem::path& file,
                const Runtime& runtime,
                const ServeArguments& arguments) {
  const OnnxReport report = check_onnx(file);
  const std::string refusal = report.why_not_served();
  if (!refusal.empty()) {
    throw std::runtime_error(refusal);
  }
  std::string why_no_rows = report.why_no_rows();
  const bool has_rows = why_no_rows.empty();
  return {.name = file.stem().string(),
          .signature = signature_of(report),
          .why_no_rows = std::move(why_no_rows),
          .server = std::make_unique<ModelServer<OnnxModel>>(
              runtime,
              freeze(load_onnx(file, runtime.device())),
              ServerOptions{.max_batch = has_rows ? arguments.max_batch : 1,
                            .devices = runtime.devices(),
                            .proof = has_rows ? RowProof::first_batch : RowProof::no_rows})};
}

/// Loads all files and prints a line for each. A file that cannot be served stops no other one.
std::vector<ServedFile> load_all(const Runtime& runtime, const ServeArguments& arguments) {
  std::vector<ServedFile> all;
  for (const std::filesystem::path& file : models_of(arguments.folder)) {
    const std::string name = file.stem().string();
    try {
      const ServedFile& loaded = all.emplace_back(load(file, runtime, arguments));
      const std::string& why = loaded.why_no_rows;
      fmt::print("{}: {}\n",
                 name,
                 why.empty() ? fmt::format("batches of up to {} rows", arguments.max_batch)
                             : "one request at a time: " + why);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: not served: {}\n", name, error.what());
    }
  }
  return all;
}

std::vector<std::string> keys_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<std::string> keys;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) {
      keys.push_back(line);
    }
  }
  if (keys.empty()) {
    throw std::runtime_error(fmt::format("{} has no key: expected one a line", file.string()));
  }
  return keys;
}

int serve(ServeArguments& arguments) {
  if (!arguments.key_file.empty()) {
    arguments.http.api_keys = keys_of(arguments.key_file);
  }
  RuntimeOptions options;
  for (const std::string& name : arguments.devices) {
    options.devices.push_back({.name = name});
  }
  const InterruptScope interrupt;
  const Runtime runtime(options);
  const std::vector<ServedFile> files = load_all(runtime, arguments);
  if (files.empty()) {
    fmt::print(stderr, "hearth-serve: no model of {} can be served\n", arguments.folder.string());
    return kNothingServed;
  }
  HttpServer http(runtime, arguments.http);
  for (const ServedFile& file : files) {
    http.add(file.name, *file.server, file.signature);
  }
  const std::uint16_t port = http.start();
  fmt::print("{} model{} at http://{}:{}/v2\n",
             files.size(),
             files.size() == 1 ? "" : "s",
             arguments.http.address,
             port);
  std::fflush(stdout);
  while (!interrupt.is_requested()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  const bool has_answered_all = http.stop();
  fmt::print("stopped; {}\n",
             has_answered_all ? "all requests are answered" : "some requests have no answer");
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Serves the ONNX models of a folder over HTTP, by the KServe v2 protocol. A model is named "
      "after its file: FOLDER/digits.onnx is /v2/models/digits. Ctrl-C ends it.",
      "hearth-serve");
  ServeArguments arguments;
  app.add_option("FOLDER", arguments.folder, "folder with *.onnx")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--device", arguments.devices, "devices that share the work")
      ->capture_default_str();
  app.add_option("--address", arguments.http.address, "address to listen on")
      ->capture_default_str();
  app.add_option("--port", arguments.http.port, "port to listen on; 0: any free one")
      ->capture_default_str();
  app.add_option("--threads", arguments.http.thread_count, "threads that read and write")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--max-batch", arguments.max_batch, "largest batch, in rows")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{65536}))
      ->capture_default_str();
  app.add_option("--key-file", arguments.key_file, "file of keys, one a line; clients send one")
      ->check(CLI::ExistingFile);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kFailed;
  }
  return serve(arguments);
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) {
  try {
    return hearth::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hearth-serve: %s\n", error.what());
    return hearth::bench::kFailed;
  }
}
