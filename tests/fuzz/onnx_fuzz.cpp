// The readers of ONNX files. They take paths: each input goes to a file of a folder of this
// process. Graphs are not run, since a few bytes may ask for any amount of work.
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include <hearth/modules/module.hpp>
#include <hearth/modules/onnx_model.hpp>
#include <hearth/runtime/runtime.hpp>

#include "fuzz_targets.hpp"

namespace hearth::fuzz {
namespace {

namespace fs = std::filesystem;

class OnnxFolder final {
 public:
  OnnxFolder()
      : path_(fs::temp_directory_path() / ("hearth-fuzz-" + std::to_string(getpid()) + "-onnx")) {
    fs::create_directories(path_);
  }
  OnnxFolder(const OnnxFolder&) = delete;
  OnnxFolder& operator=(const OnnxFolder&) = delete;
  ~OnnxFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] fs::path write(Input input) const {
    const fs::path file = path_ / "model.onnx";
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
    return file;
  }

 private:
  fs::path path_;
};

void require_onnx(bool is_true, const std::string& what) {
  if (!is_true) {
    throw FuzzFailure(what);
  }
}

void require_named(const Error& error, const fs::path& file) {
  require_onnx(error.text.find(file.string()) != std::string::npos,
               "refused without the file's name: " + error.to_string());
}

// A report without problems is a promise that the file loads.
void load_reported(const fs::path& file, const OnnxReport& report) {
  const Runtime runtime({.devices = {{.name = "reference:0"}}});
  try {
    const OnnxModel model = load_onnx(file, runtime.device("reference:0"));
    require_onnx(report.problems.empty(), "a file with problems was loaded");
    require_onnx(named_tensors(model).size() <=
                     model.report().inputs.size() + static_cast<std::size_t>(report.size_bytes),
                 "more weights than bytes");
  } catch (const OnnxError& error) {
    require_onnx(!report.problems.empty(), error.what());
    require_onnx(error.report().problems.size() == report.problems.size(), error.what());
  }
}

}  // namespace

void fuzz_onnx(Input input) {
  const OnnxFolder folder;
  const fs::path file = folder.write(input);
  try {
    const OnnxReport report = check_onnx(file);
    require_onnx(!report.to_string().empty() && !report.to_json().empty(), "an empty report");
    load_reported(file, report);
  } catch (const FileError& error) {
    require_named(error.error(), file);
  }
}

void fuzz_onnx_value(Input input) {
  const OnnxFolder folder;
  const fs::path file = folder.write(input);
  for (const char* const kind : {"tensor", "sequence", "optional"}) {
    try {
      static_cast<void>(read_onnx_value(file, OnnxPort{.name = "x", .kind = kind}));
    } catch (const FileError& error) {
      require_named(error.error(), file);
    }
  }
}

}  // namespace hearth::fuzz
