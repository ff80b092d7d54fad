# Precompiles <hearth/hearth.hpp>: COMPILER, HEADER_FOLDER, INCLUDES (separated by |).
string(REPLACE "|" ";" includes "${INCLUDES}")
list(TRANSFORM includes PREPEND -I)
set(header ${HEADER_FOLDER}/all_of_hearth.hpp)
file(REMOVE ${header}.gch) # a failure must not leave an old one
file(WRITE ${header} "#include <hearth/hearth.hpp>\n")
string(RANDOM name) # another run of the tests may still read the old one
execute_process(COMMAND ${COMPILER} -std=c++20 -Wall -Wextra -Werror -fmessage-length=0 ${includes} -x c++-header
                        ${header} -o ${HEADER_FOLDER}/${name}
                RESULT_VARIABLE status ERROR_VARIABLE messages)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "hearth.hpp does not compile:\n${messages}")
endif()
file(RENAME ${HEADER_FOLDER}/${name} ${header}.gch)
