// write_programs OUT.cpp ROOT PAGE...: writes the program of some pages (page_program.hpp), whose
// names are relative to ROOT.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "page_program.hpp"

namespace {

std::string read(const std::filesystem::path& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    throw std::runtime_error("cannot read " + path.string());
  }
  return text.str();
}

std::vector<std::string> examples_of(const std::filesystem::path& root) {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(root / "examples")) {
    if (entry.path().extension() == ".cpp") {
      texts.push_back(read(entry.path()));
    }
  }
  return texts;
}

}  // namespace

int main(int count, char** words) try {
  const std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() < 3) {
    throw std::runtime_error("usage: write_programs OUT.cpp ROOT PAGE...");
  }
  const std::filesystem::path root = arguments[1];
  std::vector<hearth::docs::Page> pages;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    pages.push_back(hearth::docs::parse_page(arguments[i], read(root / arguments[i])));
  }
  const std::string program = hearth::docs::page_program(pages, examples_of(root));
  std::ofstream out(arguments[0], std::ios::binary);
  out << program << std::flush;
  if (!out) {
    throw std::runtime_error("cannot write " + arguments[0]);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "write_programs: %s\n", error.what());
  return 1;
}
