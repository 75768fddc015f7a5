exechost_unit_test(test_ptc_json USES ptc)
exechost_unit_test(test_ptc_frames USES ptc)
exechost_unit_test(test_ptc_spec USES ptc)

# On the real Node and bubblewrap: the Node that script/bootstrap brings where the machine's is older.
foreach(name test_ptc_run test_ptc_sandbox)
    exechost_unit_test(${name} USES ptc SOURCES ptc_fixture.c)
    target_compile_definitions(${name} PRIVATE
        PTC_TEST_NODE="${PROJECT_SOURCE_DIR}/build/node/bin/node")
endforeach()

# Its subject needs no new Node.
find_program(EXECHOST_NODE node REQUIRED)
add_test(NAME test_ptc_bootstrap
    COMMAND ${EXECHOST_NODE} ${CMAKE_CURRENT_SOURCE_DIR}/test_ptc_bootstrap.mjs)
set_tests_properties(test_ptc_bootstrap PROPERTIES TIMEOUT 120)
