# SPDX-License-Identifier: Apache-2.0
# Checks of sources and pages, and of what the command prints for them.
add_test(NAME layers COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_layers.py)
add_test(NAME layers.self_test COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_layers.py --self-test)
add_test(NAME format COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_format.py)
add_test(NAME format.self_test COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_format.py --self-test)
# No declaration and no page uses a word that tests/words.txt retired.
add_test(NAME words COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_words.py)
add_test(NAME words.self_test COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_words.py --self-test)
add_test(NAME types COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_types.py)
add_test(NAME types.self_test COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/check_types.py --self-test)
set_tests_properties(types types.self_test layers layers.self_test format format.self_test words words.self_test PROPERTIES LABELS unit)

# The sweep's graphs are graphs.
if(TARGET fusec)
  add_test(NAME sweep COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/sweep.py check $<TARGET_FILE:fusec>)
  set_tests_properties(sweep PROPERTIES LABELS unit)
endif()

# Planted mistakes still fit the sources; `./dev mutants` builds and tests them.
find_package(Git)
if(Git_FOUND)
  add_test(NAME mutants.apply COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/mutants/run.py --check)
  set_tests_properties(mutants.apply PROPERTIES LABELS unit)
endif()

# The pages name what exists and show what the command prints.
add_test(NAME docs.links COMMAND ${PROJECT_SOURCE_DIR}/docs/check_links.sh)
set_tests_properties(docs.links PROPERTIES LABELS unit)
if(TARGET fusec AND FUSEC_WITH_LLVM)  # whose text is shown
  add_test(NAME docs.stages COMMAND ${PROJECT_SOURCE_DIR}/docs/generate.sh --check $<TARGET_FILE:fusec>)
  set_tests_properties(docs.stages PROPERTIES LABELS unit TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
