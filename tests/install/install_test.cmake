# Installs BUILD_DIR into a fresh prefix, then builds and runs consumer/ against the prefix alone.
# Then configures and compiles the program with the sources beside it, without building the library again.
# The prefix must not refer to the source or the build tree: no links, no mention in any text.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(prefix ${WORK_DIR}/prefix)
file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})

file(GLOB_RECURSE installed LIST_DIRECTORIES false ${prefix}/*)
foreach(file IN LISTS installed)
  if(IS_SYMLINK ${file})
    message(FATAL_ERROR "installed as a link: ${file}")
  endif()
  if(file MATCHES "\\.(hpp|cmake)$")
    file(READ ${file} text)
    foreach(tree IN ITEMS ${SOURCE_DIR} ${BUILD_DIR})
      string(FIND "${text}" "${tree}/" position)
      if(NOT position EQUAL -1)
        message(FATAL_ERROR "${file} mentions ${tree}")
      endif()
    endforeach()
  endif()
endforeach()

foreach(file IN ITEMS README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE docs/ops.md examples/first_program.cpp)
  if(NOT EXISTS ${prefix}/share/doc/hearth/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
run(${CMAKE_COMMAND} -D ROOT=${prefix}/share/doc/hearth -D "PAGES=*.md|docs/*.md|examples/*.md|bench/*.md|bench/gpu/*.md"
    -P ${SOURCE_DIR}/tests/install/links.cmake)
if(EXISTS ${BUILD_DIR}/bench/hearth-bench)
  run(${prefix}/bin/hearth-bench explain gelu)
  if(NOT output MATCHES "1 kernel")
    message(FATAL_ERROR "the installed hearth-bench explains gelu so:\n${output}")
  endif()
endif()

execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${SOURCE_DIR}
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0 OR NOT output MATCHES "is the checkout of Hearth itself" OR EXISTS ${SOURCE_DIR}/lib)
  message(FATAL_ERROR "an install into the checkout ended with ${status}:\n${output}")
endif()

# As README states of the tool: it is built without the packages of benchmarks and tests; without CLI11 only the library.
foreach(missing IN ITEMS benchmark CLI11)
  run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/without_${missing} -G ${GENERATOR}
      -D CMAKE_BUILD_TYPE=${BUILD_TYPE} -D CMAKE_CXX_COMPILER=${COMPILER} -D HEARTH_BUILD_TESTS=OFF -D HEARTH_BUILD_BENCH=OFF
      -D HEARTH_BUILD_EXAMPLES=OFF -D CMAKE_DISABLE_FIND_PACKAGE_GTest=ON -D CMAKE_DISABLE_FIND_PACKAGE_${missing}=ON)
  set(said "${output}")
  run(${CMAKE_COMMAND} --build ${WORK_DIR}/without_${missing} --target help)
  string(FIND "${output}" "hearth-bench" place)
  if(missing STREQUAL benchmark AND (place EQUAL -1 OR NOT said MATCHES "hearth-bench [^\n]+ is built and installed"))
    message(FATAL_ERROR "without Google Benchmark there is no hearth-bench:\n${said}")
  elseif(missing STREQUAL CLI11 AND NOT (place EQUAL -1 AND said MATCHES "neither built nor installed: CLI11 is not here"))
    message(FATAL_ERROR "without CLI11 nobody says that there is no hearth-bench:\n${said}")
  endif()
endforeach()

file(COPY ${SOURCE_DIR}/tests/install/consumer DESTINATION ${WORK_DIR})
run(${CMAKE_COMMAND} -S ${WORK_DIR}/consumer -B ${WORK_DIR}/consumer/build -G ${GENERATOR}
    -D CMAKE_BUILD_TYPE=${BUILD_TYPE} -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_PREFIX_PATH=${prefix})
run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer/build)
execute_process(COMMAND ${WORK_DIR}/consumer/build/consumer
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE log)
if(NOT status EQUAL 0 OR NOT output MATCHES "^loss after one step on two devices: [0-9]+\\.[0-9]+\n$")
  message(FATAL_ERROR "the consumer ended with ${status}, printed: '${output}' and logged: '${log}'")
endif()

# With OpenBLAS in its own folder, and without the packages of tests, benchmarks and examples.
file(STRINGS ${BUILD_DIR}/CMakeCache.txt openblas REGEX "^OPENBLAS_(INCLUDE_DIR|LIBRARY):")
string(REGEX MATCH "INCLUDE_DIR:[A-Z]+=([^;]+)" found "${openblas}")
file(MAKE_DIRECTORY ${WORK_DIR}/elsewhere/include ${WORK_DIR}/elsewhere/lib)
file(GLOB headers ${CMAKE_MATCH_1}/*.h)
file(COPY ${headers} DESTINATION ${WORK_DIR}/elsewhere/include)
string(REGEX MATCH "LIBRARY:[A-Z]+=([^;]+)" found "${openblas}")
file(CREATE_LINK ${CMAKE_MATCH_1} ${WORK_DIR}/elsewhere/lib/libopenblas.so SYMBOLIC)
run(${CMAKE_COMMAND} -S ${WORK_DIR}/consumer -B ${WORK_DIR}/consumer/beside -G ${GENERATOR}
    -D CMAKE_BUILD_TYPE=${BUILD_TYPE} -D CMAKE_CXX_COMPILER=${COMPILER} -D HEARTH_SOURCES=${SOURCE_DIR}
    -D CMAKE_PREFIX_PATH=${WORK_DIR}/elsewhere -D CMAKE_EXPORT_COMPILE_COMMANDS=ON -D CMAKE_DISABLE_FIND_PACKAGE_CLI11=ON
    -D CMAKE_DISABLE_FIND_PACKAGE_benchmark=ON -D CMAKE_DISABLE_FIND_PACKAGE_GTest=ON)
file(READ ${WORK_DIR}/consumer/beside/compile_commands.json commands)
if(commands MATCHES "-Werror|-Wall" OR NOT commands MATCHES "gemm_blas.cpp" OR NOT commands MATCHES "${WORK_DIR}/elsewhere/include")
  message(FATAL_ERROR "the library beside a consumer is compiled with warnings of ours, or without the consumer's OpenBLAS")
endif()
run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer/beside --target help)
if(output MATCHES "hearth-bench|train_mnist|streams_test")
  message(FATAL_ERROR "add_subdirectory() brings Hearth's own programs along:\n${output}")
endif()
run(${CMAKE_COMMAND} --build ${WORK_DIR}/consumer/beside --target CMakeFiles/consumer.dir/consumer.cpp.o)
