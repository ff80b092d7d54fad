// Answers --help for the examples that have no options, so that they need not: the build puts it in
// front of their main(), and what it says, their opening comment, into about.hpp.
#include "about.hpp"

#include <cstdio>
#include <string_view>

// NOLINTBEGIN(bugprone-reserved-identifier, readability-identifier-naming): names of the linker's
extern "C" int __real_main(int argc, char** argv);
extern "C" int __wrap_main(int argc, char** argv);

int __wrap_main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--help" || argument == "-h") {
      std::fputs(kAbout, stdout);
      return 0;
    }
    if (i > HEARTH_MOST_ARGUMENTS || argument.starts_with('-')) {
      std::fprintf(
          stderr, "%s: unknown argument '%s'; --help says what there is\n", argv[0], argv[i]);
      return 2;
    }
  }
  return __real_main(argc, argv);
}
// NOLINTEND(bugprone-reserved-identifier, readability-identifier-naming)
