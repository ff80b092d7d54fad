# Writes build_facts.hpp: the commit, whether files differ from it, the compiler and its flags. Touches the file only if
# they changed. SOURCE_DIR, FILE, COMPILER, FLAGS, HEADER: hearth_kernel.h.
execute_process(COMMAND git -C ${SOURCE_DIR} rev-parse --short=8 HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE status ERROR_QUIET)
if(NOT status EQUAL 0)
  set(commit "unknown")
else()
  execute_process(COMMAND git -C ${SOURCE_DIR} diff --quiet HEAD RESULT_VARIABLE differs ERROR_QUIET)
  if(NOT differs EQUAL 0)
    string(APPEND commit " with changes")
  endif()
endif()
string(REPLACE "\"" "" flags "${FLAGS}")
string(STRIP "${flags}" flags)
file(READ ${HEADER} header)
string(CONCAT text "// Written by write_build_facts.cmake.\n#pragma once\n#include <string_view>\nnamespace hearth::bench {\n"
         "inline constexpr std::string_view kCommit = \"${commit}\";\n"
         "inline constexpr std::string_view kCompiler = \"${COMPILER}\";\n"
         "inline constexpr std::string_view kFlags = \"${flags}\";\n"
         "inline constexpr std::string_view kKernelHeader = R\"TEXT(${header})TEXT\";\n}  // namespace hearth::bench\n")
set(before "")
if(EXISTS ${FILE})
  file(READ ${FILE} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${FILE} "${text}")
endif()
