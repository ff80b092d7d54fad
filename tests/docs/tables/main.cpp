// write_pages ROOT: writes docs/ops.md, docs/layers.md and docs/options.md of the sources there.
// write_pages --check ROOT: fails, naming the page, if a page differs from the text that it would
// write.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/runtime.hpp>

#include "layer_page.hpp"
#include "op_page.hpp"
#include "options_page.hpp"

namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    throw std::runtime_error("cannot read " + path.string());
  }
  return text.str();
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (!file) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

std::map<std::string, std::string> headers_of(const fs::path& root) {
  std::map<std::string, std::string> texts{{"ops.hpp", read(root / "runtime/ops.hpp")}};
  for (const hearth::docs::OpSection& section : hearth::docs::kOpSections) {
    texts.emplace(section.header, read(root / section.header));
  }
  for (const auto& entry : fs::recursive_directory_iterator(root / "modules")) {
    if (entry.path().extension() == ".hpp") {
      texts.emplace(entry.path().filename().string(), read(entry.path()));
    }
  }
  return texts;
}

// The file of <hearth/PATH>: a room of its folder may hold it, at any depth.
fs::path file_of(const fs::path& root, const fs::path& path) {
  if (fs::exists(root / path)) {
    return root / path;
  }
  for (const auto& entry : fs::recursive_directory_iterator((root / path).parent_path())) {
    if (entry.path().filename() == path.filename()) {
      return entry.path();
    }
  }
  throw std::runtime_error("no file of the sources is <hearth/" + path.string() + ">");
}

// The headers that <hearth/hearth.hpp> includes for programs, by path, and those of the HTTP
// server.
std::map<std::string, std::string> public_headers(const fs::path& root) {
  static const std::regex kInclude("#include <hearth/(.*)>");
  std::map<std::string, std::string> texts;
  for (const char* all : {"runtime/all.hpp", "modules/all.hpp", "parallel/all.hpp"}) {
    const std::string text = read(root / all);
    for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it) {
      texts.emplace((*it)[1], read(file_of(root, (*it)[1].str())));
    }
  }
  texts.emplace("parallel/http_options.hpp", read(file_of(root, "parallel/http_options.hpp")));
  return texts;
}

}  // namespace

int main(int count, char** words) try {
  std::vector<std::string> arguments(words + 1, words + count);
  const bool checks = !arguments.empty() && arguments[0] == "--check";
  if (checks) {
    arguments.erase(arguments.begin());
  }
  if (arguments.size() != 1) {
    throw std::runtime_error("usage: write_pages [--check] ROOT");
  }
  const fs::path root = arguments[0];
  const hearth::Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const std::map<std::string, std::string> headers = headers_of(root);
  std::string ops = headers.at("ops.hpp");
  for (const hearth::docs::OpSection& section : hearth::docs::kOpSections) {
    ops += "\n// ---- " + std::string(section.title) + " ----\n" +
           headers.at(std::string(section.header));
  }
  const std::vector<std::pair<fs::path, std::string>> pages{
      {root / "docs/ops.md", hearth::docs::op_page(runtime, ops)},
      {root / "docs/layers.md", hearth::docs::layer_page(runtime.device(), headers)},
      {root / "docs/options.md", hearth::docs::options_page(public_headers(root))}};
  for (const auto& [path, text] : pages) {
    if (!checks) {
      write(path, text);
    } else if (read(path) != text) {
      throw std::runtime_error(path.string() + " is not up to date: build the target docs_pages");
    }
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_pages: %s\n", error.what());
  return 1;
}
