foreach(test test_guest_run test_guest_load test_guest_sockets)
    exechost_unit_test(${test} USES base SOURCES guest_process.c)
    target_compile_definitions(${test} PRIVATE EXECHOST_GUEST_FILE="$<TARGET_FILE:exechost_guest>")
    add_dependencies(${test} exechost_guest)
endforeach()

exechost_unit_test(test_docker_process_frames USES docker)
exechost_unit_test(test_docker_process USES docker)

exechost_unit_test(test_guest_files USES host workspace SOURCES local_host.c workspace_fixture.c)
target_compile_definitions(test_guest_files PRIVATE EXECHOST_GUEST_FILE="$<TARGET_FILE:exechost_guest>")
add_dependencies(test_guest_files exechost_guest)
