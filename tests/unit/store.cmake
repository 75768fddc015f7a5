set(store_tests test_store_open test_store_executions test_store_commands test_store_checkpoints
    test_store_events test_store_idempotency test_store_power_loss test_store_retention test_store_runs test_store_stored test_store_transcript test_store_threads test_store_crash)
foreach(test ${store_tests})
    exechost_unit_test(${test} USES store SOURCES store_fixture.c)
    # Rows own their texts; the tests' rows borrow literals instead.
    set_source_files_properties(${test}.c store_fixture.c PROPERTIES COMPILE_OPTIONS -Wno-write-strings)
endforeach()
# A kill at each fault point, and many writes that reach the disk.
set_tests_properties(test_store_crash test_store_threads PROPERTIES TIMEOUT 300)
