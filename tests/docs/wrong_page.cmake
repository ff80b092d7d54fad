# A page with a mistake must not build, and the compiler must name the page's line.
# WRITER: write_programs; COMPILER, FLAGS (with | between them), SOURCE_DIR, WORK_DIR.
string(REPLACE "|" ";" flags "${FLAGS}")
file(MAKE_DIRECTORY ${WORK_DIR}/docs ${WORK_DIR}/examples)
set(body "A page.\n\n```cpp\n#include <hearth/runtime/base/shape.hpp>\nconst hearth::Shape shape{2, 3};\n")
function(try_page name text expected)
  file(WRITE ${WORK_DIR}/docs/${name}.md "${text}")
  execute_process(COMMAND ${WRITER} ${WORK_DIR}/${name}.cpp ${WORK_DIR} docs/${name}.md COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only ${flags} -I ${SOURCE_DIR} ${WORK_DIR}/${name}.cpp
                  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(expected STREQUAL "" AND NOT status EQUAL 0)
    message(FATAL_ERROR "a right page does not compile:\n${output}")
  elseif(NOT expected STREQUAL "" AND (status EQUAL 0 OR NOT output MATCHES "${expected}"))
    message(FATAL_ERROR "a wrong page compiles, or the error does not say '${expected}':\n${output}")
  endif()
endfunction()
try_page(right "${body}EXPECT_EQ(shape.rank(), 2);\n```\n" "")
try_page(wrong "${body}EXPECT_EQ(shape.no_such_member(), 2);\n```\n" "docs/wrong\\.md:6:.*no_such_member")
