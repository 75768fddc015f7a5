# On the real Node and bubblewrap: the Node that script/bootstrap brings where the machine's is older.
foreach(name test_ptc_run)
    exechost_unit_test(${name} USES ptc SOURCES ptc_fixture.c)
    target_compile_definitions(${name} PRIVATE
        PTC_TEST_NODE="${PROJECT_SOURCE_DIR}/build/node/bin/node")
endforeach()
