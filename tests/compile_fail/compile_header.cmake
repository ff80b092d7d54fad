# <hearth/hearth.hpp> as the compiler keeps it: COMPILER, HEADER_FOLDER, INCLUDES (separated by |).
string(REPLACE "|" ";" includes "${INCLUDES}")
list(TRANSFORM includes PREPEND -I)
file(WRITE ${HEADER_FOLDER}/all_of_hearth.hpp "#include <hearth/hearth.hpp>\n")
execute_process(COMMAND ${COMPILER} -std=c++20 -Wall -Wextra -Werror -fmessage-length=0 ${includes} -x c++-header
                        ${HEADER_FOLDER}/all_of_hearth.hpp -o ${HEADER_FOLDER}/all_of_hearth.hpp.gch
                RESULT_VARIABLE status ERROR_VARIABLE messages)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "hearth.hpp does not compile:\n${messages}")
endif()
