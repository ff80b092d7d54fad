#include "page_run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace hearth::docs {
namespace {

constexpr std::string_view kAny = "…";

std::vector<std::string> lines_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    const std::size_t end = line.find_last_not_of(" \t\r");
    lines.push_back(line.substr(0, end == std::string::npos ? 0 : end + 1));
  }
  while (!lines.empty() && lines.back().empty()) {
    lines.pop_back();
  }
  return lines;
}

bool line_fits(std::string_view line, std::string_view pattern) {
  const std::size_t mark = pattern.find(kAny);
  if (mark == std::string_view::npos) {
    return line == pattern;
  }
  if (line.substr(0, mark) != pattern.substr(0, mark)) {
    return false;
  }
  const std::string_view rest = pattern.substr(mark + kAny.size());
  for (std::size_t begin = mark; begin <= line.size(); ++begin) {
    if (line_fits(line.substr(begin), rest)) {
      return true;
    }
  }
  return false;
}

bool lines_fit(const std::vector<std::string>& lines,
               std::size_t at,
               const std::vector<std::string>& patterns,
               std::size_t from) {
  if (from == patterns.size()) {
    return at == lines.size();
  }
  if (patterns[from] == kAny) {
    for (std::size_t next = at; next <= lines.size(); ++next) {
      if (lines_fit(lines, next, patterns, from + 1)) {
        return true;
      }
    }
    return false;
  }
  return at < lines.size() && line_fits(lines[at], patterns[from]) &&
         lines_fit(lines, at + 1, patterns, from + 1);
}

void flush_all() {
  std::cout.flush();
  std::fflush(stdout);
}

}  // namespace

bool fits(std::string_view text, std::string_view pattern) {
  return lines_fit(lines_of(text), 0, lines_of(pattern), 0);
}

PageRun::PageRun(std::string page)
    : page_(std::move(page)), before_(std::filesystem::current_path()) {
  flush_all();
  const std::string file = folder_.path().string() + ".out";
  kept_ = ::dup(STDOUT_FILENO);
  output_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
  ::unlink(file.c_str());
  if (kept_ < 0 || output_ < 0 || ::dup2(output_, STDOUT_FILENO) < 0) {
    throw std::runtime_error("cannot keep what a page prints");
  }
  std::filesystem::current_path(folder_.path());
}

PageRun::~PageRun() {
  flush_all();
  block_ = 0;
  const std::string all = read_output();
  ::dup2(kept_, STDOUT_FILENO);
  ::close(kept_);
  ::close(output_);
  std::filesystem::current_path(before_);
  std::fwrite(all.data(), 1, all.size(), stdout);
}

void PageRun::begin_block(int line) {
  std::printf("--- %s ---\n", place(line).c_str());
  flush_all();
  block_ = static_cast<int>(::lseek(output_, 0, SEEK_END));
}

std::string PageRun::read_output() {
  std::string text;
  char buffer[4096];
  for (::off_t at = block_;;) {
    const ::ssize_t got = ::pread(output_, buffer, sizeof(buffer), at);
    if (got <= 0) {
      return text;
    }
    text.append(buffer, static_cast<std::size_t>(got));
    at += got;
  }
}

void PageRun::expect_output(int line, std::string_view pattern) {
  flush_all();
  const std::string text = read_output();
  EXPECT_TRUE(fits(text, pattern)) << place(line) << " should be what is printed, which is:\n"
                                   << text;
}

}  // namespace hearth::docs
